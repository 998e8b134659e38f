"""Whether two graphs do the same."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from framelift.graph.body import GraphBody
from framelift.graph.functions import GRAD_SETTERS

Matches = dict[torch.fx.Node, torch.fx.Node]
"""Node of one graph -> the node of the other that does the same."""


def same_bodies(one: GraphBody, other: GraphBody) -> bool:
    """Whether two bodies, which stand in the same graph, do the same with the same operands, but for setting
    whether gradients are computed. They may have been traced in different grad modes."""
    known = {operand.outer: operand.node for operand in one.operands}
    if known.keys() != set(other.outer_nodes) or one.operator_inputs or other.operator_inputs:
        return False
    same = {known[operand.outer]: operand.node for operand in other.operands}
    return same_graphs(one.graph, other.graph, same, one.modules, other.modules)


def same_graphs(
    one: torch.fx.Graph,
    other: torch.fx.Graph,
    same: Matches,
    modules: dict[str, Any],
    other_modules: dict[str, Any],
) -> bool:
    """`same` has the placeholders, and gets the rest."""
    left, right = map(calls_of, (one, other))
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        if a.op != b.op or not is_same(a.args, b.args, same) or not is_same(a.kwargs, b.kwargs, same):
            return False
        if a.op == "get_attr":
            if not same_modules(modules[str(a.target)], other_modules[str(b.target)]):
                return False
        elif a.target != b.target:
            return False
        same[a] = b
    return True


def calls_of(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op != "placeholder" and node.target not in GRAD_SETTERS]


def same_modules(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.fx.GraphModule) and isinstance(other, torch.fx.GraphModule)):
        return one is other
    given = [[node for node in module.graph.nodes if node.op == "placeholder"] for module in (one, other)]
    if len(given[0]) != len(given[1]):
        return False
    same = dict(zip(*given, strict=True))
    modules = dict(one.named_children()), dict(other.named_children())
    return same_graphs(one.graph, other.graph, same, *modules)


def is_same(one: Any, other: Any, same: Matches) -> bool:
    """Whether arguments of two nodes are the same: numbers to the bit."""
    if isinstance(one, torch.fx.Node):
        return same.get(one) is other
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(is_same(*pair, same) for pair in zip(one, other, strict=True))
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key], same) for key in one)
    if isinstance(one, slice):
        left, right = ((part.start, part.stop, part.step) for part in (one, other))
        return is_same(left, right, same)
    return one is other or repr(one) == repr(other)
