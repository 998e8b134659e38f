"""Complex numbers in graphs, which are run from their text.

The text of a complex number is an expression, in which signs of zeros get lost: `-0-2j` is `0 - 2j`, and
`infj` is a name. A number of which that is true is computed by a node that calls `complex`.
"""

from __future__ import annotations

import math
from typing import Any

import torch.fx
from torch.fx.node import map_aggregate


def is_its_text(number: complex) -> bool:
    """Whether the text of a number, as an expression, is that number."""
    return all(math.isfinite(part) and math.copysign(1, part) > 0 for part in (number.real, number.imag))


def keep_complex_numbers(graph: torch.fx.GraphModule) -> None:
    """For graphs that torch has made, which hold all numbers as they are."""
    changed = False

    def kept(value: Any) -> Any:
        nonlocal changed
        if type(value) is not complex or is_its_text(value):
            return value
        changed = True
        return graph.graph.call_function(complex, (value.real, value.imag))

    for node in graph.graph.nodes:
        if any(type(value) is complex for value in (*node.args, *node.kwargs.values())):
            with graph.graph.inserting_before(node):
                node.args = map_aggregate(node.args, kept)
                node.kwargs = map_aggregate(node.kwargs, kept)
    if changed:
        graph.recompile()
