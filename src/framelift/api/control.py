"""Switches and questions: `disable`, `is_compiling`."""

from __future__ import annotations

import functools
from typing import Any

from framelift import _frame
from framelift.interpreter.torch_calls import TRACED


def disable(fn: Any = None, *, reason: str | None = None) -> Any:
    """Marks a function (or module) to run as plain Python, with everything it calls.

    Works as `disable(fn)`, `@disable` and `@disable(reason="...")`.
    """
    if fn is None:
        return functools.partial(disable, reason=reason)
    if not callable(fn):
        raise TypeError(f"framelift.disable takes a function, not a {type(fn).__name__}")

    @functools.wraps(fn)
    def untouched(*args: Any, **kwargs: Any) -> Any:
        return _frame.untouched(fn, *args, **kwargs)

    _frame.set_decision(untouched.__code__, _frame.SKIP, _frame.REFUSE)  # type: ignore[attr-defined]
    untouched._framelift_disable = reason or "framelift.disable"  # type: ignore[attr-defined]
    return untouched


def is_compiling() -> bool:
    """True while the calling function is being captured."""
    return False


TRACED[is_compiling] = lambda frame, args, kwargs: True
