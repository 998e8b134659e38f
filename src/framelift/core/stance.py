"""What compiled functions do about what is not compiled yet: the stance, one for the whole process.

The hook asks only where no entry holds, so the default costs nothing; `force_eager` is a flag in the hook.
"""

from __future__ import annotations

import threading

from framelift import _frame

STANCES = {
    "default": "What is not compiled yet is compiled.",
    "force_eager": "Compiled functions run as plain Python.",
    "eager_on_recompile": "What is compiled is used; where nothing fits, the function runs as plain Python.",
    "fail_on_recompile": "What is compiled is used; where nothing fits, it is an error.",
}

_current = "default"


class _Thread(threading.local):
    runs_only = 0
    """How many calls of what `run` has made this thread is in."""


_thread = _Thread()


def get() -> str:
    return _current


def put(stance: str) -> str:
    """Takes the stance; gives the one before."""
    global _current
    before, _current = _current, stance
    _frame.set_eager(stance == "force_eager")
    return before


def compiles() -> bool:
    """Whether this thread may compile anything now."""
    return _current == "default" and not _thread.runs_only


def fails() -> bool:
    """Whether it is an error that something is not compiled."""
    return _current == "fail_on_recompile" and not _thread.runs_only


class running_only:
    """While a call is in here, this thread compiles nothing."""

    def __enter__(self) -> None:
        _thread.runs_only += 1

    def __exit__(self, *raised: object) -> None:
        _thread.runs_only -= 1
