"""Generators, coroutines and asynchronous generators that the interpreter owns.

They are driven by C code and by the interpreter alike, through the protocol methods, and claim to
be what they stand for: `__class__` says `types.GeneratorType`, so `isinstance` and `inspect` agree.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

from framelift import _frame
from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import add_entry, clean_traceback
from framelift.interpreter.machine import YIELD, chained, raise_as_is
from framelift.world.pending import opened
from framelift.world.plain import PlainWorld, stands_for

CREATED, SUSPENDED, RUNNING, CLOSED = "GEN_CREATED", "GEN_SUSPENDED", "GEN_RUNNING", "GEN_CLOSED"


class Shown:
    """An attribute that can be read only, as those that C defines."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.read(instance)

    def __set__(self, instance: Any, value: Any) -> None:
        owner = type(instance).__name__
        raise AttributeError(f"attribute '{self.name}' of '{owner}' objects is not writable")


class Suspended:
    """A frame that stops at each `yield`; what generators of all kinds have in common."""

    __slots__ = (
        "__name__",
        "__qualname__",
        "__weakref__",
        "callers_exception",
        "frame",
        "own_exception",
        "state",
    )

    kind = "generator"

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        frame.owner = weakref.ref(self)
        self.state = CREATED
        self.__name__ = frame.func.__name__
        self.__qualname__ = frame.func.__qualname__
        self.own_exception: BaseException | None = None
        """The exception that it is handling itself; it is also in force while it is suspended."""
        self.callers_exception: BaseException | None = None
        """What its caller is handling, while it runs: seen where it handles nothing itself."""

    def resume(self, value: Any = None, error: BaseException | None = None) -> Any:
        """The next value yielded; StopIteration(result) when it returns."""
        if self.state is RUNNING:
            raise ValueError(f"{self.kind} already executing")
        if self.state is CLOSED:
            if self.kind == "coroutine":
                raise RuntimeError("cannot reuse already awaited coroutine")
            if error is not None:
                raise_as_is(error)
            raise StopIteration
        frame = self.frame
        if error is None:
            if self.state is CREATED and value is not None:
                raise TypeError(f"can't send non-None value to a just-started {self.kind}")
            frame.stack.append(value)
        else:
            frame.ip -= 1
            if self.state is CREATED:
                add_entry(error, frame)
                self.finish()
                raise_as_is(self.escaping(error))
        return self.step(frame, error)

    def step(self, frame: Frame, error: BaseException | None) -> Any:
        self.state = RUNNING
        frame.generator = self
        callers = self.callers_exception = sys.exception()
        if self.own_exception is not None:
            _frame.swap_handled(self.own_exception)
            if error is not None:
                chained(error)
        finished = True
        failure: BaseException | None = None
        signal = None
        try:
            signal = frame.machine.run(frame, error)
            finished = signal is not YIELD
        except BaseException as raised:
            failure = raised
        _frame.swap_handled(callers)
        # while it is suspended it must not keep its caller alive, nor itself
        frame.generator = frame.back = self.callers_exception = callers = error = None
        if not finished:
            self.state = SUSPENDED
            value, frame.value = frame.value, None
            return value
        self.finish()
        try:
            if failure is not None:
                raise_as_is(self.escaping(failure))
            raise StopIteration() if signal is None else StopIteration(signal)
        finally:
            del failure  # its traceback has this frame

    def escaping(self, error: BaseException) -> BaseException:
        """PEP 479: a StopIteration that leaves the body would end the caller's loop silently."""
        wrong = StopIteration if isinstance(error, StopIteration) else None
        if self.kind == "async generator" and isinstance(error, StopAsyncIteration):
            wrong = StopAsyncIteration  # type: ignore[assignment]
        if wrong is None or version.SEND_POPS_RECEIVER is False:
            return error  # on 3.12 the bytecode itself does this
        clean_traceback(error)
        replaced = RuntimeError(f"{self.kind} raised {wrong.__name__}")
        replaced.__cause__ = replaced.__context__ = error
        return replaced

    def finish(self) -> None:
        self.state = CLOSED
        self.own_exception = None
        self.frame.stack.clear()
        self.frame.fast = []

    # ---- the protocol that generators and coroutines share

    def send(self, *values: Any) -> Any:
        if len(values) != 1:
            owner = type(self).__name__
            raise TypeError(f"{owner}.send() takes exactly one argument ({len(values)} given)")
        return self.resume(values[0])

    def throw(self, *thrown: Any) -> Any:
        warn_of_signature("throw", thrown)
        return self.throw_in(as_thrown(self.frame.world, *thrown))

    def throw_in(self, error: BaseException) -> Any:
        inner = self.delegate()
        if inner is not MISSING and self.state is SUSPENDED:
            if isinstance(error, GeneratorExit):
                try:
                    self.running(close_iterator, self.frame.world, inner)
                except BaseException as raised:
                    error = raised
                return self.resume(error=clean_traceback(error))
            thrower = _frame.native(getattr, inner, "throw", MISSING)
            if thrower is not MISSING:
                return self.throw_into(inner, thrower, error)
        return self.resume(error=error)

    def throw_into(self, inner: Any, thrower: Any, error: BaseException) -> Any:
        try:
            return self.running(_frame.native, thrower, error)
        except BaseException as raised:
            failure = clean_traceback(raised)
        if isinstance(failure, StopIteration) and version.SEND_POPS_RECEIVER:
            frame = self.frame
            frame.stack.pop()
            frame.ip = frame.code.ops[frame.ip - 2][1]  # where the SEND loop ends
            return self.resume(failure.value)
        return self.resume(error=failure)

    def running(self, fn: Any, *args: Any) -> Any:
        """Calls what it waits for: its own frame stands between that and its caller."""
        frame = self.frame
        machine = frame.machine
        frame.back = outer = machine.frame
        machine.frame, frame.generator, self.state = frame, self, RUNNING
        try:
            return fn(*args)
        finally:
            machine.frame, frame.generator, self.state = outer, None, SUSPENDED
            frame.back = None

    def delegate(self) -> Any:
        """What a suspended `yield from` or `await` is waiting for; MISSING otherwise."""
        if self.state is not SUSPENDED:
            return MISSING
        instruction = self.frame.code.instructions[self.frame.ip]
        waits = instruction.opname == "RESUME" and (instruction.arg or 0) & 3 >= 2
        return self.frame.stack[-1] if waits else MISSING

    def close(self) -> None:
        if self.state is CREATED:
            self.finish()
        if self.state is CLOSED:
            return
        try:
            self.throw_in(GeneratorExit())
        except (GeneratorExit, StopIteration) as ended:
            clean_traceback(ended)
            return
        raise RuntimeError(f"{self.kind} ignored GeneratorExit")

    def __del__(self) -> None:
        if self.state is SUSPENDED and self.frame.world.runs_finalisers:
            reporting(self.frame.world, self, self.frame.world.finalise)

    def clear(self) -> None:
        """Its frame is cleared."""
        self.__del__()
        self.finish()

    def __reduce__(self) -> Any:
        raise not_pickled(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object {self.__qualname__} at {id(self):#x}>"

    # ---- what the kinds show under different names

    def is_running(self) -> bool:
        return self.state is RUNNING

    def is_suspended(self) -> bool:
        return self.state is SUSPENDED

    def waits_for(self) -> Any:
        inner = self.delegate()
        return None if inner is MISSING else inner

    def its_code(self) -> types.CodeType:
        return self.frame.code.code

    def its_frame(self) -> Any:
        return None if self.state is CLOSED else self.frame.world.frame_object(self.frame)


def reporting(world: PlainWorld, owner: Any, act: Callable[[Any], Any]) -> Any:
    """Does something with an object where nobody can be told of an error."""
    try:
        return act(owner)
    except BaseException as error:
        if world.catchable(error):  # otherwise the world has noted it, and from here it goes nowhere
            _frame.unraisable(clean_traceback(error), owner)
        return None


def not_pickled(value: Any) -> TypeError:
    return TypeError(f"cannot pickle '{type(value).__name__}' object")


def warn_of_signature(method: str, thrown: tuple[Any, ...]) -> None:
    if len(thrown) > 1 and version.THROW_TAKES_ONE:
        signature = f"the (type, exc, tb) signature of {method}() is deprecated"
        warnings.warn(f"{signature}, use the single-arg signature instead.", DeprecationWarning, stacklevel=3)


def as_thrown(world: PlainWorld, *thrown: Any) -> BaseException:
    if not 1 <= len(thrown) <= 3:
        wrong = "at least 1 argument" if not thrown else "at most 3 arguments"
        raise TypeError(f"throw expected {wrong}, got {len(thrown)}")
    kind, value, traceback = (*map(opened, thrown), None, None)[:3]
    if traceback is not None and not isinstance(traceback, types.TracebackType):
        raise TypeError("throw() third argument must be a traceback object")
    if isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        error = kind
    elif isinstance(kind, type) and issubclass(kind, BaseException):
        if isinstance(value, kind):
            error = value
        else:
            arguments = () if value is None else value if isinstance(value, tuple) else (value,)
            error = made_error(world, kind, arguments)
    else:
        raise TypeError(
            f"exceptions must be classes or instances deriving from BaseException, not {type(kind).__name__}"
        )
    return error if traceback is None else error.with_traceback(traceback)


def made_error(world: PlainWorld, kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    """An instance; where none can be made, the error that this is is thrown instead."""
    try:
        made = _frame.native(kind, *arguments)
    except BaseException as raised:
        if not world.catchable(raised):
            raise
        return clean_traceback(raised)
    return (
        made
        if isinstance(made, BaseException)
        else TypeError(f"{NO_EXCEPTION.format(kind)}, not {type(made).__name__}")
    )


NO_EXCEPTION = "calling {!r} should have returned an instance of BaseException"


def close_iterator(world: PlainWorld, iterator: Any) -> None:
    closer = reporting(world, iterator, lambda it: _frame.native(getattr, it, "close", None))
    if closer is not None:
        _frame.native(closer)


@stands_for(types.GeneratorType)
class Generator(Suspended):
    """Stands for a `types.GeneratorType`."""

    __slots__ = ()
    __class__ = property(lambda self: types.GeneratorType)

    def __iter__(self) -> Generator:
        return self

    def __next__(self) -> Any:
        """Implement next(self)."""
        # C is asking, so it may look into what it gets
        return self.frame.world.for_c(self.resume())

    gi_running = Shown(Suspended.is_running)
    gi_suspended = Shown(Suspended.is_suspended)
    gi_yieldfrom = Shown(Suspended.waits_for)
    gi_code = Shown(Suspended.its_code)
    gi_frame = Shown(Suspended.its_frame)


@stands_for(types.GeneratorType)
class IterableCoroutine(Generator):
    """A generator of a function that `types.coroutine` marks: C awaits only what has the method."""

    __slots__ = ()

    def __await__(self) -> IterableCoroutine:
        return self


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
        if self.state is CREATED and self.frame.world.runs_finalisers:
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
    found = []
    at = caller and caller.view()
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
        if not coroutine.frame.world.catchable(error):
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

    def send(self, value: Any) -> Any:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        raise not_pickled(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


async def real_asynchronous_generator() -> AsyncIterator[None]:
    yield


async def real_coroutine() -> None: ...


def type_of_awaited(made: types.CoroutineType[Any, Any, Any]) -> type:
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
        if not self.announced and self.frame.world.runs_finalisers:
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
        self.state = SUSPENDED
        warn_of_signature("throw", thrown)
        return self.outcome(self.generator.throw_in, as_thrown(self.generator.frame.world, *thrown))

    def close(self) -> None:
        self.state = CLOSED

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


@stands_for(type(real_asynchronous_generator().asend(None)))
class AsyncSend(AsyncStep):
    __slots__ = ()


@stands_for(type(real_asynchronous_generator().aclose()))
class AsyncThrow(AsyncStep):
    __slots__ = ()


def made_generator(frame: Frame, caller: Frame | None) -> Suspended:
    flags = frame.code.code.co_flags
    if flags & inspect.CO_COROUTINE:
        return Coroutine(frame, caller)
    if flags & inspect.CO_ASYNC_GENERATOR:
        return AsyncGenerator(frame)
    return IterableCoroutine(frame) if flags & inspect.CO_ITERABLE_COROUTINE else Generator(frame)
