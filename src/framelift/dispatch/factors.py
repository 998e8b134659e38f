"""Sums and differences with a factor, as `p.add_(grad, alpha=-0.1)`, written for Inductor as what they are.

Its patterns look at the operands of an operator and not at its keywords (torch 2.13): a sum that becomes part
of a matrix product, or the mask of an attention, loses its factor, and the result is a wrong one. Where an
operand comes from anything that a pattern may be about, the factor becomes a product of its own; elsewhere it
stays, since a GPU multiplies and adds in one step.

Only imported when Inductor is: the pass is one of its classes.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

aten, prims = torch.ops.aten, torch.ops.prims

FACTORED = (aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar)
"""Operators that multiply their second operand by `alpha`."""
OPTION = "joint_custom_pre_pass"
"""Inductor's option for what is done to a graph before everything else."""


def with_factors_written_out(options: dict[str, Any]) -> dict[str, Any]:
    """Options of Inductor, with which no factor is lost."""
    return {**options, OPTION: WriteOutFactors(options.get(OPTION, getattr(config, OPTION)))}


class WriteOutFactors(CustomGraphPass):
    def __init__(self, then: Any) -> None:
        self.then = list(then) if isinstance(then, (list, tuple)) else [] if then is None else [then]
        """What the program has given for the same option."""

    def __call__(self, graph: Graph) -> None:
        for target in FACTORED:
            for node in graph.find_nodes(op="call_function", target=target):
                if node.kwargs.get("alpha", 1) != 1 and any(map(may_be_matched, node.args)):
                    write_out(node)
        for each in self.then:
            each(graph)

    def uuid(self) -> Any:
        """Goes into the keys of Inductor's caches, where others may have left results without factors. None:
        a pass of the program's own may do anything."""
        known = [each.uuid() if isinstance(each, CustomGraphPass) else None for each in self.then]
        return None if None in known else (get_hash_for_files((__file__,)), *known)


def may_be_matched(operand: Any) -> bool:
    """Whether it comes, through operators on single elements, from what is none: a product, a convolution, a
    reduction."""
    while isinstance(operand, Node) and operand.op == "call_function":
        target: Any = operand.target
        is_moved = target is prims.convert_element_type.default or getattr(target, "is_view", False)
        if not is_moved and torch.Tag.pointwise not in getattr(target, "tags", ()):
            return True
        inputs = operand.all_input_nodes
        if len(inputs) != 1:
            return False
        operand = inputs[0]
    return False


def write_out(node: Node) -> None:
    y: Any
    x, y = node.args
    alpha: Any = node.kwargs["alpha"]
    with node.graph.inserting_before(node):
        if isinstance(y, Node) and isinstance(y.meta.get("val"), torch.Tensor):
            dtype = node.meta["val"].dtype  # in which the operator computes
            if y.meta["val"].dtype != dtype:
                y = called(node, prims.convert_element_type.default, y, dtype)
            y = called(node, aten.mul.Tensor, y, alpha)
        else:  # a number
            y = called(node, operator.mul, y, alpha) if isinstance(y, Node) else y * alpha
    node.args, node.kwargs = (x, y), {}


def called(like: Node, function: Any, *args: Any) -> Node:
    made = like.graph.call_function(function, args)
    made.meta = {**like.meta, "val": function(*[a.meta["val"] if isinstance(a, Node) else a for a in args])}
    return made
