"""Tensors that come in: each becomes an input of the graph."""

from __future__ import annotations

from typing import Any

import torch

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.graph import op_memory
from framelift.graph.subclasses import is_wrapper_class
from framelift.graph.symbols import SYMBOLIC, Dim
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.type_rules import type_rule
from framelift.trace.world import TraceWorld


def wrap_tensor(world: TraceWorld, value: Any, source: Source) -> Any:
    if is_wrapper_class(type(value)):
        return wrap_wrapper(world, value, source)
    with torch._C.DisableTorchFunction():
        if value.is_nested:
            refuse(breaks.TENSOR_KIND, "a nested tensor of strided layout")
        if value.__dict__.get("_dynamo_static_input_type") == "guarded":
            world.guards.add(source, Check.IS, value)
        return wrap_plain(world, value, source, world.inputs.dims_of(source, value))


def wrap_plain(world: TraceWorld, value: Any, source: Source, dims: dict[int, Dim]) -> Any:
    """A tensor of which some dimensions may be symbols."""
    if not dims:
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
        return world.inputs.add_tensor(value, source)
    fake = world.inputs.add_tensor(value, source, dims)
    free = [n for n, size in enumerate(fake.shape) if type(size) in SYMBOLIC]
    world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value, free))
    return fake


def wrap_wrapper(world: TraceWorld, value: Any, source: Source) -> Any:
    """A tensor around others: these are guarded like any, and all else that it says of itself."""
    with torch._C.DisableTorchFunction():
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
        face = world.inputs.add_tensor(value, source)
    parts = fix_parts(world, value, face)
    with torch._C.DisableTorchFunction():
        for name in parts:
            inner, place = getattr(value, name), source.child(Access.ATTR, name)
            if is_wrapper_class(type(inner)):
                world.inputs.load(inner, place)
            else:
                world.guards.add(place, Check.TENSOR, _guards.TensorSpec(inner))
    return face


def fix_parts(world: TraceWorld, value: Any, face: Any) -> list[str]:
    """The names of the tensors that a wrapper holds. What it says of itself beside them is guarded."""
    flatten = world.classes.attribute(type(value), "__tensor_flatten__")
    parts, context = world.materialize.for_c(world.calls.invoke(flatten, face))
    fix_context(world, context)
    return parts


def fix_context(world: TraceWorld, context: Any) -> None:
    """What a wrapper says beside its tensors must be as it was: numbers by value, other objects the same."""
    if type(context) in (tuple, list):
        for item in context:
            fix_context(world, item)
    elif type(context) is dict:
        fix_context(world, [*context.keys(), *context.values()])
    elif type(context) not in op_memory.ATOMS:
        place = world.inputs.source_of(context)
        if place is not None:
            world.guards.add(place, Check.IS, context)


type_rule(torch.Tensor, torch.nn.Parameter, wrap=wrap_tensor)
