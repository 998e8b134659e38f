"""Contexts, modes and switches of torch's: what the program does with them, trace and graph do too."""

from __future__ import annotations

import contextlib
import gc
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.fx
from torch.autograd.grad_mode import _enter_inference_mode
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _device as devices

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.builder import GraphWriter, describe
from framelift.graph.functions import CONTEXTS, SWITCHES
from framelift.graph.torch_flags import ASIDE, SETTERS, WIDE, Settings, TorchState, setting_of, thrown


class Switched(NamedTuple):
    """A context that the program is in, and was not in before; or the other way round."""

    manager: Any
    """The program's own."""
    node: torch.fx.Node | None
    """What enters it in the graph, unless it means nothing to that."""
    entered: Any
    """What stands for the manager, or for its absence, while tracing."""
    left: bool = False
    """It was entered before the call, and is left."""


class Asking(TorchFunctionMode):
    """Is on torch's stack in a trace for a mode of the program's, whose handler is interpreted."""

    def __init__(self, mode: Any, ask: Callable[..., Any]) -> None:
        super().__init__()
        self.mode = mode
        self.ask = ask

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.ask(self.mode, func, args, kwargs)


class Contexts(GraphWriter):
    """The part of a recorder that knows of these."""

    state: tuple[Any, ...]
    began: TorchState
    modes_before: list[Any]
    device_before: Any
    grad_before: bool
    collecting: bool

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.contexts: list[Switched] = []
        self.unfinished: list[Switched] = []
        """Those that were open, or left, when the trace ended."""
        self.default_device: Any = None
        """The mode of the default device that the program has set."""
        self.changed_device = False
        self.threw_wide = False
        self.setting: Settings | None = None
        """How the switches are that operators look at as they run, if the program has thrown any of them."""
        self.ranges_left: list[Any] = []
        """Ranges for the profiler from before the call that the program has left."""
        self.modes_kept = 0
        """How many of the modes from before the call the program is still in at its end."""
        self.modes_open: list[Any] = []
        """Those that it has entered and is still in."""
        self.meet_mode: Callable[[int, Any], None] = lambda number, mode: None
        """Makes sure that a mode from before the call can be traced."""
        self.ask_mode: Callable[..., Any] = lambda mode, *args: NotImplemented
        """Calls the `__torch_function__` of a mode, as the program would."""

    # ---- torch function modes

    @property
    def in_modes(self) -> bool:
        """Whether a torch function mode comes before the recorder."""
        return torch._C._len_torch_function_stack() > 1

    def enter_beneath_modes(self) -> None:
        """Modes from around the call come first, as they would without the trace; what they call in the end
        is recorded."""
        put_modes_aside()
        _push_mode(self)
        for mode in self.modes_before:
            self.push_mode(mode)

    def push_mode(self, mode: Any) -> None:
        _push_mode(mode if type(mode) is devices.DeviceContext else Asking(mode, self.ask_mode))

    def pop_mode(self) -> None:
        if not self.in_modes:
            raise Break(breaks.EFFECT, "another order of torch function modes")
        _pop_mode()

    def leave_modes(self) -> None:
        self.modes_left = _get_current_function_mode_stack()
        put_modes_aside()
        put_modes_back(self.modes_before)
        devices.CURRENT_DEVICE = self.device_before
        if self.collecting:
            gc.enable()

    def set_default_device(self, device: Any) -> None:
        """torch has one mode for that, beneath all others. A default from before is only replaced: what would
        be in force without it is not known."""
        if device is None and any(type(mode) is devices.DeviceContext for mode in self.modes_before):
            raise Break(breaks.EFFECT, "taking back a default device from outside")
        others = [mode for mode in put_modes_aside()[1:] if type(mode) is not devices.DeviceContext]
        self.default_device = None if device is None else devices.DeviceContext(device)
        self.changed_device = True
        put_modes_back([self, *([] if device is None else [self.default_device]), *others])

    def settle_default_device(self, modes: list[Any]) -> None:
        """Whoever runs the graph puts all modes back, and then sets the default device."""
        expected = [mode for mode in self.modes_before if type(mode) is not devices.DeviceContext]
        if self.default_device is not None:
            expected.insert(0, self.default_device)
        if not all(map(operator.is_, modes, expected)) or len(modes) < len(expected):
            raise Break(breaks.EFFECT, "another order of torch function modes")
        self.modes_kept, self.modes_open = len(self.modes_before), modes[len(expected) :]

    def settle_modes(self) -> None:
        """Which modes the program has left, and which it has entered."""
        if not self.modes_left or self.modes_left[0] is not self:
            raise Break(breaks.EFFECT, "another order of torch function modes")
        modes = [mode.mode if type(mode) is Asking else mode for mode in self.modes_left[1:]]
        if self.changed_device:
            return self.settle_default_device(modes)
        pairs = zip(modes, self.modes_before, strict=False)
        self.modes_kept = next(
            (n for n, (mode, before) in enumerate(pairs) if mode is not before),
            min(len(modes), len(self.modes_before)),
        )
        self.modes_open = modes[self.modes_kept :]
        if any(mode is before for mode in self.modes_open for before in self.modes_before):
            raise Break(breaks.EFFECT, "another order of torch function modes")

    # ---- contexts

    def leave_contexts(self) -> None:
        with torch._C.DisableTorchFunction():
            for _, node, entered, left in reversed(self.contexts):
                if left:
                    entered.__exit__(None, None, None)
                elif node is not None:
                    CONTEXTS[node.target](entered)
        self.unfinished = list(self.contexts)
        self.contexts.clear()

    def enter_context(self, enter: Callable[..., Any], manager: Any, settings: tuple[Any, ...]) -> None:
        """The program enters a context that switches something in torch: so does the trace, and the graph."""
        with torch._C.DisableTorchFunction():
            entered = enter(*settings)
        node = self.switch(enter, settings)
        self.contexts.append(Switched(manager, node, entered))

    def enter_range(self, manager: Any) -> None:
        """A range for the profiler has no place in a graph, whose operators may be fused across it."""
        self.contexts.append(Switched(manager, None, None))

    def is_open(self, manager: Any) -> bool:
        return any(found.manager is manager and not found.left for found in self.contexts)

    def exit_context(self, manager: Any) -> None:
        found = self.contexts[-1] if self.contexts else None
        if found is None or found.manager is not manager or found.left:
            raise Break(breaks.INTERNAL, "a context of torch's left in another order than entered")
        self.contexts.pop()
        if found.node is None:
            return
        leave = CONTEXTS[found.node.target]
        with torch._C.DisableTorchFunction():
            leave(found.entered)
        self.switch(leave, (found.node,))

    def exit_range(self, manager: Any) -> None:
        if self.is_open(manager):
            self.exit_context(manager)
        else:
            self.ranges_left.append(manager)

    def exit_outside(
        self, manager: Any, without: Any, enter: Callable[..., Any], settings: tuple[Any, ...]
    ) -> None:
        """The program leaves a context that it was in before the call; `without` is one that is as if it was
        left. Whoever runs the graph leaves it first, and the graph begins by entering one like it, by `enter`
        of `settings`, to leave it here."""
        if len(self.bodies) > 1 or not all(found.left for found in self.contexts):
            raise Break(breaks.INTERNAL, "a context of torch's left in another order than entered")
        with torch._C.DisableTorchFunction():
            without.__enter__()
        self.contexts.append(Switched(manager, None, without, left=True))
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
        with self.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
            entered = self.switch(enter, settings)
            self.switch(torch._C._set_grad_enabled, (self.grad_before,))
        self.switch(CONTEXTS[enter], (entered,))
        self.switch(torch._C._set_grad_enabled, (torch.is_grad_enabled(),))

    @property
    def left(self) -> list[Any]:
        """The contexts from before the call that the program has left."""
        return [found.manager for found in self.unfinished if found.left]

    def throw(self, setter: Callable[..., Any], settings: tuple[Any, ...]) -> None:
        """The program throws a switch of torch's: so does the trace, and the graph."""
        if setter in WIDE and self.calls and self.setting is None:
            self.setting = read_wide()
        with torch._C.DisableTorchFunction():
            setter(*settings)
        if setter in WIDE:
            self.state, self.threw_wide = op_memory.state(), True
        elif setter not in ASIDE:
            self.switch(setter, settings)

    def check_setting(self, func: Any) -> None:
        """An operator is recorded: under the same setting as all others."""
        now = read_wide()
        if self.setting is None:
            self.setting = now
        elif self.setting != now:
            names = [setter.__name__ for setter, args in now if (setter, args) not in self.setting]
            raise Break(breaks.EFFECT, f"{describe(func)}, after {names[0]} between operators")

    def setting_to_throw(self) -> Settings:
        """What whoever runs the graph has to switch for it."""
        return [found for found in self.setting or () if found[1] != self.began.settings[found[0]]]

    def close_contexts(self) -> None:
        """The graph leaves the contexts that are still open; whoever runs it enters them again."""
        for found in reversed(self.unfinished):
            if found.node is not None:
                self.switch(CONTEXTS[found.node.target], (found.node,))

    @property
    def open(self) -> list[Any]:
        """The contexts that it has entered and is still in."""
        return [found.manager for found in self.unfinished if not found.left]

    def switch(self, target: Callable[..., Any], args: tuple[Any, ...]) -> torch.fx.Node:
        node = self.add_node("call_function", target, args)
        node.meta["stack_trace"] = self.where()
        self.impure.add(node)
        self.state = op_memory.state()
        return node

    @property
    def enters_inference_mode(self) -> bool:
        return any(node.target is _enter_inference_mode for node in self.graph.nodes)

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


# ---- as if a context was left


class WithoutAutocast:
    """Where the program was when it entered an autocast."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __enter__(self) -> None:
        leave(self.manager)

    def __exit__(self, *raised: Any) -> None:
        enter(self.manager)


class InState:
    """An inference mode, with gradients on or off. That of the program can't be left in the middle of a
    trace: it puts back the dispatch keys too that it has found."""

    def __init__(self, inference: bool, grad: bool) -> None:
        self.inference = inference
        self.grad = grad

    def __enter__(self) -> None:
        self.context = torch._C._InferenceMode(self.inference)
        self.context.__enter__()
        torch._C._set_grad_enabled(self.grad)

    def __exit__(self, *raised: Any) -> None:
        self.context.__exit__(*raised)


# ---- managers of the program's, entered and left for real


class Entered:
    """What an inference mode holds that a region has entered: torch's own, and how it was before, since torch
    does not tell."""

    def __init__(self, context: Any, inference: bool, grad: bool) -> None:
        self.context = context
        self.inference = inference
        self.grad = grad

    def __exit__(self, *raised: Any) -> None:
        self.context.__exit__(*raised)


def enter(manager: Any) -> None:
    before = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    manager.__enter__()
    if type(manager) is torch.inference_mode:
        held: Any = Entered(manager._inference_mode_context, *before)
        manager._inference_mode_context = held


def leave(manager: Any) -> None:
    manager.__exit__(None, None, None)


def leave_inference_modes(error: BaseException) -> None:
    """A graph that has raised is still in the inference modes that it has entered, for as long as someone has
    the error: torch leaves one when it is gone."""
    traceback, entered = error.__traceback__, []
    while traceback is not None:
        found = traceback.tb_frame.f_locals.values()
        entered += [value for value in found if type(value) is torch._C._InferenceMode]
        traceback = traceback.tb_next
    for context in reversed(entered):
        context.__exit__(None, None, None)


def leave_statements(error: BaseException, *exits: Callable[..., Any]) -> None:
    """An error leaves `with` statements, given by what they call at the end, outermost first."""
    for leaving in reversed(exits):
        leaving(type(error), error, error.__traceback__)


@contextlib.contextmanager
def outside_of(managers: list[Any], setting: Settings) -> Iterator[None]:
    """In the state in which a graph is run by a region that leaves these contexts, and all modes, first, and
    throws these switches."""
    modes = put_modes_aside()
    for manager in managers:
        leave(manager)
    before = thrown(setting)
    try:
        yield
    finally:
        thrown(before)
        for manager in reversed(managers):
            enter(manager)
        put_modes_back(modes)


def read_wide() -> Settings:
    return [(setter, setting_of(setter)) for setter in WIDE]


def put_modes_aside() -> list[Any]:
    """A graph holds what the modes around its call make of each operator: it is run without them."""
    return [_pop_mode() for _ in range(torch._C._len_torch_function_stack())][::-1]


def put_modes_back(modes: list[Any]) -> None:
    for mode in modes:
        _push_mode(mode)
