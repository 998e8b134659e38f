"""A compiled function as it is known at run time: its options, its entries, and who watches what is compiled.

A *context* is what a compiled function runs in. It has a `CodeState` for each code object that was looked at
in it, which has the entries, and says why there are no others.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal, NamedTuple

import torch.fx

from framelift import _frame, _guards
from framelift.bytecode import resume
from framelift.core.breaks import Break
from framelift.core.causes import Suggestion
from framelift.core.records import CompileRecord
from framelift.core.weakly import PerCode
from framelift.dispatch.capture import Capture
from framelift.guards.failures import Failure
from framelift.guards.guard import GuardFilter
from framelift.guards.program import GuardProgram
from framelift.trace.dynamism import Dynamism

Graph = torch.fx.GraphModule
Backend = Callable[..., Callable[..., Any]]
"""Takes a graph module and example inputs, and gives what runs the graph."""

# ---- what is known of code


@dataclass(eq=False)
class Pending:
    """A graph that is compiled in the background."""

    name: str
    """Of the function, with its place."""
    program: GuardProgram = field(repr=False)
    """Says which calls it is for."""
    began: float = field(default_factory=time.monotonic)
    progress: Literal["compiling", "done", "failed", "unusable"] = "compiling"
    """How far it is. Failed: the backend can't; unusable: it has to be compiled here."""
    why: str = ""

    @property
    def seconds(self) -> float:
        """Since it was begun."""
        return time.monotonic() - self.began


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
    known_native: weakref.ref[_guards.Entry] | None = None
    """What the frame hook looks at, which keeps this one: nothing waits for the collector."""

    def bind(self) -> _guards.Entry:
        """What the frame hook looks at: the guards, and the region bound to the graph."""
        region = self.capture.region.bind(self.graph_callable)
        native = _guards.Entry(self.capture.program.native, region, self, self.title)
        self.known_native = weakref.ref(native)
        return native

    @property
    def title(self) -> str:
        """What profilers and memory snapshots show of a run."""
        return f"Torch-Compiled Region: {self.compile_id}"

    @property
    def native(self) -> _guards.Entry | None:
        """None: it has left its cache, or is not in one yet."""
        return None if self.known_native is None else self.known_native()

    @property
    def hits(self) -> int:
        return 0 if self.native is None else self.native.hits


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
            if failure.mismatch:
                lines.append(f"  {failure.mismatch}")
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


def number_from_the_beginning() -> None:
    """When all is forgotten: as with torch.compile, the next compilation is 0/0."""
    global _numbers
    _numbers = itertools.count()


class CodeState:
    """What is known of a code object in one context. Nothing in here leads back to the code."""

    def __init__(self, code: CodeType) -> None:
        self.known_code = weakref.ref(code)
        self.name, self.filename = code.co_qualname, code.co_filename
        self.line: int | None = code.co_firstlineno
        self.resumed = origin = resume.origin_of(code)
        """Where the code comes from if it is a resume function's."""
        if origin is not None:  # where it goes on
            self.line = origin.body.positions[origin.body.at_unit(origin.at)][0]
        rest = "" if origin is None else "the rest of "
        self.what = f"{rest}{self.name} ({self.filename}:{self.line})"
        """The function, as messages name it."""
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
        self.only_ordinary = False
        """Whether the backend has refused a graph with tensors of some layout or type."""
        self.pending: list[Pending] = []
        """Graphs of it that are compiled in the background, or could not be."""
        self.dynamism = Dynamism()
        self.sizes_on_other_ranks: list[dict[str, Any]] = []
        """What captures of it on other ranks rely on, if ranks agree."""
        self.first_seen: dict[str, Any] | None = None
        """The sizes and numbers of a call that came before anything was compiled, if a stance asks, or
        that the program has refused."""
        self.was_shared = False
        """Whether it was captured by one rank for all, or was to be."""
        self.number = next(_numbers)
        self.attempts = itertools.count()
        """How often it was tried to compile it: with `number` what a compilation is known by."""
        self.recompiles: list[Recompilation] = []
        """Why each entry but the first was made."""
        self.resumes: PerCode[CodeState] = PerCode()
        self.lock = _frame.Lock()
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
        self.context: weakref.ref[Context] | None = None
        """Whose they are."""

    def of(self, code: CodeType) -> CodeState:
        with self.lock:  # threads that need the same state must get the same one
            found = self.get(code)
            if found is None:
                home = self.home(code)
                found = CodeState(code)
                if home is not None:  # else the function is gone, and this is the last that is seen of it
                    home.set(code, found)
                    if self.context is not None and (owner := self.context()) is not None:
                        with _contexts_lock:
                            (_holding.get(code) or _holding.set(code, weakref.WeakSet())).add(owner)
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


# ---- contexts


class GuardFail(NamedTuple):
    """What `guard_fail_fn` is told."""

    reason: str
    """The guard that failed, and what was found: `n == 2, found 3`; of a tensor also in torch's words."""
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
    background: bool = False
    """Whether the program goes on while a graph is compiled."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What `compile` was called with."""
    code_states: CodeStates = field(default_factory=CodeStates)
    broken_places: set[Any] = field(default_factory=set)
    """Where there were breaks: each is reported once."""
    users: PerCode[None] = field(default_factory=PerCode)
    """The compiled functions and modules that run in it."""
    stand_ins: dict[str, Context] = field(default_factory=dict)
    """Backend -> the same with that one, for a stance (`stand_ins`)."""

    def __post_init__(self) -> None:
        self.code_states.context = weakref.ref(self)
        with _contexts_lock:
            _contexts.add(self)

    def state_of(self, code: CodeType) -> CodeState:
        return self.code_states.of(code)

    def forget(self) -> None:
        for state in self.code_states.values():
            if state.code is not None:
                _frame.set_cache(state.code, None, self)
        self.code_states.clear()
        self.broken_places.clear()
        self.stand_ins.clear()


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
_contexts_lock = threading.Lock()
_holding: PerCode[weakref.WeakSet[Context]] = PerCode()
"""Which contexts have looked at a code object: there may be thousands of others."""


def contexts() -> list[Context]:
    with _contexts_lock:
        return list(_contexts)


def entries_everywhere(code: CodeType) -> int:
    """How many entries a code object has, in all contexts that share a limit."""
    known = _holding.get(code)
    if known is None:
        return 0
    with _contexts_lock:
        holding = list(known)
    states = [context.code_states.get(code) for context in holding if not context.isolate_recompiles]
    return sum(len(state.cache) for state in states if state is not None)


# ---- watching


@dataclass
class Watch:
    """What was compiled, in the order in which it was: in one context, or with None in all. A cache would not
    do: an entry leaves it when something dies that its guards would have to find."""

    context: Context | None = None
    keeps_entries: bool = True
    """Whether entries are kept for as long as the watch is, which is longer than they might live."""
    records: list[CompileRecord] = field(default_factory=list)
    entries: list[CompiledEntry] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)

    @property
    def forward(self) -> list[CompileRecord]:
        return [record for record in self.records if record.kind == "forward"]

    @property
    def graph_count(self) -> int:
        captured = (record for record in self.forward if record.nodes > 0 and not record.background)
        return sum(record.failed is None for record in captured)


watching: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watching", default=None)
_everywhere: Watch | None = None


@contextlib.contextmanager
def watching_everywhere(keeps_entries: bool = False) -> Iterator[Watch]:
    """Watches all threads in the block."""
    global _everywhere
    _everywhere = watch = Watch(keeps_entries=keeps_entries)
    try:
        yield watch
    finally:
        _everywhere = None


def watch_of(context: Context) -> Watch | None:
    """Who watches a context now, if anyone does."""
    found = watching.get() or _everywhere
    return found if found is not None and found.context in (None, context) else None
