"""One run of a frame under the interpreter, from a function and its bound arguments to a `Capture`.

Nothing of the program is changed by it, whether it succeeds or not: writes are kept in the world,
torch's global state is put back, and what the run made is dropped. `restarts` repeats runs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import logging
import os
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple, cast

import torch

import framelift.features.all  # noqa: F401 (registers what traces serve)
from framelift import _frame, _guards
from framelift.bytecode.resume import origin_of, stands_in_loop
from framelift.core import policy, tracers
from framelift.core.breaks import (
    DISABLED,
    EFFECT,
    ON_BREAK,
    SKIPPED,
    TENSOR_KIND,
    UNRESUMABLE,
    Break,
    CodeName,
    Place,
)
from framelift.core.errors import ConstraintViolationError
from framelift.core.sentinels import MISSING
from framelift.dispatch import data_results
from framelift.dispatch.capture import Capture, Storages, as_torchs
from framelift.features.numpy.arrays import Arrays
from framelift.features.subclasses import AllDisabled
from framelift.features.warning_filters import ALWAYS, Warned
from framelift.graph.body import graph_module
from framelift.graph.builder import as_input
from framelift.graph.contexts import ModeStandIn
from framelift.graph.effects import refuse_resizing
from framelift.graph.failing_calls import FailingCalls
from framelift.graph.fakes import Fakes
from framelift.graph.known_data import fails_always
from framelift.graph.origins import Origin
from framelift.graph.recorder import Recorder
from framelift.graph.result_sources import sources_of
from framelift.graph.shared_memory import why_not_compiled
from framelift.graph.torch_flags import TorchState
from framelift.guards.guard import ClassFact, Guard, GuardFilter, relied_on, thinned
from framelift.guards.kinds import Check
from framelift.guards.program import storage_groups
from framelift.guards.sources import Source, variables
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import Machine, Position, decoded
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.points import chain
from framelift.interpreter.visits import Visits
from framelift.regions.region import Region, Stopping, generate
from framelift.trace.dynamism import Dynamism
from framelift.trace.errors import OPERATING
from framelift.trace.machine import CALLING_BACK, TracingMachine
from framelift.trace.materialize import opening
from framelift.trace.runtime_calls import RuntimeCalls
from framelift.trace.world import TraceWorld


class EscapedError(Exception):
    """The traced program raised, and nothing in the frame caught it: the frame is to run plainly."""

    def __init__(
        self, error: BaseException, of_operator: bool, is_doubtful: bool, sizes: dict[str, Any]
    ) -> None:
        super().__init__(error)
        self.of_operator = of_operator
        """Whether an operator may raise one of another class: on fakes it has, or on real data."""
        self.is_doubtful = is_doubtful
        """Whether an operator may have failed for real before, and the program done something about it."""
        self.sizes = sizes
        """The sizes and numbers that came in, as far as the program has looked at them."""


class Ending(NamedTuple):
    """Where a trace is to end: in front of which instruction, and why."""

    at: Position
    reason: Break


class Trace:
    """One run of a frame under the interpreter, and what came of it."""

    def __init__(
        self,
        fn: FunctionType,
        arguments: list[Any],
        switches: TorchState,
        end: Ending | None = None,
        dynamism: Dynamism | None = None,
        catches: bool = True,
        keeps_lines: bool = False,
    ) -> None:
        """`catches`: the program may handle errors of operators, so long as it does not look at them."""
        self.fn = fn
        self.state = _guards.GlobalState()
        self.switches = switches
        self.ended_by: Break | None = None
        self.lines: set[tuple[str, int]] | None = set() if keeps_lines else None
        """Lines of which there is something in the graph, if someone wants to know: (file, line)."""
        self.recorder = Recorder(self.origin, lambda: self.world.places.here())
        self.recorder.flags.began = switches
        self.world = world = TraceWorld(self.recorder)
        if dynamism is not None:
            world.inputs.dynamism = dynamism
        self.machine = world.machine = TracingMachine(world)
        self.machine.limit = _frame.recursion_left()
        self.visits = self.machine.watch = Visits() if tracers.counts_lines() else None
        if end is not None:
            self.machine.stop_at, self.machine.stop_with = end
        world.frame.function, world.frame.globals = fn, fn.__globals__
        world.functions.handles_errors = bool(fn.__code__.co_exceptiontable)
        world.errors.catches_operator_errors = catches
        failing = self.recorder.builder.failing
        failing.is_refused = world.errors.refuses_failing_call
        failing.fails_always = functools.partial(fails_always, self.recorder)
        names = variables(fn.__code__)
        inputs, given = world.inputs, enumerate(arguments)
        pending = [Pending(inputs, inputs.root.argument(n, names[n]), value) for n, value in given]
        if origin_of(fn.__code__) is not None:
            world.frame.goes_on = True
            world.frame.may_come_again = stands_in_loop(fn.__code__)
            world.frame.open_statements(fn.__code__, pending)
        packed = fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount
        world.frame.fresh = {value.source for value in pending[packed:]}
        self.frame = Frame(self.machine, fn, decoded(fn.__code__), pending)
        world.frame.outermost = self.frame
        self.result: Any = None
        self.disturbed = False
        """Whether the instruction that could not be captured had already changed something."""

    def origin(self) -> Origin | None:
        """Where a new node comes from; notes the lines that led there, if someone wants to know."""
        if self.lines is not None:
            frames = chain(self.machine.frame)
            self.lines.update((frame.code.code.co_filename, frame.line or 0) for frame in frames)
        return self.world.places.origin()

    def run(self) -> None:
        """Runs the frame as far as it goes; the hook hands the interpreter the frames that C enters."""
        world, recorder, functions = self.world, self.recorder, self.world.feature(AllDisabled)
        before = _frame.set_interceptor(self.machine.enter)
        try:
            noticing = noticing_warnings(recorder.fakes, self.warn), world.feature(Arrays).noticing_errors()
            with (
                noticing[0],
                noticing[1],
                quiet_fakes(),
                world.writes.decimal_flags,
                recorder.fakes,
                recorder,
                functions.lifted(),
            ):
                self.result = _frame.untouched(self.machine.run, self.frame)
            self.disturbed = world.errors.broken is not None
        except Break as found:
            if _frame.interrupted():
                raise
            self.disturbed = world.errors.broken is not found or has_disturbed(found.__traceback__)
            found.let_go()
            world.errors.broken = world.errors.broken or found
        except BaseException as error:
            if world.errors.is_users_interrupt(error):
                raise
            if world.errors.broken is None:
                may_have_failed = bool(recorder.builder.failing.nodes)
                of_operator = may_have_failed or id(error) in world.errors.operator_errors
                handles = world.functions.handles_errors or bool(self.fn.__code__.co_exceptiontable)
                sizes = relied_on(world.guards.facts.values(), world.classes.guards.values())
                raise EscapedError(error, of_operator, may_have_failed and handles, sizes) from error
            self.disturbed = True
        finally:
            _frame.set_interceptor(before)
        self.ended_by = world.errors.broken
        for memoising, place in world.calls.bypassed:
            tell_bypassed(memoising, place)
        if world.errors.lost:
            raise self.ended_by or Break(UNRESUMABLE, "the end of a generator")

    def warn(self, message: warnings.WarningMessage) -> None:
        """What C warns of where the program stands is told as a warning of the program's own."""
        frame = self.machine.frame
        if frame is None:
            raise Break(EFFECT, f"a {message.category.__name__}")
        self.world.feature(Warned).warn(frame, message.message, message.category, 1, message.source)

    def must_not_end_here(self) -> bool:
        """Whether the frame as a whole is not to be captured, the program wants no break or can only fail."""
        assert self.ended_by is not None
        if self.world.frame.skips:
            return True
        view = next((view for view in self.world.attributes.views.values() if view.outside is ON_BREAK), None)
        found = MISSING if view is None else view.get("error")
        wanted = ON_BREAK.error if found is MISSING else opened(found)
        self.ended_by.is_error = bool(wanted or self.ended_by.operator)
        return self.ended_by.is_error

    def earlier_end(self) -> Ending | None:
        """Where it should have ended, if not where it did."""
        if self.ended_by is None or self.machine.stopped is None:
            return None
        frames = chain(self.machine.stopped)
        if self.ended_by.reason is SKIPPED:  # its caller breaks, and it is looked at on its own
            called = None if self.disturbed else frames[-1].called_at
            at = self.machine.stopped_at if called is None else Position(*called)
            return Ending(at, Break(DISABLED, self.ended_by.context))
        while len(frames) > 1 and self.is_left_whole(frames[-1].func):
            at = Position(*frames.pop().called_at)
            if not self.is_left_whole(frames[-1].func):
                return Ending(at, self.ended_by)
        return Ending(self.machine.stopped_at, self.ended_by) if self.disturbed else None

    def is_left_whole(self, fn: FunctionType) -> bool:
        """Whether the trace may not end in a function, but where that is called."""
        assert self.ended_by is not None
        differentiated = self.ended_by.of_differentiated_operator
        return policy.is_library(fn) or (differentiated and policy.is_around_operator(fn))

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.release()

    def release(self) -> None:
        """Lets go of the program's objects, which may have finalisers, without waiting for the collector."""
        for frame in chain(self.machine.stopped):
            frame.fast, frame.stack = [], []
        classes = bool(self.world.created.classes)
        vars(self.machine).clear()
        self.world.release()
        self.recorder.release()
        vars(self).clear()
        if classes:  # only the collector takes these, and until then their bases from outside know of them
            gc.collect(1)

    # ---- what comes of it

    def thinned(self, guards: list[Guard], keeps: GuardFilter | None, sources: list[Source]) -> list[Guard]:
        if keeps is None:
            return guards
        found = self.world.inputs.outside_values()
        return thinned(guards, keeps, sources, lambda source: found.get(source, MISSING))

    def finish(self, guard_filter: GuardFilter | None = None) -> Capture:
        """The capture of what was run. Raises Break where something that lives on can't be made again."""
        if self.ended_by is not None and self.machine.stopped is None:
            raise self.ended_by  # before it began
        region = self.make_region()
        guards, class_guards, storages = collect_guards(self.world, region.inputs)
        recorder, source_of = self.recorder, self.world.inputs.graph_input_source
        inputs = [(node, source_of(node, given), given) for node, given, _ in recorder.inputs.entries]
        graph, histories = recorder.builder.body.graph, recorder.histories
        leaves = set(histories.leaf_inputs.values())
        written = recorder.mutations.written_inputs()
        as_captured = histories.run_as_captured
        if as_captured is None and region.has_graph:
            behind = recorder.wrappers.behind
            as_captured = why_not_compiled(recorder.inputs.entries, written, graph, behind)
        capture = Capture(
            fn_name=self.fn.__qualname__,
            graph=graph_module(graph, recorder.builder.body.modules) if region.has_graph else None,
            guards=self.thinned(guards, guard_filter, region.inputs),
            class_guards=class_guards,
            storages=storages,
            region=region,
            input_sources=[source for _, source, _ in inputs],
            state=self.state,
            example_inputs=[histories.as_graph_input(node, as_input(given)) for node, _, given in inputs],
            leaf_inputs=[n for n, (node, _, _) in enumerate(inputs) if node in leaves],
            written_inputs=written,
            result_sources=None if recorder.wrappers.behind or not region.has_graph else sources_of(graph),
            ops=[node.target for node in graph.nodes if node.op.startswith("call")],
            ended_by=self.ended_by,
            ended_at=self.machine.stopped_at,
            run_as_captured=as_captured,
            symbols=recorder.builder.symbols,
            symbol_sources=self.symbol_sources(),
            left=recorder.contexts.left,
            setting=recorder.flags.settings_to_apply(),
            ran_as_it_is=self.world.calls.ran_as_it_is,
            is_hashed=self.world.set_order.is_hashed,
            registered=list(dict.fromkeys(self.world.classes.registered)),
            inlined_calls=self.world.functions.inlined_calls,
            is_better_than_frame=bool(recorder.builder.calls) or self.world.calls.told_compiled,
            lines=self.lines,
            visits=[] if self.visits is None else [self.visits],
            input_names={} if self.lines is None else {node.name: str(source) for node, source, _ in inputs},
        )
        capture.build_program()
        return capture

    def make_region(self) -> Region:
        fn = self.fn
        try:
            stopping = None if self.ended_by is None else Stopping(self.machine.stopped)
            if stopping is not None and self.ended_by is not None:
                data_results.note_step(self.ended_by, stopping.standings[-1].point)
            if stopping is not None and self.world.inputs.dynamism.may_vary:
                self.world.inputs.note_handed_over(stopping.variables())
            if self.ended_by is not None and self.ended_by.watches_gradients:
                self.recorder.histories.watches_all = True
            return generate(self.world, fn.__name__, self.result, self.switches, stopping)
        except Break as found:
            found.stack = found.stack or [Place(CodeName.of(fn.__code__), fn.__code__.co_firstlineno)]
            raise

    def symbol_sources(self) -> list[Source]:
        """Where the inputs with symbols are found; these are the backend's from now on. A number that the
        graph computes is found nowhere."""
        symbols = self.recorder.builder.symbols
        if symbols is None:
            return []
        for outside in self.world.inputs.outside_marks:
            raise as_torchs(ConstraintViolationError)(
                f"{outside}: change the mark, or the tensor that it is on."
            )
        source_of, nowhere = self.world.inputs.graph_input_source, cast(Source, self.world.inputs.root)
        sources = [
            nowhere if each.node is None else source_of(each.node, each.real) for each in symbols.inputs
        ]
        symbols.hand_over()
        return sources


SIGNS = {ModeStandIn.__torch_function__.__code__, Recorder.__torch_function__.__code__}
SIGNS |= {
    FailingCalls.check.__code__,
    refuse_resizing.__code__,
}  # what the operator has done on fakes is done
SIGNS |= {RuntimeCalls.tensor.__code__, RuntimeCalls.number.__code__}  # the region will draw it
SIGNS |= {TracingMachine.enter.__code__, opening.__code__, *CALLING_BACK}
"""Where Framelift's code is called back by C code that is in the middle of something, or has called back."""


def has_disturbed(traceback: TracebackType | None) -> bool:
    """Whether a break came out of an instruction that other code had already run for."""
    outermost = None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code is Machine.run.__code__:
            outermost = outermost or frame
            if frame is not outermost:
                return True
        elif frame.f_code in SIGNS:
            return True
        traceback = traceback.tb_next
    return False


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """An operator that fails on fakes is an error of the program's, which it gets; torch need not log it."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


TOLD: weakref.WeakSet[Any] = weakref.WeakSet()
"""Memoising functions that a warning was given of."""


def tell_bypassed(memoising: Any, place: Place) -> None:
    """Warns, once of each, that what a memoising function remembers is not used. The words are those that
    people who filter torch.compile's warnings look for. Of what a library remembers nobody need know."""
    if memoising in TOLD or not policy.is_user_code(getattr(memoising, "__module__", None) or ""):
        return
    TOLD.add(memoising)
    at = f"{os.path.basename(place.code.co_filename)}:{place.line}"
    text = (
        f"Framelift captures a call to a `functools.lru_cache`-wrapped function at '{at}': it ignores the "
        "cache wrapper and directly traces the wrapped function."
    )
    try:
        warnings.warn_explicit(text, UserWarning, place.code.co_filename, place.line or 1)
    except UserWarning:  # a filter makes it an error, and the program has made none
        logging.getLogger(__name__).warning("%s", text)


# C makes one before it has it shown, which is where the trace ends
_frame.set_decision(warnings.WarningMessage.__init__.__code__, _frame.SKIP, _frame.LEAF)


@contextlib.contextmanager
def noticing_warnings(fakes: Fakes, warn: Callable[[warnings.WarningMessage], None]) -> Iterator[None]:
    """What C warns of is to be told each time, and of the place where the program stands: whatever the
    filters are now, they may be others then. What a function of torch's warns of is told by the graph that
    calls it; what torch warns of otherwise, as it is captured, is told then. `warn` is told of the rest."""
    show, thread = vars(warnings)["_showwarnmsg"], threading.get_ident()
    filters: list[Any] = vars(warnings)["filters"]

    def noticed(message: warnings.WarningMessage) -> None:
        is_ours = threading.get_ident() == thread and not _frame.handling()
        if is_ours and not is_torchs(sys._getframe(1)):
            if not is_of_c(sys._getframe(1)):  # which may give it once, and then remember something
                raise Break(EFFECT, f"a {message.category.__name__}")
            warn(message)
        elif is_ours and OF_C not in str(message.message) and is_recorded(sys._getframe(1)):
            fakes.warned = True
        elif filtering():
            filters.remove(ALWAYS)
            try:
                give_warning(message, sys._getframe(1))
            finally:
                filters.insert(0, ALWAYS)
        else:
            show(message)

    def filtering() -> bool:
        return any(found is ALWAYS for found in filters)

    # in place: whoever restores the filters meanwhile, in another thread, restores this list
    filters.insert(0, ALWAYS)
    vars(warnings)["_showwarnmsg"] = noticed
    try:
        yield
    finally:
        vars(warnings)["_showwarnmsg"] = show
        filters[:] = [found for found in filters if found is not ALWAYS]


def give_warning(message: warnings.WarningMessage, frame: FrameType | None) -> None:
    """Gives a warning once more, for the filters of the program to let it through or not."""
    while frame is not None and frame.f_code.co_filename != message.filename:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else None
    about = message.category, message.filename, message.lineno
    warnings.warn_explicit(message.message, *about, registry=registry, source=message.source)


def is_torchs(frame: FrameType | None) -> bool:
    """Whether something was called by torch, or by Framelift to find out what torch does."""
    while frame is not None and frame.f_code is not Machine.run.__code__:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in ("torch", "sympy") or frame.f_code in OPERATING:
            return True
        frame = frame.f_back
    return False


def is_of_c(frame: FrameType | None) -> bool:
    """Whether nothing but functions of C lies between the program and a warning."""
    while frame is not None and frame.f_code is not Machine.run.__code__:
        if (frame.f_globals.get("__name__") or "").partition(".")[0] != "framelift":
            return False
        frame = frame.f_back
    return True


def is_recorded(frame: FrameType | None) -> bool:
    """Whether something was called by a function of torch's that the graph will call."""
    while frame is not None and frame.f_code is not Machine.run.__code__:
        if frame.f_code is RUN:
            return True
        frame = frame.f_back
    return False


OF_C = "(Triggered internally at"
"""What torch writes into warnings of its C++ code. Many of these come just once in a process."""

RUN: Any = inspect.unwrap(Recorder.run).__code__


# ---- guards


def collect_guards(
    world: TraceWorld, inputs: list[Source]
) -> tuple[list[Guard], list[ClassFact], Storages | None]:
    """The guards of everything the trace has read, and which of the region's inputs share memory."""
    for fn in world.functions.inlined.values():
        world.guards.add(world.inputs.root.constant(fn, fn.__qualname__), Check.CODE, fn.__code__)
    world.guards.add_sighted(inputs)
    storages = None
    recorder = world.recorder
    slots = {source: n for n, source in enumerate(inputs)}
    mutated = recorder.mutations.of_inputs
    views = [v for v in world.attributes.views.values() if issubclass(type(v.outside), torch.Tensor)]
    attributed = [view.outside for view in views if view.changes()]  # these must not be one of the others
    attributed += [found.tensor for found in recorder.requires_grad.flagged.values()]
    if mutated or attributed:
        used = [tensor for _, tensor, _ in recorder.inputs.entries if isinstance(tensor, torch.Tensor)]
        each = {id(tensor): world.inputs.known[id(tensor)] for tensor in (*used, *attributed)}.values()
        tensors = [(slots[known.source], known.value) for known in each if not known.source.is_drawn]
        if mutated:
            tensors += [(slots[source], tensor) for tensor, source in world.inputs.wrapped()]
        if any(tensor.layout is torch.sparse_coo for _, tensor in tensors):
            raise Break(TENSOR_KIND, "a sparse tensor, with which one that changes may share memory")
        _, groups = storages = storage_groups(tensors)
        entries = recorder.inputs.entries
        changed = [*attributed, *(entries[n].value for n in recorder.mutations.written_inputs())]
        touched = {tensor.untyped_storage()._cdata for tensor in changed}
        members = Counter(groups)
        for (_, tensor), group in zip(tensors, groups, strict=True):
            # where one is written to, it matters how the others lie to it
            shared = members[group] > 1 and tensor.untyped_storage()._cdata in touched
            if shared and id(tensor) in world.inputs.known:
                recorder.inputs.facts["storage_offset", id(tensor)] = tensor
    if mutated and recorder.inputs.arrays:
        arrays, known = recorder.inputs.arrays, world.inputs.known
        source_of = lambda tensor: known[id(arrays.get(id(tensor), tensor))].source
        for first, second in recorder.mutations.to_lie_apart():
            sources = source_of(first), source_of(second)
            if not any(source.is_drawn for source in sources):
                world.guards.add(sources[0], Check.APART, sources[1])
    for held in world.inputs.integers_read if mutated else ():
        place = world.inputs.known[id(held)].source
        for n in recorder.mutations.written_inputs():
            written = recorder.inputs.entries[n].value
            known_as = world.inputs.known.get(id(written))
            if known_as is not None and written is not held and _guards.lie_apart(written, held):
                world.guards.add(known_as.source, Check.APART, place)
    with torch._C.DisableTorchFunction():
        for (name, _), tensor in recorder.inputs.facts.items():
            check, answer = FACTS[name]
            world.guards.add(world.inputs.known[id(tensor)].source, check, answer(tensor))
    return list(world.guards.facts.values()), world.classes.facts(), storages


FACTS: dict[str, tuple[Check, Callable[[torch.Tensor], Any]]] = {
    "is_leaf": (Check.LEAF, lambda tensor: tensor.is_leaf),
    "no_hooks": (Check.NO_HOOKS, lambda tensor: None),
    "storage_offset": (Check.OFFSET, lambda tensor: tensor.storage_offset()),
    "storage": (Check.NBYTES, lambda tensor: tensor.untyped_storage().nbytes()),
}
"""How what the recorder calls facts is guarded."""
