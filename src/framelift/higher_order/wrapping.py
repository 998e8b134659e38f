"""Operators that say something about a function: `strict_mode`, `hints_wrapper`."""

from __future__ import annotations

from typing import Any

from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.strict_mode import strict_mode, strict_mode_op

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.higher_order.bodies import captures, interpret, record, traced

interpret(strict_mode)


@captures(strict_mode_op)
def serve_strict_mode(world: Any, callable: Any, operands: Any) -> Any:
    body = traced(world, "strict_mode", "callable", callable, world.for_torch(operands))
    return body.result(record(world, strict_mode_op, [body], lambda bodies, values: (*bodies, values)))


@captures(hints_wrapper)
def serve_hints_wrapper(world: Any, body_fn: Any, args: Any, kwargs: Any, hints: Any) -> Any:
    if world.for_torch(kwargs):
        raise Break(breaks.BODIES, "hints_wrapper with keywords")
    said = dict(world.for_torch(hints))
    body = traced(world, "hints_wrapper", "body_fn", body_fn, world.for_torch(args))
    out = record(world, hints_wrapper, [body], lambda bodies, values: (*bodies, values, {}, said))
    return body.result(out)
