"""What compiled functions do about what is not compiled yet: the stance, one for the whole process.

The hook asks only where no entry holds, so the default costs nothing; `force_eager` is a flag in the hook,
and a stance that has calls run with other options gives it a function to ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from framelift import _frame

STANCES = {
    "default": "What is not compiled yet is compiled.",
    "force_eager": "Compiled functions run as plain Python.",
    "eager_on_recompile": "What is compiled is used; where nothing fits, the function runs as plain Python.",
    "fail_on_recompile": "What is compiled is used; where nothing fits, it is an error.",
    "eager_then_compile": "The first call runs as plain Python, and says which sizes vary; then it compiles.",
    "aot_eager_then_compile": "The first call runs with the backend aot_eager; then it compiles.",
}
COMPILING = frozenset({"default", "eager_then_compile", "aot_eager_then_compile"})
"""Those with which what is not there is compiled."""


class Taken(NamedTuple):
    """A stance, and which context a call is in while it holds, if not in its own."""

    name: str
    redirect: Callable[[Any], Any] | None = None


_current = Taken("default")


class _Thread(threading.local):
    runs_only = 0
    """How many calls of what `run` has made this thread is in."""


_thread = _Thread()


def get() -> str:
    return _current.name


def put(stance: Taken) -> Taken:
    """Takes the stance; gives the one before."""
    global _current
    before, _current = _current, stance
    _frame.set_eager(stance.name == "force_eager")
    _frame.set_redirect(stance.redirect)
    return before


def compiles() -> bool:
    """Whether this thread may compile anything now."""
    return _current.name in COMPILING and not _thread.runs_only


def fails() -> bool:
    """Whether it is an error that something is not compiled."""
    return _current.name == "fail_on_recompile" and not _thread.runs_only


class running_only:
    """While a call is in here, this thread compiles nothing."""

    def __enter__(self) -> None:
        _thread.runs_only += 1

    def __exit__(self, *raised: object) -> None:
        _thread.runs_only -= 1
