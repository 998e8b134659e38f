"""Instructions that came with CPython 3.14: see `bytecode/python314.py`."""

from __future__ import annotations

import importlib
from typing import Any

from framelift.core.sentinels import MISSING, NULL
from framelift.interpreter.calls import call
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import traceback_of
from framelift.interpreter.op_calls import call_unpacked, push_result
from framelift.interpreter.op_control import context_methods
from framelift.interpreter.pending import opened

PROTOCOLS = {
    "__enter__": ("__enter__", "__exit__", "context manager protocol"),
    "__aenter__": ("__aenter__", "__aexit__", "asynchronous context manager protocol"),
}
PROTOCOLS |= {leave: (enter, leave, text) for enter, leave, text in PROTOCOLS.values()}


def LOAD_SPECIAL(f: Frame, name: str) -> None:
    """Pushes a method of a manager, bound, and NULL."""
    enter, leave, protocol = PROTOCOLS[name]
    methods = dict(zip((enter, leave), context_methods(f, f.stack[-1], enter, leave, protocol), strict=True))
    f.stack[-1:] = [methods[name], NULL]


def WITH_EXCEPT_START_IN_TWO(f: Frame, _: Any) -> Frame | None:
    """The method that leaves a context, and what it is bound to or NULL, are below what is handled."""
    error = opened(f.stack[-1])
    leaving, owner = f.stack[-5], f.stack[-4]
    args = [type(error), error, traceback_of(error)]
    return push_result(f, call(f, leaving, args if owner is NULL else [owner, *args], None))


def FOR_ITER_KEEPING(f: Frame, end: int) -> int | None:
    item = f.world.containers.advance(f.stack[-1])
    if item is MISSING:
        return end
    f.stack.append(item)
    return None


def CALL_FUNCTION_EX_BOTH(f: Frame, _: Any) -> Frame | None:
    """Above the arguments there is a dictionary of those with names, or NULL."""
    if f.stack[-1] is not NULL:
        return call_unpacked(f, 1, -2)
    f.stack.pop()
    try:
        return call_unpacked(f, 0, -2)
    except BaseException:
        f.stack.append(NULL)  # the frame is left as it was
        raise


# ---- template strings

CONVERSIONS = (None, "s", "r", "a")


def templates(name: str) -> Any:
    return getattr(importlib.import_module("string.templatelib"), name)


def BUILD_INTERPOLATION(f: Frame, flags: int) -> None:
    has_format = flags & 1
    value, expression, *given = f.stack[-2 - has_format :]
    made = templates("Interpolation")(
        value, opened(expression), CONVERSIONS[flags >> 2], opened(given[0]) if has_format else ""
    )
    f.stack[-2 - has_format :] = [made]


def BUILD_TEMPLATE(f: Frame, _: Any) -> None:
    strings, interpolations = map(opened, f.stack[-2:])
    parts: list[Any] = [strings[0]]
    for interpolation, text in zip(interpolations, strings[1:], strict=True):
        parts += [interpolation, text]
    f.stack[-2:] = [templates("Template")(*parts)]
