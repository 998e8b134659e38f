"""Operators that call a function and say something about it: `wrap`, `wrap_with_set_grad_enabled`,
`wrap_with_autocast`, `dynamo_bypassing_wrapper`, `strict_mode`, `hints_wrapper`, `InvokeQuant`,
`foreach_map`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import torch
from torch._higher_order_ops._invoke_quant import InvokeQuant, invoke_quant_packed
from torch._higher_order_ops.foreach_map import _foreach_map, foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.strict_mode import strict_mode, strict_mode_op
from torch._higher_order_ops.wrap import (
    dynamo_bypassing_wrapper,
    wrap,
    wrap_with_autocast,
    wrap_with_set_grad_enabled,
)

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.higher_order.checkpoint import standing
from framelift.features.higher_order.regions import call_region
from framelift.interpreter.pending import opened
from framelift.trace.bodies import Traced, captures, interpret, record, traced
from framelift.trace.callable_rules import Looks, rule
from framelift.trace.world import TraceWorld

interpret(strict_mode)


# ---- what only calls the function


def recorded_as(world: TraceWorld, operator: Any, *settings: Any) -> Any:
    """What adds the operator to the graph, for a region: its settings, the body, and what that uses."""

    def record(region: Traced, grad: bool) -> None:
        recorder, made = world.recorder, region.body
        body = recorder.builder.body.add_module("wrap_body", made.module())
        given = (*settings, body, *made.outer_nodes)
        recorder.higher_order.add_region(operator, given, made, region.tensors)

    return record


@captures(wrap)
def serve_wrap(world: TraceWorld, func: Any, /, *args: Any, **kwargs: Any) -> Any:
    how = recorded_as(world, wrap)
    return call_region(world, "wrap", func, args, kwargs, how, for_compilers=False, plain=True)


def with_grad(enabled: bool, wrapped: Any, args: Any, kwargs: Any) -> Any:
    with torch.set_grad_enabled(enabled):
        return wrapped(*args, **kwargs)


def with_autocast(settings: Any, wrapped: Any, args: Any, kwargs: Any) -> Any:
    with torch.autocast(*settings):
        return wrapped(*args, **kwargs)


interpret(with_grad, with_autocast)


@captures(wrap_with_set_grad_enabled)
def serve_wrap_with_grad(world: TraceWorld, enable_grad: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    enabled = bool(world.materialize.for_torch(enable_grad))
    how = recorded_as(world, wrap_with_set_grad_enabled, enabled)
    given: Any = (enabled, fn, args, kwargs)
    name = "wrap_with_set_grad_enabled"
    return call_region(world, name, with_grad, given, {}, how, grad=enabled, for_compilers=False, plain=True)


@captures(wrap_with_autocast)
def serve_wrap_with_autocast(
    world: TraceWorld,
    device_type: Any,
    dtype: Any,
    enabled: Any,
    cache_enabled: Any,
    fn: Any,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    settings = tuple(map(world.materialize.for_torch, (device_type, dtype, enabled, cache_enabled)))
    how = recorded_as(world, wrap_with_autocast, *settings)
    given: Any = (settings, fn, args, kwargs)
    name = "wrap_with_autocast"
    return call_region(world, name, with_autocast, given, {}, how, for_compilers=False, plain=True)


WRAPPER = "wrapper_fn"
"""The key under which `dynamo_bypassing_wrapper` looks for the wrapper of a body."""


@captures(dynamo_bypassing_wrapper)
def serve_bypassing(world: TraceWorld, wrapper_fn: Any, inner_fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The wrapper is called where the graph runs, on the body. It gives what the function itself gives, or
    tensors that look like it."""
    wrapper = standing(world, wrapper_fn)
    name = "dynamo_bypassing_wrapper"
    called = functools.partial(opened(inner_fn), **kwargs) if kwargs else inner_fn
    found = traced(world, name, "inner_fn", called, args, aliases=True)
    module = found.body.module()
    module.meta[WRAPPER] = wrapper
    builder = world.recorder.builder
    body = builder.body.add_module("wrap_body", module)
    given = (WRAPPER, body, *found.body.outer_nodes)
    builder.failing.note_effect()
    builder.add_call(dynamo_bypassing_wrapper, given, tuple(found.tensors), pure=False)
    return found.result(found.tensors)


# ---- what says something about it


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


rule(InvokeQuant, looks=Looks.DEEP, why="a record of options")
interpret(InvokeQuant.__call__)


@captures(invoke_quant_packed)
def serve_invoke_quant(
    world: TraceWorld, subgraph: Any, /, *operands: Any, scheme: Any = None, quant_options: Any = None
) -> Any:
    """Inductor looks for the options in an attribute of the graph."""
    load, options = world.attributes.load, opened(quant_options)
    body = traced(world, "invoke_quant", "fn", subgraph, operands)
    held: dict[str, Any] = {"invoke_quant": body.body.module()}
    settings = {"scheme": world.materialize.for_torch(scheme)}
    if options is not None:
        names = [one.name for one in dataclasses.fields(InvokeQuant)]
        values = {name: world.materialize.for_torch(load(options, name)) for name in names}
        held["quant_options"] = settings["quant_options"] = InvokeQuant(**values)
    given = (held["invoke_quant"], *body.body.operand_values)
    return body.result(world.recorder.higher_order.call(invoke_quant_packed, held, given, settings))


def applied_to_each(op: Any, *operands: Any) -> Any:
    """What `foreach_map` does: lists are gone through together, all else is the same for each."""
    lists = [one for one in operands if isinstance(one, (list, tuple))]
    if not lists:
        return op(*operands)
    columns = [one if isinstance(one, (list, tuple)) else itertools.repeat(one) for one in operands]
    return [op(*row) for row in zip(*columns, strict=False)]


interpret(applied_to_each)


@captures(foreach_map)
def serve_foreach_map(world: TraceWorld, op: Any, /, *operands: Any, **kwargs: Any) -> Any:
    settings = {name: world.materialize.for_torch(value) for name, value in kwargs.items()}
    body = traced(world, "foreach_map", "op", applied_to_each, (op, *operands))
    out = record(world, _foreach_map, [body], lambda bodies, values: (*bodies, *values), **settings)
    return body.result(out)
