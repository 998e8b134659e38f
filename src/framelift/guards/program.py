"""Compiles guards into a native program: a flat walk over the sources, shared prefixes once.

The same walk yields the region's inputs. `GuardProgram.failure` says which fact did not hold.

A fact about sizes and numbers is an expression over what is read of the inputs (`graph.symbols`). The native
walk evaluates it with 64-bit integers and doubles; where that is not exact, the fact does not hold, and the
call is looked at anew.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from framelift import _guards
from framelift.core import causes
from framelift.core.breaks import Place
from framelift.core.causes import Cause
from framelift.core.sentinels import MISSING
from framelift.core.weakly import weakly
from framelift.graph.symbols import Fact, Read, Symbols
from framelift.graph.terms import UnknownTerm, fold
from framelift.guards import failures
from framelift.guards.failures import Failure, NamedRead
from framelift.guards.guard import SPECIAL_METHODS, ClassFact, Guard, SpecialMethods, relied_on
from framelift.guards.kinds import Access, Check
from framelift.guards.source_texts import SourceTexts
from framelift.guards.sources import Source
from framelift.guards.value_texts import full_name

BETWEEN = frozenset({Check.SAME_AS, Check.NOT_SAME_AS, Check.APART})
"""Guards between two sources: whichever is reached later has them."""


@dataclass
class GuardProgram:
    """The guards of one entry, as data and as the native program."""

    guards: list[Guard]
    class_guards: list[ClassFact]
    state: _guards.GlobalState
    native: Any = None
    classes: list[str] = field(default_factory=list)
    """The names of the classes on which something was looked up, as the native program has them."""
    index: dict[Source, int] = field(default_factory=dict)
    """Source -> its node in the native program, in the order of these."""
    shapes: list[tuple[str, Place | None]] = field(default_factory=list)
    """Facts about sizes and numbers, in words, and where they come from."""
    shape_reads: list[NamedRead] = field(default_factory=list)
    """The sizes and numbers that all of them together are about."""
    shape_reads_of: list[list[int]] = field(default_factory=list)
    """Which of these each of them is about."""

    @functools.cached_property
    def by_node(self) -> list[tuple[Source, list[Guard]]]:
        """What the native program checks, node by node: for who wants to know what does not hold."""
        found: list[tuple[Source, list[Guard]]] = [(source, []) for source in self.index]
        for guard in in_order(self.guards):
            at = self.index[guard.source]
            if guard.check in BETWEEN:
                at = max(at, self.index[guard.expected])
            found[at][1].append(guard)
        return found

    @functools.cached_property
    def relied_on(self) -> dict[str, Any]:
        """The sizes and numbers that it holds for: each later capture asks for them."""
        return relied_on(self.guards, self.class_guards)

    def steps(self) -> dict[Source, int]:
        """What the native walk does for each guarded source: reaching it, as far as no source before it has
        been reached the same way, and checking it. Each step is about as long as another."""
        reached: set[Source] = set()
        found: dict[Source, int] = {}
        for source, guards in self.by_node:
            if guards:
                path: Source | None = source
                while path is not None and path in self.index and path not in reached:
                    reached.add(path)
                    found[source] = found.get(source, 0) + 1
                    path = None if path.access.is_root else path.base
                found[source] = found.get(source, 0) + len(guards)
        return found

    def set_shapes(
        self, sources: list[Source], reads: list[Read], facts: list[tuple[Fact, list[Step]]]
    ) -> None:
        """Adds what must hold of sizes and numbers."""
        self.native.set_shapes(
            [(self.index[sources[read.input]], READS[read.kind].code, read.dim) for read in reads],
            [tuple(steps) for _, steps in facts],
        )
        self.shapes = [(in_words(fact.text, sources, reads), fact.place) for fact, _ in facts]
        self.shape_reads = [named(read, sources) for read in reads]
        self.shape_reads_of = [sorted({n for name, n in steps if name == "read"}) for _, steps in facts]

    def failure(self, fn: Any, args: Sequence[Any]) -> Failure | None:
        """What does not hold for these arguments, with what was found; None when all holds."""
        failed = self.native.check(fn, args)
        if failed is None:
            return None
        match failed.kind:
            case _guards.FAILED_ACCESS:
                return failures.of_access(self.by_node[failed.position][0], self.guards)
            case _guards.FAILED_CHECK:
                return failures.of_guard(self.by_node[failed.position][1][failed.check], failed.found)
            case _guards.FAILED_STATE:
                return failures.of_state(failed.found)
            case _guards.FAILED_CLASS:
                return failures.of_class(self.classes[failed.position], failed.found)
            case _guards.FAILED_STORAGE:
                return failures.of_memory(self.holder_of(args, failed.found))
            case _guards.FAILED_SHAPE:
                return self.shape_failure(failed.position, failed.found)
        raise AssertionError(f"no such kind of failure: {failed}")

    def shape_failure(self, index: int, values: Sequence[int | float] | None) -> Failure:
        fact, place = self.shapes[index]
        reads = self.shape_reads_of[index]
        about = None if values is None else [(self.shape_reads[n], values[n]) for n in reads]
        return failures.of_shape(fact, place, about)

    def holder_of(self, args: Sequence[Any], tensor: Any) -> Source | None:
        """The argument that a tensor is, if it is one."""
        arguments = (guard.source for guard in self.guards if guard.source.access is Access.ARG)
        return next((source for source in arguments if args[source.operand] is tensor), None)


def build(
    guards: list[Guard],
    class_guards: list[ClassFact],
    state: _guards.GlobalState,
    inputs: list[Source],
    storages: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> GuardProgram:
    program = GuardProgram(guards, class_guards, state)
    index = program.index
    parents: list[int] = []
    accesses: list[Any] = []
    operands: list[Any] = []
    checks: list[Any] = []

    def place(source: Source) -> int:
        base, access = source.base, source.access
        if access.is_root or base is None:
            parent: int = _guards.FRAME
        else:
            known = index.get(base)
            parent = place(base) if known is None else known
        key, part = source.key, access.operand_at
        at = index[source] = len(parents)
        parents.append(parent)
        accesses.append(access.code)
        operands.append(key if part is None else key[part])
        checks.append(())
        return at

    for guard in in_order(guards):
        source, check, expected = guard.source, guard.check, guard.expected
        known = index.get(source)
        at = place(source) if known is None else known
        if check in BETWEEN:
            known = index.get(expected)
            expected, at = sorted((at, place(expected) if known is None else known))
        checked = check.code, expected
        if checks[at]:
            checks[at].append(checked)
        else:
            checks[at] = [checked]
    places = [index[source] if source in index else place(source) for source in inputs]
    slots = [_guards.NO_INPUT] * len(parents)
    for slot, at in enumerate(places):
        slots[at] = slot
    by_class: dict[type, list[tuple[str, Any]]] = {}
    for fact in class_guards:
        lookups = by_class.setdefault(fact.cls, [])
        if type(fact) is SpecialMethods:
            lookups += zip(SPECIAL_METHODS, fact.found, strict=True)
        else:
            lookups.append((fact.name, _guards.MISSING if fact.found is MISSING else fact.found))
    program.classes = list(map(full_name, by_class))
    nodes = list(zip(parents, accesses, operands, checks, slots, strict=True))
    program.native = _guards.Program(nodes, len(inputs), state, list(by_class.items()), storages)
    index = {}  # `place` leads to itself, and these would wait for the collector with it
    for each in (parents, accesses, operands, checks):
        each.clear()
    return program


def in_order(guards: list[Guard]) -> list[Guard]:
    """As they are checked: what is most often another one, an argument, comes first."""
    first = [guard for guard in guards if guard.check is Check.TENSOR and guard.source.access is Access.ARG]
    if not first:
        return guards
    are_first = set(first)
    return [*first, *[guard for guard in guards if guard not in are_first]]


def let_go(guards: list[Guard], class_guards: list[ClassFact], sources: list[Source]) -> None:
    """Entries are kept, with their guards; what the program had when they were made must not be. What is let
    go can still be read, but not saved or built again."""
    known: dict[int, Any] = {}  # all of them are there, so no two have one id
    for guard in guards:
        keep, value = guard.check.operand.keep, guard.expected
        if keep is weakly:  # many are of one class, or are one function
            kept = known.get(id(value))
            guard.expected = known.setdefault(id(value), weakly(value)) if kept is None else kept
        elif keep is not None:
            guard.expected = keep(value)
    for fact in class_guards:
        fact.let_go()
    for source in sources:
        source.let_go()
        if source.access.is_root and source.base is not None:  # others have theirs among the sources
            source.base.let_go()


def storage_groups(tensors: list[tuple[int, torch.Tensor]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which input slots hold tensors that share memory: (slots, group of each)."""
    groups: dict[int, int] = {}
    numbers = [groups.setdefault(tensor.untyped_storage()._cdata, len(groups)) for _, tensor in tensors]
    return tuple([slot for slot, _ in tensors]), tuple(numbers)


# ---- facts about sizes and numbers


Step = tuple[str, Any]
"""Of an expression in postfix form: an operation, or `read` or `constant` with its operand."""


@dataclass(frozen=True)
class ReadKind:
    """What can be read of an input."""

    code: int
    text: str
    """As a user writes it, with the input and the dimension."""
    subject: str
    """What causes are about, with the same."""
    cause: Cause


SIZE_TEXT = "{0}.shape[{1}]"
READS = {
    "number": ReadKind(_guards.READ_NUMBER, "{0}", "{0}", causes.INT),
    "size": ReadKind(_guards.READ_SIZE, SIZE_TEXT, SIZE_TEXT, causes.SIZE),
    "stride": ReadKind(_guards.READ_STRIDE, "{0}.stride()[{1}]", "{0}", causes.STRIDE),
}


def named(read: Read, sources: list[Source]) -> NamedRead:
    kind, place = READS[read.kind], (sources[read.input], read.dim)
    return NamedRead(kind.text.format(*place), kind.subject.format(*place), kind.cause)


def steps_of(text: str) -> list[Step]:
    """An expression in postfix form. Raises UnknownTerm where there is no native operation."""

    def apply(operation: str, operands: list[list[Step]]) -> list[Step]:
        return [*(step for operand in operands for step in operand), (operation, None)]

    def constant(value: int | float) -> list[Step]:
        if type(value) is int and value.bit_length() > 63:
            raise UnknownTerm(str(value))
        return [("constant", int(value) if type(value) is bool else value)]

    return fold(text, constant, lambda name: [("read", int(name[1:]))], apply)


def in_words(text: str, sources: list[Source], reads: list[Read]) -> str:
    """A fact as the user would write it."""
    return re.sub(r"\br(\d+)\b", lambda match: named(reads[int(match[1])], sources).text, text)


def checkable(reads: list[Read], facts: list[Fact], symbols: Symbols) -> list[tuple[Fact, list[Step]]]:
    """The facts with their native form; where one has none, all must be just as it was."""
    try:
        return [(fact, steps_of(fact.text)) for fact in facts]
    except UnknownTerm:
        exact = [Fact(f"r{n} == {symbols.value(read)}", None) for n, read in enumerate(reads)]
        return [(fact, steps_of(fact.text)) for fact in exact]


def violations(symbols: Symbols, sources: list[Source]) -> str:
    """Which marked dimensions may not be all that they are marked to be, and what in the program says so."""
    lines, violated, texts = [], [], SourceTexts()
    for n, entry in enumerate(symbols.inputs):
        for dim, constraint in enumerate(entry.context.constraint_sizes if entry.context else ()):
            if constraint is None:
                continue
            needs = symbols.needs(entry, dim)
            if needs:
                violated.append(f"{texts.of(sources[n])}.size()[{dim}]")
                lines.append(f"{sources[n]}.shape[{dim}] is marked dynamic{allowed(constraint)}, but:")
                lines += [f"  the program needs {text}{origin(place)}" for text, place in needs]
    return f"Constraints violated ({', '.join(violated)})!\n" + "\n".join(lines) if lines else ""


def origin(place: Place | None) -> str:
    return "" if place is None else f"    # {place.where}"


def allowed(constraint: Any) -> str:
    limits = getattr(constraint, "vr", None)
    return "" if limits is None else f" (from {limits.lower} to {limits.upper})".replace("int_oo", "any size")
