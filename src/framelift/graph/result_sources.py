"""Which inputs each result of a graph comes of."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from framelift.graph.functions import is_custom
from framelift.graph.op_memory import storage

Tensor = torch.Tensor
Sources = dict[int, int]
"""Number of a result -> the inputs that it comes of, as bits. `INSIDE` -> those that gradients within the
graph come of."""
INSIDE = -1


def sources_of(graph: torch.fx.Graph) -> Sources | None:
    """Which inputs that require grad each result comes of; None if each comes of all of them, or that is not
    known. Rather one too many: what is written to one part of some memory counts for all of it."""
    results = results_of(graph)
    with torch._C.DisableTorchFunction():
        try:
            differentiated = [n for n, one in enumerate(results) if is_differentiated(one)]
            inputs = inputs_that_require_grad(graph)
            if not differentiated:
                return None
            if len(differentiated) == 1 and leads_to_all(results[differentiated[0]], inputs):
                return None
            memory = Memory(graph)
            found = {n: memory.read(results[n]) for n in differentiated}
            inside = sum_of_bits(memory.read(each) for each in differentiated_inside(graph))
        except Unknown:
            return None
    if len({*found.values(), sum(1 << n for n in inputs.values())}) == 1:
        return None
    return {**found, INSIDE: inside} if inside else found


def sum_of_bits(bits: Iterable[int]) -> int:
    return functools.reduce(operator.or_, bits, 0)


def differentiated_inside(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """What the graph itself computes gradients of, and for."""
    calls = [node for node in graph.nodes if node.target is torch.autograd.grad]
    return [each for node in calls for each in node.all_input_nodes]


def inputs_that_require_grad(graph: torch.fx.Graph) -> dict[torch.fx.Node, int]:
    """With their numbers."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    return {node: n for n, node in enumerate(placeholders) if is_differentiated(node)}


def leads_to_all(result: torch.fx.Node, inputs: dict[torch.fx.Node, int]) -> bool:
    """Whether a result comes of all inputs, by what can be told without looking at memory."""
    waiting, seen = [result], {result}
    while waiting:
        for each in waiting.pop().all_input_nodes:
            if each not in seen and (each.op == "get_attr" or is_differentiated(each)):
                seen.add(each)
                waiting.append(each)
    return all(node in seen for node in inputs)


def results_of(graph: torch.fx.Graph) -> list[Any]:
    given = graph.output_node().args[0]
    return list(given) if isinstance(given, (tuple, list)) else [given]


class Unknown(Exception):
    """It can't be told what something comes of."""


class Memory:
    """Which inputs the data in each piece of memory comes of, as bits."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.bits: dict[int, int] = {}
        self.places: dict[torch.fx.Node, list[tuple[int, bool]]] = {}
        """Where the tensors that a node gives lie, and whether these require grad."""
        count = 0
        for node in graph.nodes:
            if node.op == "output":
                break
            if node.op == "placeholder":
                self.add(node, 1 << count)
                count += 1
                continue
            if name_of(node) in CUTTING:
                raise Unknown  # what the tensor has led to before is not to be seen any more
            bits = 0
            for each in node.all_input_nodes:
                bits |= self.read(each)
            self.add(node, bits)
            if may_write_to_all(node):
                for each in node.all_input_nodes:
                    self.add(each, bits)

    def add(self, node: torch.fx.Node, bits: int) -> None:
        known = self.places.get(node)
        if known is None:
            tensors = tensors_in(node.meta.get("example_value"))
            known = self.places[node] = [(storage(tensor), tensor.requires_grad) for tensor in tensors]
        for where, _ in known:
            self.bits[where] = self.bits.get(where, 0) | bits

    def read(self, node: torch.fx.Node) -> int:
        """The inputs that what a node gives has gradients for."""
        bits = 0
        for where, requires_grad in self.places[node]:
            if requires_grad:
                bits |= self.bits[where]
        return bits


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


def tensors_in(value: Any) -> Sequence[Tensor]:
    if value is None:
        return ()
    found = [value] if isinstance(value, Tensor) else pytree.tree_leaves(value)
    tensors = [each for each in found if isinstance(each, Tensor)]
    if any(each.layout is not torch.strided for each in tensors):
        raise Unknown  # it lies in several places
    return tensors
