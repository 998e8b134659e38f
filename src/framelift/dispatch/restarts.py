"""Captures a frame by as many runs as it takes: most frames take one.

A run is repeated when

- it should have ended earlier than it did: the instruction that could not be captured had already run other
  code, or stands in the standard library (`Trace.earlier_end`). The next run ends in front of it;
- a value lives on that can't be made again. A run of its own finds what makes it, and the next one ends in
  front of that, so that it is made for real (`CaptureRuns.birth_of`);
- the program looks at the error of an operator that failed on fakes. In the next run such an error ends
  the trace, and the operator fails for real;
- something has to be there that the program makes on its first call: the parameters of a lazy module. It is
  made for real (`TracedFrame.preparation`), as the first thing that the program would change;
- the graph asserts what the program checks, and can't be undone where that fails. The next run ends where
  the program checks data;
- it ends where an operator draws random numbers behind a seed that the program has set after others drew: the
  next run ends in front of that, so that all are drawn by graphs;
- it ends where the program needs a definite value of a number of NumPy's that was taken for one that varies;
- it ends where the program needs to know something of an integer in a tensor that comes in (`t.item()`). The
  next run reads that integer like one that is passed: it is a symbol with guards;
- a break is an error, and what could not be captured is a number or a size that only the data decides. In the
  next run these are symbols: the user wants one graph rather than a break.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core.breaks import (
    DATA_DEPENDENT_BRANCH,
    DATA_DEPENDENT_VALUE,
    DYNAMIC_OUTPUT_SHAPE,
    ERROR_AFTER_EFFECT,
    GENERATOR_FRAME,
    GRAPH_ARGUMENT,
    NUMPY,
    OPERATOR_ERROR,
    UNRESUMABLE,
    Break,
)
from framelift.core.config import config
from framelift.dispatch.capture import Capture
from framelift.dispatch.extensions import extensions
from framelift.dispatch.tracing import Ending, Trace
from framelift.features.all import know_imported
from framelift.graph.torch_flags import TorchState
from framelift.guards.guard import GuardFilter
from framelift.interpreter.machine import watched
from framelift.interpreter.points import chain
from framelift.trace.dynamism import Dynamism

RESTART_LIMIT = 8
"""How often a frame is run again for one capture."""
GENERATOR = 0x2A0
"""The flags of code objects of generators, coroutines and asynchronous generators."""
OF_NUMBERS = frozenset(
    {NUMPY, DATA_DEPENDENT_BRANCH, DATA_DEPENDENT_VALUE, DYNAMIC_OUTPUT_SHAPE, GRAPH_ARGUMENT}
)
BRANCHING = (DATA_DEPENDENT_VALUE, DATA_DEPENDENT_BRANCH)
DECIDED_BY_DATA = (DATA_DEPENDENT_VALUE, DYNAMIC_OUTPUT_SHAPE)
FROM_DATA = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
"""Numbers and sizes that only the data decides are captured, as symbols."""


class Restart(NamedTuple):
    """Why a run was of no use, and how the next one differs."""

    reason: Break
    end: Ending | None = None
    """Where it ends; None: as far as it goes."""
    catches: bool = True
    """Whether the program may handle errors of operators."""
    asserts: bool = True
    """Whether checks of the program's are assertions in the graph."""
    from_data: bool = False
    """Whether it captures numbers and sizes that only the data decides."""
    reads_integers: bool | None = None
    """Whether integers in tensors that come in are read, with guards; None: as before."""
    replays: bool = True
    """Whether calls of modules may be replayed."""
    seeds_late: bool = True
    """Whether torch's generator may be set after operators drew from it."""
    preparation: Callable[[], Any] | None = None
    """What is done before it."""
    problem: Break | None = None
    """What is raised when there have been too many runs."""


@dataclass
class CaptureRuns:
    """The runs of one frame, and what they have in common.

    >>> import torch
    >>> def f(x):
    ...     return x + 1
    >>> CaptureRuns(f, [torch.ones(2)]).capture().ops
    [<built-in function add>]
    """

    fn: FunctionType
    arguments: list[Any]
    whole: bool = False
    """Whether a break is an error."""
    dynamism: Dynamism | None = None
    guard_filter: GuardFilter | None = None
    keeps_lines: bool = False
    only_ordinary: bool = False
    """Whether operators on tensors of layouts and types that not all backends take break."""
    replays: bool = field(default=True, init=False)
    """Whether calls of modules may be replayed."""
    seeds_late: bool = field(default=True, init=False)
    """Whether torch's generator may be set after operators drew from it."""
    reads_integers: bool | None = field(default=None, init=False)
    """Whether integers in tensors that come in are read as other inputs are; None: not needed yet."""
    definite_for: Any = field(default=None, init=False)
    """Why and where a run has ended that may have needed definite numbers."""
    ran: float = field(default=0.0, init=False)
    """When the latest run was done."""

    def capture(self, end: Ending | None = None) -> Capture:
        """Goes no further than `end`. Raises Break where the frame can't be captured, or not as a whole, and
        EscapedError where the program raises."""
        if self.fn.__code__.co_flags & GENERATOR:
            raise Break(GENERATOR_FRAME, self.fn.__qualname__)
        began, lost = time.perf_counter(), 0.0
        know_imported()
        reasons: list[str] = []
        catches = asserts = True
        from_data = False
        while True:
            with config.patch(**FROM_DATA) if from_data else contextlib.nullcontext():
                found = self.run_once(end, catches, asserts)
            if isinstance(found, Capture):
                break
            if found.preparation is not None:
                found.preparation()
                continue
            if len(reasons) == RESTART_LIMIT:
                last = f"after {RESTART_LIMIT} traces, the last ended by: {found.reason.reason.name}"
                raise found.problem or Break(UNRESUMABLE, last)
            reasons.append(found.reason.reason.name)
            end, catches, asserts = found.end, catches and found.catches, asserts and found.asserts
            from_data = from_data or found.from_data
            self.replays, self.seeds_late = (
                self.replays and found.replays,
                self.seeds_late and found.seeds_late,
            )
            if found.reads_integers is not None:
                self.reads_integers = found.reads_integers
            lost = time.perf_counter() - began
        found.restarts, found.restart_reasons, found.seconds_lost = len(reasons), reasons, lost
        found.seconds, found.trace_seconds = time.perf_counter() - began, self.ran - began - lost
        return found

    def run_once(self, end: Ending | None, catches: bool, asserts: bool) -> Capture | Restart:
        # what a trace makes goes with it: a collector that looks at it before that finds nothing
        _frame.pause_collector()
        try:
            return self.run_uncollected(end, catches, asserts)
        finally:
            _frame.resume_collector()

    def run_uncollected(self, end: Ending | None, catches: bool, asserts: bool) -> Capture | Restart:
        with TorchState() as switches, self.trace(switches, end, catches) as trace:
            trace.world.raising_branches.enabled = asserts
            trace.run()
            self.ran = time.perf_counter()
            if trace.world.replays.failed:  # positions in a run with replays mean nothing in one without
                return Restart(trace.ended_by or Break(UNRESUMABLE, "a replay"), replays=False)
            if trace.ended_by is not None and self.needs_definite(trace, trace.ended_by):
                return Restart(trace.ended_by, end)
            if trace.ended_by is not None and trace.world.frame.preparation is not None:
                return Restart(trace.ended_by, end, preparation=trace.world.frame.preparation)
            if trace.ended_by is not None and trace.ended_by.reason in BRANCHING and self.may_read(trace):
                return Restart(trace.ended_by, end, reads_integers=self.reads_integers is None)
            if trace.ended_by is not None:
                must_not_end = self.whole or trace.must_not_end_here()
                wanted = must_not_end or trace.world.frame.captures_from_data
                if wanted and trace.ended_by.reason in DECIDED_BY_DATA and not captures_from_data():
                    return Restart(trace.ended_by, end, from_data=True)
                if must_not_end:
                    raise trace.ended_by
            if trace.world.raising_branches.are_lost and not self.whole:
                return Restart(Break(ERROR_AFTER_EFFECT, "a check of data"), end, asserts=False)
            if trace.ended_by is not None and trace.recorder.random_numbers.draws_after_seed:
                return Restart(trace.ended_by, end, seeds_late=False)
            earlier = trace.earlier_end()
            if earlier is not None:
                return Restart(earlier.reason, earlier)
            if trace.ended_by is not None and trace.world.loops.note_ended(chain(trace.machine.stopped)):
                return Restart(trace.ended_by)
            try:
                with torch._C.DisableTorchFunction():  # modes of the program's are not asked of this
                    return trace.finish(self.guard_filter)
            except Break as found:
                if self.needs_definite(trace, found):
                    return Restart(found, end)
                problem, kind = found, kind_of(trace, found.culprit)
                problem.let_go()
                if trace.ended_by is not None:  # why it is needed at all
                    problem.context += f", alive at a break ({trace.ended_by.one_line})"
        return self.avoid(problem, kind, catches)

    def may_read(self, trace: Trace) -> bool:
        """Whether the next run should read integers, or if that was of no use, not read them."""
        if self.reads_integers is None:
            return config.capture_scalar_outputs and trace.world.inputs.holds_integers
        return self.reads_integers

    def needs_definite(self, trace: Trace, found: Break) -> bool:
        """Whether a run may have ended for a number without a definite value: the next one has constants. If
        these have ended in the same place, the one after that has none."""
        if found.reason not in OF_NUMBERS or self.dynamism is None:
            return False
        at = found.reason, trace.machine.stopped_at
        if at == self.definite_for:
            return self.dynamism.give_back()
        self.definite_for = at
        return self.dynamism.take_back()

    def trace(self, switches: TorchState, end: Ending | None, catches: bool) -> Trace:
        dynamism = Dynamism() if self.reads_integers and self.dynamism is None else self.dynamism
        trace = Trace(self.fn, self.arguments, switches, end, dynamism, catches, self.keeps_lines)
        builder = trace.recorder.builder
        trace.recorder.random_numbers.may_set_late = self.seeds_late
        builder.only_ordinary = self.only_ordinary
        for observer in extensions.observers:
            trace.machine.look = observer.follow_trace() or trace.machine.look
        trace.world.inputs.reads_integers = bool(self.reads_integers)
        if not self.replays or self.keeps_lines:
            trace.world.replays.enabled = False
        if self.whole:  # an error that is raised where the graph was called is better than no graph
            builder.failing.is_refused = lambda: False
            builder.failing.fails_always = lambda func, args, kwargs: False
        return trace

    def avoid(self, problem: Break, kind: Any, catches: bool) -> Restart:
        """How the next run gets around what the capture could not be finished for."""
        if self.whole:
            raise problem
        if catches and problem.reason is OPERATOR_ERROR:
            return Restart(problem, catches=False, problem=problem)
        end = None if kind is None else self.birth_of(kind, problem)
        if end is None:
            raise problem
        return Restart(end.reason, end, problem=problem)

    def birth_of(self, kind: Any, problem: Break) -> Ending | None:
        """In front of what makes the value that can't be made again: there it is made for real."""
        problem.stack = []
        with TorchState() as switches, self.trace(switches, None, True) as trace:
            find = finder(trace, kind, problem)
            trace.machine.watch = lambda frame, ops: watched(ops, find)
            trace.run()
            return Ending(trace.machine.stopped_at, problem) if trace.ended_by is problem else None


def captures_from_data() -> bool:
    return config.capture_scalar_outputs and config.capture_dynamic_output_shape_ops


def kind_of(trace: Trace, value: Any) -> Any:
    """What to look for to find where a value like this one comes from; None: nothing."""
    world = trace.world
    if value is None:
        return None
    if type(value) is FakeTensor:
        return FakeTensor, world.recorder.subclasses.class_of(value)
    return type if world.created.has(type(value)) else type(value)


def finder(trace: Trace, kind: Any, problem: Break) -> Callable[[Any], None]:
    """Is shown each value that a run makes, and ends the run at the first of this kind."""
    world = trace.world

    def find(value: Any) -> None:
        cls = type(value)
        if cls is FakeTensor:
            found = kind == (FakeTensor, world.recorder.subclasses.class_of(value))
        elif kind is type:
            found = issubclass(type(value), type) and world.created.has(value)
        else:
            found = cls is kind and world.inputs.source_of(value) is None
        if found:
            raise problem

    return find
