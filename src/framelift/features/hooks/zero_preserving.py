"""Whether a hook is zero preserving: it gives zeros for a gradient of zeros.

A backward graph gets a gradient for each output of its forward graph: zeros, where none came. So hooks behind
an output that nobody uses are called there, though autograd would not call them. That does no harm if they
give zeros for zeros. With others, a graph that has several outputs is run as it was captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.fx

from framelift.graph.body import GraphBody

Node = torch.fx.Node
ZERO, OTHER, FREE = "zero", "other", "free"
"""What a value is if the inputs of the body are zero: zero; perhaps something else; independent of them."""


def is_zero_preserving(body: GraphBody) -> bool:
    """Whether all results of a body are known to be zero if its inputs are."""
    kinds: dict[Any, str] = dict.fromkeys(body.operator_inputs, ZERO)
    for node in body.graph.nodes:
        if node.op == "output":
            return all(kinds.get(given) is ZERO for given in outputs(node.args[0]))
        if node in kinds:
            continue
        if all(kinds[argument] is FREE for argument in node.all_input_nodes):
            kinds[node] = FREE
            continue
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
        keeps = KEEPING.get(str(name))
        given = [kinds[argument] if isinstance(argument, Node) else FREE for argument in node.args]
        kinds[node] = ZERO if keeps is not None and keeps(given, node) else OTHER
    return False


def outputs(given: Any) -> Iterator[Any]:
    for one in given if isinstance(given, (tuple, list)) else (given,):
        if one is not None:
            yield one


def first(given: list[str], node: Node) -> bool:
    """The other arguments are options."""
    return given[0] is ZERO and OTHER not in given


def first_only(given: list[str], node: Node) -> bool:
    return given[0] is ZERO and all(kind is FREE for kind in given[1:])


def between(given: list[str], node: Node) -> bool:
    """Whether limits leave zero as it is."""
    limits: Any = {**dict(zip(("min", "max"), node.args[1:], strict=False)), **node.kwargs}
    low, high = limits.get("min"), limits.get("max")
    numbers = all(limit is None or isinstance(limit, (int, float)) for limit in (low, high))
    return given[0] is ZERO and numbers and (low is None or low <= 0) and (high is None or high >= 0)


KEEPING: dict[str, Callable[[list[str], Node], bool]] = {
    **dict.fromkeys(("mul", "matmul", "mm", "bmm"), lambda given, node: ZERO in given and OTHER not in given),
    **dict.fromkeys(("add", "sub"), lambda given, node: all(kind is ZERO for kind in given)),
    **dict.fromkeys(("div", "truediv"), first_only),
    **dict.fromkeys(("clamp", "clip"), between),
    **dict.fromkeys(("neg", "abs", "sign", "relu", "tanh", "nan_to_num", "sum", "mean"), first),
    **dict.fromkeys(("view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute"), first),
    **dict.fromkeys(("t", "expand", "getitem", "clone", "contiguous", "detach"), first),
    **dict.fromkeys(("to", "type", "float", "half", "double", "bfloat16"), first),
}
"""Operation -> whether its result is zero, by what its arguments are."""
