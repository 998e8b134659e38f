"""What backends make of graphs, as values that can be saved: one class for each form.

A backend that has no form here compiles the graph of a loaded capture anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch.fx

from framelift.dispatch.capture_pickles import Portable, RunnableGraph


class Artifact(Protocol):
    """Something that runs a graph, found on disk."""

    def load(self) -> Callable[..., Any]:
        """Raises NotPortableError, ValueError or OSError if it can't be used."""


class CapturedGraph(Portable):
    """The graph itself, run as it was captured."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self.graph = graph

    def __reduce__(self) -> Any:
        return CapturedGraph, (RunnableGraph(self.graph),)

    def load(self) -> Callable[..., Any]:
        run: Callable[..., Any] = self.graph.forward
        return run
