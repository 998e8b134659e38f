"""What the frame hook asks: a user's frame has no entry that holds - capture it, or let it run.

A compiled function runs in a *context* (its options); each code object keeps one cache of entries
per context. A frame that can't be captured runs as plain Python from then on in that context, with
the reason kept, and the functions it calls are looked at on their own.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import weakref
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Literal

import torch

from framelift import _frame, _guards
from framelift.bytecode import resume
from framelift.core import breaks, policy
from framelift.core.breaks import Break
from framelift.core.counters import counters
from framelift.core.errors import Unsupported
from framelift.core.per_code import PerCode
from framelift.runtime.backends import Backend, compile_graph
from framelift.runtime.capture import Captured, EscapedError, capture, check_frame

log = logging.getLogger("framelift")

RECOMPILE_LIMIT = 8
RESUME_LIMIT = 64
"""The same for a resume function: it is called for each round of a loop, or for each layer."""
EMPTY_LIMIT = 3
"""How often a frame without tensor operations is traced before it is left alone."""
FAILURE_LIMIT = 8
"""How often a frame whose program raises is traced again before it is left alone."""


@dataclass(eq=False)
class Compiled:
    """One entry, as people see it."""

    captured: Captured
    graph_callable: Any
    backend_seconds: float
    entry: Any = None
    number: int = field(default_factory=itertools.count().__next__)

    @property
    def hits(self) -> int:
        return self.entry.hits


class Record:
    """What is known of a code object in one context. Nothing in here leads back to the code."""

    def __init__(self, code: CodeType) -> None:
        self.known_code = weakref.ref(code)
        self.name = code.co_qualname
        self.cache = _guards.Cache()
        """The entries; those whose guards can never hold again leave it by themselves."""
        self.skipped: str | None = None
        self.breaks: list[Break] = []
        """Where captures of it ended, and what ruled the frame out."""
        self.failures = 0
        self.empty = 0
        self.recompile_reasons: list[str] = []
        self.resumes: PerCode[Record] = PerCode()
        self.resumed = resume.origin_of(code)
        """Where the code comes from if it is a resume function's."""

    @property
    def code(self) -> CodeType | None:
        return self.known_code()

    @property
    def compiled(self) -> list[Compiled]:
        """What the entries are, the oldest first."""
        return sorted((entry.info for entry in self.cache.entries()), key=lambda compiled: compiled.number)

    @property
    def limit(self) -> int:
        return RECOMPILE_LIMIT if self.resumed is None else RESUME_LIMIT


class Records:
    """The records of one context, each for as long as its code lives. Those of resume functions are with that
    of the original: their entries lead to their codes, so they would never go by themselves."""

    def __init__(self) -> None:
        self.originals: PerCode[Record] = PerCode()

    def of(self, code: CodeType) -> Record:
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


@dataclass(eq=False)
class Context:
    """The options of a compiled function; what `_frame.call_in` is given."""

    backend: Backend
    backend_name: str
    fullgraph: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """What `compile` was called with."""
    records: Records = field(default_factory=Records)
    places: set[Any] = field(default_factory=set)
    """Where there were breaks: each is told once."""

    def __post_init__(self) -> None:
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
_lock = threading.RLock()


def reset() -> None:
    """Forgets everything that was compiled, and why anything was not."""
    for context in list(_contexts):
        context.forget()
    counters.clear()


Replacement = tuple[Any, tuple[Any, ...]]


def missed(fn: FunctionType, arguments: list[Any]) -> Replacement | Literal[False] | None:
    """The frame hook's question. None: run the frame as it is; False: that, and look at nothing below it."""
    context: Context | None = _frame.context()
    if context is None or torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return None  # such hooks would be called for what a trace computes
    before = [compiled.number for compiled in context.record(fn.__code__).compiled]
    with _lock:
        return compiled_meanwhile(context, fn, arguments, before) or compiled_frame(context, fn, arguments)


def compiled_meanwhile(
    context: Context, fn: FunctionType, arguments: list[Any], before: list[int]
) -> Replacement | None:
    """What another thread has compiled while this one waited for its turn, if it fits."""
    for compiled in context.record(fn.__code__).compiled:
        if compiled.number in before:
            continue
        inputs = compiled.captured.program.native.collect(fn, arguments)
        if inputs is not None:
            return compiled.entry.region, tuple(inputs)
    return None


def compiled_frame(
    context: Context, fn: FunctionType, arguments: list[Any]
) -> Replacement | Literal[False] | None:
    code = fn.__code__
    record = context.record(code)
    cache = record.cache
    if _frame.get_cache(code, context) is False:
        return None
    _frame.set_cache(code, cache, context)
    if len(cache):
        if record.skipped is None:
            note_recompile(record, fn, arguments)
        if len(cache) >= record.limit:
            past_limit(record)
            return None
    counters["frames"]["total"] += 1
    try:
        check_frame(fn)
        captured = capture(fn, arguments, whole=context.fullgraph)
    except Break as found:
        ended: Break | None = found
        found.let_go()
    except EscapedError as error:
        ended = None
        log.debug(
            "%s raised while captured; it runs as plain Python", code.co_qualname, exc_info=error.__cause__
        )
    else:
        return run_captured(context, record, cache, fn, arguments, captured)
    # outside the handler: what is raised from here on has nothing to do with how the trace ended
    if ended is not None:
        broken(context, record, ended)
        return None
    record.failures += 1
    if record.failures >= FAILURE_LIMIT:
        skip(context, record, "the function kept raising while it was captured")
        return None
    # with fullgraph the user asked for one graph or an error: no pieces of it below
    return False if context.fullgraph else None


def past_limit(record: Record) -> None:
    """The entries there are stay in use; what none of them fits runs as plain Python."""
    if record.skipped is None:
        last = record.recompile_reasons[-1] if record.recompile_reasons else "unknown"
        record.skipped = f"recompile limit ({record.limit}) reached; last reason: {last}"
        log.warning("%s: %s", record.name, record.skipped)


def run_captured(
    context: Context, record: Record, cache: Any, fn: FunctionType, arguments: list[Any], captured: Captured
) -> Replacement | None:
    """Compiles what was captured, keeps it, and hands it to the hook to be run."""
    if captured.graph is None and nothing_to_gain(context, record, captured):
        return None
    compiled = compile_captured(context, fn, captured)
    inputs = captured.program.native.collect(fn, arguments)
    if inputs is None:
        why = f"the guards do not hold for what was just captured: {captured.program.failure(fn, arguments)}"
        broken(context, record, Break(breaks.INTERNAL, why))
        return None
    cache.add(compiled.entry)
    if captured.ended_by is not None:
        note_break(context, record, captured.ended_by)
    counters["frames"]["ok"] += 1
    if captured.graph is not None:
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += len(captured.ops)
    counters["restarts"]["traces"] += captured.restarts
    return compiled.entry.region, tuple(inputs)


def nothing_to_gain(context: Context, record: Record, captured: Captured) -> bool:
    """Whether a frame in which nothing was captured is better run as it is.

    One that breaks may have something behind the break; once some stretches of it have turned out to be
    empty, and none not, it is left alone.
    """
    record.empty += 1
    original = None if record.resumed is None else record.resumed.body.original()
    whole = record if original is None else context.record(original)
    if whole is not record:
        whole.empty += 1
    if captured.ended_by is None or (whole.empty > EMPTY_LIMIT and not captures_anything(context, whole)):
        if record.empty >= EMPTY_LIMIT or whole.empty > EMPTY_LIMIT:
            skip(context, record, NOTHING)
            if not captures_anything(context, whole):
                skip(context, whole, NOTHING)
        return True
    return False


NOTHING = "nothing to capture: no tensor operations"


def captures_anything(context: Context, whole: Record) -> bool:
    """Whether there is a graph in any stretch of a function."""
    return any(
        compiled.captured.graph is not None
        for record in (whole, *whole.resumes.values())
        for compiled in record.compiled
    )


def compile_captured(context: Context, fn: FunctionType, captured: Captured) -> Compiled:
    began = time.perf_counter()
    graph = None
    if captured.graph is not None:
        graph = compile_graph(
            context.backend, context.backend_name, captured.graph, captured.example_inputs, **context.options
        )
    compiled = Compiled(captured, graph, time.perf_counter() - began)
    captured.release()
    compiled.entry = _guards.Entry(captured.program.native, captured.region.bind(graph), compiled)
    return compiled


def note_recompile(record: Record, fn: FunctionType, arguments: list[Any]) -> None:
    last = record.compiled[-1].captured.program.failure(fn, arguments) if record.compiled else None
    if last is not None:
        record.recompile_reasons.append(last)
        counters["recompiles"][f"{record.name}: {last}"] += 1


def broken(context: Context, record: Record, found: Break) -> None:
    """The frame can't be captured: it runs as it is from now on."""
    note_break(context, record, found)
    if context.fullgraph:
        where = f" {found.stack[0]}" if found.stack else ""
        raise Unsupported(
            f"the function can't be captured whole (fullgraph=True).{where}\n{found.describe()}"
        )
    skip(context, record, found.describe())


def note_break(context: Context, record: Record, found: Break) -> None:
    """A break is counted, and told, once for each place."""
    found.let_go()
    record.breaks.append(found)
    place = (found.reason.name, *(at.key for at in found.stack[-1:]))
    if place not in context.places:
        context.places.add(place)
        counters["graph_break"][found.reason.name] += 1
        log.info("%s: %s", record.name, found)


def skip(context: Context, record: Record, why: str) -> None:
    record.skipped = why
    if record.code is not None:
        _frame.set_cache(record.code, False, context)


_frame.set_callbacks(policy.decide, missed)
_frame.set_dispatch(_guards.dispatch)
