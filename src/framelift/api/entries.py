"""`framelift.entries(compiled)`: what a compiled function has by now, for each code object: its entries, how
often each was used, what tells it from the others, and why it was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framelift.core.errors import UserError
from framelift.dispatch.compile_contexts import CodeState, Recompilation
from framelift.guards.failures import state_fact, tensor_facts
from framelift.guards.guard import Guard
from framelift.guards.kinds import Check
from framelift.guards.program import GuardProgram


@dataclass
class Entry:
    """One of the entries of a code object."""

    hits: int
    """How often it was used after the call for which it was made."""
    guards: int
    expects: list[str]
    """What the other entries do not expect; empty for the only one."""
    because: str | None
    """Which guard of the entry before had failed."""


@dataclass
class CodeEntries:
    """The entries of one code object: of a function, or of the rest of one after a break."""

    name: str
    entries: list[Entry]
    recompiles: list[Recompilation]
    skipped: str | None

    def lines(self) -> list[str]:
        count = f"{len(self.entries)} entr{'y' if len(self.entries) == 1 else 'ies'}"
        lines = [f"{self.name}: {count}"]
        for n, entry in enumerate(self.entries):
            lines.append(f"  entry {n}: {entry.hits} hit(s), {entry.guards} guard(s)")
            lines += [f"    expects {fact}" for fact in entry.expects]
            if entry.because is not None:
                lines.append(f"    made because {entry.because}")
        suggestions = [again.suggestion for again in self.recompiles if again.suggestion is not None]
        if suggestions:
            lines += [f"  {line}" for line in suggestions[-1].lines()]
        if self.skipped is not None:
            lines.append(f"  {self.skipped.splitlines()[0]}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


class EntriesReport(list[CodeEntries]):
    """A list of `CodeEntries`; `str()` is the report."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing has been compiled"


def entries(compiled: Any) -> EntriesReport:
    """What a compiled function has by now.

    >>> import torch, framelift
    >>> f = framelift.compile(lambda x, n: x * n, backend="eager")
    >>> for n in (2, 3, 3):
    ...     y = f(torch.ones(1), n)
    >>> for entry in framelift.entries(f)[0].entries:
    ...     print(entry.hits, entry.expects, entry.because)
    0 ['n == 2'] None
    1 ['type(n) is builtins.int'] n == 2, found 3
    """
    context = getattr(compiled, "_framelift_context", None)
    if context is None:
        raise UserError(
            f"framelift.entries takes what framelift.compile gave, not a {type(compiled).__name__}"
        )
    return EntriesReport(entries_of(state) for state in context.code_states.values() if state.entries)


def entries_of(state: CodeState) -> CodeEntries:
    programs = [entry.capture.program for entry in state.entries]
    made = []
    for n, (program, expects) in enumerate(zip(programs, discriminating(programs), strict=True)):
        again = state.recompilation_for(n)
        guards = len(program.guards) + len(program.class_guards) + len(program.shapes)
        because = None if again is None else str(again.reason)
        made.append(Entry(state.entries[n].hits, guards, expects, because))
    return CodeEntries(state.what, made, state.recompiles, state.skipped)


FACTS_TOLD = 4
"""How many facts are told of an entry that differs in more: those that the fewest share."""


def discriminating(programs: list[GuardProgram]) -> list[list[str]]:
    """For each entry what it expects and others do not. First what others expect otherwise of the same value;
    an entry that has nothing of that kind is told from the others by what only it looks at."""
    if len(programs) < 2:
        return [[] for _ in programs]
    facts = [
        states | dict(fact for guard in program.guards for fact in facts_of(guard))
        for program, states in zip(programs, states_of(programs), strict=True)
    ]
    found = []
    for program, own in zip(programs, facts, strict=True):
        others = [other for other in facts if other is not own]
        against = [text for key, text in own.items() if any(other.get(key, text) != text for other in others)]
        alone = [text for key, text in own.items() if any(key not in other for other in others)]
        texts = [set(other.values()) for other in others]
        rarest = sorted(against or alone, key=lambda text: sum(text in other for other in texts))
        found.append([*rarest, *shape_facts(program, programs)][:FACTS_TOLD])
    return found


def shape_facts(program: GuardProgram, programs: list[GuardProgram]) -> list[str]:
    """What an entry relies on of sizes, as far as not all do; strides mostly follow from sizes."""
    others = [{text for text, _ in other.shapes} for other in programs if other is not program]
    texts = [text for text, _ in program.shapes if ".stride()" not in text]
    return [text for text in texts if not all(text in other for other in others)]


def states_of(programs: list[GuardProgram]) -> list[dict[str, str]]:
    """Torch's switches as far as entries differ in them. A state can only be compared with the present one:
    where it says nothing of a switch, that stands as it does now."""
    differing = [{each.name: each for each in program.state.diff()} for program in programs]
    now = {name: each.found for switches in differing for name, each in switches.items()}
    return [
        {
            name: state_fact(name, switches[name].expected if name in switches else found)
            for name, found in now.items()
        }
        for switches in differing
    ]


def facts_of(guard: Guard) -> list[tuple[Any, str]]:
    """(what it is about, the fact): guards with the same first half can't both hold."""
    suffix = str(guard).removeprefix(guard.text)
    texts = tensor_facts(guard) if guard.check is Check.TENSOR else [guard.text]
    return [(about(text), text + suffix) for text in texts]


def about(text: str) -> str:
    """The left side of a fact that is written as an equation; else the whole of it."""
    for sign in (" == ", " is "):
        left, found, _ = text.rpartition(sign)
        if found:
            return left + sign
    return text
