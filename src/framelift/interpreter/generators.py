"""Generators that the interpreter owns, and what coroutines and asynchronous generators share with them.

They are driven by C code and by the interpreter alike, through the protocol methods, and claim to
be what they stand for: `__class__` says `types.GeneratorType`, so `isinstance` and `inspect` agree.
"""

from __future__ import annotations

import sys
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from framelift import _frame
from framelift.bytecode.decode import version
from framelift.core.sentinels import MISSING
from framelift.interpreter.frame import Frame
from framelift.interpreter.frame_objects import add_entry, clean_traceback
from framelift.interpreter.lookups import stands_for
from framelift.interpreter.machine import YIELD, chained, raise_as_is
from framelift.interpreter.pending import opened
from framelift.interpreter.world import World

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
        *("__name__", "__qualname__", "__weakref__", "callers_exception", "frame", "own_exception", "state"),
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

    def close(self) -> Any:
        if self.state is CREATED:
            self.finish()
        if self.state is CLOSED:
            return None
        try:
            self.throw_in(GeneratorExit())
        except GeneratorExit as ended:
            clean_traceback(ended)
            return None
        except StopIteration as ended:
            clean_traceback(ended)
            return ended.value if version.CLOSE_RETURNS else None
        raise RuntimeError(f"{self.kind} ignored GeneratorExit")

    def __del__(self) -> None:
        if self.state is SUSPENDED and self.frame.world.lifetimes.runs_finalisers:
            reporting(self.frame.world, self, self.frame.world.lifetimes.finalise)

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
        return None if self.state is CLOSED else self.frame.view()


def reporting(world: World, owner: Any, act: Callable[[Any], Any]) -> Any:
    """Does something with an object where nobody can be told of an error."""
    try:
        return act(owner)
    except BaseException as error:
        if world.errors.catchable(error):  # otherwise the world has noted it, and from here it goes nowhere
            _frame.unraisable(clean_traceback(error), owner)
        return None


def not_pickled(value: Any) -> TypeError:
    return TypeError(f"cannot pickle '{type(value).__name__}' object")


def warn_of_signature(method: str, thrown: tuple[Any, ...]) -> None:
    if len(thrown) > 1 and version.THROW_TAKES_ONE:
        signature = f"the (type, exc, tb) signature of {method}() is deprecated"
        warnings.warn(f"{signature}, use the single-arg signature instead.", DeprecationWarning, stacklevel=3)


def as_thrown(world: World, *thrown: Any) -> BaseException:
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


def made_error(world: World, kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    """An instance; where none can be made, the error that this is is thrown instead."""
    try:
        made: Any = _frame.native(kind, *arguments)
    except BaseException as raised:
        if not world.errors.catchable(raised):
            raise
        return clean_traceback(raised)
    if isinstance(made, BaseException):
        return made
    return TypeError(f"{NO_EXCEPTION.format(kind)}, not {type(made).__name__}")


NO_EXCEPTION = "calling {!r} should have returned an instance of BaseException"


def close_iterator(world: World, iterator: Any) -> None:
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
        return self.frame.world.materialize.for_caller(self.resume)

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
