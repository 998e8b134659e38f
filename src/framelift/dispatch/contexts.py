"""A compiled function as it is known at run time: its options, and what became of each code object.

A *context* is what a compiled function runs in; it has a *record* of each code object that was looked at in
it, which has the entries.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from framelift import _frame, _guards
from framelift.bytecode import resume
from framelift.core.breaks import Break
from framelift.core.per_code import PerCode
from framelift.dispatch import recompiles
from framelift.dispatch.backends import Backend
from framelift.dispatch.capture import Captured
from framelift.dispatch.recompiles import Recompilation
from framelift.guards.filtering import GuardFilter
from framelift.trace.dynamism import Dynamism


@dataclass(eq=False)
class Compiled:
    """One entry, as people see it."""

    captured: Captured
    graph_callable: Any
    backend_seconds: float
    name: str
    """Of the function, with its place; `the rest of` one after a break."""
    compile_id: str
    entry: Any = None
    guard_seconds: float | None = None
    """What checking the guards takes when all of them hold, if `explain` asked."""
    number: int = field(default_factory=itertools.count().__next__)

    @property
    def hits(self) -> int:
        return self.entry.hits


_numbers = itertools.count()


class Record:
    """What is known of a code object in one context. Nothing in here leads back to the code."""

    def __init__(self, code: CodeType) -> None:
        self.known_code = weakref.ref(code)
        self.name, self.filename = code.co_qualname, code.co_filename
        self.line, self.what = recompiles.first_line(code), recompiles.what(code)
        self.cache = _guards.Cache()
        """The entries; those whose guards can never hold again leave it by themselves."""
        self.skipped: str | None = None
        self.breaks: list[Break] = []
        """Where captures of it ended, and what ruled the frame out."""
        self.failures = 0
        self.empty = 0
        self.dynamism = Dynamism()
        self.elsewhere: list[dict[str, Any]] = []
        """What captures of it on other ranks rely on, if ranks agree."""
        self.shared = False
        """Whether it was captured by one rank for all, or was to be."""
        self.number = next(_numbers)
        self.attempts = itertools.count()
        """How often it was tried to compile it: with `number` what a compilation is known by."""
        self.recompiles: list[Recompilation] = []
        """Why each entry but the first was made."""
        self.resumes: PerCode[Record] = PerCode()
        self.resumed = resume.origin_of(code)
        """Where the code comes from if it is a resume function's."""
        self.lock = threading.RLock()
        """Held while it is captured and compiled: threads that need the same wait for it."""

    @property
    def recompile_reasons(self) -> list[str]:
        """In short: what failed of the entry before."""
        return [str(again.reason) for again in self.recompiles]

    def because(self, entry: int) -> Recompilation | None:
        """Why an entry was made; None for the first."""
        return next((again for again in reversed(self.recompiles) if again.number == entry), None)

    @property
    def code(self) -> CodeType | None:
        return self.known_code()

    @property
    def compiled(self) -> list[Compiled]:
        """What the entries are, the oldest first."""
        return sorted((entry.info for entry in self.cache.entries()), key=lambda compiled: compiled.number)


class Records:
    """The records of one context, each for as long as its code lives. Those of resume functions are with that
    of the original: their entries lead to their codes, so they would never go by themselves."""

    def __init__(self) -> None:
        self.originals: PerCode[Record] = PerCode()
        self.lock = threading.RLock()

    def of(self, code: CodeType) -> Record:
        with self.lock:  # threads that need the same record must get the same one
            found = self.get(code)
            if found is None:
                home = self.home(code)
                found = Record(code)
                if home is not None:  # else the function is gone, and this is the last that is seen of it
                    home.set(code, found)
            return found

    def get(self, code: CodeType) -> Record | None:
        home = self.home(code)
        return None if home is None else home.get(code)

    def home(self, code: CodeType) -> PerCode[Record] | None:
        origin = resume.origin_of(code)
        if origin is None:
            return self.originals
        original = origin.body.original()
        return None if original is None else self.of(original).resumes

    def values(self) -> list[Record]:
        return [found for record in self.originals.values() for found in (record, *record.resumes.values())]

    def clear(self) -> None:
        self.originals.clear()

    def __len__(self) -> int:
        return len(self.values())


class GuardFail(NamedTuple):
    """What `guard_fail_fn` is told."""

    reason: str
    """The guard that failed, and what was found: `n == 2, found 3`."""
    orig_code: CodeType


@dataclass(eq=False)
class Context:
    """The options of a compiled function; what `_frame.call_in` is given."""

    backend: Backend
    backend_name: str
    fullgraph: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None
    """Whether sizes and numbers are symbols: all, none, or those that turn out to change."""
    recompile_limit: int | None = None
    """In place of the one in `framelift.config`."""
    name: str | None = None
    """What the user calls it, in records and logs."""
    guard_fail_fn: Callable[[GuardFail], Any] | None = None
    """Is told each guard that fails, before it is compiled again."""
    guard_filter_fn: GuardFilter | None = None
    """Says which guards to keep."""
    isolate_recompiles: bool = False
    """Neither counts what others have compiled against itself, nor the other way round."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What `compile` was called with."""
    records: Records = field(default_factory=Records)
    places: set[Any] = field(default_factory=set)
    """Where there were breaks: each is told once."""

    def __post_init__(self) -> None:
        with _contexts_lock:
            _contexts.add(self)

    def record(self, code: CodeType) -> Record:
        return self.records.of(code)

    def forget(self) -> None:
        for record in self.records.values():
            if record.code is not None:
                _frame.set_cache(record.code, None, self)
        self.records.clear()
        self.places.clear()


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
_contexts_lock = threading.Lock()


def contexts() -> list[Context]:
    with _contexts_lock:
        return list(_contexts)


def entries_everywhere(code: CodeType) -> int:
    """How many entries a code object has, in all contexts that share a limit."""
    records = [context.records.get(code) for context in contexts() if not context.isolate_recompiles]
    return sum(len(record.compiled) for record in records if record is not None)
