"""Switches and questions: `disable`, `is_compiling`."""

from __future__ import annotations

import functools
from typing import Any

from framelift import _frame
from framelift.trace.callable_rules import serve


def disable(fn: Any = None, *, recursive: bool = True, reason: str | None = None) -> Any:
    """Marks a function (or module) to run as plain Python, with everything it calls; if not `recursive`,
    what it calls is captured.

    Works as `disable(fn)`, `@disable` and `@disable(reason="...")`.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise TypeError(f"framelift.disable takes a function, not a {type(fn).__name__}")
    if not recursive:
        return skip(fn, reason=reason)

    @functools.wraps(fn)
    def untouched(*args: Any, **kwargs: Any) -> Any:
        return _frame.untouched(fn, *args, **kwargs)

    _frame.set_decision(untouched.__code__, _frame.SKIP, _frame.REFUSE)  # type: ignore[attr-defined]
    untouched._framelift_disable = reason or "framelift.disable"  # type: ignore[attr-defined]
    return untouched


def skip(fn: Any = None, *, reason: str | None = None) -> Any:
    """Marks a function to run as plain Python itself; the functions that it calls are captured."""
    if fn is None:
        return functools.partial(skip, reason=reason)
    code = getattr(fn, "__code__", None)
    if code is None:
        raise TypeError(f"framelift.skip takes a Python function, not a {type(fn).__name__}")
    _frame.set_decision(code, _frame.SKIP, _frame.REFUSE)

    @functools.wraps(fn)
    def skipped(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    _frame.set_decision(skipped.__code__, _frame.SKIP, _frame.REFUSE)  # type: ignore[attr-defined]
    skipped._framelift_disable = reason or "framelift.skip"  # type: ignore[attr-defined]
    return skipped


def is_compiling() -> bool:
    """True while the calling function is being captured."""
    return False


serve(is_compiling)(lambda frame, /: True)
