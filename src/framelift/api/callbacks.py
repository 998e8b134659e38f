"""Functions that are called when a compilation begins and when it ends, whatever came of it.

>>> import framelift
>>> @framelift.on_compile_start
... def begins(args):
...     print("compiling", args.compile_id)
>>> framelift.remove_callback(begins)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from framelift.dispatch.extensions import Observer, RunningCompilation

log = logging.getLogger("framelift")


@dataclass(frozen=True)
class CallbackArgs:
    """What a callback is told."""

    callback_trigger: str
    """What is compiled: always "DYNAMO", a frame."""
    compile_id: str
    """Which compilation: `3/0`. Logs and records have it too."""


Callback = Callable[[CallbackArgs], Any]
_starts: list[Callback] = []
_ends: list[Callback] = []


def on_compile_start(callback: Callback) -> Callback:
    """The function is called before anything is compiled; also as a decorator."""
    _starts.append(callback)
    return callback


def on_compile_end(callback: Callback) -> Callback:
    """The function is called after a compilation, also after one that has failed."""
    _ends.append(callback)
    return callback


def remove_callback(callback: Callback) -> None:
    """It is called no more, neither before nor after."""
    for registered in (_starts, _ends):
        while callback in registered:
            registered.remove(callback)


class Callbacks(Observer):
    """Calls them. What one raises is logged: it is neither the program's nor the compilation's."""

    @contextlib.contextmanager
    def around_compilation(self, compilation: RunningCompilation) -> Iterator[None]:
        if not _starts and not _ends:
            yield
            return
        args = CallbackArgs("DYNAMO", compilation.record.compile_id)
        call_all(_starts, args)
        try:
            yield
        finally:
            call_all(_ends, args)


def call_all(callbacks: list[Callback], args: CallbackArgs) -> None:
    for callback in list(callbacks):
        try:
            callback(args)
        except Exception:
            log.warning("the callback %r of a compilation failed", callback, exc_info=True)
