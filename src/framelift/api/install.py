"""`framelift.install()`: `torch.compile` is Framelift's, for all who call it."""

from __future__ import annotations

import threading
from typing import Any

import torch

from framelift.api.compile import compile

_lock = threading.Lock()
_torchs: Any = None
"""What `torch.compile` was before."""


class Installed:
    """Undoes it: as a context manager at the end of the block, or by `undo()`."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def undo(self) -> None:
        """`torch.compile` is what it was when this was installed."""
        torch.compile = self.before

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *raised: object) -> None:
        self.undo()


def install(*, backend: str | None = None) -> Installed:
    """From now on `torch.compile`, and `Module.compile` which calls it, compile with Framelift; libraries
    that call them use it unchanged. What has been compiled before stays as it is. With `backend` everything
    is compiled with that one, whatever the caller says.

    >>> import torch, framelift
    >>> with framelift.install(backend="eager"):
    ...     double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(1)), len(framelift.entries(double))
    (tensor([2.]), 1)
    """
    global _torchs

    def installed(model: Any = None, **settings: Any) -> Any:
        if backend is not None:
            settings |= {"backend": backend, "mode": None, "options": None}
        return compile(model, **settings)

    installed.__name__ = installed.__qualname__ = "compile"
    installed.__doc__ = compile.__doc__
    with _lock:
        before = torch.compile
        _torchs = _torchs or before
        torch.compile = installed
    return Installed(before)


def uninstall() -> None:
    """`torch.compile` is torch's again, however often something was installed."""
    global _torchs
    with _lock:
        if _torchs is not None:
            torch.compile = _torchs
        _torchs = None
