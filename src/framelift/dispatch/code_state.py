"""What is known of one code object in one context: its entries, and why there are no others."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from framelift import _guards
from framelift.bytecode import resume
from framelift.core.breaks import Break
from framelift.core.causes import Suggestion
from framelift.core.weakly import PerCode
from framelift.dispatch.capture import Capture
from framelift.guards.failures import Failure
from framelift.trace.dynamism import Dynamism


@dataclass(eq=False)
class CompiledEntry:
    """One entry, as people see it."""

    capture: Capture
    graph_callable: Callable[..., Any] | None
    """What the backend made of the graph, if there is one."""
    backend_seconds: float
    name: str
    """Of the function, with its place; `the rest of` one after a break."""
    compile_id: str
    guard_seconds: float | None = None
    """What checking the guards takes when all of them hold, if `explain` asked."""
    number: int = field(default_factory=itertools.count().__next__)
    native: _guards.Entry = field(init=False)
    """What the frame hook looks at: the guards, and the region bound to the graph."""

    def __post_init__(self) -> None:
        region = self.capture.region.bind(self.graph_callable)
        self.native = _guards.Entry(self.capture.program.native, region, self)

    @property
    def hits(self) -> int:
        return self.native.hits


@dataclass
class Recompilation:
    """Why none of the entries held: which guard of each failed."""

    number: int
    """How many entries there were."""
    failures: list[tuple[int, Failure]] = field(default_factory=list)
    """(which entry, what failed), the latest entry first."""
    suggestion: Suggestion | None = None
    """If it is the same kind of cause again and again."""

    @property
    def reason(self) -> Failure | None:
        """What failed of the latest entry."""
        return self.failures[0][1] if self.failures else None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        lines = []
        for failure, entries in self.by_failure().items():
            which = "entry" if len(entries) == 1 else "entries"
            lines.append(f"{which} {', '.join(map(str, entries))}: {failure}")
            if failure.where:
                lines.append(f"  relied on at {failure.where}")
        if not self.failures:
            lines.append("the guards hold again: what they are about has changed meanwhile")
        return lines if self.suggestion is None else [*lines, *self.suggestion.lines()]

    def by_failure(self) -> dict[Failure, list[int]]:
        """Entries of which the same guard failed, together."""
        first: dict[tuple[str, str], Failure] = {}
        grouped: dict[Failure, list[int]] = {}
        for entry, failure in self.failures:
            known = first.setdefault((str(failure), failure.where), failure)
            grouped.setdefault(known, []).append(entry)
        return grouped


_numbers = itertools.count()


class CodeState:
    """What is known of a code object in one context. Nothing in here leads back to the code."""

    def __init__(self, code: CodeType) -> None:
        self.known_code = weakref.ref(code)
        self.name, self.filename = code.co_qualname, code.co_filename
        self.line, self.what = first_line(code), describe_code(code)
        self.cache = _guards.Cache()
        """The entries; those whose guards can never hold again leave it by themselves."""
        self.skipped: str | None = None
        """Why it runs as plain Python, if it does."""
        self.breaks: list[Break] = []
        """Where captures of it ended, and what ruled the frame out."""
        self.failures = 0
        """How often the program raised while it was captured."""
        self.empty = 0
        """How often there was nothing to capture."""
        self.dynamism = Dynamism()
        self.sizes_on_other_ranks: list[dict[str, Any]] = []
        """What captures of it on other ranks rely on, if ranks agree."""
        self.was_shared = False
        """Whether it was captured by one rank for all, or was to be."""
        self.number = next(_numbers)
        self.attempts = itertools.count()
        """How often it was tried to compile it: with `number` what a compilation is known by."""
        self.recompiles: list[Recompilation] = []
        """Why each entry but the first was made."""
        self.resumes: PerCode[CodeState] = PerCode()
        self.resumed = resume.origin_of(code)
        """Where the code comes from if it is a resume function's."""
        self.lock = threading.RLock()
        """Held while it is captured and compiled: threads that need the same wait for it."""

    @property
    def recompile_reasons(self) -> list[str]:
        """In short: what failed of the entry before."""
        return [str(again.reason) for again in self.recompiles]

    def recompilation_for(self, entry: int) -> Recompilation | None:
        """Why an entry was made; None for the first."""
        return next((again for again in reversed(self.recompiles) if again.number == entry), None)

    @property
    def code(self) -> CodeType | None:
        return self.known_code()

    @property
    def entries(self) -> list[CompiledEntry]:
        """The oldest first."""
        return sorted((entry.info for entry in self.cache.entries()), key=lambda entry: entry.number)


class CodeStates:
    """The states of one context, each for as long as its code lives. Those of resume functions are with that
    of the original: their entries lead to their codes, so they would never go by themselves."""

    def __init__(self) -> None:
        self.originals: PerCode[CodeState] = PerCode()
        self.lock = threading.RLock()

    def of(self, code: CodeType) -> CodeState:
        with self.lock:  # threads that need the same state must get the same one
            found = self.get(code)
            if found is None:
                home = self.home(code)
                found = CodeState(code)
                if home is not None:  # else the function is gone, and this is the last that is seen of it
                    home.set(code, found)
            return found

    def get(self, code: CodeType) -> CodeState | None:
        home = self.home(code)
        return None if home is None else home.get(code)

    def home(self, code: CodeType) -> PerCode[CodeState] | None:
        origin = resume.origin_of(code)
        if origin is None:
            return self.originals
        original = origin.body.original()
        return None if original is None else self.of(original).resumes

    def values(self) -> list[CodeState]:
        return [found for state in self.originals.values() for found in (state, *state.resumes.values())]

    def clear(self) -> None:
        self.originals.clear()

    def __len__(self) -> int:
        return len(self.values())


def first_line(code: CodeType) -> int | None:
    """Where a function begins, or where a resume function goes on."""
    origin = resume.origin_of(code)
    if origin is None:
        return code.co_firstlineno
    line: int | None = origin.body.positions[origin.body.at_unit(origin.at)][0]
    return line


def describe_code(code: CodeType) -> str:
    """The function, as messages name it."""
    rest = "" if resume.origin_of(code) is None else "the rest of "
    return f"{rest}{code.co_qualname} ({code.co_filename}:{first_line(code)})"
