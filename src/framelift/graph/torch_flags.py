"""Torch's global switches that a program can throw: remembered, and put back."""

from __future__ import annotations

import contextlib
import functools
import itertools
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


def priority_order() -> tuple[int, ...]:
    return tuple(c._get_sdp_priority_order())


SETTERS: dict[Any, tuple[Callable[[], Any], ...]] = {
    c._set_grad_enabled: (torch.is_grad_enabled,),
    torch.set_default_dtype: (torch.get_default_dtype,),
    torch.set_anomaly_enabled: (torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled),
    set_deterministic: (c._get_deterministic_algorithms, c._get_deterministic_algorithms_warn_only),
    c._set_multithreading_enabled: (c._is_multithreading_enabled,),
    c._set_view_replay_enabled: (c._is_view_replay_enabled,),
    disable_saved_tensors_hooks: (autograd._saved_tensors_hooks_get_disabled_error_message,),
    c._set_sdp_use_flash: (c._get_flash_sdp_enabled,),
    c._set_sdp_use_mem_efficient: (c._get_mem_efficient_sdp_enabled,),
    c._set_sdp_use_math: (c._get_math_sdp_enabled,),
    c._set_sdp_use_cudnn: (c._get_cudnn_sdp_enabled,),
    c._set_sdp_use_overrideable: (c._get_overrideable_sdp_enabled,),
    c._set_sdp_priority_order: (priority_order,),
}
"""What throws a switch -> what gives the arguments with which it would leave things as they are."""

GETTERS = tuple(itertools.chain.from_iterable(SETTERS.values()))

CASTING = tuple(
    functools.partial(get, device)
    for device in ("cpu", "cuda")
    for get in (torch.is_autocast_enabled, torch.get_autocast_dtype)
)


def setting_of(setter: Any) -> tuple[Any, ...]:
    return tuple(get() for get in SETTERS[setter])


ASIDE = frozenset({c._set_multithreading_enabled, c._set_view_replay_enabled})
"""Those that are nothing to what a graph computes."""

WIDE = (torch.set_default_dtype, set_deterministic)
"""Those that operators look at as they run. Compilers leave that to the call, so a graph has one setting."""

Settings = list[tuple[Any, tuple[Any, ...]]]


def thrown(settings: Settings) -> Settings:
    """Throws switches; what would undo it."""
    before = [(setter, setting_of(setter)) for setter, _ in settings]
    for setter, args in settings:
        setter(*args)
    return before[::-1]


throwing = threading.RLock()
"""Held by whoever throws switches that other threads see too, until they are back: traces, and torch's
compilers (AOTAutograd traces in anomaly mode). Who holds it sees the switches as the program has set them."""


def by_setter(values: list[Any]) -> dict[Any, tuple[Any, ...]]:
    found = iter(values)
    return {setter: tuple(itertools.islice(found, len(getters))) for setter, getters in SETTERS.items()}


class TorchState:
    """What the switches were when this was made."""

    def __init__(self) -> None:
        with throwing:
            self.values = [get() for get in GETTERS]
        self.casting: list[Any] = [get() for get in CASTING]
        self.cached = torch.is_autocast_cache_enabled()

    @property
    def settings(self) -> dict[Any, tuple[Any, ...]]:
        return by_setter(self.values)

    def changed(self) -> dict[Any, tuple[Any, ...]]:
        """Switches that have been thrown since, and how."""
        now = [get() for get in GETTERS]
        if now == self.values:
            return {}
        before = self.settings
        return {setter: args for setter, args in by_setter(now).items() if args != before[setter]}

    def restore(self) -> None:
        with throwing:
            for setter in self.changed():
                setter(*self.settings[setter])
        if [get() for get in CASTING] != self.casting:
            for n, device in enumerate(("cpu", "cuda")):
                torch.set_autocast_enabled(device, self.casting[2 * n])
                torch.set_autocast_dtype(device, self.casting[2 * n + 1])
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
