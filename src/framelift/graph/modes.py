"""Torch function modes of the program: a trace asks them first, as torch does."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _device as devices

from framelift.core import breaks
from framelift.core.breaks import Break


class ModeStandIn(TorchFunctionMode):
    """Is on torch's stack in a trace for a mode of the program's, whose handler is interpreted."""

    def __init__(self, mode: Any, ask: Callable[..., Any]) -> None:
        super().__init__()
        self.mode = mode
        self.ask = ask

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.ask(self.mode, func, args, kwargs)


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
        pairs = zip(modes, self.before, strict=False)
        self.kept = next(
            (n for n, (mode, before) in enumerate(pairs) if mode is not before),
            min(len(modes), len(self.before)),
        )
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
