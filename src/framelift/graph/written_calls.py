"""Calls of torch's Python functions as the program has written them.

`torch.nn.functional.dropout` asks torch function modes before it does anything, and tells them of its call
in a form of its own: the tensors by position, all else by name, defaults too. Backends that look at the
arguments of nodes know the form in which programs call it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch._jit_internal import boolean_dispatched


class WrittenCalls:
    """The call that is on its way from the program to the recorder."""

    def __init__(self) -> None:
        self.latest: tuple[Any, Any, Any] | None = None
        """Function, arguments, and those by name."""

    @contextlib.contextmanager
    def during(self, fn: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[None]:
        """The program calls it, and no mode comes before the recorder."""
        self.latest = fn, args, kwargs
        try:
            yield
        finally:
            self.latest = None

    def take(self) -> tuple[Any, Any, Any] | None:
        """Whatever is recorded first within a call, what comes next is not that call any more."""
        latest, self.latest = self.latest, None
        return latest

    def form(self, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """What torch tells of a call, as the program wrote it."""
        latest = self.take()
        if latest is None:
            return func, args, kwargs
        fn, written, named = latest
        if fn is not func and func not in boolean_dispatched.get(fn, {}).values():
            return func, args, kwargs
        return fn, tuple(written), dict(named)
