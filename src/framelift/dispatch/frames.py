"""What the frame hook asks: a user's frame has no entry that holds - capture it, or let it run.

A compiled function runs in a *context* (its options); each code object keeps one cache of entries
per context. A frame that can't be captured runs as plain Python from then on in that context, with
the reason kept, and the functions it calls are looked at on their own.
"""

from __future__ import annotations

import contextlib
import logging
import time
import timeit
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Literal

import torch

from framelift import _frame, _guards
from framelift.core import breaks, policy, progress, stance
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.counters import counters
from framelift.core.errors import (
    BackendCompilerFailed,
    TorchRuntimeError,
    UncapturedHigherOrderOpError,
    Unsupported,
    UserError,
)
from framelift.core.records import CompileRecord, compile_records, compiling
from framelift.core.watching import watch_of
from framelift.debugging import replaying, reporting
from framelift.debugging.bisecting import Examined
from framelift.debugging.verifying import original, verified
from framelift.dispatch import recompiles
from framelift.dispatch.backends import compile_graph
from framelift.dispatch.capture import Captured, Ending, EscapedError, Pack, capture, check_frame
from framelift.dispatch.contexts import Compiled, Context, GuardFail, Record, contexts, entries_everywhere
from framelift.distributed import agreement, capture_once, data_parallel
from framelift.distributed.collective_calls import naming_collectives
from framelift.graph.contexts import outside_of
from framelift.graph.torch_flags import flags_lock, without_saved_tensors_hooks
from framelift.trace import faults
from framelift.trace.dynamism import Dynamism

log = logging.getLogger("framelift")

EMPTY_LIMIT = 3
"""How often a frame without tensor operations is traced before it is left alone."""
FAILURE_LIMIT = 8
"""How often a frame whose program raises is traced again before it is left alone."""


def reset() -> None:
    """Forgets everything that was compiled, and why anything was not."""
    with flags_lock:
        for context in contexts():
            context.forget()
        counters.clear()
        compile_records.clear()


Replacement = tuple[Any, tuple[Any, ...]]


def missed(fn: FunctionType, arguments: list[Any]) -> Replacement | Literal[False] | None:
    """The frame hook's question. None: run the frame as it is; False: that, and look at nothing below it."""
    context: Context | None = _frame.context()
    if context is None:
        return None
    if not stance.compiles():
        return refused(context, fn, arguments)
    if torch._C._len_torch_dispatch_stack():
        return None  # such modes would not: what they make of an operator's result is not known
    record = context.record(fn.__code__)
    if recompiles.has_stopped(context, record, entries_everywhere):
        return None
    with record.lock, without_saved_tensors_hooks():
        found = compiled_meanwhile(record, fn, arguments)
        meetings = agreement.on_each_call()
        if meetings is not None and not agreement.all_hit(meetings, record, found is not None):
            found = None
        return found or compiled_frame(context, record, fn, arguments)


def refused(context: Context, fn: FunctionType, arguments: list[Any]) -> Replacement | None:
    """Nothing fits, and nothing may be compiled: whether the frame may run as it is, or that is an error."""
    if not stance.fails():
        return None
    record = context.record(fn.__code__)
    if (found := compiled_meanwhile(record, fn, arguments)) is not None:
        return found
    if record.compiled:
        raise recompiles.refuse(fn.__code__, recompiles.why_again(record, fn, arguments))
    if not (record.skipped or record.empty or record.failures):  # otherwise there is nothing to compile
        raise recompiles.refuse(fn.__code__, None)
    return None


def compiled_meanwhile(record: Record, fn: FunctionType, arguments: list[Any]) -> Replacement | None:
    """What another thread has compiled since this one looked, if it fits; or what fits now that no other
    thread's compiler has torch's switches thrown."""
    with flags_lock:
        for compiled in record.compiled:
            inputs = compiled.captured.program.native.collect(fn, arguments)
            if inputs is not None:
                return compiled.entry.region, tuple(inputs)
    return None


def compiled_frame(
    context: Context, record: Record, fn: FunctionType, arguments: list[Any]
) -> Replacement | Literal[False] | None:
    code = fn.__code__
    cache = record.cache
    if _frame.get_cache(code, context) is False:
        return None
    if agreement.on_each_call() is None:
        _frame.set_cache(code, cache, context)  # else each call is looked at, with the other ranks
    full = recompiles.limit_reached(context, record, len(cache), entries_everywhere)
    if full is not None:
        recompiles.stop_at(context, record, full, fn, arguments)
        return None
    record.skipped = None
    if len(cache):
        again = recompiles.why_again(record, fn, arguments)
        recompiles.note(context, record, again)
        for failure in again.by_failure() if context.guard_fail_fn is not None else ():
            context.guard_fail_fn(GuardFail(str(failure), code))  # type: ignore[misc]
    counters["frames"]["total"] += 1
    told = agreement.told_if_it_fails(agreement.current())
    try:
        with recorded(context, record) as note, told, replaying.watched(context, note, fn, arguments):
            return captured_frame(context, record, cache, fn, arguments, note)
    except BackendCompilerFailed as error:
        if not config.suppress_errors or context.fullgraph:
            raise
        log.warning("%s runs as plain Python (config.suppress_errors): %s", record.what, why := str(error))
        skip(context, record, why)
        return None


def captured_frame(
    context: Context,
    record: Record,
    cache: Any,
    fn: FunctionType,
    arguments: list[Any],
    note: CompileRecord,
) -> Replacement | Literal[False] | None:
    outcome = by_one_rank(context, record, fn, arguments, note)
    meetings = agreement.current()
    if meetings is not None:
        outcome = agreement.settled(
            meetings, record, outcome, lambda end: traced(context, record, fn, arguments, note, end)
        )
    if isinstance(outcome, Captured):
        note_captured(note, outcome)
        return run_captured(context, record, cache, fn, arguments, outcome, note)
    if outcome is not None:
        note_failed(note, outcome)
        broken(context, record, outcome, note)
        return None
    record.failures += 1
    if record.failures >= FAILURE_LIMIT:
        skip(context, record, "the function kept raising while it was captured")
        return None
    # with fullgraph the user asked for one graph or an error: no pieces of it below
    return False if context.fullgraph else None


def by_one_rank(
    context: Context, record: Record, fn: FunctionType, arguments: list[Any], note: CompileRecord
) -> Captured | Break | None:
    """A trace of this rank's, or what came of the first rank's, if that is to trace for all."""
    meetings = agreement.for_captures()
    if meetings is None or record.shared or context.guard_filter_fn is not None:
        return traced(context, record, fn, arguments, note)
    record.shared = True
    key = capture_once.key_of(meetings, record, context.dynamic, context.fullgraph)
    if meetings.rank:
        taken = capture_once.taken(meetings, key, fn, arguments)
        return taken or traced(context, record, fn, arguments, note)
    with capture_once.handing_over(meetings, key) as parcel:
        return traced(context, record, fn, arguments, note, pack=parcel.pack)


def traced(
    context: Context,
    record: Record,
    fn: FunctionType,
    arguments: list[Any],
    note: CompileRecord,
    end: Ending | None = None,
    pack: Pack | None = None,
) -> Captured | Break | None:
    """What comes of a trace; None: the program raised, and the frame runs plainly."""
    try:
        check_frame(fn)
        with flags_lock:
            dynamism, thin = dynamism_of(context, record), context.guard_filter_fn
            return capture(fn, arguments, context.fullgraph, dynamism, end, thin, pack)
    except Break as found:
        found.let_go()
        return found
    except EscapedError as error:
        if isinstance(error.__cause__, UserError):  # of what it has asked of Framelift, not of its own
            raise error.__cause__ from None
        note.failed = f"the program raised {type(error.__cause__).__name__}"
        log.debug("%s raised while captured; it runs as plain Python", record.name, exc_info=error.__cause__)
        return None
    except UserError:  # of what the user has given to `compile`
        raise
    except Exception as error:
        return faults.as_break(error)


def dynamism_of(context: Context, record: Record) -> Dynamism | None:
    """What earlier captures say about which sizes change; nothing to say the first time, unless asked to."""
    known = [*(compiled.captured.program.relied_on for compiled in record.compiled), *record.elsewhere]
    mode = context.dynamic
    if mode is None and not config.assume_static_by_default:
        mode = True
    if mode is None and not (known and config.automatic_dynamic_shapes):
        return None
    record.dynamism.mode = mode
    record.dynamism.learn(known)
    return record.dynamism


# ---- compile records


@contextlib.contextmanager
def recorded(context: Context, record: Record) -> Iterator[CompileRecord]:
    """A record of the attempt, whatever comes of it."""
    note = CompileRecord("forward", record.name, record.filename, record.line, context.backend_name)
    note.entries, note.region = len(record.compiled), context.name or ""
    note.compile_id, note.started = f"{record.number}/{next(record.attempts)}", time.time()
    with reporting.compilation(note):
        if record.recompiles and note.entries:
            note.recompiled_because = str(record.recompiles[-1].reason)
            reporting.recompiled(note, record.recompiles[-1])
        began = time.perf_counter()
        progress.tell(note, "trace")
        try:
            yield note
        except Exception as error:
            note.failed = note.failed or f"{type(error).__name__}: {error}"
            raise
        finally:
            note.seconds = time.perf_counter() - began
            progress.tell(note, "done")
            compile_records.add(note)
            if (watch := watch_of(context)) is not None:
                watch.records.append(note)


def note_captured(note: CompileRecord, captured: Captured) -> None:
    guards = captured.program.guards
    note.guards = len(guards) + len(captured.program.class_guards)
    note.ops, note.inputs = len(captured.ops), len(captured.example_inputs)
    note.nodes = 0 if captured.graph is None else len(captured.graph.graph.nodes)
    note.restarts, note.restart_reasons = captured.restarts, captured.restart_reasons
    note.seconds_lost, note.trace_seconds = captured.seconds_lost, captured.trace_seconds
    note.generate_seconds = captured.seconds - captured.seconds_lost - captured.trace_seconds
    if captured.ended_by is not None:
        note.ended_by = summary(captured.ended_by)


def note_failed(note: CompileRecord, found: Break) -> None:
    note.failed = summary(found)
    note.failed_at = str(found.stack[-1]) if found.stack else None


def summary(found: Break) -> str:
    return f"{found.reason.name}: {found.context}" if found.context else found.reason.name


def run_captured(
    context: Context,
    record: Record,
    cache: Any,
    fn: FunctionType,
    arguments: list[Any],
    captured: Captured,
    note: CompileRecord,
) -> Replacement | Literal[False] | None:
    """Compiles what was captured, keeps it, and hands it to the hook to be run."""
    if captured.graph is None and nothing_to_gain(context, record, captured):
        return False if context.fullgraph else None
    reporting.graph(note, captured)
    compiled = compile_captured(context, record, captured, note)
    if (meetings := agreement.current()) is not None:
        agreement.all_compiled(meetings, record)
    note.backend_seconds = compiled.backend_seconds
    note.shape_guards = len(captured.program.shapes)
    with flags_lock:  # by now another thread's compiler may have thrown switches
        inputs = captured.program.native.collect(fn, arguments)
    if inputs is None:
        why = f"the guards do not hold for what was just captured: {captured.program.failure(fn, arguments)}"
        note.failed = why
        broken(context, record, Break(breaks.UNSTABLE_VALUE, why), note)
        return None
    cache.add(compiled.entry)
    if (watch := watch_of(context)) is not None and watch.keeps_compiled:
        watch.compiled.append(compiled)
        compiled.guard_seconds = seconds_to_check(captured, fn, arguments)
    reporting.compiled(note, captured)
    if captured.ended_by is not None:
        note_break(context, record, captured.ended_by, note)
    counters["frames"]["ok"] += 1
    if captured.graph is not None:
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += len(captured.ops)
    counters["inline_call"]["inlined"] += captured.inlined_calls
    counters["restarts"]["traces"] += captured.restarts
    return compiled.entry.region, tuple(inputs)


def seconds_to_check(captured: Captured, fn: FunctionType, arguments: list[Any]) -> float:
    """What the guards cost a call that they hold for: the least of some rounds, since much else runs."""
    collect = captured.program.native.collect
    return min(timeit.repeat(lambda: collect(fn, arguments), number=CHECKS, repeat=5)) / CHECKS


CHECKS = 20
"""How often guards are checked in a row to find out what that takes."""


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


def compile_captured(context: Context, record: Record, captured: Captured, note: CompileRecord) -> Compiled:
    began = time.perf_counter()
    graph = None
    if captured.graph is not None:
        token = compiling.set(note)
        plain = original(captured.graph, context)
        progress.tell(note, "backend")
        try:
            with outside_of(captured.left, captured.setting):
                made = compiled_graph(context, captured)
            graph = verified(plain, made, examined(context), note)
        except BackendCompilerFailed:
            counters["backend_failures"][context.backend_name] += 1
            raise
        finally:
            compiling.reset(token)
            note.backend_seconds = time.perf_counter() - began
    captured.rely_on_sizes(record.dynamism)
    seconds = time.perf_counter() - began
    compiled = Compiled(captured, graph, seconds, record.what, note.compile_id)
    captured.release()
    compiled.entry = _guards.Entry(captured.program.native, captured.region.bind(graph), compiled)
    return compiled


def examined(context: Context) -> Examined:
    return Examined(context.backend, context.backend_name, context.options)


def compiled_graph(context: Context, captured: Captured) -> Callable[..., Any]:
    """What the backend makes of the graph, or of its parts, between which DDP sends gradients."""

    def compile_part(graph: Any, inputs: list[Any], fakes: Any = None) -> Callable[..., Any]:
        name, symbols = context.backend_name, captured.symbols
        return compile_graph(context.backend, name, graph, inputs, symbols, fakes, **context.options)

    graph, inputs = captured.graph, captured.example_inputs
    assert graph is not None
    naming = naming_collectives(graph, captured.fn_name)
    if captured.run_as_captured is not None:
        counters["graphs_run_as_captured"][captured.run_as_captured] += 1
        return naming(graph.forward)
    ddp, made = data_parallel.active(), None
    if ddp is not None:
        made = data_parallel.compile_in_parts(ddp, graph, inputs, captured.symbols, compile_part)
    return naming(made or compile_part(graph, inputs))


def is_run_by_nothing(context: Context, record: Record) -> bool:
    """Whether a function runs it that was looked at whole, and had nothing to capture: nothing is lost."""
    return any(other.skipped == NOTHING for other in context.records.values() if other is not record)


ERRORS: dict[breaks.Reason, type[Unsupported]] = {
    breaks.FAKE_FAILED: TorchRuntimeError,
    breaks.OPERATOR_ERROR: TorchRuntimeError,
    breaks.BODIES: UncapturedHigherOrderOpError,
}
"""What a break is when it is an error, if it has a name of its own."""


def broken(context: Context, record: Record, found: Break, note: CompileRecord) -> None:
    """The frame can't be captured: it runs as it is from now on."""
    if context.fullgraph and is_run_by_nothing(context, record):
        return skip(context, record, found.describe())
    note_break(context, record, found, note)
    if context.fullgraph or found.is_error:
        where = f" {found.stack[0]}" if found.stack else ""
        why = "fullgraph=True" if context.fullgraph else "error_on_graph_break"
        raise ERRORS.get(found.reason, Unsupported)(
            f"the function can't be captured whole ({why}).{where}\n{found.describe()}"
        )
    return skip(context, record, found.describe())


def note_break(context: Context, record: Record, found: Break, note: CompileRecord) -> None:
    """A break is counted, and told, once for each place. One may not be had at all."""
    if found.reason is breaks.FORBIDDEN:
        raise Unsupported(found.describe())
    found.let_go()
    record.breaks.append(found)
    if (watch := watch_of(context)) is not None:
        watch.breaks.append(found)
    place = (found.reason.name, *(at.key for at in found.stack[-1:]))
    counters["unimplemented"][found.reason.name] += 1
    seen = place in context.places
    if not seen:
        context.places.add(place)
        counters["graph_break"][found.reason.name] += 1
    reporting.broke(note, found, seen)


def skip(context: Context, record: Record, why: str) -> None:
    record.skipped = why
    code = record.code
    if code is not None and context.records.get(code) is record:  # or it was forgotten meanwhile
        _frame.set_cache(code, False, context)


_frame.set_callbacks(policy.decide, missed)
_frame.set_dispatch(_guards.dispatch)
