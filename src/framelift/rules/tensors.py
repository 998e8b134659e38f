"""Tensors that come in: each becomes an input of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.graph import known_data, op_memory, wrapped_sizes
from framelift.graph.dimensions import Dim
from framelift.graph.effects import overlap
from framelift.graph.subclasses import is_wrapper_class
from framelift.graph.symbols import SYMBOLIC
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.rules.constants import wrap_constant
from framelift.trace.dynamism import can_be_symbol, marks
from framelift.trace.runtime_calls import outside_of_modes
from framelift.trace.type_rules import type_rule
from framelift.trace.world import TraceWorld

INTEGER = torch.int64
STRIDED = torch.strided


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
        fake = world.inputs.add_tensor(value, source)
        if spec.dtype is INTEGER and not spec.sizes:
            note_integer(world, value, source, fake)
        return fake
    fake = world.inputs.add_tensor(value, source, dims, strides)
    world.guards.add(source, Check.TENSOR, spec_with_symbols(value, fake))
    return fake


def note_integer(world: TraceWorld, value: torch.Tensor, source: Source, fake: Any) -> None:
    """The integer that a tensor holds, where the trace has to know something of it."""
    if value.device.type != "cpu" or value.layout is not STRIDED or type(value) is not torch.Tensor:
        return
    inputs, place = world.inputs, source.child(Access.NUMBER)
    inputs.holds_integers = True
    if not inputs.reads_integers or source.access is Access.CONST:
        return
    with outside_of_modes():
        number = value.item()
    given: Any = functools.partial(wrap_constant, world, number, place)
    if inputs.dynamism.mode is not False and can_be_symbol(number):
        given = functools.partial(inputs.symbolic_number, number, place)
    place_in_graph = world.recorder.builder.body.nodes[id(fake)]
    world.recorder.inputs.numbers_in[place_in_graph] = functools.partial(read_integer, world, value, given)


def read_integer(world: TraceWorld, tensor: torch.Tensor, given: Callable[[], Any]) -> Any:
    """What the tensor held before the call, if nothing was written there."""
    mutations = world.recorder.mutations
    written = [world.recorder.inputs.entries[n].value for n in mutations.written_inputs()]
    if any(isinstance(other, torch.Tensor) and overlap(tensor, other) for other in written):
        raise known_data.Unknown
    world.inputs.integers_read.append(tensor)
    return given()


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
        places = {name: (inner, source.child(Access.ATTR, name)) for name, inner in parts.items()}
        if dims and (of_parts := dims_of_parts(world, value, places, dims)):
            face = wrap_varying(world, value, source, dims, places, of_parts)
            fix_parts(world, value, face)
            return face
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
        face = world.inputs.add_tensor(value, source)
        for name, (inner, place) in places.items():
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


Places = dict[str, tuple[Any, Source]]
"""Name -> a tensor inside, and where it is found."""


def dims_of_parts(
    world: TraceWorld, value: Any, places: Places, dims: dict[int, Dim], says_sizes: bool = False
) -> dict[str, dict[int, Dim]] | None:
    """Which dimensions of the tensors inside vary, if the wrapper's are among these."""
    with torch._C.DisableTorchFunction():
        parts = {name: inner for name, (inner, _) in places.items()}
        ids = set(map(id, parts.values()))
        if len(ids) < len(parts) or not ids.isdisjoint(world.inputs.known):
            return None
        found = {name: world.inputs.dims_of(place, inner) for name, (inner, place) in places.items()}
        if world.inputs.dynamism.mode:
            found = {name: dict.fromkeys(range(parts[name].dim()), Dim()) | found[name] for name in parts}
        marked = {n: dim for n, dim in marks(value).items() if dim is not None and n in dims}
        for name, part in parts.items():
            if part.shape == value.shape:  # what is said of the wrapper is meant of it
                found[name] = found[name] | marked
        return found if wrapped_sizes.can_vary(value, dims, parts, found, says_sizes) else None


def wrap_varying(
    world: TraceWorld,
    value: Any,
    source: Source,
    dims: dict[int, Dim],
    places: Places,
    of_parts: dict[str, dict[int, Dim]],
) -> Any:
    """A tensor around others of which sizes are symbols: these come in like any other tensors."""
    with torch._C.DisableTorchFunction():
        parts = {}
        for name, found in of_parts.items():
            inner, place = places[name]
            world.inputs.hold(value, name, inner, place)
            parts[name] = wrap_plain(world, inner, place, found)
        face = world.inputs.add_tensor(value, source, dims, parts=parts)
        free = [n for n, size in enumerate(face.shape) if type(size) in SYMBOLIC]
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value, free))
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
