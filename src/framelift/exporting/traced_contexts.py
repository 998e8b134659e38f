"""Contexts of torch's that are entered while a tracer of torch's looks at a captured graph.

A graph says by calls of torch's functions where autocast, inference mode and modes of gradients begin and
end. A tracer makes nodes of these and does not do all that they say: types would be those outside of an
autocast. So what is run here enters them, as a program does, which tracers see too. Inference mode is
written down as a mode without gradients: artifacts know no other.

torch makes regions of gradients first, and of autocasts within these, and overlooks a mode of gradients
within an autocast. So each is entered when something is called in it, gradients before autocasts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.amp import autocast_mode
from torch.autograd import grad_mode

ENTER_AUTOCAST, EXIT_AUTOCAST = autocast_mode._enter_autocast, autocast_mode._exit_autocast
ENTER_INFERENCE, EXIT_INFERENCE = grad_mode._enter_inference_mode, grad_mode._exit_inference_mode
SET_GRAD = torch._C._set_grad_enabled

SWITCHES = frozenset({ENTER_AUTOCAST, EXIT_AUTOCAST, ENTER_INFERENCE, EXIT_INFERENCE, SET_GRAD})


class Entered(threading.local):
    def __init__(self) -> None:
        self.autocasts: list[Any] = []


entered = Entered()


def enter_autocast(*settings: Any) -> Any:
    manager = torch.autocast(*settings)
    manager.__enter__()
    entered.autocasts.append(manager)
    return manager


def exit_autocast(manager: Any) -> None:
    entered.autocasts.remove(manager)
    manager.__exit__(None, None, None)


class Switching:
    """One graph, of which the switches are written anew."""

    def __init__(self, graph: torch.fx.Graph, gradients: bool) -> None:
        self.graph = graph
        self.gradients = self.now = gradients
        """What the program wants, and what is written down."""
        self.autocasts: list[torch.fx.Node] = []
        """What the program has entered, each as the node that did."""
        self.open: list[tuple[torch.fx.Node, torch.fx.Node]] = []
        """The same, and the nodes that are written down."""
        self.before: dict[torch.fx.Node, bool] = {}
        """The node that enters an inference mode -> whether there were gradients before."""

    def write(self) -> None:
        old = [node for node in self.graph.nodes if node.target in SWITCHES]
        if not old:
            return
        for node in list(self.graph.nodes):
            if node.target in SWITCHES:
                self.note(node)
            elif node.op not in ("placeholder", "get_attr"):
                with self.graph.inserting_before(node):
                    self.switch()
        for node in reversed(old):
            self.graph.erase_node(node)

    def note(self, node: torch.fx.Node) -> None:
        first: Any = node.args[0] if node.args else True
        if node.target is SET_GRAD:
            self.gradients = first
        elif node.target is ENTER_INFERENCE:
            self.before[node], self.gradients = self.gradients, not first
        elif node.target is EXIT_INFERENCE:
            self.gradients = self.before[first]
        elif node.target is ENTER_AUTOCAST:
            self.autocasts.append(node)
        else:
            self.autocasts.remove(first)

    def switch(self) -> None:
        """Writes down what has to be done until all is as the program wants it."""
        call, kept = self.graph.call_function, 0
        if self.now is self.gradients:
            for (known, _), wanted in zip(self.open, self.autocasts, strict=False):
                if known is not wanted:
                    break
                kept += 1
        while len(self.open) > kept:
            call(exit_autocast, (self.open.pop()[1],))
        if self.now is not self.gradients:
            call(SET_GRAD, (self.gradients,))
            self.now = self.gradients
        for node in self.autocasts[kept:]:
            made = call(enter_autocast, node.args)
            made.meta.update(node.meta)
            self.open.append((node, made))


def enter_when_traced(module: torch.fx.GraphModule) -> None:
    """Has the graphs of a module enter their contexts."""
    for inner in module.modules():
        if isinstance(inner, torch.fx.GraphModule):
            graph = inner.graph
            if any(node.target in SWITCHES for node in graph.nodes):
                Switching(graph, torch.is_grad_enabled()).write()
                if inner is not module:
                    inner.recompile()


@contextlib.contextmanager
def left_as_found() -> Iterator[None]:
    """Leaves what an error has kept a graph from leaving."""
    before, count = torch.is_grad_enabled(), len(entered.autocasts)
    try:
        yield
    finally:
        while len(entered.autocasts) > count:
            entered.autocasts.pop().__exit__(None, None, None)
        torch._C._set_grad_enabled(before)
