"""Calls as CPython 3.13 lays them out on the stack: a callable, what it is bound to or NULL, the arguments.

The making of functions is here too: what a function has beside its code is set by instructions of their own.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from framelift.core.sentinels import NULL
from framelift.interpreter.calls import call
from framelift.interpreter.frame import Frame
from framelift.interpreter.op_calls import call_unpacked, push_result
from framelift.interpreter.op_containers import merge_keywords
from framelift.interpreter.op_names import LOAD_GLOBAL, super_attribute
from framelift.interpreter.pending import opened

# ---- what is called


def LOAD_GLOBAL_FIRST(f: Frame, name: str) -> None:
    LOAD_GLOBAL(f, name)
    f.stack.append(NULL)


def LOAD_METHOD_FIRST(f: Frame, name: str) -> None:
    """Pushes the pair (function, self), or (attribute, NULL)."""
    function, owner = f.world.attributes.load_method(f.stack[-1], name)
    f.stack[-1:] = (owner, NULL) if function is NULL else (function, owner)


def LOAD_SUPER_METHOD_FIRST(f: Frame, argument: tuple[str, bool]) -> None:
    f.stack[-3:] = [super_attribute(f, *argument), NULL]


# ---- calls


def CALL_FIRST(f: Frame, n: int) -> Frame | None:
    stack = f.stack
    at = len(stack) - n - 2
    args = stack[at + 2 :] if stack[at + 1] is NULL else stack[at + 1 :]
    result = call(f, stack[at], args, None)
    del stack[at:]
    if type(result) is Frame:
        return result
    stack.append(result)
    return None


def CALL_KW_FIRST(f: Frame, n: int) -> Frame | None:
    stack = f.stack
    at = len(stack) - n - 3
    names = opened(stack[-1])  # pending after a break
    args = stack[at + 2 : -1] if stack[at + 1] is NULL else stack[at + 1 : -1]
    first = len(args) - len(names)
    kwargs = dict(zip(map(opened, names), args[first:], strict=True))
    del args[first:]
    result = call(f, stack[at], args, kwargs)
    del stack[at:]
    return push_result(f, result)


def CALL_FUNCTION_EX_FIRST(f: Frame, flags: int) -> Frame | None:
    return call_unpacked(f, flags, -2)


def DICT_MERGE_FIRST(f: Frame, n: int) -> None:
    merge_keywords(f, n, f.stack[-n - 4])


# ---- functions

DEFAULTS, KEYWORD_DEFAULTS, ANNOTATIONS, CLOSURE, ANNOTATE = 1, 2, 4, 8, 16


def MAKE_PLAIN_FUNCTION(f: Frame, _: Any) -> None:
    """Without a closure; one that has to have it is made when that is set, from the code that is left there
    (`points.standing`)."""
    code = f.stack[-1] = opened(f.stack[-1])
    if not code.co_freevars:
        f.stack[-1] = made(f, code, None)


def SET_FUNCTION_ATTRIBUTE(f: Frame, which: int) -> None:
    fn, value = opened(f.stack[-1]), opened(f.stack[-2])
    if which == CLOSURE:
        code = fn if type(fn) is CodeType else fn.__code__  # CPython has made a function
        fn = made(f, code, tuple(map(opened, value)))
    elif which == DEFAULTS:
        fn.__defaults__ = value
    elif which == KEYWORD_DEFAULTS:
        fn.__kwdefaults__ = value
    elif which == ANNOTATIONS:
        fn.__annotations__ = dict(zip(map(opened, value[::2]), value[1::2], strict=True))
    elif which == ANNOTATE:
        fn.__annotate__ = value
    f.stack[-2:] = [fn]


def made(f: Frame, code: CodeType, closure: tuple[Any, ...] | None) -> FunctionType:
    fn = FunctionType(code, f.globals, code.co_name, None, closure)
    f.world.functions.made(fn)
    return fn
