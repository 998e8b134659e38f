"""Tensors that wrap others and come in with sizes that vary: their sizes are those of what they wrap.

Graphs ask the tensors inside for them, which are inputs too: what a class does with `aten.sym_size` in its
`__torch_dispatch__` is its own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _guards
from framelift.graph.dimensions import Dim
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.symbols import Wrapped, made_of

if TYPE_CHECKING:
    from framelift.graph.builder import GraphBuilder

Dims = dict[int, Dim]


def are_those_of_parts(tensor: Any, dims: Dims, parts: dict[str, Any], of_parts: dict[str, Dims]) -> bool:
    """Whether each dimension of a wrapper that varies is one of a tensor inside, now as in earlier calls."""
    is_dense = not _guards.TensorSpec(tensor).own_strides
    if not is_dense or any(dim.is_marked for dim in dims.values()):
        return False
    if not all(type(part) in PLAIN_CLASSES and is_ordinary(part) for part in parts.values()):
        return False
    within = {
        (parts[name].shape[n], dim.history) for name, found in of_parts.items() for n, dim in found.items()
    }
    return all((tensor.shape[n], dim.history) in within for n, dim in dims.items())


def is_ordinary(part: torch.Tensor) -> bool:
    return part.layout is torch.strided and not part.requires_grad


def fake_of(
    builder: GraphBuilder, node: torch.fx.Node, tensor: Any, dims: Dims, parts: dict[str, FakeTensor]
) -> Any:
    """A wrapper around fakes, for one that comes in."""
    symbols = builder.symbolise()
    made = symbols.tensor(node, tensor, dims)
    entries = {entry.node: entry for entry in symbols.inputs}
    known = {name: entries.get(builder.bodies[0].nodes[id(part)]) for name, part in parts.items()}
    symbols.wrapped.append(Wrapped(node, tensor, made.sizes, known, made.strides))
    wrapper = made_of(builder.fakes, tensor, parts, made.sizes, made.strides)
    if tensor.requires_grad and tensor.is_leaf:
        wrapper.requires_grad_()
    elif tensor.requires_grad:
        _guards.fake_history(wrapper)
    return wrapper
