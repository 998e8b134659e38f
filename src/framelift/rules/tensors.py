"""Tensors that come in: each becomes an input of the graph."""

from __future__ import annotations

from typing import Any

import torch

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.graph import op_memory, wrapped_sizes
from framelift.graph.dimensions import Dim
from framelift.graph.subclasses import is_wrapper_class
from framelift.graph.symbols import SYMBOLIC
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.dynamism import marks
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
    """A tensor of which some dimensions, or strides, may be symbols."""
    spec = _guards.TensorSpec(value)
    strides = () if dims else world.inputs.dynamism.strides(source, spec)
    if not dims and not strides:
        world.guards.add(source, Check.TENSOR, spec)
        return world.inputs.add_tensor(value, source)
    fake = world.inputs.add_tensor(value, source, dims, strides)
    world.guards.add(source, Check.TENSOR, spec_with_symbols(value, fake))
    return fake


def spec_with_symbols(value: torch.Tensor, fake: Any) -> _guards.TensorSpec:
    sizes, strides = (
        [n for n, number in enumerate(numbers) if type(number) in SYMBOLIC]
        for numbers in (fake.shape, fake.stride())
    )
    return _guards.TensorSpec(value, sizes, strides)


def wrap_wrapper(world: TraceWorld, value: Any, source: Source) -> Any:
    """A tensor around others: these are guarded like any, and all else that it says of itself."""
    with torch._C.DisableTorchFunction():
        parts = parts_of(value)
        dims = world.inputs.dims_of(source, value)
        if dims and (of_parts := dims_of_parts(world, value, source, parts, dims)):
            return wrap_varying(world, value, source, dims, of_parts)
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
        face = world.inputs.add_tensor(value, source)
        for name, inner in parts.items():
            place = source.child(Access.ATTR, name)
            world.inputs.hold(value, name, inner, place)
            if is_wrapper_class(type(inner)):
                world.inputs.load(inner, place)
            else:
                world.guards.add(place, Check.TENSOR, _guards.TensorSpec(inner))
    fix_parts(world, value, face)
    return face


def parts_of(value: Any) -> dict[str, Any]:
    """The tensors that one holds. Where its `__init__` is looked at by itself, it may not hold them yet."""
    try:
        parts = {name: getattr(value, name) for name in value.__tensor_flatten__()[0]}
    except Exception as error:
        refuse(breaks.TENSOR_KIND, f"a {type(value).__qualname__} that can't say what it holds: {error}")
    if not all(isinstance(part, torch.Tensor) for part in parts.values()):
        refuse(breaks.TENSOR_KIND, f"a {type(value).__qualname__} around something else than tensors")
    return parts


def dims_of_parts(
    world: TraceWorld, value: Any, source: Source, parts: dict[str, Any], dims: dict[int, Dim]
) -> dict[str, dict[int, Dim]] | None:
    """Which dimensions of the tensors inside vary, if the wrapper's are among these."""
    with torch._C.DisableTorchFunction():
        ids = set(map(id, parts.values()))
        if len(ids) < len(parts) or not ids.isdisjoint(world.inputs.known):
            return None
        found = {name: world.inputs.dims_of(source.child(Access.ATTR, name), parts[name]) for name in parts}
        if world.inputs.dynamism.mode:
            found = {name: dict.fromkeys(range(parts[name].dim()), Dim()) | found[name] for name in parts}
        marked = {n: dim for n, dim in marks(value).items() if dim is not None and n in dims}
        for name, part in parts.items():
            if part.shape == value.shape:  # what is said of the wrapper is meant of it
                found[name] = found[name] | marked
        return found if wrapped_sizes.are_those_of_parts(value, dims, parts, found) else None


def wrap_varying(
    world: TraceWorld, value: Any, source: Source, dims: dict[int, Dim], of_parts: dict[str, dict[int, Dim]]
) -> Any:
    """A tensor around others of which sizes are symbols: these come in like any other tensors."""
    with torch._C.DisableTorchFunction():
        parts = {}
        for name, found in of_parts.items():
            inner, place = getattr(value, name), source.child(Access.ATTR, name)
            world.inputs.hold(value, name, inner, place)
            parts[name] = wrap_plain(world, inner, place, found)
        face = world.inputs.add_tensor(value, source, dims, parts=parts)
        free = [n for n, size in enumerate(face.shape) if type(size) in SYMBOLIC]
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value, free))
    fix_parts(world, value, face)
    return face


def fix_parts(world: TraceWorld, value: Any, face: Any) -> None:
    """What a wrapper says of itself beside the tensors that it holds is guarded."""
    flatten = world.classes.attribute(type(value), "__tensor_flatten__")
    _, context = world.materialize.for_c(world.calls.invoke(flatten, face))
    fix_context(world, context)


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
