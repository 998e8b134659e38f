"""Contexts, modes and switches of torch's: what the program does with them, trace and graph do too."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _device as devices

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.tensors import memory
from framelift.tensors.functions import CONTEXTS, SWITCHES
from framelift.tensors.graph import GraphWriter
from framelift.tensors.torch_state import SETTERS


class Contexts(GraphWriter):
    """The part of a recorder that knows of these."""

    state: tuple[Any, ...]
    modes_before: list[Any]
    device_before: Any
    collecting: bool

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.contexts: list[tuple[Any, torch.fx.Node | None, Any]] = []
        """Contexts that are open: the program's manager, the node that enters it - unless it means nothing to
        a graph - and what stands for the manager while tracing."""
        self.devices_entered = 0
        """How often the program is in a `with torch.device(...)` of its own."""
        self.unfinished: list[tuple[Any, torch.fx.Node | None]] = []
        """Those that were open when the trace ended."""
        self.modes_open: list[Any] = []
        """The modes among those: `with torch.device(...)` pushes one."""

    @property
    def in_modes(self) -> bool:
        """Whether the program has entered a torch function mode of its own."""
        return torch._C._len_torch_function_stack() > 1 + len(self.modes_before)

    def leave_contexts(self) -> None:
        with torch._C.DisableTorchFunction():
            for _, node, entered in reversed(self.contexts):
                if node is not None:
                    CONTEXTS[node.target](entered)
        self.unfinished = [(manager, node) for manager, node, _ in self.contexts]
        self.contexts.clear()

    def leave_modes(self) -> None:
        self.modes_left = _get_current_function_mode_stack()
        while _get_current_function_mode_stack():
            _pop_mode()
        for mode in self.modes_before:
            _push_mode(mode)
        devices.CURRENT_DEVICE = self.device_before
        if self.collecting:
            gc.enable()

    def enter_context(self, enter: Callable[..., Any], manager: Any, settings: tuple[Any, ...]) -> None:
        """The program enters a context that switches something in torch: so does the trace, and the graph."""
        with torch._C.DisableTorchFunction():
            entered = enter(*settings)
        node = self.switch(enter, settings)
        self.contexts.append((manager, node, entered))

    def enter_range(self, manager: Any) -> None:
        """A range for the profiler has no place in a graph, whose operators may be fused across it."""
        self.contexts.append((manager, None, None))

    def exit_context(self, manager: Any) -> None:
        if not self.contexts or self.contexts[-1][0] is not manager:
            raise Break(breaks.INTERNAL, "a context of torch's left in another order than entered")
        _, node, entered = self.contexts.pop()
        if node is None:
            return
        leave = CONTEXTS[node.target]
        with torch._C.DisableTorchFunction():
            leave(entered)
        self.switch(leave, (node,))

    def throw(self, setter: Callable[..., Any], settings: tuple[Any, ...]) -> None:
        """The program throws a switch of torch's: so does the trace, and the graph."""
        with torch._C.DisableTorchFunction():
            setter(*settings)
        self.switch(setter, settings)

    def check_modes(self) -> None:
        """The trace has put the modes back that were there before: the program must not have removed any."""
        if not all(mode in self.modes_left for mode in self.modes_before):
            raise Break(breaks.EFFECT, "leaving a torch function mode that was entered outside")

    def close_contexts(self) -> None:
        """The graph leaves the contexts that are still open; whoever runs it enters them again."""
        entered = [mode for mode in self.modes_left if mode not in (*self.modes_before, self)]
        if any(type(mode) is not devices.DeviceContext for mode in entered):
            raise Break(breaks.UNRESUMABLE, "in a torch function mode that the function has entered")
        self.modes_open = entered
        for _, node in reversed(self.unfinished):
            if node is not None:
                self.switch(CONTEXTS[node.target], (node,))

    def switch(self, target: Callable[..., Any], args: tuple[Any, ...]) -> torch.fx.Node:
        node = self.add_node("call_function", target, args)
        node.meta["stack_trace"] = self.where()
        self.impure.add(node)
        self.state = memory.state()
        return node

    @property
    def throws_switches(self) -> bool:
        """Whether the graph, or a body in it, switches something in torch on its way."""
        graphs = [self.graph, *(module.graph for module in self.modules.values())]
        return any(node.target in SETTERS or node.target in CONTEXTS for g in graphs for node in g.nodes)


def drop_switches(graph: torch.fx.Graph, holds: Any) -> None:
    """A switch that the next one overrules, or that says what holds already, does nothing."""
    pending: torch.fx.Node | None = None
    for node in list(graph.nodes):
        if node.target in SWITCHES:
            if pending is not None:
                graph.erase_node(pending)
            pending = node
        elif node.op != "placeholder" and pending is not None:
            if pending.args[0] is holds:
                graph.erase_node(pending)
            holds, pending = pending.args[0], None
        if node.target in CONTEXTS or node.target in CONTEXTS.values():
            holds = None  # inference mode switches gradients too
