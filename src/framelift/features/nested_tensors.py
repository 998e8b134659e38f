"""Nested tensors of jagged layout that come in, and functions that make them."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nested._internal import nested_tensor
from torch.utils._python_dispatch import _disable_current_modes

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.graph.dimensions import Dim
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.nested import NestedTensor, lengths_name
from framelift.graph.subclasses import MAKERS
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.rules.tensors import fix_parts, wrap_plain
from framelift.trace.callable_rules import serve
from framelift.trace.dynamism import may_vary
from framelift.trace.machine import TraceFrame
from framelift.trace.type_rules import type_rule
from framelift.trace.world import TraceWorld

CACHED = {"_min_seqlen_tensor": "min_seqlen", "_max_seqlen_tensor": "max_seqlen"}
"""Part of a nested tensor that is found in its cache of metadata -> the key there."""


def wrap_nested(world: TraceWorld, value: Any, source: Source) -> Any:
    """The parts come in like any other tensors, and what the whole says of itself is said by them."""
    with torch._C.DisableTorchFunction():
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value, range(len(value._size))))
        names, _ = value.__tensor_flatten__()
        is_known = id(value._values) in world.inputs.known
        parts = {name: load_part(world, value, source, name) for name in names}
        face = world.inputs.add_tensor(value, source, parts=parts)
        if is_known:
            world.recorder.ask_for(parts["_values"])
    fix_parts(world, value, face)
    tell_lengths_apart(world, parts[lengths_name(value)])
    return face


def load_part(world: TraceWorld, nested: Any, source: Source, name: str) -> FakeTensor:
    part = getattr(nested, name)
    place = source.child(Access.ATTR, name)
    if name in CACHED:
        place = source.child(Access.ATTR, "_metadata_cache").child(Access.KEY, CACHED[name])
    world.inputs.hold(nested, name, part, place)
    if type(part) not in PLAIN_CLASSES:
        refuse(breaks.TENSOR_KIND, f"a nested tensor around a {type(part).__qualname__}")
    if id(part) in world.inputs.known:
        return world.inputs.load(part, place)
    dims = world.inputs.dims_of(place, part)
    if world.inputs.dynamism.mode and may_vary(source, nested):
        dims = dict.fromkeys(range(part.dim()), Dim()) | dims
    if name in CACHED:
        dims[0] = Dim(apart=True)
    elif name == "_values":
        dims[nested._ragged_idx - 1] = Dim(apart=True)  # lengths differ from call to call
    return wrap_plain(world, part, place, dims)


def tell_lengths_apart(world: TraceWorld, lengths: FakeTensor) -> None:
    """Nested ints are the same where the lengths are the same tensor: those that came in as two are two."""
    known = world.inputs.known_of(lengths)
    if known is None:
        return
    seen = world.recorder.wrappers.lengths
    for other in seen:
        if other is not lengths:
            world.guards.add(known.source, Check.NOT_SAME_AS, world.inputs.known_of(other).source)
    if not any(other is lengths for other in seen):
        seen.append(lengths)


type_rule(NestedTensor, wrap=wrap_nested)


# ---- functions that make nested tensors


def serve_maker(function: Any) -> None:
    """A graph calls the function itself, which has a tensor of its own to find the class by."""
    MAKERS.add(function)

    @serve(function)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        for_torch, recorder = f.world.materialize.for_torch, f.world.recorder
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            nested_tensor._nt_view_dummy()  # made once, for real
        recorder.builder.symbolise()
        given = tuple([for_torch(arg) for arg in args])
        named = {name: for_torch(value) for name, value in kwargs.items()}
        made = recorder.call(function, given, named)
        wrapper = recorder.wrappers.nested(made)
        tell_lengths_apart(f.world, getattr(wrapper, lengths_name(wrapper)))
        return made


serve_maker(nested_tensor.nested_view_from_values_offsets)
serve_maker(nested_tensor.nested_view_from_values_offsets_lengths)
serve_maker(nested_tensor.nested_from_padded)
