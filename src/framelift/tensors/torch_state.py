"""Torch's global switches that a program can throw: remembered, and put back."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

c = torch._C

autograd: Any = c._autograd


def disable_saved_tensors_hooks(message: str | None) -> None:
    """Whether hooks on saved tensors are an error, and what it says; None: they are not."""
    if message is None:
        autograd._saved_tensors_hooks_enable()
    else:
        autograd._saved_tensors_hooks_disable(message)


@contextlib.contextmanager
def without_saved_tensors_hooks() -> Iterator[None]:
    """Hooks on saved tensors are not called for what a trace, or a compiler, computes."""
    hooks = []
    while (top := autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)


def set_deterministic(mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


SETTERS: dict[Any, Callable[[], tuple[Any, ...]]] = {
    c._set_grad_enabled: lambda: (torch.is_grad_enabled(),),
    torch.set_default_dtype: lambda: (torch.get_default_dtype(),),
    torch.set_anomaly_enabled: lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    set_deterministic: lambda: (
        c._get_deterministic_algorithms(),
        c._get_deterministic_algorithms_warn_only(),
    ),
    c._set_multithreading_enabled: lambda: (c._is_multithreading_enabled(),),
    c._set_view_replay_enabled: lambda: (c._is_view_replay_enabled(),),
    disable_saved_tensors_hooks: lambda: (autograd._saved_tensors_hooks_get_disabled_error_message(),),
    c._set_sdp_use_flash: lambda: (c._get_flash_sdp_enabled(),),
    c._set_sdp_use_mem_efficient: lambda: (c._get_mem_efficient_sdp_enabled(),),
    c._set_sdp_use_math: lambda: (c._get_math_sdp_enabled(),),
    c._set_sdp_use_cudnn: lambda: (c._get_cudnn_sdp_enabled(),),
    c._set_sdp_use_overrideable: lambda: (c._get_overrideable_sdp_enabled(),),
    c._set_sdp_priority_order: lambda: (tuple(c._get_sdp_priority_order()),),
}
"""What throws a switch -> with which arguments it would leave things as they are."""

ASIDE = frozenset({c._set_multithreading_enabled, c._set_view_replay_enabled})
"""Those that are nothing to what a graph computes."""

WIDE = (torch.set_default_dtype, set_deterministic)
"""Those that operators look at as they run. Compilers leave that to the call, so a graph has one setting."""

Settings = list[tuple[Any, tuple[Any, ...]]]


def thrown(settings: Settings) -> Settings:
    """Throws switches; what would undo it."""
    before = [(setter, SETTERS[setter]()) for setter, _ in settings]
    for setter, args in settings:
        setter(*args)
    return before[::-1]


throwing = threading.RLock()
"""Held by whoever throws switches that other threads see too, until they are back: traces, and torch's
compilers (AOTAutograd traces in anomaly mode). Who holds it sees the switches as the program has set them."""


class TorchState:
    """What the switches were when this was made."""

    def __init__(self) -> None:
        with throwing:
            self.settings = {setter: read() for setter, read in SETTERS.items()}
        self.casts = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
        self.cached = torch.is_autocast_cache_enabled()

    def changed(self) -> dict[Any, tuple[Any, ...]]:
        """Switches that have been thrown since, and how."""
        now = {setter: read() for setter, read in SETTERS.items()}
        return {setter: args for setter, args in now.items() if args != self.settings[setter]}

    def restore(self) -> None:
        with throwing:
            for setter in self.changed():
                setter(*self.settings[setter])
        for device, enabled, cast in self.casts:
            if torch.is_autocast_enabled(device) is not enabled:
                torch.set_autocast_enabled(device, enabled)
            if torch.get_autocast_dtype(device) is not cast:
                torch.set_autocast_dtype(device, cast)
        torch.set_autocast_cache_enabled(self.cached)

    def __enter__(self) -> TorchState:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.restore()


@contextlib.contextmanager
def plain_engine() -> Iterator[None]:
    """Gradients are computed by autograd's engine itself, even where backward passes are captured."""
    engine = torch._C._dynamo.compiled_autograd  # the engine's own switch (see `api/compiled_autograd.py`)
    before = engine.set_autograd_compiler(None, False)
    try:
        yield
    finally:
        engine.set_autograd_compiler(*before)
