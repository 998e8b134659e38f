"""What Inductor and AOTAutograd have made of a graph, noted for who wants to keep it beyond the process.

AOTAutograd puts the compiled forward and backward graphs together in closures. The parts that these consist
of come by while it does.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx


class InductorParts:
    """The compiled graphs that belong to one captured graph, and what AOTAutograd knows of it."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.forward: Any = None
        """Inductor's `CompiledFxGraph`."""
        self.backward: Any = None
        self.is_inference = False
        self.graph_inputs = 0
        """How many the forward graph takes: as many as were given, unless AOTAutograd had to change that."""
        self.input_types: list[torch.dtype | None] = []
        self.result_types: list[torch.dtype | None] = []
        """Of what the forward graph takes and gives; None: no tensor."""
        self.has_gradient: list[bool] = []
        """Of each input, as far as the backward graph is there."""
        self.metadata: Any = None
        """AOTAutograd's `ViewAndMutationMeta`."""
        self.disables_autocast = torch._C._is_any_autocast_enabled()
        self.separates = False
        """Whether its results are given histories of their own."""
        self.sizes: tuple[tuple[int, int], ...] = ()
        """Input and dimension of the sizes that the graph takes behind the other inputs."""
        self.is_wrapped = False
        """Whether Framelift has put something else around it."""
        self.when_whole: Callable[[], None] | None = None
        """Is called when the backward graph has been compiled."""

    def note_graph(self, graph: torch.fx.GraphModule, is_backward: bool) -> None:
        """Before Inductor changes it."""
        outputs: Any = graph.graph.output_node().args[0]
        if is_backward:
            self.has_gradient = [output is not None for output in outputs]
        else:
            self.input_types = list(map(dtype_of, graph.graph.find_nodes(op="placeholder")))
            self.result_types = list(map(dtype_of, outputs))

    def note(self, made: Any, examples: list[Any], kwargs: dict[str, Any]) -> None:
        if kwargs.get("is_backward"):
            self.backward = made
            if self.when_whole is not None:
                self.when_whole()
        else:
            self.forward, self.graph_inputs = made, len(examples)
            self.is_inference = bool(kwargs.get("is_inference"))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be compiled."""
        return self.forward is not None and (self.is_inference or self.backward is not None)


def dtype_of(node: Any) -> torch.dtype | None:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


wanted: contextvars.ContextVar[list[InductorParts] | None] = contextvars.ContextVar("wanted", default=None)
"""Where the parts of what is compiled go, if someone wants them."""


@contextlib.contextmanager
def compiling_afresh(calls_subgraphs: bool) -> Iterator[None]:
    """AOTAutograd's own cache gives no parts. Where these are wanted, it is not asked: what is kept of them
    is found before it the next time, and needs none of torch's compilers. Nor is it asked for graphs that
    call subgraphs: what it has of these may have been made with wrong results (see `subgraph_results`)."""
    if wanted.get() is None and not calls_subgraphs:
        yield
        return
    from torch._functorch import config

    with config.patch(enable_autograd_cache=False):
        yield
