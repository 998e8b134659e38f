"""One attempt to compile a frame.

    trace            runs the frame under the interpreter and gives a `Capture`, whose region has its source
    compile_graph    has the backend compile the graph
    make_entry       guards the sizes that the backend relies on, and binds the region to the compiled graph
    add_entry        checks that the guards hold for this very call, and puts the entry into the cache

`run` goes through these, and decides what becomes of a frame that can't be captured.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import time
import timeit
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Literal, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from framelift import _frame
from framelift.core import breaks, errors
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.errors import (
    BackendCompilerFailed,
    Unsupported,
    UserError,
)
from framelift.core.records import CompileRecord, compile_records, compiling, counters, report_phase
from framelift.core.tracers import counts_lines
from framelift.dispatch import data_results
from framelift.dispatch.backends import (
    END_OF_GRAPH,
    all_at_once,
    eager,
    is_refusal,
    run_backend,
    takes_fakes,
)
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import (
    CodeState,
    CompiledEntry,
    Context,
    Graph,
    entries_everywhere,
    watch_of,
)
from framelift.dispatch.compiler_state import CompilerState
from framelift.dispatch.examples import Given
from framelift.dispatch.extensions import GraphCompiler, Outcome, Stored, extensions
from framelift.dispatch.inductor_parts import InductorParts, wanted
from framelift.dispatch.restarts import CaptureRuns
from framelift.dispatch.shared_contexts import keep_no_longer
from framelift.dispatch.tracing import Ending, EscapedError
from framelift.dispatch.undefined_gradients import UndefinedGradients
from framelift.graph.contexts import outside_of
from framelift.graph.fakes import is_ordinary
from framelift.graph.functions import custom_operators, holds_only_switches
from framelift.graph.kept import KeptGraph
from framelift.graph.subclasses import is_wrapper_class
from framelift.graph.terms import DATA_DEPENDENT
from framelift.graph.torch_flags import flags_lock
from framelift.trace import faults
from framelift.trace.dynamism import Dynamism

log = logging.getLogger("framelift")

EMPTY_LIMIT = 3
"""How often a frame without tensor operations is traced before it is left alone."""
FAILURE_LIMIT = 8
"""How often a frame whose program raises is traced again before it is left alone."""
CHECKS = 20
"""How often guards are checked in a row to find out what that takes."""
BACKEND_RANGE = "call_user_compiler (dynamo_timed)"
"""What profilers show of a backend's work, as tools know it of torch's compiler."""
NOTHING_CAPTURED = "nothing to capture: no tensor operations"

Replacement = tuple[Any, tuple[Any, ...]]
"""A region and its arguments, for the hook to run in the frame's place."""

ERRORS: dict[breaks.Reason, type[Unsupported]] = {
    breaks.FAKE_FAILED: errors.TorchRuntimeError,
    breaks.OPERATOR_ERROR: errors.TorchRuntimeError,
    breaks.BODIES: errors.UncapturedHigherOrderOpError,
    breaks.FAULT: errors.InternalTorchDynamoError,
}
"""What a break is when it is an error, if it has a name of its own."""


class Compilation:
    """A frame to compile: its function and arguments, its context, and the record that is kept of it."""

    def __init__(
        self,
        context: Context,
        state: CodeState,
        fn: FunctionType,
        arguments: list[Any],
        is_prepared: bool = False,
    ) -> None:
        self.context, self.state = context, state
        self.fn, self.arguments = fn, arguments
        self.is_prepared = is_prepared
        """Whether the backend has compiled the same in the background, or can't do that."""
        self.was_loaded = False
        """Whether the capture was found in the store."""
        self.stored_as: tuple[str, str] | None = None
        self.parts: list[InductorParts] = []
        self.noted: Any = None
        """What the store is to keep."""
        self.escaped: faults.Escaped | None = None
        """The error by which the program ended the trace."""
        self.watch = watch_of(context)
        self.keeps_lines = self.watch is not None and self.watch.keeps_entries
        about = state.name, state.filename, state.line, context.backend_name, len(state.entries)
        self.record = CompileRecord("forward", *about, region=context.name or "")
        self.record.accumulated_entries = 0 if state.code is None else entries_everywhere(state.code)
        self.record.compile_id, self.record.started = f"{state.number}/{next(state.attempts)}", time.time()

    def run(self) -> Replacement | _frame.Stop | Literal[False] | None:
        """What the hook runs in the frame's place. None: the frame as it is; False: that, and nothing below
        it is looked at; a stop: that, and it is told what came of it."""
        with self.recorded(), extensions.ranks.announce_failures():
            # a tool that counts lines learns of them from the capture
            stored = None if counts_lines() else self.find_stored()
            if stored is not None:
                self.was_loaded = self.record.was_loaded = True
                return self.compile_captured(*stored)
            return self.capture_and_compile()

    def find_stored(self) -> Stored | None:
        """What is loaded is put together by torch's modes, as a trace works in them."""
        if not extensions.store.is_for(self):
            return None
        with flags_lock, CompilerState():
            return extensions.store.find(self)

    def capture_and_compile(self) -> Replacement | _frame.Stop | Literal[False] | None:
        capture = extensions.ranks.capture(self)
        if capture is None:
            return self.leave_raising()
        if isinstance(capture, Break):
            self.record.failed, self.record.failed_as = capture.one_line, Unsupported.__name__
            self.record.failed_at = str(capture.stack[-1]) if capture.stack else None
            self.leave_uncaptured(capture)
            return None
        return self.compile_captured(capture)

    def compile_captured(
        self, capture: Capture, compiled: Callable[..., Any] | None = None
    ) -> Replacement | _frame.Stop | Literal[False] | None:
        """`compiled`: what the backend has made of the graph before."""
        self.note_capture(capture)
        if not capture.region.has_graph and self.is_useless(capture):
            return False if self.context.fullgraph else None
        for observer in extensions.observers:
            observer.report_graph(self.record, capture)
        if capture.graph is not None and self.is_postponed(capture):
            return False
        kept = None
        if capture.graph is not None and takes_fakes(self.context.backend):  # others are not to refuse one
            kept = KeptGraph(capture.graph)
        try:
            if capture.graph is not None:
                compiled = self.compile_graph(capture)
        except BackendCompilerFailed as error:
            if self.may_avoid(capture, error):
                return self.capture_and_compile()
            if self.context.fullgraph or kept is None or not self.is_refused(capture, error):
                raise
            log.warning("a graph of %s is run as captured: %s", self.state.what, error)
            counters["graphs_run_as_captured"]["refused by the backend"] += 1
            compiled = kept.made_again().forward  # the backend has changed the graph that it was given
        entry = self.make_entry(capture, compiled, kept)
        extensions.ranks.wait_for_backends(self.state)
        return self.add_entry(entry)

    # ---- the trace

    def trace(self, end: Ending | None = None) -> Outcome:
        """Captures the frame, no further than `end`."""
        context = self.context
        try:
            with flags_lock, CompilerState():
                options = context.fullgraph, self.dynamism(), context.guard_filter_fn, self.keeps_lines
                only_ordinary = self.whole_state().only_ordinary
                runs = CaptureRuns(self.fn, self.arguments, *options, only_ordinary=only_ordinary)
                return runs.capture(end)
        except Break as found:
            found.let_go()
            return found
        except EscapedError as error:
            if isinstance(error.__cause__, UserError):  # of what it has asked of Framelift, not of its own
                raise error.__cause__ from None
            cause: Any = error.__cause__
            self.state.first_seen = self.state.first_seen or error.sizes
            self.record.failed_as = type(cause).__name__
            self.record.failed = f"the program raised {self.record.failed_as}"
            log.debug("%s raised while captured; it runs as plain Python", self.state.name, exc_info=cause)
            self.escaped = faults.Escaped.of(cause, error.of_operator, error.is_doubtful)
            del cause  # whose frames lead back to this one
            return None
        except UserError:  # of what the user has given to `compile`
            raise
        except Exception as error:
            if _frame.interrupted():
                raise
            return faults.as_break(error)

    def dynamism(self) -> Dynamism | None:
        """What earlier captures say about which sizes change; None: nothing, and nobody asked for symbols."""
        state, mode = self.state, self.context.dynamic
        known = [entry.capture.program.relied_on for entry in state.entries] + state.sizes_on_other_ranks
        if state.resumed is not None:
            state.dynamism.loops = self.whole_state().dynamism.loops
            state.dynamism.handed_over = handed_over = self.whole_state().dynamism.handed_over
            known += [handed_over] if handed_over else []
            steps = self.whole_state().dynamism.steps_on_data
            given = data_results.results(self.fn.__code__, self.arguments, steps) if steps else None
            known += [given] if given else []
        if state.first_seen:
            known = [state.first_seen, *known]
        if mode is None and not config.assume_static_by_default:
            mode = True
        if mode is None and not ((known or state.dynamism.loops) and config.automatic_dynamic_shapes):
            return None
        state.dynamism.mode = mode
        state.dynamism.learn(known)
        return state.dynamism

    # ---- the backend

    def compile_graph(self, capture: Capture) -> Callable[..., Any]:
        """What the backend makes of the graph, or of its parts."""
        assert capture.graph is not None
        if holds_only_switches(capture.graph.graph):
            return capture.graph.forward
        capture.graph.meta[END_OF_GRAPH] = capture.end_of_graph()
        compile: GraphCompiler = self.backend_for(capture)
        for wrap in extensions.graph_compiler_wrappers:
            compile = wrap(compile, self, capture)
        began = time.perf_counter()
        token = compiling.set(self.record)
        asked = wanted.set([] if self.stored_as is not None else None)
        report_phase(self.record, "backend")
        # what is prepared in the background includes backward graphs, and is looked for as a whole
        whole = all_at_once() if self.context.background else contextlib.nullcontext()
        try:
            shown = torch._C._profiler._RecordFunctionFast(BACKEND_RANGE)
            with outside_of(capture.left, capture.setting), whole, shown:
                compiled = compile(capture.graph, capture.example_inputs, None)
            self.parts = wanted.get() or []
            return compiled
        except BackendCompilerFailed:
            counters["backend_failures"][self.context.backend_name] += 1
            raise
        finally:
            capture.graph.meta.pop(END_OF_GRAPH, None)
            wanted.reset(asked)
            compiling.reset(token)
            self.record.backend_seconds = time.perf_counter() - began

    def is_postponed(self, capture: Capture) -> bool:
        """Whether the graph is compiled in the background, and the frame runs as it is meanwhile."""
        if not self.context.background or self.is_prepared:
            return False
        from framelift.dispatch.background import postpone  # which few programs need

        return postpone(self.context, self.state, capture, self.record)

    def may_avoid(self, capture: Capture, error: BackendCompilerFailed) -> bool:
        """Whether the backend may have refused the graph for what a trace can keep out of it."""
        graph, state = capture.graph, self.whole_state()
        if graph is None or state.only_ordinary or holds_only_ordinary(graph):
            return False
        if self.context.fullgraph:
            error.add_note("There are tensors or numbers in the graph of a kind that not all backends take.")
            return False
        log.info("%s is captured again without operators that the backend refuses: %s", state.what, error)
        state.only_ordinary = True
        self.record.restart_reasons.append(breaks.BACKEND_REFUSES.name)
        return True

    def is_refused(self, capture: Capture, error: BackendCompilerFailed) -> bool:
        """Whether the graph is one of those that torch's compilers are known not to compile. Of a backend of
        the user's own an error is an error."""
        wrapped = any(is_wrapper_class(type(value)) for value in capture.example_inputs)
        return takes_fakes(self.context.backend) and (wrapped or is_refusal(error))

    def backend_for(self, capture: Capture) -> GraphCompiler:
        context, symbols, reason = self.context, capture.symbols, capture.run_as_captured

        def compile(graph: Graph, inputs: list[Any], fakes: FakeTensorMode | None) -> Callable[..., Any]:
            if reason is not None:
                counters["graphs_run_as_captured"][reason] += 1
                return graph.forward
            name, options = context.backend_name, context.options
            written = capture.written_inputs
            given = Given(symbols, fakes, () if fakes else written, is_part=bool(fakes and written))
            return run_backend(context.backend, name, graph, inputs, given, **options)

        return compile

    # ---- the entry

    def make_entry(
        self, capture: Capture, compiled: Callable[..., Any] | None, kept: KeptGraph | None
    ) -> CompiledEntry:
        capture.guard_sizes()
        self.noted = extensions.store.note(self, capture, compiled, kept)
        capture.release()
        self.record.shape_guards = len(capture.program.shapes)
        seconds, name = self.record.backend_seconds, self.state.what
        if compiled is not None and capture.result_sources is not None and self.context.backend is not eager:
            compiled = UndefinedGradients(compiled, capture.result_sources)
        return CompiledEntry(capture, compiled, seconds, name, self.record.compile_id)

    def add_entry(self, entry: CompiledEntry) -> Replacement | None:
        """Keeps the entry, unless its guards fail for what was just captured."""
        capture = entry.capture
        with flags_lock:  # by now another thread's compiler may have set flags
            inputs = capture.program.native.collect(self.fn, self.arguments)
        if inputs is None:
            failure = capture.program.failure(self.fn, self.arguments)
            self.record.failed = why = f"the guards do not hold for what was just captured: {failure}"
            self.leave_uncaptured(Break(breaks.UNSTABLE_VALUE, why))
            return None
        native = entry.bind()
        self.state.cache.add(native)
        if self.noted is not None:
            extensions.store.keep(self.noted)
        keep_no_longer(self.context, capture.region)
        if self.watch is not None and self.keeps_lines:
            self.watch.entries.append(entry)
            entry.guard_seconds = self.time_guards(entry)
        for observer in extensions.observers:
            observer.report_entry(self.record, capture)
        if capture.ended_by is not None:
            if capture.ended_by.gives_data is not None:
                self.whole_state().dynamism.steps_on_data.add(capture.ended_by.gives_data)
            self.note_break(capture.ended_by)
        while capture.visits:
            capture.visits.pop().tell()
        counters["frames"]["ok"] += 1
        if capture.region.has_graph:
            counters["stats"]["unique_graphs"] += 1
            counters["stats"]["calls_captured"] += len(capture.ops)
        counters["inline_call"]["inlined"] += capture.inlined_calls
        counters["restarts"]["traces"] += capture.restarts
        region: Any = native.region
        if torch.autograd._profiler_enabled():  # later runs are shown by C
            region = functools.partial(run_shown, entry.title, region)
        return region, tuple(inputs)

    def time_guards(self, entry: CompiledEntry) -> float:
        """What the guards cost a call that they hold for: the least of some rounds, since much else runs."""
        collect, fn, arguments = entry.capture.program.native.collect, self.fn, self.arguments
        return min(timeit.repeat(lambda: collect(fn, arguments), number=CHECKS, repeat=5)) / CHECKS

    # ---- frames that are left as they are

    def leave_raising(self) -> _frame.Stop | Literal[False] | None:
        """The program raised: the frame runs plainly, so that the user sees the real error. If there is none,
        or another one, that was Framelift's mistake."""
        self.state.failures += 1
        given_up = self.state.failures >= FAILURE_LIMIT
        if given_up:
            skip(self.context, self.state, "the function kept raising while it was captured")
        # with fullgraph the user asked for one graph or an error: no pieces of it below
        whole = self.context.fullgraph and not given_up
        if self.escaped is None:
            return False if whole else None
        waiting = copy.copy(self)
        waiting.arguments = []  # which are the plain run's to let go
        return _frame.observed(waiting.compare_with_plain_run, not whole)

    def compare_with_plain_run(self, plain: BaseException | None) -> None:
        """`plain`: what the frame raised when it ran as it is."""
        escaped = self.escaped
        assert escaped is not None
        if not escaped.differs_from(plain):
            return
        found = escaped.as_break(plain)
        self.record.failed = found.one_line
        faults.log.error(
            "Framelift made a mistake; the code ran as plain Python. Please report this.\n%s", found
        )
        self.note_break(found)
        if plain is None and self.context.fullgraph:
            self.raise_uncaptured(found)

    def is_useless(self, capture: Capture) -> bool:
        """Whether a frame in which nothing was captured is better run as it is.

        One that breaks may have something behind the break; once some stretches of it have turned out to be
        empty, and none not, it is left alone.
        """
        state, context = self.state, self.context
        if capture.ended_by is None and capture.is_better_than_frame:
            return False
        state.empty += 1
        whole = self.whole_state()
        if whole is not state:
            whole.empty += 1
        if capture.ended_by is None or (whole.empty > EMPTY_LIMIT and not captures_anything(whole)):
            if state.empty >= EMPTY_LIMIT or whole.empty > EMPTY_LIMIT:
                skip(context, state, NOTHING_CAPTURED)
                if not captures_anything(whole):
                    skip(context, whole, NOTHING_CAPTURED)
            return True
        return False

    def whole_state(self) -> CodeState:
        """That of the function of which this may be the rest."""
        resumed = self.state.resumed
        original = None if resumed is None else resumed.body.original()
        return self.state if original is None else self.context.state_of(original)

    def leave_uncaptured(self, found: Break) -> None:
        """The frame runs as it is from now on, or that is an error."""
        context, description = self.context, found.describe()
        if not (context.fullgraph and self.is_called_by_useless_frame()):
            self.note_break(found)
            if context.fullgraph or found.is_error:
                self.raise_uncaptured(found)
        skip(context, self.state, description)

    def raise_uncaptured(self, found: Break) -> NoReturn:
        if found.operator:
            text = "This higher order operator doesn't work unless it is captured completely. Got:"
            raise errors.UncapturedHigherOrderOpError(f"{text}\n{found.describe()}")
        where = f" {found.stack[0]}" if found.stack else ""
        why = "fullgraph=True" if self.context.fullgraph else "error_on_graph_break"
        text = f"the function can't be captured whole ({why}).{where}\n{found.describe()}"
        other = errors.UncapturedHigherOrderOpError if found.body_of else Unsupported
        raise ERRORS.get(found.reason, other)(text)

    def is_called_by_useless_frame(self) -> bool:
        """Whether a function runs it that was looked at whole and has nothing to capture: nothing is lost."""
        states = self.context.code_states.values()
        return any(other.skipped == NOTHING_CAPTURED for other in states if other is not self.state)

    # ---- what is known of it afterwards

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Keeps the record of the attempt, whatever comes of it, and tells the observers."""
        record, state = self.record, self.state
        with contextlib.ExitStack() as stack:
            for observer in extensions.observers:
                stack.enter_context(observer.around_compilation(self))
            if state.recompiles and record.entries:
                record.recompiled_because = str(state.recompiles[-1].reason)
                for observer in extensions.observers:
                    observer.report_recompilation(record, state.recompiles[-1])
            began = time.perf_counter()
            report_phase(record, "trace")
            try:
                yield
            except Exception as error:
                record.failed = record.failed or f"{type(error).__name__}: {error}"
                record.failed_as = type(error).__name__
                raise
            finally:
                record.seconds = time.perf_counter() - began
                report_phase(record, "done")
                compile_records.add(record)
                if self.watch is not None:
                    self.watch.records.append(record)

    def note_capture(self, capture: Capture) -> None:
        record = self.record
        record.guards = len(capture.guards) + len(capture.class_guards)
        record.ops, record.inputs = len(capture.ops), len(capture.example_inputs)
        record.nodes = 0 if capture.graph is None else len(capture.graph.graph.nodes)
        if capture.graph is not None:
            record.compliant_custom_ops, record.non_compliant_ops = custom_operators(capture.graph.graph)
        record.restarts, record.restart_reasons = capture.restarts, capture.restart_reasons
        record.seconds_lost, record.trace_seconds = capture.seconds_lost, capture.trace_seconds
        record.generate_seconds = capture.seconds - capture.seconds_lost - capture.trace_seconds
        if capture.ended_by is not None:
            record.ended_by = capture.ended_by.one_line

    def note_break(self, found: Break) -> None:
        """Counts and reports a break, once for each place. One that is forbidden is an error."""
        if found.reason is breaks.FORBIDDEN:
            raise Unsupported(found.describe())
        found.let_go()
        self.state.breaks.append(found)
        if self.watch is not None:
            self.watch.breaks.append(found)
        place = (found.reason.name, *(at.key for at in found.stack[-1:]))
        counters["unimplemented"][found.reason.name] += 1
        is_known = place in self.context.broken_places
        if not is_known:
            self.context.broken_places.add(place)
            counters["graph_break"][found.reason.name] += 1
        for observer in extensions.observers:
            observer.report_break(self.record, found, is_known)


def run_shown(title: str, region: Any, *inputs: Any) -> Any:
    """Runs a region as a range of torch's profilers."""
    with torch._C._profiler._RecordFunctionFast(title):
        return region(*inputs)


def holds_only_ordinary(graph: Graph) -> bool:
    """Whether all tensors in a graph are of layouts and types that every backend takes, and no number or size
    is found in data."""
    if any(DATA_DEPENDENT in node.meta for node in graph.graph.nodes):
        return False
    values = (node.meta.get("example_value") for node in graph.graph.nodes)
    return all(is_ordinary(value) for value in values if isinstance(value, torch.Tensor))


def captures_anything(whole: CodeState) -> bool:
    """Whether there is a graph in any stretch of a function."""
    states = (whole, *whole.resumes.values())
    return any(entry.capture.region.has_graph for state in states for entry in state.entries)


def skip(context: Context, state: CodeState, why: str) -> None:
    """The code object runs as plain Python in this context from now on."""
    state.skipped = why
    code = state.code
    if code is not None and context.code_states.get(code) is state:  # or it was forgotten meanwhile
        _frame.set_cache(code, False, context)
