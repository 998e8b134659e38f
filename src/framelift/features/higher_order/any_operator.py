"""Higher-order operators that have no entry of their own: the program's, and those of torch's that no handler
is registered for.

The first callable that one is given becomes a body, on what comes after it; all else are settings, which the
graph holds as they are. That is right of an operator that calls the body once, on just what comes after it,
and this is checked: its rule for fake tensors is run with a body that notes what it is called with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey
from torch._higher_order_ops.base_hop import BaseHOP
from torch._higher_order_ops.effects import _get_effect
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensorMode

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.functions import tensors_of
from framelift.interpreter.pending import opened
from framelift.trace.bodies import traced
from framelift.trace.callable_rules import BY_BASE, serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.world import TraceWorld

NO_BODIES = (torch.Tensor, type, OpOverload, OpOverloadPacket, HigherOrderOperator, torch.ScriptObject)
"""Callables that are settings."""


def is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, NO_BODIES)


@serve(HigherOrderOperator.__call__, BaseHOP.__call__)
@calls_back
def serve_operator(f: TraceFrame, self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`trace_wrapped(*args, fn=...)` hides a call from AOTAutograd. A trace makes the call. The operator is
    known by its name, since torch has it in a package that may not be loaded."""
    operator = opened(self)
    if operator.name() == "trace_wrapped":
        return f.world.calls.invoke(kwargs.pop("fn"), *args, **kwargs)
    return call_operator(f.world, operator, list(args), kwargs)


BY_BASE[HigherOrderOperator] = lambda world, fn, args, kwargs: call_operator(
    world, opened(args[0]), args[1:], kwargs
)


@calls_back
def call_operator(world: TraceWorld, operator: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    at = next((n for n, arg in enumerate(args) if is_function(opened(arg))), None)
    if FakeTensorMode not in operator.python_key_table:
        raise Break(breaks.OPERATOR_KIND, f"{operator.name()}: it has no rule for fake tensors")
    shown = world.materialize.for_torch
    settings = {key: shown(value) for key, value in kwargs.items()}
    if at is None:
        return without_body(world, operator, tuple(map(shown, args)), settings)
    before = tuple(map(shown, args[:at]))
    body = traced(world, operator.name(), "fn", args[at], args[at + 1 :])
    operands = body.body.operand_values
    refuse_gradients(operator, operands)
    module = body.body.module()
    calls: list[Any] = []
    noting = module.register_forward_pre_hook(lambda _, *given: calls.append(given), with_kwargs=True)
    out = world.recorder.higher_order.call(
        operator, {operator.name(): module}, (*before, module, *operands), settings
    )
    noting.remove()
    if len(calls) != 1 or calls[0][1] or not are_same(calls[0][0], operands):
        raise Break(breaks.OPERATOR_KIND, f"{operator.name()}: it calls the function with something else")
    return body.result(out)


def without_body(world: TraceWorld, operator: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    recorder = world.recorder
    refuse_gradients(operator, (args, settings))
    if _get_effect(operator) is None:
        return recorder.higher_order.call(operator, {}, args, settings)
    with torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowAutograd():
        out = recorder.run(operator, args, settings)
    recorder.builder.failing.note_effect()
    recorder.builder.record(operator, args, settings, out, pure=False)
    return out


def are_same(found: tuple[Any, ...], expected: list[Any]) -> bool:
    """Whether the body was called with the operands. What comes in between wraps a symbol anew."""
    if len(found) != len(expected):
        return False
    pairs = zip(found, expected, strict=True)
    return all(one is other or (type(one) is torch.SymInt and str(one) == str(other)) for one, other in pairs)


AUTOGRAD = (DispatchKey.Autograd, DispatchKey.AutogradCPU, DispatchKey.AutogradCUDA)


def refuse_gradients(operator: Any, given: Any) -> None:
    """An operator that says nothing of gradients raises when it is given what requires them."""
    with torch._C.DisableTorchFunction():
        wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(given))
    silent = operator.non_fallthrough_keys.has(DispatchKey.AutogradCPU)
    if wanted and silent and not any(key in operator.py_kernels for key in AUTOGRAD):
        problem = "an operand is differentiated, for which it has no rule"
        raise Break(breaks.BODIES, f"{operator.name()}: {problem}")
