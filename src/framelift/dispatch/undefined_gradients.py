"""Gradients that eagerly are none at all, of graphs that AOTAutograd has compiled.

It computes the gradients of all inputs in one step. A result that has got no gradient counts as zero there,
and inputs that lead to such results only would get zeros where they eagerly get nothing: optimizers would
move parameters that took no part.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from framelift import _guards
from framelift.graph.result_sources import INSIDE, Sources, sum_of_bits

Tensor = torch.Tensor


class UndefinedGradients:
    """Calls what a backend has made of a graph, and sees to it that inputs get a gradient only where a result
    that comes of them has got one."""

    def __init__(self, compiled: Callable[..., Any], sources: Sources) -> None:
        self.compiled = compiled
        self.sources = sources
        self.differ = len({sources[n] for n in sources if n != INSIDE}) > 1
        """Whether it depends on the results that are used which inputs have gradients."""
        self.unused: list[int] | None = None
        """The inputs that require grad and that no result comes of."""
        self.places: tuple[dict[int, int], dict[int, int]] | None = None
        """Of the node that computes the gradients: number of what it is given -> the inputs that it goes to;
        number of what it gives -> the input that it is for. Both as bits."""

    def __call__(self, *inputs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.compiled(*inputs)
        if self.unused is None:
            self.unused = self.find_unused(inputs)
        if self.unused:
            inputs = self.detached(inputs, self.unused)
        results = self.compiled(*inputs)
        if self.differ and (node := backward_of(results)) is not None:
            if self.places is None:
                self.places = self.find_places(node, inputs, results)
            node.register_hook(functools.partial(self.leave_out, weakref.ref(node)))
        return results

    def find_unused(self, inputs: Any) -> list[int]:
        known = sum_of_bits(self.sources.values())
        plain = [n for n, one in enumerate(inputs) if type(one) in (Tensor, torch.nn.Parameter)]
        return [n for n in plain if inputs[n].requires_grad and not known >> n & 1]

    def detached(self, inputs: Any, numbers: list[int]) -> tuple[Any, ...]:
        """The inputs, with no way for gradients to those that would get none: their hooks would be called."""
        given = list(inputs)
        with torch._C.DisableTorchFunction():
            for n in numbers:
                given[n] = given[n].detach()
        return tuple(given)

    def find_places(self, node: Any, inputs: Any, results: Any) -> tuple[dict[int, int], dict[int, int]]:
        with torch._C.DisableTorchFunction():
            given = {
                number: self.sources[n]
                for n, (function, number) in enumerate(map(computed_by, results))
                if function is node and n in self.sources
            }
            edges = [
                get_gradient_edge(one) if isinstance(one, Tensor) and one.requires_grad else None
                for one in inputs
            ]
        made: dict[int, int] = {}
        for n, (function, number) in enumerate(node.next_functions):
            for k, edge in enumerate(edges):
                if edge is not None and edge.node is function and edge.output_nr == number:
                    made[n] = made.get(n, 0) | 1 << k
        return given, made

    def leave_out(self, node: Any, made: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
        """After the gradients were computed: those that come of no result. A hook would be given None."""
        assert self.places is not None
        sources, inputs = self.places
        live = 0
        for n, gradient in enumerate(given):
            if gradient is not None:
                live |= sources.get(n, -1)  # what is not known may lead anywhere
        dead = [n for n, bits in inputs.items() if not bits & live and made[n] is not None]
        functions = node().next_functions if dead else ()
        left_out = {n for n in dead if is_leaf_without_hooks(functions[n][0])}
        return tuple([None if n in left_out else each for n, each in enumerate(made)]) if left_out else None


def is_leaf_without_hooks(function: Any) -> bool:
    return type(function).__name__ == "AccumulateGrad" and not _guards.has_hooks(function.variable)


def backward_of(results: Any) -> Any:
    """The node that computes the gradients of what AOTAutograd has compiled."""
    for one in results if isinstance(results, (tuple, list)) else ():
        node, _ = computed_by(one)
        if type(node).__name__ == "CompiledFunctionBackward":
            return node
    return None


def computed_by(result: Any) -> tuple[Any, int]:
    """The node that a gradient of a result goes to first, and by which number."""
    node: Any = result.grad_fn if isinstance(result, Tensor) else None
    if type(node).__name__ == "AliasBackward0":  # which hides how it was made
        return node.next_functions[0]
    return node, 0 if node is None else result.output_nr
