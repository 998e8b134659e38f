"""Torch's global switches that a program can throw: remembered, and put back."""

from __future__ import annotations

from typing import Any

import torch


class TorchState:
    """What the switches were when this was made."""

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.dtype = torch.get_default_dtype()
        self.casts = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
        self.cached = torch.is_autocast_cache_enabled()

    def restore(self) -> None:
        torch._C._set_grad_enabled(self.grad)
        if torch.get_default_dtype() is not self.dtype:
            torch.set_default_dtype(self.dtype)
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
