"""Checks of data are made in forward graphs, once.

Nothing uses what an assertion gives, and torch's partitioner (2.13) keeps it in the backward graph too, where
that has, or can compute, what it is of: most of the forward pass is computed again for nothing, and random
numbers are drawn once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx

aten = torch.ops.aten

CHECKING = frozenset({aten._assert_async.msg, aten._assert_async.default, aten._assert_scalar.default})
IN_PROGRAMS: frozenset[Any] = CHECKING | {
    torch._assert_async,
    torch.nn.functional.one_hot,
    torch._C._nn.one_hot,
}
"""Functions that are, or are made of, such operators."""


@contextlib.contextmanager
def checking_forward_only(graph: torch.fx.GraphModule) -> Iterator[None]:
    """Around a call of a backend, which may have AOTAutograd make a backward graph."""
    if not any(node.target in IN_PROGRAMS for node in graph.graph.nodes):
        yield
        return
    import torch._functorch.config as config

    given = config.joint_custom_pass
    with config.patch(joint_custom_pass=lambda *joint: kept_forward(given, *joint)):
        yield


def kept_forward(given: Callable[..., Any] | None, joint: torch.fx.GraphModule, inputs: Any) -> Any:
    """A graph of both passes, in which checks of the forward pass are said to belong there. `given`: what the
    program has done to such a graph."""
    for node in joint.graph.nodes:
        if node.target in CHECKING and node.meta.get("partitioner_tag") == "is_forward":
            node.meta["partitioner_tag"] = "must_be_in_forward"
    return joint if given is None else given(joint, inputs)
