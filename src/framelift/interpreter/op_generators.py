"""Generators, `yield from`, `await`, asynchronous iteration."""

from __future__ import annotations

import inspect
import types
from typing import Any

from framelift import _frame
from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING, Sentinel
from framelift.interpreter.coroutines import Coroutine, Yielded, made_generator
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import clean_traceback
from framelift.interpreter.generators import Suspended
from framelift.interpreter.machine import RERAISE, RETURN, YIELD
from framelift.interpreter.pending import opened


def RETURN_GENERATOR(f: Frame, _: Any) -> Sentinel:
    f.value = made_generator(detached(f), f.back)
    return RETURN


def detached(f: Frame) -> Frame:
    """The frame that the generator keeps: it goes on behind RETURN_GENERATOR."""
    kept = Frame(f.machine, f.func, f.code, f.fast)
    kept.ip = f.ip + 1
    kept.namespace = f.namespace
    return kept


def YIELD_VALUE(f: Frame, _: Any) -> Sentinel:
    f.value = f.stack.pop()
    return YIELD


def ASYNC_GEN_WRAP(f: Frame, _: Any) -> None:
    f.stack[-1] = Yielded(f.stack[-1])


def GET_YIELD_FROM_ITER(f: Frame, _: Any) -> None:
    value = opened(f.stack[-1])
    if isinstance(value, types.CoroutineType):
        if not f.code.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE):
            raise TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")
    elif not isinstance(value, types.GeneratorType):
        value = f.world.containers.iterate(value)
    f.stack[-1] = value


def SEND(f: Frame, end: int) -> int | None:
    stack = f.stack
    try:
        stack[-1] = send(f, stack[-2], stack[-1])
        return None
    except StopIteration as ended:
        result = ended.value
    stack[-1] = result
    if version.SEND_POPS_RECEIVER:
        del stack[-2]
    return end


def send(f: Frame, receiver: Any, value: Any) -> Any:
    if issubclass(type(receiver), Suspended):
        return receiver.resume(value)
    if value is None:
        return f.world.operators.apply(next, receiver)
    return f.world.operators.apply(_frame.native(getattr, receiver, "send"), value)


def END_SEND(f: Frame, _: Any) -> None:
    del f.stack[-2]


def CLEANUP_THROW(f: Frame, _: Any) -> Sentinel | None:
    """3.12: an exception came out of the sub-iterator that one was thrown into."""
    error = f.stack[-1]
    if isinstance(error, StopIteration):
        f.stack[-3:] = [None, error.value]
        return None
    f.value = error
    return RERAISE


def STOPITERATION_ERROR(f: Frame, _: Any) -> None:
    """3.12: PEP 479, done by the bytecode of generators."""
    error = f.stack[-1]
    flags = f.code.code.co_flags
    message = None
    if isinstance(error, StopIteration):
        kind = "async generator" if flags & inspect.CO_ASYNC_GENERATOR else "generator"
        message = f"{'coroutine' if flags & inspect.CO_COROUTINE else kind} raised StopIteration"
    elif flags & inspect.CO_ASYNC_GENERATOR and isinstance(error, StopAsyncIteration):
        message = "async generator raised StopAsyncIteration"
    if message is not None:
        replaced = RuntimeError(message)
        replaced.__cause__ = replaced.__context__ = error
        f.stack[-1] = replaced


# ---- await


def GET_AWAITABLE(f: Frame, where: int) -> None:
    f.stack[-1] = awaitable(f, opened(f.stack[-1]), where)


def awaitable(f: Frame, value: Any, where: int) -> Any:
    """What `await` iterates over."""
    if isinstance(value, Coroutine) and value.delegate() is not MISSING:
        raise RuntimeError("coroutine is being awaited already")
    if isinstance(value, types.CoroutineType):
        return value
    if isinstance(value, types.GeneratorType) and value.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        return value
    awaiting = f.world.classes.special(value, "__await__")
    if awaiting is MISSING:
        text = {
            1: "'async with' received an object from __aenter__ that does not implement __await__: {}",
            2: "'async with' received an object from __aexit__ that does not implement __await__: {}",
        }.get(where, "object {} can't be used in 'await' expression")
        raise TypeError(text.format(type(value).__name__))
    iterator = f.world.operators.apply(awaiting)
    if isinstance(iterator, types.CoroutineType):
        raise TypeError("__await__() returned a coroutine")
    if not hasattr(type(iterator), "__next__"):
        raise TypeError(f"__await__() returned non-iterator of type '{type(iterator).__name__}'")
    return iterator


# ---- asynchronous iteration


def GET_AITER(f: Frame, _: Any) -> None:
    value = opened(f.stack[-1])
    method = f.world.classes.special(value, "__aiter__")
    if method is MISSING:
        raise TypeError(f"'async for' requires an object with __aiter__ method, got {type(value).__name__}")
    iterator = f.world.operators.apply(method)
    if not hasattr(type(iterator), "__anext__"):
        raise TypeError(
            f"'async for' received an object from __aiter__ that does not implement __anext__: "
            f"{type(iterator).__name__}"
        )
    f.stack[-1] = iterator


def GET_ANEXT(f: Frame, _: Any) -> None:
    iterator = f.stack[-1]
    method = f.world.classes.special(iterator, "__anext__")
    if method is MISSING:
        raise TypeError(
            f"'async for' requires an iterator with __anext__ method, got {type(iterator).__name__}"
        )
    value = opened(f.world.operators.apply(method))
    try:
        f.stack.append(awaitable(f, value, 0))
        return
    except BaseException as raised:
        if not f.world.errors.catchable(raised):
            raise
        failure = clean_traceback(raised)
    kind = type(value).__name__
    replaced = TypeError(f"'async for' received an invalid object from __anext__: {kind}")
    replaced.__cause__ = replaced.__context__ = failure
    raise replaced


def END_ASYNC_FOR(f: Frame, _: Any) -> Sentinel | None:
    error = f.stack.pop()
    if isinstance(error, StopAsyncIteration):
        f.stack.pop()
        return None
    f.value = error
    return RERAISE
