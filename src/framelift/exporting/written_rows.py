"""Rows that only the data chooses, and that the program writes to: `cache[:, i] += x`.

When torch decomposes an artifact it writes such a change as `select_scatter`, which has to know on which side
the number counts from. Nobody can know that of a number of the data; so it is counted from the start before.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from framelift.graph.op_memory import storage

SELECTS = frozenset({torch.select, torch.ops.aten.select.int, "select"})


def count_from_start(made: torch.fx.Node, written: frozenset[int]) -> None:
    """Has a call of `select` take a number that counts from the start, if only the data decides the number,
    and the memory is among what is `written`."""
    if made.target not in SELECTS or len(made.args) != 3:
        return
    tensor, dim, number = made.args
    row = made.meta.get("example_value")
    if not isinstance(tensor, torch.fx.Node) or not isinstance(number, torch.fx.Node):
        return
    if not isinstance(row, torch.Tensor) or storage(row) not in written or not may_be_negative(number):
        return
    with made.graph.inserting_before(made):
        made.args = tensor, dim, counted_from_start(tensor, dim, number)


def may_be_negative(number: torch.fx.Node) -> bool:
    value: Any = number.meta.get("example_value")
    return (
        isinstance(value, torch.SymInt)
        and bool(free_unbacked_symbols(value))
        and not statically_known_true(value >= 0)
    )


def counted_from_start(tensor: torch.fx.Node, dim: Any, number: torch.fx.Node) -> torch.fx.Node:
    graph = tensor.graph
    size = graph.call_method("size", (tensor, dim))
    given = number.args[0] if number.target in ("item", torch.Tensor.item) else None
    if given is None:
        given = graph.call_function(torch.scalar_tensor, (number,), {"dtype": torch.int64})
    is_negative = graph.call_function(torch.lt, (given, 0))
    from_start = graph.call_function(torch.add, (given, size))
    number = graph.call_method("item", (graph.call_function(torch.where, (is_negative, from_start, given)),))
    is_there = graph.call_function(operator.ge, (number, 0))
    graph.call_function(torch._check, (is_there,))
    return number
