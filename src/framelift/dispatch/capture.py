"""Traces one frame: from a function and its bound arguments to a graph, guards and a region.

Nothing of the program is changed by it, whether it succeeds or not: writes are kept in the world,
torch's global state is put back, and what the trace made is dropped.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import symbolic_shapes

import framelift.features.all  # noqa: F401 (registers what traces serve)
from framelift import _frame, _guards
from framelift.bytecode.resume import origin_of
from framelift.core import policy
from framelift.core.breaks import (
    DISABLED,
    EFFECT,
    GENERATOR_FRAME,
    OPERATOR_ERROR,
    SKIPPED,
    TENSOR_KIND,
    UNRESUMABLE,
    Break,
    CodeName,
    Place,
)
from framelift.core.errors import ConstraintViolationError
from framelift.core.on_break import STATE
from framelift.core.sentinels import MISSING
from framelift.core.watching import is_kept
from framelift.features import triton_kernels
from framelift.features.collectives.groups import know_tensors
from framelift.graph.body import graph_module
from framelift.graph.inputs import as_input
from framelift.graph.modes import ModeStandIn
from framelift.graph.recorder import Recorder
from framelift.graph.symbols import Symbols
from framelift.graph.torch_flags import Settings, TorchState
from framelift.guards.filtering import GuardFilter, thinned
from framelift.guards.guard import ClassGuard, Guard
from framelift.guards.kinds import Check
from framelift.guards.program import GuardProgram, build, storage_groups
from framelift.guards.shapes import checkable, definite, violations
from framelift.guards.sources import Source
from framelift.guards.variables import variables
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import NOWHERE, Machine, Position, decoded
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.points import chain
from framelift.regions.region import Region, Stopping, generate
from framelift.trace.dynamism import Dynamism
from framelift.trace.errors import OPERATING
from framelift.trace.machine import CALLING_BACK, TracingMachine
from framelift.trace.materialize import opening
from framelift.trace.views import View
from framelift.trace.world import TraceWorld

__all__ = ["Captured", "EscapedError", "capture"]

REMEDY = "Take the mark off, use maybe_mark_dynamic, or change the code so that it works for all these sizes."
RESTART_LIMIT = 8
"""How often a frame is traced again for one capture."""


@dataclass
class Captured:
    """What became of a frame: captured whole, or up to a break."""

    fn_name: str
    graph: torch.fx.GraphModule | None
    example_inputs: list[torch.Tensor]
    program: GuardProgram
    region: Region
    seconds: float = 0.0
    trace_seconds: float = 0.0
    """Of these, what the trace took that was kept."""
    inlined_calls: int = 0
    lines: set[tuple[str, int]] | None = None
    """Where the program was when something was captured, if `explain` asked: (file, line)."""
    input_names: dict[str, str] = field(default_factory=dict)
    """What the program calls the graph's inputs, if `explain` asked: `arg1_1` is `self.weight`."""
    ops: list[Any] = field(default_factory=list)
    ended_by: Break | None = None
    """Why it goes no further, if it does not."""
    ended_at: Position = NOWHERE
    """In front of which instruction that is."""
    restarts: int = 0
    restart_reasons: list[str] = field(default_factory=list)
    seconds_lost: float = 0.0
    """What the traces took that had to be repeated."""
    run_as_captured: str | None = None
    """Why no backend is asked to compile the graph, if none is."""
    symbols: Symbols | None = None
    """Sizes and numbers that may be others the next time, if any."""
    symbol_sources: list[Source] = field(default_factory=list)
    left: list[Any] = field(default_factory=list)
    """Contexts of torch's that the region leaves before it runs the graph."""
    setting: Settings = field(default_factory=list)
    """Switches of torch's that it throws for the graph."""

    def rely_on_sizes(self, dynamism: Dynamism) -> None:
        """Guards the facts about sizes, once the backend has added its own."""
        if self.symbols is not None:
            try:
                reads, facts = self.symbols.facts()
            except symbolic_shapes.ConstraintViolationError as error:
                why = violations(self.symbols, self.symbol_sources) or str(error)
                raise ConstraintViolationError(f"{self.fn_name}: {why}\n{REMEDY}") from None
            self.program.set_shapes(self.symbol_sources, reads, checkable(reads, facts, self.symbols))
            for read in (definite(fact, reads) for fact in facts):
                if read is not None:
                    source = str(self.symbol_sources[read.input])
                    dynamism.was_definite(source if read.kind == "number" else (source, read.dim))

    def release(self) -> None:
        """Lets go of tensors and fakes once the backend has seen them."""
        self.example_inputs, self.left = [], []
        self.region.outputs = []
        self.symbols = None


class EscapedError(Exception):
    """The traced program raised, and nothing in the frame caught it: the frame is to run plainly."""


def capture(
    fn: FunctionType,
    arguments: list[Any],
    whole: bool = False,
    dynamism: Dynamism | None = None,
    end: Ending | None = None,
    guard_filter: GuardFilter | None = None,
    pack: Pack | None = None,
) -> Captured:
    """Raises Break where the frame can't be captured - or, if `whole` is asked for, not as a whole - and
    EscapedError where the program raises. It goes no further than `end`; `pack` is shown what it is of."""
    began = time.perf_counter()
    triton_kernels.prepare()
    restarts, lost = 0, 0.0
    reasons: list[str] = []
    catches = True
    while True:
        problem, kind = None, None
        with TorchState() as switches, Trace(fn, arguments, switches, end, dynamism, catches) as trace:
            trace.pack = pack
            trace.run()
            ran = time.perf_counter()
            if trace.ended_by is not None and (whole or trace.must_not_end_here()):
                raise trace.ended_by
            end = trace.earlier_end()
            if end is None:
                try:
                    with torch._C.DisableTorchFunction():  # modes of the program's are not asked of this
                        captured = trace.captured(guard_filter)
                    break
                except Break as found:
                    problem, kind = found, trace.kind_of(found.culprit)
                    problem.let_go()
                    if trace.ended_by is not None:  # why it is needed at all
                        problem.context += f", alive at a break ({trace.ended_by.one_line})"
        again = catches and not whole and problem is not None and problem.reason is OPERATOR_ERROR
        if again:
            end, catches = None, False
        elif problem is not None and kind is not None and not whole:
            end = birth(fn, arguments, kind, problem, dynamism)
        if restarts == RESTART_LIMIT or (end is None and not again):
            raise problem or trace_again(end)
        restarts += 1
        reasons.append((problem if end is None else end.reason).reason.name)  # type: ignore[union-attr]
        lost = time.perf_counter() - began
    captured.restarts, captured.restart_reasons, captured.seconds_lost = restarts, reasons, lost
    captured.seconds, captured.trace_seconds = time.perf_counter() - began, ran - began - lost
    return captured


def trace_again(end: Ending | None) -> Break:
    assert end is not None
    return Break(UNRESUMABLE, f"after {RESTART_LIMIT} traces, the last ended by: {end.reason.reason.name}")


def birth(
    fn: FunctionType, arguments: list[Any], kind: Any, problem: Break, dynamism: Dynamism | None
) -> Ending | None:
    """In front of what makes the value that can't be made again: there it is made for real."""
    problem.stack = []
    with TorchState() as switches, Trace(fn, arguments, switches, None, dynamism) as again:
        again.machine.watch = again.finder(kind, problem)
        again.run()
        return Ending(again.machine.stopped_at, problem) if again.ended_by is problem else None


class Contents(NamedTuple):
    """All that a capture is made of, while the program's objects are still in it."""

    trace: Trace
    region: Region
    guards: list[Guard]
    class_guards: list[ClassGuard]
    storages: tuple[tuple[int, ...], tuple[int, ...]] | None


Pack = Callable[[Contents], None]


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
    ) -> None:
        """`catches`: the program may handle errors of operators, so long as it does not look at them."""
        self.fn = fn
        self.state = _guards.GlobalState()
        self.switches = switches
        self.ended_by: Break | None = None
        self.lines: set[tuple[str, int]] | None = set() if is_kept() else None
        """Lines of which there is something in the graph, if someone wants to know: (file, line)."""
        know_tensors()
        self.recorder = Recorder(lambda: where(self.machine, self.lines), lambda: self.world.places.here())
        self.recorder.flags.begin(switches)
        self.world = world = TraceWorld(self.recorder)
        if dynamism is not None:
            world.inputs.dynamism = dynamism
        self.machine = world.machine = TracingMachine(world)
        self.machine.limit = _frame.recursion_left()
        if end is not None:
            self.machine.stop_at, self.machine.stop_with = end
        world.frame.function, world.frame.globals = fn, fn.__globals__
        world.functions.handles_errors = bool(fn.__code__.co_exceptiontable)
        world.errors.catches_operator_errors = catches
        names = variables(fn.__code__)
        pending = [
            Pending(world.inputs, world.inputs.root.argument(n, names[n]), value)
            for n, value in enumerate(arguments)
        ]
        if origin_of(fn.__code__) is not None:
            world.frame.open_statements(fn.__code__, pending)
        packed = fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount
        world.frame.fresh = {value.source for value in pending[packed:]}
        self.frame = Frame(self.machine, fn, decoded(fn.__code__), pending)
        world.frame.outermost = self.frame
        self.result: Any = None
        self.pack: Pack | None = None
        self.disturbed = False
        """Whether the instruction that could not be captured had already changed something."""

    def run(self) -> None:
        """Runs the frame as far as it goes; the hook hands the interpreter the frames that C enters."""
        world = self.world
        before = _frame.set_interceptor(self.machine.enter)
        try:
            with (
                quiet_fakes(),
                warnings_as_breaks(),
                world.writes.decimal_flags,
                self.recorder.fakes,
                self.recorder,
            ):
                self.result = _frame.untouched(self.machine.run, self.frame)
            self.disturbed = world.errors.broken is not None
        except Break as found:
            self.disturbed = world.errors.broken is not found or has_disturbed(found.__traceback__)
            found.let_go()
            world.errors.broken = world.errors.broken or found
        except BaseException as error:
            if world.errors.is_users_interrupt(error):
                raise
            if world.errors.broken is None:
                raise EscapedError(error) from error
            self.disturbed = True
        finally:
            _frame.set_interceptor(before)
        self.ended_by = world.errors.broken
        if world.errors.lost:
            raise self.ended_by or Break(UNRESUMABLE, "the end of a generator")

    def must_not_end_here(self) -> bool:
        """Whether the frame as a whole is not to be captured, or the program wants no break."""
        assert self.ended_by is not None
        if self.world.frame.skips:
            return True
        view = next((view for view in self.world.attributes.views.values() if view.outside is STATE), None)
        found = MISSING if view is None else view.get("error")
        self.ended_by.is_error = bool(STATE.error if found is MISSING else opened(found))
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
        while len(frames) > 1 and policy.is_library(policy.module_name(frames[-1].func)):
            at = Position(*frames.pop().called_at)
            if not policy.is_library(policy.module_name(frames[-1].func)):
                return Ending(at, self.ended_by)
        return Ending(self.machine.stopped_at, self.ended_by) if self.disturbed else None

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
        vars(self).clear()
        if classes:  # only the collector takes these, and until then their bases from outside know of them
            gc.collect(1)

    # ---- what can't be made again

    def kind_of(self, value: Any) -> Any:
        """What is to be looked for to find where a value like this one comes from."""
        if value is None:
            return None
        if type(value) is FakeTensor:
            return FakeTensor, self.recorder.subclasses.class_of(value)
        return type if self.world.created.has(type(value)) else type(value)

    def finder(self, kind: Any, problem: Break) -> Callable[[Any], None]:
        world = self.world

        def find(value: Any) -> None:
            cls = type(value)
            if cls is FakeTensor:
                found = kind == (FakeTensor, self.recorder.subclasses.class_of(value))
            elif kind is type:
                found = issubclass(type(value), type) and world.created.has(value)
            else:
                found = cls is kind and world.inputs.source_of(value) is None
            if found:
                raise problem

        return find

    def captured(self, guard_filter: GuardFilter | None = None) -> Captured:
        fn, recorder = self.fn, self.recorder
        if self.ended_by is not None and self.machine.stopped is None:
            raise self.ended_by  # before it began
        try:
            stopping = None if self.ended_by is None else Stopping(self.machine.stopped)
            region = generate(self.world, fn.__name__, self.result, self.switches, stopping)
        except Break as found:
            found.stack = found.stack or [Place(CodeName.of(fn.__code__), fn.__code__.co_firstlineno)]
            raise
        guards, facts, storages = all_guards(self.world, region)
        if self.pack is not None:
            self.pack(Contents(self, region, guards, facts, storages))
        guards = thinned(guards, guard_filter, region.inputs)
        program = build(guards, facts, self.state, region.inputs, storages)
        module = None
        if region.has_graph:
            module = graph_module(recorder.builder.body.graph, recorder.builder.body.modules)
        inputs = [
            recorder.histories.as_graph_input(node, as_input(given))
            for node, given, _ in recorder.inputs.entries
        ]
        ops = [node.target for node in recorder.builder.body.graph.nodes if node.op.startswith("call")]
        captured = Captured(fn.__qualname__, module, inputs, program, region, ops=ops, ended_by=self.ended_by)
        captured.ended_at = self.machine.stopped_at
        captured.inlined_calls, captured.lines = self.world.functions.inlined_calls, self.lines
        captured.left, captured.setting = recorder.contexts.left, recorder.flags.settings_to_apply()
        if self.lines is not None:
            captured.input_names = {
                node.name: str(self.world.inputs.graph_input_source(node, given))
                for node, given, _ in recorder.inputs.entries
            }
        captured.run_as_captured = recorder.histories.run_as_captured
        captured.symbols = symbols = recorder.builder.symbols
        if symbols is not None:
            captured.symbol_sources = [
                self.world.inputs.graph_input_source(i.node, i.real) for i in symbols.inputs
            ]
            symbols.hand_over()
        return captured


SIGNS = {ModeStandIn.__torch_function__.__code__, Recorder.__torch_function__.__code__}
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


@contextlib.contextmanager
def warnings_as_breaks() -> Iterator[None]:
    """What C warns of is to be told each time, and of the place where the program stands. What torch warns of
    as it is captured is told then."""
    show, thread = warnings._showwarnmsg, threading.get_ident()  # type: ignore[attr-defined]

    def noticed(message: warnings.WarningMessage) -> None:
        if threading.get_ident() != thread or is_torchs(sys._getframe(1)):
            show(message)
        else:
            raise Break(EFFECT, f"a {message.category.__name__}")

    warnings._showwarnmsg = noticed  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings._showwarnmsg = show  # type: ignore[attr-defined]


def is_torchs(frame: FrameType | None) -> bool:
    """Whether something was called by torch, or by Framelift to find out what torch does."""
    while frame is not None and frame.f_code is not Machine.run.__code__:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in ("torch", "sympy") or frame.f_code in OPERATING:
            return True
        frame = frame.f_back
    return False


def where(machine: Machine, lines: set[tuple[str, int]] | None = None) -> str:
    """The innermost place in the user's code, for a node's stack trace; notes the lines that led there."""
    frame = machine.frame
    if frame is None:
        return ""
    if lines is not None:
        lines.update((each.code.code.co_filename, each.line or 0) for each in chain(frame))
    code = frame.code.code
    return f'  File "{code.co_filename}", line {frame.line}, in {code.co_name}\n'


def all_guards(
    world: TraceWorld, region: Region
) -> tuple[list[Guard], list[ClassGuard], tuple[tuple[int, ...], tuple[int, ...]] | None]:
    """The guards of everything the trace read, and which inputs of the region share memory."""
    for fn in world.functions.inlined.values():
        world.guards.add(world.inputs.root.constant(fn, fn.__qualname__), Check.CODE, fn.__code__)
    world.guards.add_sighted(region.inputs)
    storages = None
    recorder = world.recorder
    slots = {source: n for n, source in enumerate(region.inputs)}
    mutated = recorder.mutations.of_inputs
    attributed = [view.outside for view in world.attributes.views.values() if is_changed_tensor(view)]
    attributed += [found.tensor for found in recorder.requires_grad.flagged.values()]
    if mutated or attributed:
        used = [tensor for _, tensor, _ in recorder.inputs.entries if isinstance(tensor, torch.Tensor)]
        each = {id(tensor): world.inputs.known[id(tensor)] for tensor in (*used, *attributed)}.values()
        tensors = [(slots[known.source], known.value) for known in each if not known.source.is_drawn]
        if any(tensor.layout is torch.sparse_coo for _, tensor in tensors):
            raise Break(TENSOR_KIND, "a sparse tensor, with which one that changes may share memory")
        storages = storage_groups(tensors)
        for tensor in overlapping(tensors, storages):
            recorder.inputs.add_fact("storage_offset", tensor)
    with torch._C.DisableTorchFunction():
        for (name, _), tensor in recorder.inputs.facts.items():
            check, answer = FACTS[name]
            world.guards.add(world.inputs.known[id(tensor)].source, check, answer(tensor))
    return list(world.guards.facts.values()), list(world.classes.guards.values()), storages


def is_changed_tensor(view: View) -> bool:
    """Whether an attribute of a tensor was set; it must not turn out to be one of the others."""
    return issubclass(type(view.outside), torch.Tensor) and bool(view.changes())


FACTS: dict[str, tuple[Check, Callable[[torch.Tensor], Any]]] = {
    "is_leaf": (Check.LEAF, lambda tensor: tensor.is_leaf),
    "no_hooks": (Check.NO_HOOKS, lambda tensor: None),
    "storage_offset": (Check.OFFSET, lambda tensor: tensor.storage_offset()),
}
"""How what the recorder calls facts is guarded."""


def overlapping(
    tensors: list[tuple[int, torch.Tensor]], storages: tuple[tuple[int, ...], tuple[int, ...]]
) -> list[torch.Tensor]:
    """Those that share memory: where one is written to, it matters how the others lie to it."""
    groups = storages[1]
    return [tensor for (_, tensor), group in zip(tensors, groups, strict=True) if groups.count(group) > 1]


def check_frame(fn: FunctionType) -> None:
    if fn.__code__.co_flags & 0x2A0:
        raise Break(GENERATOR_FRAME, fn.__qualname__)
