"""Checks of data: branches on a tensor, or on a number that only the data decides, of which one side raises.

`assert x.sum() > 0` and `if (scale <= 0).any(): raise ValueError(...)` need not end a trace. The graph
asserts that the check holds, and the trace goes on with the side that does not raise. Where the assertion
fails the region undoes what the graph has done, and the frame runs as plain Python (`regions/rerun.py`):
the program raises its own exception, and has done what it does before that. A trace whose graph can't
be undone makes no assertions: it ends at such a branch, as at any other that only the data decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.bytecode import raising
from framelift.bytecode.raising import RaisingBranch
from framelift.core.sentinels import NULL
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.interpreter.frame import Frame
from framelift.interpreter.pending import opened
from framelift.trace.part import Part

Tensor = torch.Tensor


class RaisingBranches(Part):
    """The checks of one trace."""

    def start(self) -> None:
        self.enabled = True
        self.made = 0
        """How many assertions there are in the graph for checks of the program's."""

    # ---- what a branch asks for

    def truth(self, value: Any, tensor: FakeTensor) -> bool | None:
        """The truth of a tensor with which the program goes on; None: it may go on with either. `value` is
        what the program knows it as."""
        frame = self.world.machine.frame
        if not frame or not frame.stack or opened(frame.stack[-1]) is not value:
            return None
        branch = self.branch_at(frame, frame.ip)
        return None if branch is None else self.assert_truth(tensor, branch)

    def truth_of_number(self, value: Any, condition: Any) -> bool | None:
        """The same of a condition on numbers, which is a fact from here on."""
        frame = self.world.machine.frame
        if not frame or not frame.stack or opened(frame.stack[-1]) is not value:
            return None
        branch = self.branch_at(frame, frame.ip)
        if branch is None or not symbolic_shapes.free_unbacked_symbols(condition):
            return None
        with torch._C.DisableTorchFunction():
            holds = condition if branch.expected else torch.sym_not(condition)
        self.world.recorder.builder.assertions.assume(holds, self.message(branch))
        self.made += 1
        return branch.expected

    def assume(self, frame: Frame[Any], condition: Any, message: str) -> bool:
        """Whether the graph asserts a condition, a tensor or one on numbers, for which a call of the frame
        raises where it does not hold."""
        if not self.enabled or self.world.recorder.builder.in_body or is_handled(frame, calling=True):
            return False
        if type(condition) is not FakeTensor:
            self.world.recorder.builder.assertions.assume(condition, message)
        elif self.can_assert(condition):
            self.world.recorder.call(torch._assert_async, (self.on_host(condition), message), {})
        else:
            return False
        self.made += 1
        return True

    def truth_of_result(self, frame: Frame[Any], fn: Any, answer: Callable[[], Any]) -> bool | None:
        """The same of what a call gives that a branch comes right after; `answer` makes it as a tensor."""
        branch = self.branch_at(frame, frame.ip + 1) if calls(frame, fn) else None
        if branch is None:
            return None
        tensor = answer()
        return self.assert_truth(tensor, branch) if type(tensor) is FakeTensor else None

    def compared_number(self, frame: Frame[Any], fn: Any, tensor: FakeTensor) -> FakeTensor | None:
        """What stands for a tensor's number where a call gives it to a comparison with another number, and
        that to a branch; None: it is needed for something else."""
        if not calls(frame, fn) or not self.can_assert(tensor):
            return None
        names = [each.opname for each in frame.code.instructions[frame.ip + 1 : frame.ip + 3]]
        if names[0] == "COMPARE_OP" and len(frame.stack) > 2:
            other, at = opened(frame.stack[-3]), frame.ip + 2
        elif names == ["LOAD_CONST", "COMPARE_OP"]:
            other, at = frame.code.ops[frame.ip + 1][1], frame.ip + 3
        elif names == ["LOAD_FAST", "COMPARE_OP"]:
            other, at = opened(frame.fast[frame.code.ops[frame.ip + 1][1]]), frame.ip + 3
        else:
            return None
        exact = COMPARABLE.get(type(other), ())
        if not exact or (type(other) is not torch.SymInt and not -EXACT < other < EXACT):
            return None
        dtype = torch.float64 if tensor.is_floating_point() else tensor.dtype
        if dtype not in exact or self.branch_at(frame, at) is None:
            return None
        return self.world.recorder.call(Tensor.to, (tensor, dtype), {})

    def branch_at(self, frame: Frame[Any], at: int) -> RaisingBranch | None:
        """The branch at an instruction of a frame, if it is one of which the trace may take one side."""
        if not self.enabled or self.world.recorder.builder.in_body:
            return None
        branch = raising.branch_at(frame.code, at)
        return None if branch is None or is_handled(frame) else branch

    # ---- what the graph asserts

    def assert_truth(self, tensor: FakeTensor, branch: RaisingBranch) -> bool | None:
        if not self.can_assert(tensor):
            return None
        call, holds = self.world.recorder.call, tensor
        if tensor.dtype is not torch.bool:
            holds = call(Tensor.bool, (holds,), {})
        if not branch.expected:
            holds = call(torch.logical_not, (holds,), {})
        call(torch._assert_async, (self.on_host(holds), self.message(branch)), {})
        self.made += 1
        return branch.expected

    def on_host(self, tensor: FakeTensor) -> FakeTensor:
        """An assertion that fails on a device leaves it unusable."""
        is_there = tensor.device.type == "cpu"
        return tensor if is_there else self.world.recorder.call(Tensor.cpu, (tensor,), {})

    def can_assert(self, tensor: FakeTensor) -> bool:
        recorder = self.world.recorder
        if recorder.modes.active or recorder.subclasses.class_of(tensor) not in PLAIN_CLASSES:
            return False
        if torch._C._are_functorch_transforms_active() or tensor.device.type == "meta":
            return False
        return tensor.layout is torch.strided and all(type(n) is int and n == 1 for n in tensor.shape)

    def message(self, branch: RaisingBranch) -> str:
        """What the assertion says where the graph can't be undone: as much as can be read off the code."""
        frame = self.world.machine.frame
        names = []
        for instruction in frame.code.instructions[branch.raises_at : branch.raises_at + 8]:
            if instruction.opname in raising.RAISES:
                break
            if instruction.opname == "LOAD_ASSERTION_ERROR":
                names.append("AssertionError")
            elif instruction.opname in ("LOAD_GLOBAL", "LOAD_CONST"):
                names.append(str(instruction.argval))
        if names == ["AssertionError"]:
            names.append("assertion error")  # as torch's own say of an assertion without a text
        place = frame.place
        return ": ".join([*names[:2], f"a check in {place.code.co_qualname}, line {place.line}, has failed"])

    @property
    def are_lost(self) -> bool:
        """Whether the program's exceptions would not be raised where checks fail."""
        return bool(self.made) and not self.world.recorder.can_run_again()


EXACT = 1 << 53
"""Whole numbers below this are all floats of Python's."""
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPARABLE: dict[type, tuple[torch.dtype, ...]] = {
    int: (*INTEGERS, torch.float64),
    float: (torch.float64,),
    torch.SymInt: (torch.int64,),
}
"""Type of a number -> dtypes of tensors of which each is compared with it as Python compares the numbers."""


BELOW_ARGUMENTS = {"CALL": 2, "CALL_KW": 3}
"""Instruction -> how far down the stack the function is, beside the arguments: from Python 3.13 on their
names lie above them."""


def calls(frame: Frame[Any], fn: Any) -> bool:
    """Whether a frame stands at a call of a function, and what that gives is what the frame gets."""
    below = BELOW_ARGUMENTS.get(frame.code.instructions[frame.ip].opname)
    if below is None:
        return False
    at = -frame.code.ops[frame.ip][1] - below
    called = frame.stack[at] if frame.stack[at] is not NULL else frame.stack[at + 1]
    return opened(called) is fn


def is_handled(frame: Frame[Any], calling: bool = False) -> bool:
    """Whether an exception of a frame is a way for the program to go on: then either side may be as good.
    `calling`: it comes from the call at which the frame stands."""
    if is_suppressed(frame):
        return True
    above = frame if calling else frame.back
    while above is not None:
        if raising.goes_on_after_error(above.code, above.ip) or is_suppressed(above):
            return True
        above = above.back
    return False


def is_suppressed(frame: Frame[Any]) -> bool:
    """Whether a frame stands in a `with contextlib.suppress(...)`."""
    entry, code = frame.code.handler_at(frame.ip), frame.code
    while entry is not None:
        if raising.is_with(code, entry) and entry.depth <= len(frame.stack):
            leaving = opened(frame.stack[entry.depth - 1])
            if type(getattr(leaving, "__self__", None)) is contextlib.suppress:
                return True
        entry = code.handler_at(entry.target)
    return False
