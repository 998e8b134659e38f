"""Operators that say something about a function: `strict_mode`, `hints_wrapper`, `trace_wrapped`."""

from __future__ import annotations

from typing import Any

from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.strict_mode import strict_mode, strict_mode_op
from torch._ops import HigherOrderOperator

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.pending import opened
from framelift.trace.bodies import captures, interpret, record, traced
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame
from framelift.trace.world import TraceWorld

interpret(strict_mode)


@captures(strict_mode_op)
def serve_strict_mode(world: TraceWorld, callable: Any, operands: Any) -> Any:
    body = traced(world, "strict_mode", "callable", callable, world.materialize.for_torch(operands))
    return body.result(record(world, strict_mode_op, [body], lambda bodies, values: (*bodies, values)))


@captures(hints_wrapper)
def serve_hints_wrapper(world: TraceWorld, body_fn: Any, args: Any, kwargs: Any, hints: Any) -> Any:
    args, kwargs, hints = world.materialize.for_torch([args, kwargs, hints])
    if kwargs:
        raise Break(breaks.BODIES, "hints_wrapper with keywords")
    said = dict(hints)
    body = traced(world, "hints_wrapper", "body_fn", body_fn, args)
    out = record(world, hints_wrapper, [body], lambda bodies, values: (*bodies, values, {}, said))
    return body.result(out)


@serve(HigherOrderOperator.__call__)
def serve_other_operator(f: TraceFrame, self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`trace_wrapped(*args, fn=...)` hides a call from AOTAutograd. A trace makes the call. The operator is
    known by its name, since torch has it in a package that may not be loaded."""
    if opened(self).name() != "trace_wrapped":
        return f.world.calls.native(f, HigherOrderOperator.__call__, [self, *args], kwargs)
    return f.world.calls.invoke(kwargs.pop("fn"), *args, **kwargs)
