"""Contexts of torch's (autocast, inference mode, profiler ranges), which the graph enters and leaves too; and
torch function modes of the program's, which a trace asks first, as torch does."""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.fx
from torch.amp.autocast_mode import _enter_autocast
from torch.autograd.grad_mode import _enter_inference_mode
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _device as devices

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import GraphBuilder
from framelift.graph.functions import CONTEXTS
from framelift.graph.torch_flags import SETTERS, Settings, TorchFlags, set_flags


class OpenContext(NamedTuple):
    """A context that the program is in, and was not in before; or the other way round."""

    manager: Any
    """The program's own."""
    node: torch.fx.Node | None
    """What enters it in the graph, unless it means nothing to that."""
    entered: Any
    """What stands for the manager, or for its absence, while tracing."""
    left: bool = False
    """It was entered before the call, and is left."""
    grad_before: bool = True
    """Whether gradients were on when it was entered."""


class Contexts:
    """The contexts that the program of one trace enters and leaves."""

    def __init__(self, builder: GraphBuilder, flags: TorchFlags) -> None:
        self.builder = builder
        self.flags = flags
        self.entered: list[OpenContext] = []
        self.unfinished: list[OpenContext] = []
        """Those that were open, or left, when the trace ended."""
        self.grad_after = True
        """Whether gradients were on when the trace ended."""
        self.ranges_left: list[Any] = []
        """Ranges for the profiler from before the call that the program has left."""

    def leave(self) -> None:
        """The trace is over: it leaves what it has entered."""
        self.grad_after = torch.is_grad_enabled()
        with torch._C.DisableTorchFunction():
            for found in reversed(self.entered):
                if found.left:
                    found.entered.__exit__(None, None, None)
                elif found.node is not None:
                    CONTEXTS[found.node.target](found.entered)
        self.unfinished = list(self.entered)
        self.entered.clear()

    def enter(self, enter: Callable[..., Any], manager: Any, settings: tuple[Any, ...]) -> None:
        """The program enters a context that sets something in torch: so does the trace, and the graph."""
        grad_before = torch.is_grad_enabled()
        with torch._C.DisableTorchFunction():
            entered = enter(*settings)
        node = self.flags.add_setter(enter, settings)
        self.entered.append(OpenContext(manager, node, entered, grad_before=grad_before))

    def enter_range(self, manager: Any) -> None:
        """A range for the profiler has no place in a graph, whose operators may be fused across it."""
        self.entered.append(OpenContext(manager, None, None, grad_before=torch.is_grad_enabled()))

    def is_open(self, manager: Any) -> bool:
        return any(found.manager is manager and not found.left for found in self.entered)

    def exit(self, manager: Any) -> None:
        found = self.entered[-1] if self.entered else None
        if found is None or found.manager is not manager or found.left:
            raise Break(breaks.TORCH_STATE, "a context of torch's left in another order than entered")
        self.entered.pop()
        if found.node is None:
            return
        leave = CONTEXTS[found.node.target]
        with torch._C.DisableTorchFunction():
            leave(found.entered)
        self.flags.add_setter(leave, (found.node,))

    def exit_range(self, manager: Any) -> None:
        if self.is_open(manager):
            self.exit(manager)
        else:
            self.ranges_left.append(manager)

    def exit_outside(
        self, manager: Any, without: Any, enter: Callable[..., Any], settings: tuple[Any, ...]
    ) -> None:
        """The program leaves a context that it was in before the call; `without` is one that is as if it was
        left. Whoever runs the graph leaves it first, and the graph begins by entering one like it, by `enter`
        of `settings`, to leave it here."""
        if self.builder.in_body or not all(found.left for found in self.entered):
            raise Break(breaks.TORCH_STATE, "a context of torch's left in another order than entered")
        with torch._C.DisableTorchFunction():
            without.__enter__()
        self.entered.append(OpenContext(manager, None, without, left=True))
        graph, add_setter = self.builder.body.graph, self.flags.add_setter
        first = next((node for node in graph.nodes if node.op != "placeholder"), None)
        with graph.inserting_before(first) if first is not None else contextlib.nullcontext():
            entered = add_setter(enter, settings)
            add_setter(torch._C._set_grad_enabled, (self.flags.grad_before,))
        add_setter(CONTEXTS[enter], (entered,))
        add_setter(torch._C._set_grad_enabled, (torch.is_grad_enabled(),))

    def close(self) -> None:
        """The graph leaves the contexts that are still open; whoever runs it enters them again."""
        for found in reversed(self.unfinished):
            if found.node is not None:
                self.flags.add_setter(CONTEXTS[found.node.target], (found.node,))

    @property
    def open(self) -> list[OpenContext]:
        """The contexts that the program has entered and is still in."""
        return [found for found in self.unfinished if not found.left]

    @property
    def left(self) -> list[Any]:
        """The contexts from before the call that the program has left."""
        return [found.manager for found in self.unfinished if found.left]

    @property
    def enters_inference_mode(self) -> bool:
        return any(node.target is _enter_inference_mode for node in self.builder.body.graph.nodes)

    @property
    def enters_autocast(self) -> bool:
        return any(node.target is _enter_autocast for node in self.builder.body.graph.nodes)

    @property
    def sets_flags(self) -> bool:
        """Whether the graph, or a body in it, sets a flag of torch's on its way."""
        whole = self.builder.body
        graphs = [whole.graph, *(body.graph for body in whole.bodies.values())]
        return any(node.target in SETTERS or node.target in CONTEXTS for g in graphs for node in g.nodes)


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
    sets these flags."""
    modes = put_modes_aside()
    for manager in managers:
        leave(manager)
    before = set_flags(setting)
    try:
        yield
    finally:
        set_flags(before)
        for manager in reversed(managers):
            enter(manager)
        put_modes_back(modes)


class ModeStandIn(TorchFunctionMode):
    """Is on torch's stack in a trace for a mode of the program's, whose handler is interpreted."""

    def __init__(self, mode: Any, ask: Callable[..., Any]) -> None:
        super().__init__()
        self.mode = mode
        self.ask = ask

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.ask(self.mode, func, args, kwargs, bool(types))


class FunctionModes:
    """The modes of one trace: those around the call, those that the program enters, and the default device,
    which is one to torch."""

    before: list[Any]
    """The modes around the call."""
    left: list[Any]
    """What was on torch's stack when the trace ended."""
    device_before: Any

    def __init__(self) -> None:
        self.default_device: Any = None
        """The mode of the default device that the program has set."""
        self.changed_device = False
        self.kept = 0
        """How many of the modes from before the call the program is still in at its end."""
        self.open: list[Any] = []
        """Those that it has entered and is still in."""
        self.check: Callable[[int, Any], None] = lambda number, mode: None
        """Makes sure that a mode from before the call can be traced."""
        self.ask: Callable[..., Any] = lambda mode, *args: NotImplemented
        """Calls the `__torch_function__` of a mode, as the program would."""

    @property
    def active(self) -> bool:
        """Whether a mode comes before the recorder."""
        return torch._C._len_torch_function_stack() > 1

    @property
    def asks_program(self) -> bool:
        """Whether one of those is the program's, rather than a default device."""
        return self.active and any(type(mode) is ModeStandIn for mode in _get_current_function_mode_stack())

    @contextlib.contextmanager
    def without_innermost(self) -> Iterator[Any]:
        """The innermost mode of the program's, which is off torch's stack meanwhile."""
        within: list[Any] = []
        while type(mode := _pop_mode()) is not ModeStandIn:
            within.append(mode)
        depth = torch._C._len_torch_function_stack()
        for each in reversed(within):
            _push_mode(each)
        try:
            yield mode.mode
        finally:
            within = [_pop_mode() for _ in range(torch._C._len_torch_function_stack() - depth)]
            for each in (mode, *reversed(within)):
                _push_mode(each)

    @property
    def may_ask(self) -> bool:
        """Whether modes of the program's are there when the region writes."""
        return bool(self.before or self.open)

    def read(self) -> None:
        """The modes around the call are checked before the trace begins."""
        self.before = _get_current_function_mode_stack()
        self.device_before = devices.CURRENT_DEVICE
        for number, mode in enumerate(self.before):
            self.check(number, mode)

    def enter(self, recorder: TorchFunctionMode) -> None:
        """Modes from around the call come first, as they would without the trace; what they call in the end
        is recorded."""
        put_modes_aside()
        _push_mode(recorder)
        for mode in self.before:
            self.push(mode)

    def push(self, mode: Any) -> None:
        _push_mode(mode if type(mode) is devices.DeviceContext else ModeStandIn(mode, self.ask))

    def pop(self) -> None:
        if not self.active:
            raise wrong_order()
        _pop_mode()

    def leave(self) -> None:
        """Puts everything back as it was before the trace."""
        self.left = _get_current_function_mode_stack()
        put_modes_aside()
        put_modes_back(self.before)
        devices.CURRENT_DEVICE = self.device_before

    def set_default_device(self, device: Any) -> None:
        """torch has one mode for that, beneath all others. A default from before is only replaced: what would
        be in force without it is not known."""
        if device is None and any(type(mode) is devices.DeviceContext for mode in self.before):
            raise Break(breaks.EFFECT, "taking back a default device from outside")
        recorder, *modes = put_modes_aside()
        others = [mode for mode in modes if type(mode) is not devices.DeviceContext]
        self.default_device = None if device is None else devices.DeviceContext(device)
        self.changed_device = True
        put_modes_back([recorder, *([] if device is None else [self.default_device]), *others])

    def settle(self, recorder: TorchFunctionMode) -> None:
        """The trace is over: finds which modes the program has left, and which it has entered."""
        if not self.left or self.left[0] is not recorder:
            raise wrong_order()
        modes = [mode.mode if type(mode) is ModeStandIn else mode for mode in self.left[1:]]
        if self.changed_device:
            return self.settle_default_device(modes)
        same = map(operator.is_, modes, self.before)
        self.kept = len(list(itertools.takewhile(bool, same)))
        self.open = modes[self.kept :]
        if any(mode is before for mode in self.open for before in self.before):
            raise wrong_order()

    def settle_default_device(self, modes: list[Any]) -> None:
        """Whoever runs the graph puts all modes back, and then sets the default device."""
        expected = [mode for mode in self.before if type(mode) is not devices.DeviceContext]
        if self.default_device is not None:
            expected.insert(0, self.default_device)
        if not all(map(operator.is_, modes, expected)) or len(modes) < len(expected):
            raise wrong_order()
        self.kept, self.open = len(self.before), modes[len(expected) :]


def wrong_order() -> Break:
    return Break(breaks.EFFECT, "another order of torch function modes")


def put_modes_aside() -> list[Any]:
    """A graph holds what the modes around its call make of each operator: it is run without them."""
    return [_pop_mode() for _ in range(torch._C._len_torch_function_stack())][::-1]


def put_modes_back(modes: list[Any]) -> None:
    for mode in modes:
        _push_mode(mode)
