"""What stands in a graph for a tensor from outside: a placeholder, and a fake that is known by it.

Some of its sizes and strides may be symbols, and a tensor that wraps others may come with what stands for
these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import nested, wrapped_sizes
from framelift.graph.dimensions import Dim
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.functions import LAYOUTS
from framelift.graph.subclasses import as_plain, is_known_kind, is_wrapper_class

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder


def add_input(
    recorder: Recorder,
    tensor: torch.Tensor,
    source: str = "value",
    dims: dict[int, Dim] | None = None,
    strides: Iterable[int] = (),
    parts: dict[str, FakeTensor] | None = None,
    sizes: tuple[Any, ...] | None = None,
) -> FakeTensor:
    """A real tensor becomes a placeholder; some sizes or strides may be symbols. `source`: what it is
    called after; `parts`: what stands for the tensors that it wraps, if these are known; `sizes`: those
    of a plain tensor in rows, if some of them are symbols that are inputs themselves."""
    cls = type(tensor)
    with torch._C.DisableTorchFunction():
        if not (is_known_kind(cls) or is_wrapper_class(cls)):
            raise Break(breaks.TENSOR_KIND, f"a tensor subclass, {cls.__name__}")
        if tensor.layout not in LAYOUTS:
            raise Break(breaks.TENSOR_KIND, f"a tensor of layout {tensor.layout}")
        recorder.mutations.refuse_overlap(tensor)
        node = recorder.inputs.placeholder(source, is_tensor=True)
        try:
            if sizes is None:
                fake = fake_of(recorder, tensor, node, dims, strides, parts)
            else:
                fake = fake_in_rows(recorder, tensor, node, sizes)
        except Exception as error:
            node.graph.erase_node(node)  # the graph so far is compiled, without it
            raise Break(breaks.TENSOR_KIND, f"a tensor that can't be faked: {error}") from error
    node.meta["example_value"] = fake
    recorder.builder.bodies[0].nodes[id(fake)] = node
    recorder.builder.kept.append(fake)
    recorder.subclasses.set_class(fake, cls)
    recorder.inputs.add_tensor(node, tensor, fake)
    return fake


def fake_of(
    recorder: Recorder,
    tensor: torch.Tensor,
    node: torch.fx.Node,
    dims: dict[int, Dim] | None,
    strides: Iterable[int],
    parts: dict[str, FakeTensor] | None,
) -> FakeTensor:
    builder, wrappers = recorder.builder, recorder.wrappers
    if parts is not None and type(tensor) is nested.NestedTensor:
        face = wrappers.face_of(nested.fake_of(builder, node, tensor, parts))
        wrappers.values[id(parts["_values"])] = id(face)
        return face
    if parts is not None:
        wrappers.asked_for_sizes.update(map(id, parts.values()))
        return wrappers.face_of(wrapped_sizes.fake_of(builder, node, tensor, dims or {}, parts))
    if is_wrapper_class(type(tensor)):
        return wrappers.face_of(recorder.fakes.of(tensor))
    plain = tensor if type(tensor) in PLAIN_CLASSES else as_plain(tensor)
    if plain.is_leaf is not tensor.is_leaf:  # since it is an alias
        with torch.no_grad():
            plain = as_plain(tensor)
        plain.requires_grad_()
    if not dims and not strides:
        return recorder.fakes.of(plain)
    symbols = builder.symbolise()
    made = symbols.tensor(node, plain, dims or {}, strides)
    try:
        return symbols.fake(recorder.fakes, made)
    except Exception:
        symbols.forget_latest()
        raise


def fake_in_rows(
    recorder: Recorder, tensor: torch.Tensor, node: torch.fx.Node, sizes: tuple[Any, ...]
) -> FakeTensor:
    symbols = recorder.builder.symbolise()
    return symbols.fake_in_rows(recorder.fakes, symbols.in_rows(node, tensor, sizes))
