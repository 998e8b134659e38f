"""Nested tensors of jagged layout: torch's own tensors around others, of which one size is a nested int.

A nested int stands for a list of lengths, and is the same where the tensor of offsets is the same object. To
torch it is a symbol of the environment, which is made for the fake of the offsets (`nested_int_memo`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils import _pytree as pytree

from framelift import _guards
from framelift.graph.symbols import Wrapped, made_of

if TYPE_CHECKING:
    from framelift.graph.builder import GraphBuilder


def is_given(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether one of the arguments is a nested tensor."""
    return any(type(value) is NestedTensor for value in pytree.tree_leaves((args, kwargs)))


def ask_class(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What torch makes of a function that is given a nested tensor."""
    return NestedTensor.__torch_function__(func, (), args, kwargs)


def lengths_name(tensor: Any) -> str:
    """Which part of a nested tensor its nested int belongs to."""
    return "_offsets" if tensor._lengths is None else "_lengths"


def face_layout(tensor: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Sizes and strides of what stands for a nested tensor. There is no memory of a nested size: in its place
    is the size of what it wraps. Who asks for sizes is told those of the nested tensor itself."""
    values = tensor._values
    return (tensor._size[0], *values.shape), (values.numel(), *values.stride())


def fake_of(
    builder: GraphBuilder, node: torch.fx.Node, tensor: Any, parts: dict[str, FakeTensor]
) -> NestedTensor:
    """A nested tensor around fakes, for one that comes in."""
    symbols, fakes = builder.symbolise(), builder.fakes
    lengths: Any = parts[lengths_name(tensor)]
    ragged, sizes = tensor._ragged_idx, list(tensor._size)
    if lengths.nested_int_memo is None:
        known = sizes[ragged].node.nested_int()
        lengths.nested_int_memo = fakes.create_symbolic_nested_int(nt_tensor_id=known)
    sizes[ragged] = lengths.nested_int_memo
    entries = {entry.node: entry for entry in symbols.inputs}
    known_parts = {name: entries.get(builder.bodies[0].nodes[id(part)]) for name, part in parts.items()}
    symbols.wrapped.append(Wrapped(node, tensor, tuple(sizes), known_parts))
    made: Any = made_of(fakes, tensor, parts, tuple(sizes))
    if tensor.requires_grad and not tensor.is_leaf:
        _guards.fake_history(made)
    return made
