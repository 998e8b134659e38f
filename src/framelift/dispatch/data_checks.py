"""Checks of data that TorchInductor leaves out: it makes some operators of others that fail on less.

Eager's `index_select` refuses negative indices, and Inductor's wraps them; dividing an integer by zero ends
the process. So before such a call the graph asserts what eager code checks. It does not matter what the
assertion says: the frame runs again as plain Python, and fails there. On other devices than the CPU nobody
gets to see the error where it happens, and nothing is asserted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.fx

Graph = torch.fx.GraphModule

# Torch 2.11's compilers take the check of a matrix without an inverse for one that nobody needs.
torch.fx.has_side_effect(torch.ops.aten._linalg_check_errors.default)


class Check(NamedTuple):
    """What eager code checks of one argument of a call."""

    position: int
    name: str
    condition: Callable[[torch.fx.Graph, torch.fx.Node], torch.fx.Node]
    applies: Callable[[torch.fx.Node, torch.Tensor], bool] = lambda call, value: True


def is_not_negative(graph: torch.fx.Graph, tensor: torch.fx.Node) -> torch.fx.Node:
    return graph.call_method("ge", (tensor, 0))


def is_not_zero(graph: torch.fx.Graph, tensor: torch.fx.Node) -> torch.fx.Node:
    return graph.call_method("ne", (tensor, 0))


def is_probability(graph: torch.fx.Graph, tensor: torch.fx.Node) -> torch.fx.Node:
    return graph.call_method(
        "logical_and", (is_not_negative(graph, tensor), graph.call_method("le", (tensor, 1)))
    )


def divides_integers(call: torch.fx.Node, divisor: torch.Tensor) -> bool:
    dividend = example(call.args[0]) if call.args else None
    values = [value for value in (dividend, divisor) if isinstance(value, torch.Tensor)]
    is_exact = not any(value.is_floating_point() or value.is_complex() for value in values)
    return bool(call.kwargs.get("rounding_mode")) and is_exact and type(dividend) is not float


def has_no_number(call: torch.fx.Node, value: torch.Tensor) -> bool:
    """Whether the tensor itself says how likely each element is."""
    return len(call.args) == 1 and "p" not in call.kwargs


INDEX = (Check(2, "index", is_not_negative),)
DIVISOR = (Check(1, "other", is_not_zero, divides_integers),)
CHECKS: dict[str, tuple[Check, ...]] = {
    **dict.fromkeys(("index_select", "index_add", "index_copy", "index_reduce"), INDEX),
    **dict.fromkeys(("index_add_", "index_copy_", "index_reduce_"), INDEX),
    **dict.fromkeys(("div", "div_", "divide", "divide_"), DIVISOR),
    **dict.fromkeys(
        ("max_unpool1d", "max_unpool2d", "max_unpool3d"), (Check(1, "indices", is_not_negative),)
    ),
    "binary_cross_entropy": (Check(0, "input", is_probability), Check(1, "target", is_probability)),
    "bernoulli": (Check(0, "input", is_probability, has_no_number),),
    "normal": (Check(1, "std", is_not_negative),),
}
"""Name of a function or method -> what it checks on the CPU, and Inductor does not."""


def example(argument: Any) -> Any:
    """What stood for an argument of a call in the trace."""
    return argument.meta.get("example_value") if isinstance(argument, torch.fx.Node) else argument


def checks_of(call: torch.fx.Node) -> list[tuple[Check, torch.fx.Node]]:
    """The checks before a call, and the tensors that they are of."""
    if call.op not in ("call_function", "call_method"):
        return []
    target = call.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    found = []
    for check in CHECKS.get(name, ()):
        given = call.args[check.position] if check.position < len(call.args) else call.kwargs.get(check.name)
        value = example(given)
        if not (isinstance(given, torch.fx.Node) and isinstance(value, torch.Tensor)):
            continue
        if value.device.type == "cpu" and check.applies(call, value):
            found.append((check, given))
    return found


def with_checks(graph: Graph) -> Graph:
    """The graph, or one that asserts what eager code checks."""
    if not any(checks_of(node) for node in graph.graph.nodes):
        return graph
    checked = Graph(graph, copy.deepcopy(graph.graph))
    nodes = checked.graph
    for node in list(nodes.nodes):
        for check, tensor in checks_of(node):
            with nodes.inserting_before(node):
                holds = nodes.call_method("all", (check.condition(nodes, tensor),))
                nodes.call_function(torch._assert_async, (holds, f"what {node.target} is given"))
    checked.recompile()
    return checked
