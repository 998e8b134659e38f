"""The types of NumPy: arrays, numbers, element types, settings for errors."""

from __future__ import annotations

import functools
from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.features.numpy.arrays import Arrays
from framelift.features.numpy.tables import CYTHON, NUMPY_DTYPES, NUMPY_NUMBERS, Array, np
from framelift.graph.symbols import settled
from framelift.guards.guard import numpy_numbers
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.rules.constants import rebuild_constant, wrap_by_identity, wrap_constant, wrap_singleton
from framelift.trace.dynamism import can_be_symbol
from framelift.trace.runtime_calls import outside_of_modes
from framelift.trace.type_rules import Rebuilder, type_rule, wrap_opaque
from framelift.trace.world import TraceWorld


def can_be_traced(value: Any) -> bool:
    """Whether a tensor can share the memory of an array, and stand for it in a graph."""
    return (
        config.trace_numpy
        and value.dtype in NUMPY_DTYPES
        and value.size > 0
        and value.flags.writeable
        and value.flags.aligned
        and all(stride >= 0 and stride % value.itemsize == 0 for stride in value.strides)
    )


def wrap_array(world: TraceWorld, value: Any, source: Source) -> Any:
    if not can_be_traced(value):
        return wrap_opaque(world, value, source)
    world.guards.add(source, Check.TYPE, np.ndarray)
    part = lambda name: source.child(Access.NATIVE_ATTR, name)
    world.guards.add(part("dtype"), Check.IS, value.dtype)
    sizes = varying_sizes(world, value, part("shape"))
    if sizes is None:
        world.guards.add(part("shape"), Check.EQUAL, value.shape)
        world.guards.add(part("strides"), Check.EQUAL, value.strides)
    for flag in ("writeable", "aligned", *(() if sizes is None else ("c_contiguous",))):
        world.guards.add(part("flags").child(Access.NATIVE_ATTR, flag), Check.IS, True)
    with outside_of_modes():
        tensor = torch.from_numpy(value)
    world.recorder.inputs.note_array(tensor, value)
    made = world.runtime_calls.note(torch.from_numpy, (source,), {}, pure=True)
    tensor = world.runtime_calls.tensor(tensor, made, world.inputs.texts.of(source), sizes)
    array = Array(tensor)
    if not value.ndim:
        world.feature(Arrays).zero[id(array)] = array
    return world.inputs.stand_in(value, array, source)


def varying_sizes(world: TraceWorld, value: Any, source: Source) -> tuple[Any, ...] | None:
    """The shape of an array in rows, with symbols for the sizes that have changed; None if none have."""
    places = [source.child(Access.ITEM, n) for n in range(value.ndim)]
    varies = world.inputs.varies
    found = [size > 1 and varies(place, size) for size, place in zip(value.shape, places, strict=True)]
    if not any(found) or not value.flags.c_contiguous:
        return None
    world.guards.add(source, Check.LEN, value.ndim)
    sizes = tuple(
        world.inputs.symbolic_number(size, place) if is_symbol else wrap_constant(world, size, place)
        for size, place, is_symbol in zip(value.shape, places, found, strict=True)
    )
    for size in sizes:
        settled(size > 0)  # NumPy warns of means of nothing, and the like
    return sizes


def locked(array: Any) -> Any:
    array.flags.writeable = False
    return array


def rebuild_array(r: Rebuilder, value: Any) -> str:
    """An array of the tensor's memory. Without dimensions, it is one of NumPy's numbers."""
    if value.tensor.requires_grad or value.tensor.device.type != "cpu":
        raise Break(breaks.UNREBUILDABLE, "an array, made by wrap_numpy, that is no array in plain Python")
    turned = r.world.feature(Arrays).reversed.get(id(value))
    if turned is not None:
        return r.variable(f"{r.constant(np.flip)}({r.expression(turned.forwards)}, {turned.dims!r})", value)
    if id(value) in r.world.feature(Arrays).read_only:
        return r.variable(f"{r.own(locked)}({r.expression(value.tensor)}.numpy())")
    number = "" if r.world.feature(Arrays).is_array(value) else "[()]"
    return r.variable(f"{r.expression(value.tensor)}.numpy(){number}")


def wrap_number(world: TraceWorld, value: Any, source: Source) -> Any:
    """One of NumPy's numbers is a constant, guarded by its bytes, unless it was another one before."""
    if source.access is Access.CONST:
        return value
    world.guards.add(source, Check.TYPE, type(value))
    can_vary = config.trace_numpy and value.dtype in NUMPY_DTYPES and value.dtype.kind in "iufc"
    if can_vary and world.inputs.dynamism.has_changed(source, value.tobytes()):
        return varying_number(world, value, source)
    world.guards.add(source.child(Access.BYTES, value.dtype.str), Check.EQUAL, value.tobytes())
    return value


def varying_number(world: TraceWorld, value: Any, source: Source) -> Any:
    """What stands for a number that is another one in each call."""
    with outside_of_modes():
        tensor = number_as_tensor(value)
    made = world.runtime_calls.note(number_as_tensor, (source,), {}, pure=True)
    fake = world.runtime_calls.tensor(tensor, made, world.inputs.texts.of(source))
    number, place = value.item(), source.child(Access.NUMBER)
    if can_be_symbol(number):
        given = functools.partial(world.inputs.symbolic_number, number, place)
        world.recorder.inputs.numbers_in[world.recorder.builder.body.nodes[id(fake)]] = given
    return world.inputs.stand_in(value, Array(fake), source)


def number_as_tensor(number: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(number))


def rebuild_error_state(r: Rebuilder, value: Any) -> str:
    """Made again with the same settings."""
    settings = r.world.feature(Arrays).error_states.get(id(value))
    if settings is None:
        raise Break(breaks.UNREBUILDABLE, "a numpy.errstate", culprit=value)
    given = ", ".join(f"{name}={how!r}" for name, how in settings.items())
    return r.variable(f"{r.constant(type(value))}({given})", value)


if np is not None:
    numpy_numbers.update(NUMPY_NUMBERS)
    type_rule(np.ndarray, wrap=wrap_array, opaque=True)
    type_rule(Array, abstract=Arrays, rebuild=rebuild_array)
    type_rule(*NUMPY_NUMBERS, wrap=wrap_number, rebuild=rebuild_constant)
    type_rule(*{type(dtype) for dtype in NUMPY_DTYPES}, wrap=wrap_singleton, rebuild=rebuild_constant)
    type_rule(CYTHON, wrap=wrap_by_identity, rebuild=rebuild_constant)
    type_rule(np.errstate, rebuild=rebuild_error_state)
