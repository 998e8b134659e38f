"""Functions of `torch.optim` that a trace does in another way: `step`, `zero_grad`, groups of tensors."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim import optimizer
from torch.utils import _foreach_utils

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_CODE, serve
from framelift.trace.machine import TraceFrame
from framelift.trace.world import TraceWorld


def step_with_grad(step: Any, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's wrapper of each `step`, without its graph breaks: Framelift's graphs can switch gradients."""
    before = torch.is_grad_enabled()
    try:
        torch.set_grad_enabled(self.defaults["differentiable"])
        return step(self, *args, **kwargs)
    finally:
        torch.set_grad_enabled(before)


_frame.set_decision(step_with_grad.__code__, _frame.SKIP, _frame.INTERPRET)
WRAPPER = optimizer._use_grad_for_differentiable(lambda self: None).__code__


def call_step(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    step = world.functions.cells(fn)[WRAPPER.co_freevars.index("func")].cell_contents
    return world.calls.invoke(step_with_grad, step, args[0], tuple(args[1:]), kwargs)


BY_CODE[id(WRAPPER)] = call_step


@serve(optimizer.Optimizer.zero_grad)
def serve_zero_grad(f: TraceFrame, self: Any, set_to_none: Any = True) -> Any:
    """torch keeps it out of its own compiler. Framelift can interpret it."""
    return call(f, inspect.unwrap(optimizer.Optimizer.zero_grad), [self, set_to_none], None)


SCALARS = (int, float)


def serve_choice(fn: Any, bound: str) -> None:
    """`max` and `min` of a step and a number, where torch's optimizers leave steps tensors for compilers."""

    @serve(fn)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        if f.globals.get("__name__", "").startswith("torch.optim.") and len(args) == 2 and not kwargs:
            given = [opened(arg) for arg in args]
            steps = [arg for arg in given if type(arg) is FakeTensor and not arg.dim()]
            numbers = [arg for arg in given if type(arg) in SCALARS]
            if len(steps) == len(numbers) == 1:
                return f.world.recorder.call(torch.clamp, (steps[0],), {bound: numbers[0]})
        return f.world.calls.by_policy(fn, list(args), kwargs)


serve_choice(max, "min")
serve_choice(min, "max")


@serve(_foreach_utils._group_tensors_by_device_and_dtype)
def serve_group(f: TraceFrame, tensorlistlist: Any, with_indices: Any = False) -> Any:
    """Tensors of one device and dtype are one group. The order of several groups is up to torch."""
    lists: Any = f.world.materialize.for_torch(tensorlistlist)
    kinds = {(tensor.device, tensor.dtype) for tensor in lists[0] if tensor is not None}
    if len(kinds) != 1:
        raise Break(breaks.OPTIMIZER, f"tensors of {len(kinds)} devices and dtypes in one group")
    indices = list(range(len(lists[0]))) if opened(with_indices) else []
    return {kinds.pop(): ([list(tensors) for tensors in lists], indices)}
