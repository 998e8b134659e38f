"""Coroutines and asynchronous generators that the interpreter owns, and what awaits them."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from collections.abc import AsyncGenerator as AsyncGeneratorOfC
from typing import Any

from framelift import _frame
from framelift.bytecode.decode import version
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import clean_traceback
from framelift.interpreter.generators import (
    CLOSED,
    CREATED,
    SUSPENDED,
    Generator,
    IterableCoroutine,
    Shown,
    Suspended,
    as_thrown,
    not_pickled,
    reporting,
    warn_of_signature,
)
from framelift.interpreter.lookups import stands_for
from framelift.interpreter.machine import raise_as_is


@stands_for(types.CoroutineType)
class Coroutine(Suspended):
    """Stands for a `types.CoroutineType`."""

    __slots__ = ("origin",)

    kind = "coroutine"
    __class__ = property(lambda self: types.CoroutineType)

    def __init__(self, frame: Frame, caller: Frame | None) -> None:
        super().__init__(frame)
        depth = sys.get_coroutine_origin_tracking_depth()
        self.origin = origin(caller, depth) if depth else None

    def __await__(self) -> CoroutineIterator:
        return CoroutineIterator(self)

    def __del__(self) -> None:
        if self.state is CREATED and self.frame.world.lifetimes.runs_finalisers:
            reporting(self.frame.world, self, warn_unawaited)
        super().__del__()

    cr_running = Shown(Suspended.is_running)
    cr_suspended = Shown(Suspended.is_suspended)
    cr_await = Shown(Suspended.waits_for)
    cr_code = Shown(Suspended.its_code)
    cr_frame = Shown(Suspended.its_frame)
    cr_origin = Shown(lambda self: self.origin)


def origin(caller: Frame | None, depth: int) -> tuple[tuple[str, int | None, str], ...]:
    """Where a coroutine was made: file, line and function of as many callers as wanted."""
    found: list[tuple[str, int | None, str]] = []
    at: Any = None if caller is None else caller.view()
    while at is not None and len(found) < depth:
        found.append((at.f_code.co_filename, at.f_lineno, at.f_code.co_name))
        at = at.f_back
    return tuple(found)


def warn_unawaited(coroutine: Coroutine) -> None:
    warn = getattr(warnings, "_warn_unawaited_coroutine", None)
    try:
        if warn is not None:
            _frame.native(warn, coroutine)
            return
    except RuntimeWarning:
        raise
    except BaseException as error:
        if not coroutine.frame.world.errors.catchable(error):
            return
        _frame.unraisable(clean_traceback(error), coroutine)
    warnings.warn(f"coroutine '{coroutine.__qualname__}' was never awaited", RuntimeWarning, stacklevel=3)


class Awaited:
    """What stands for an iterator that `await` iterates over."""

    __slots__ = ("__weakref__",)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    send: Any

    def __reduce__(self) -> Any:
        raise not_pickled(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


async def real_asynchronous_generator() -> AsyncGeneratorOfC[None, None]:
    yield


async def real_coroutine() -> None: ...


def type_of_awaited(made: Any) -> type:
    awaited = type(made.__await__())
    made.close()
    return awaited


@stands_for(type_of_awaited(real_coroutine()))
class CoroutineIterator(Awaited):
    """What `coroutine.__await__()` gives."""

    __slots__ = ("close", "send", "throw")

    def __init__(self, coroutine: Coroutine) -> None:
        self.send = coroutine.send
        self.throw = coroutine.throw
        self.close = coroutine.close


class Yielded:
    """A value that an asynchronous generator yields, told apart from what it awaits."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@stands_for(types.AsyncGeneratorType)
class AsyncGenerator(Suspended):
    """Stands for a `types.AsyncGeneratorType`."""

    __slots__ = ("announced", "finaliser", "is_stepping")

    kind = "async generator"
    __class__ = property(lambda self: types.AsyncGeneratorType)

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.is_stepping = False
        self.announced = False
        self.finaliser: Any = None

    def __aiter__(self) -> AsyncGenerator:
        return self

    def __anext__(self) -> AsyncStep:
        return self.stepping(self.resume, "anext")

    def asend(self, value: Any) -> AsyncStep:
        return self.stepping(lambda first: self.resume(value if first is None else first), "asend")

    def athrow(self, *thrown: Any) -> AsyncStep:
        warn_of_signature("athrow", thrown)
        return self.stepping(lambda _: self.throw_in(as_thrown(self.frame.world, *thrown)), "athrow")

    def aclose(self) -> AsyncStep:
        return self.stepping(self.start_closing, "aclose")

    def stepping(self, first: Any, name: str) -> AsyncStep:
        """An event loop is told of each one that starts, and takes care of those that are dropped."""
        if not self.announced and self.frame.world.lifetimes.runs_finalisers:
            self.announced = True
            hooks = sys.get_asyncgen_hooks()
            self.finaliser = hooks.finalizer
            if hooks.firstiter is not None:
                _frame.native(hooks.firstiter, self)
        return (AsyncSend if name in ("anext", "asend") else AsyncThrow)(self, first, name)

    def start_closing(self, _: Any) -> Any:
        if self.state is CREATED:
            self.finish()
        if self.state is CLOSED:
            raise StopIteration
        return self.throw_in(GeneratorExit())

    def __del__(self) -> None:
        if self.finaliser is None:
            super().__del__()
        elif self.state is SUSPENDED:
            reporting(self.frame.world, self, functools.partial(_frame.native, self.finaliser))

    ag_running = Shown(lambda self: self.is_stepping)
    ag_suspended = Shown(Suspended.is_suspended)
    ag_await = Shown(Suspended.waits_for)
    ag_code = Shown(Suspended.its_code)
    ag_frame = Shown(Suspended.its_frame)


class AsyncStep(Awaited):
    """The awaitable that one step of an asynchronous generator is."""

    __slots__ = ("first", "generator", "name", "state")

    def __init__(self, generator: AsyncGenerator, first: Any, name: str) -> None:
        self.generator = generator
        self.first = first
        self.name = name
        self.state = CREATED

    def __await__(self) -> AsyncStep:
        return self

    def send(self, value: Any) -> Any:
        if self.state is CLOSED:
            raise RuntimeError(f"cannot reuse already awaited {self.spelled()}")
        if self.state is CREATED:
            self.check_free()
            self.state = SUSPENDED
            self.generator.is_stepping = True
            return self.outcome(self.first, value)
        return self.outcome(self.generator.resume, value)

    def throw(self, *thrown: Any) -> Any:
        if self.state is CLOSED:
            raise RuntimeError(f"cannot reuse already awaited {self.spelled()}")
        if version.ASYNC_STEPS_TAKE_TURNS and self.state is CREATED:
            self.check_free()
            self.generator.is_stepping = True
        self.state = SUSPENDED
        warn_of_signature("throw", thrown)
        return self.outcome(self.generator.throw_in, as_thrown(self.generator.frame.world, *thrown))

    def close(self) -> None:
        if not version.ASYNC_STEPS_TAKE_TURNS:
            self.state = CLOSED
        if self.state is CLOSED:
            return
        try:
            self.throw(GeneratorExit())
        except (GeneratorExit, StopIteration, StopAsyncIteration) as ended:
            clean_traceback(ended)
            return
        raise RuntimeError("coroutine ignored GeneratorExit")

    def __del__(self) -> None:
        world = self.generator.frame.world
        if version.ASYNC_STEPS_TAKE_TURNS and self.state is CREATED and world.lifetimes.runs_finalisers:
            reporting(world, self, warn_unawaited_step)

    def check_free(self) -> None:
        if self.generator.is_stepping:
            self.state = CLOSED
            verb = {"anext": "anext(): ", "asend": "anext(): "}.get(self.name, f"{self.name}(): ")
            raise RuntimeError(f"{verb}asynchronous generator is already running")

    def spelled(self) -> str:
        return "__anext__()/asend()" if self.name in ("anext", "asend") else "aclose()/athrow()"

    def outcome(self, step: Any, value: Any) -> Any:
        """Turns what the body did into what `await` sees."""
        failure: BaseException
        try:
            result = step(value)
        except StopIteration:
            failure = StopIteration() if self.name == "aclose" else StopAsyncIteration()
        except (GeneratorExit, StopAsyncIteration) as raised:
            failure = StopIteration() if self.name == "aclose" else raised
        except BaseException as raised:
            failure = raised
        else:
            if type(result) is not Yielded:
                return result
            if self.name == "aclose":
                failure = RuntimeError("async generator ignored GeneratorExit")
            else:
                failure = StopIteration(result.value)
        self.state = CLOSED
        self.generator.is_stepping = False
        try:
            raise_as_is(failure)
        finally:
            del failure  # its traceback has this frame


def warn_unawaited_step(step: AsyncStep) -> None:
    name = "asend" if step.name == "anext" else step.name
    text = f"coroutine method '{name}' of '{step.generator.__qualname__}' was never awaited"
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def type_of_step(made: Any) -> type:
    made.close()
    return type(made)


@stands_for(type_of_step(real_asynchronous_generator().asend(None)))
class AsyncSend(AsyncStep):
    __slots__ = ()


@stands_for(type_of_step(real_asynchronous_generator().aclose()))
class AsyncThrow(AsyncStep):
    __slots__ = ()


def made_generator(frame: Frame, caller: Frame | None) -> Suspended:
    flags = frame.code.code.co_flags
    if flags & inspect.CO_COROUTINE:
        return Coroutine(frame, caller)
    if flags & inspect.CO_ASYNC_GENERATOR:
        return AsyncGenerator(frame)
    return IterableCoroutine(frame) if flags & inspect.CO_ITERABLE_COROUTINE else Generator(frame)
