"""Calls and the making of functions."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from framelift.core.sentinels import NULL
from framelift.interpreter.calls import call
from framelift.interpreter.frame import Frame
from framelift.interpreter.op_containers import describe_callable, is_iterable
from framelift.world.pending import opened


def KW_NAMES(f: Frame, names: tuple[str, ...]) -> None:
    f.kwnames = names


def CALL(f: Frame, n: int) -> Frame | None:
    stack = f.stack
    if n:
        args = stack[-n:]
        del stack[-n:]
    else:
        args = []
    fn = stack.pop()
    method = stack.pop()
    if method is not NULL:
        args.insert(0, fn)
        fn = method
    kwargs = None
    if f.kwnames:
        names = f.kwnames
        f.kwnames = ()
        kwargs = dict(zip(names, args[-len(names) :], strict=True))
        del args[-len(names) :]
    return push_result(f, call(f, fn, args, kwargs))


def CALL_FUNCTION_EX(f: Frame, flags: int) -> Frame | None:
    kwargs = opened(f.stack.pop()) if flags & 1 else None
    star = opened(f.stack.pop())
    fn = opened(f.stack.pop())
    f.stack.pop()
    if type(star) is not tuple and not is_iterable(star):
        raise TypeError(
            f"{describe_callable(fn)} argument after * must be an iterable, not {type(star).__name__}"
        )
    return push_result(f, call(f, fn, f.world.elements(star), dict(kwargs) if kwargs else None))


def push_result(f: Frame, result: Any) -> Frame | None:
    if type(result) is Frame:
        return result
    f.stack.append(result)
    return None


def MAKE_FUNCTION(f: Frame, flags: int) -> None:
    stack = f.stack
    code = stack.pop()
    closure = stack.pop() if flags & 8 else None
    annotations = stack.pop() if flags & 4 else None
    kwdefaults = stack.pop() if flags & 2 else None
    defaults = stack.pop() if flags & 1 else None
    fn = FunctionType(code, f.globals, code.co_name, defaults, closure)
    if kwdefaults is not None:
        fn.__kwdefaults__ = kwdefaults
    if annotations is not None:
        fn.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    f.world.made_function(fn)
    stack.append(fn)


# ---- type parameters and aliases (3.12)


def INTRINSIC_1(f: Frame, intrinsic: FunctionType) -> None:
    f.stack[-1] = intrinsic(f.stack[-1])


def INTRINSIC_2(f: Frame, intrinsic: FunctionType) -> None:
    second = f.stack.pop()
    f.stack[-1] = intrinsic(f.stack[-1], second)
