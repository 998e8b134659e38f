"""Which inputs each result of a graph comes of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from framelift.graph.functions import is_custom
from framelift.graph.op_memory import storage

Tensor = torch.Tensor
Sources = dict[int, int]
"""Number of a result -> the inputs that it comes of, as bits."""


def sources_of(graph: torch.fx.Graph) -> Sources | None:
    """Which inputs that require grad each result comes of; None if each comes of all of them, or that is not
    known. Rather one too many: what is written to one part of some memory counts for all of it."""
    results = results_of(graph)
    with torch._C.DisableTorchFunction():
        try:
            if sum(map(is_differentiated, results)) < 2:
                return None
            memory = followed(graph)
            found = {n: read(one, memory) for n, one in enumerate(results) if is_differentiated(one)}
        except Unknown:
            return None
    return found if len(set(found.values())) > 1 else None


def results_of(graph: torch.fx.Graph) -> list[Any]:
    given = graph.output_node().args[0]
    return list(given) if isinstance(given, (tuple, list)) else [given]


class Unknown(Exception):
    """It can't be told what something comes of."""


def followed(graph: torch.fx.Graph) -> dict[int, int]:
    """Memory -> the inputs that what lies there comes of, as bits."""
    memory: dict[int, int] = {}
    count = 0
    for node in graph.nodes:
        if node.op == "output":
            break
        if node.op == "placeholder":
            value = node.meta.get("example_value")
            for tensor in tensors_in(value):
                where = storage(tensor)
                memory[where] = memory.get(where, 0) | 1 << count
            count += 1
            continue
        if name_of(node) in CUTTING:
            raise Unknown  # what the tensor has led to before is not to be seen any more
        bits = 0
        for each in node.all_input_nodes:
            bits |= read(each, memory)
        for each in [node, *(node.all_input_nodes if may_write_to_all(node) else ())]:
            for tensor in tensors_in(each.meta.get("example_value")):
                where = storage(tensor)
                memory[where] = memory.get(where, 0) | bits
    return memory


CUTTING = frozenset({"detach_", "requires_grad_", "set_", "resize_", "resize_as_", "__set__"})
"""Functions after which a tensor has another history, or another memory."""


def name_of(node: torch.fx.Node) -> str:
    target = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def may_write_to_all(node: torch.fx.Node) -> bool:
    """Whether a call may write to what it is given, and not give it back."""
    if "out" in node.kwargs or node.meta.get("example_value") is None:
        return True
    return is_custom(node.target) or any(each.op == "get_attr" for each in node.all_input_nodes)


def is_differentiated(node: Any) -> bool:
    if not isinstance(node, torch.fx.Node):
        return False
    return any(tensor.requires_grad for tensor in tensors_in(node.meta.get("example_value")))


def read(node: torch.fx.Node, memory: dict[int, int]) -> int:
    """The inputs that what a node gives has gradients for."""
    bits = 0
    for tensor in tensors_in(node.meta.get("example_value")):
        if tensor.requires_grad:
            where = storage(tensor)
            if where not in memory:
                raise Unknown
            bits |= memory[where]
    return bits


def tensors_in(value: Any) -> Iterator[Tensor]:
    for each in pytree.tree_leaves(value):
        if isinstance(each, Tensor):
            if each.layout is not torch.strided:
                raise Unknown  # it lies in several places
            yield each
