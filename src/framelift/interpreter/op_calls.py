"""Calls and the making of functions."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from framelift.core.sentinels import NULL
from framelift.interpreter.calls import call
from framelift.interpreter.frame import Frame
from framelift.interpreter.op_containers import describe_callable, is_iterable
from framelift.interpreter.pending import opened


def KW_NAMES(f: Frame, names: tuple[str, ...]) -> None:
    f.kwnames = names


def CALL(f: Frame, n: int) -> Frame | None:
    stack = f.stack
    at = len(stack) - n - 2
    fn = stack[at]
    if fn is NULL:
        fn = stack[at + 1]
        args = stack[at + 2 :]
    else:
        args = stack[at + 1 :]
    kwargs = None
    names = f.kwnames
    if names:
        kwargs = dict(zip(names, args[-len(names) :], strict=True))
        del args[-len(names) :]
    result = call(f, fn, args, kwargs)
    del stack[at:]
    if names:
        f.kwnames = ()
    if type(result) is Frame:
        return result
    stack.append(result)
    return None


def CALL_FUNCTION_EX(f: Frame, flags: int) -> Frame | None:
    return call_unpacked(f, flags, -1)


def call_unpacked(f: Frame, flags: int, called: int) -> Frame | None:
    """Calls what lies `called` places from the arguments; of the two places below these it has one."""
    stack = f.stack
    at = -2 if flags & 1 else -1
    kwargs = opened(stack[-1]) if flags & 1 else None
    star = opened(stack[at])
    fn = opened(stack[at + called])
    if type(star) is not tuple:
        if not is_iterable(star):
            raise TypeError(
                f"{describe_callable(fn)} argument after * must be an iterable, not {type(star).__name__}"
            )
        # an iterator has now given what it had: whoever does the call again must find that
        star = stack[at] = tuple(f.world.containers.elements(star))
    if kwargs:
        check_names(fn, kwargs)
    result = call(f, fn, list(star), dict(kwargs) if kwargs else None)
    del stack[at - 2 :]
    return push_result(f, result)


HEAP_TYPE = 1 << 9


def check_names(fn: Any, names: Any) -> None:
    """Builtin types take no names but strings; functions of Python say so with what they are called."""
    is_builtin = type(fn) is type and not fn.__flags__ & HEAP_TYPE
    if is_builtin and not all(isinstance(name, str) for name in names):
        raise TypeError("keywords must be strings")


def push_result(f: Frame, result: Any) -> Frame | None:
    if type(result) is Frame:
        return result
    f.stack.append(result)
    return None


def MAKE_FUNCTION(f: Frame, flags: int) -> None:
    operands = map(opened, reversed(f.stack))
    code = next(operands)
    closure = tuple(map(opened, next(operands))) if flags & 8 else None
    annotations = next(operands) if flags & 4 else None
    kwdefaults = next(operands) if flags & 2 else None
    defaults = next(operands) if flags & 1 else None
    fn = FunctionType(code, f.globals, code.co_name, defaults, closure)
    if kwdefaults is not None:
        fn.__kwdefaults__ = kwdefaults
    if annotations is not None:
        fn.__annotations__ = dict(zip(map(opened, annotations[::2]), annotations[1::2], strict=True))
    f.world.functions.made(fn)
    f.stack[-1 - flags.bit_count() :] = [fn]


# ---- type parameters and aliases (3.12)


def INTRINSIC_1(f: Frame, intrinsic: FunctionType) -> None:
    f.stack[-1] = intrinsic(opened(f.stack[-1]))


def INTRINSIC_2(f: Frame, intrinsic: FunctionType) -> None:
    f.stack[-2:] = [intrinsic(*map(opened, f.stack[-2:]))]
