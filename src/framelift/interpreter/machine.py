"""The loop that runs frames.

`Machine.run(frame)` runs a frame, and those it calls, until it returns or yields. A handler does
its operation on the real stack and tells the loop what comes next by what it returns:

- None: the next instruction;
- an int: jump there;
- a Frame: run it, its result is pushed on the caller's stack;
- RETURN, YIELD or RERAISE, with the value in `frame.value`.

Frames that C code enters arrive at `Machine.enter`, through the frame hook. The exception that the
program is handling is CPython's own state (`_frame.swap_handled`), so `sys.exc_info`, implicit
chaining and bare `raise` are right wherever they happen, in C too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, Generic, NamedTuple, TypeVar

from framelift import _frame
from framelift.bytecode import Decoded
from framelift.bytecode.resume import last_instruction
from framelift.core.policy import OWN_FILES
from framelift.core.sentinels import MISSING, Sentinel
from framelift.core.weakly import PerCode
from framelift.interpreter.frame import AtReturn, Frame
from framelift.interpreter.frame_objects import add_entry
from framelift.interpreter.world import W

RETURN = Sentinel("RETURN")
YIELD = Sentinel("YIELD")
RERAISE = Sentinel("RERAISE")

INIT_RETURNED = "__init__() should return None, not '{}'"

poll = _frame.poll
"""Lets the handlers of signals run, which wait while a program is traced."""

HANDLERS: dict[str, Any] = {}
"""Opcode -> handler; filled by `framelift.interpreter.opcodes`."""

_decoded: PerCode[Decoded] = PerCode()


def decoded(code: CodeType) -> Decoded:
    return _decoded.get(code) or _decoded.set(code, Decoded(code, HANDLERS))


class Position(NamedTuple):
    """An instruction that a run comes to: in which stretch without jumps and calls, and which of its code."""

    stretch: int
    ip: int


NOWHERE = Position(-1, 0)

E = TypeVar("E", bound=BaseException)
Ops = list[tuple[Any, Any]]
Watch = Callable[[Frame[Any], Ops], Ops]
Look = Callable[[Frame[Any]], None]


def end_run(frame: Frame, error: BaseException) -> None:
    raise error


def watched(ops: Ops, watch: Callable[[Any], None]) -> Ops:
    """Instructions that show what they leave on top of the stack."""

    def then_look(frame: Frame, instruction: tuple[Any, Any]) -> Any:
        handler, argument = instruction
        signal = handler(frame, argument)
        if frame.stack:
            watch(frame.stack[-1])
        return signal

    return [(then_look, instruction) for instruction in ops]


def followed(ops: Ops, look: Look) -> Ops:
    """Instructions that show their frame before they do anything."""

    def look_first(frame: Frame, instruction: tuple[Any, Any]) -> Any:
        look(frame)
        handler, argument = instruction
        return handler(frame, argument)

    return [(look_first, instruction) for instruction in ops]


class Machine(Generic[W]):
    """Runs frames over one world. `machine.call(fn, *args)` interprets a function from the start."""

    served: dict[Any, Any]
    """Calls that the interpreter answers itself; see `framelift.interpreter.served`."""

    def __init__(self, world: W) -> None:
        self.world = world
        self.frame: Frame[W] | None = None
        """The innermost frame: where a break, or an error, is reported."""
        self.depth = 0
        self.limit = sys.getrecursionlimit()
        self.caller: FrameType | None = None
        """The real frame that entered the machine, while it is in there."""
        self.stop_at = NOWHERE
        """In front of which instruction of the outermost run it ends, by raising `stop_with`."""
        self.stop_with: BaseException | None = None
        self.watch: Watch | None = None
        """Gives the instructions that are run in place of those of a frame."""
        self.look: Look | None = None
        """Shown the frame in front of each instruction."""
        self.stopped: Frame[W] | None = None
        """The innermost frame of the outermost run when that ended, and where it stood."""
        self.stopped_at = NOWHERE

    def call(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Calls `fn` as C would: its frame comes back through the hook."""
        before = _frame.set_interceptor(self.enter)
        outer, self.caller = self.caller, sys._getframe(1)
        try:
            return _frame.native(fn, *args, **kwargs)
        finally:
            self.caller = outer
            _frame.set_interceptor(before)

    def called_from(self) -> FrameType | None:
        """The frame that called Framelift."""
        frame = self.caller
        while frame is not None and frame.f_code.co_filename.startswith(OWN_FILES):
            frame = frame.f_back
        return frame

    def enter(self, func: FunctionType, arguments: list[Any], namespace: Any) -> Any:
        """A frame entered from C, its arguments bound by CPython."""
        self.world.functions.entered(func)
        frame = Frame(self, func, decoded(func.__code__), self.world.functions.defaults(func, arguments))
        frame.namespace = namespace
        return self.run(frame)

    def run(self, base: Frame[W], error: BaseException | None = None) -> Any:
        """What `base` returns; or YIELD, and what it yields is in `base.value`.

        With `error` the frame goes on by that being raised where it stands.
        """
        base.back = outer = self.frame
        frame = base
        depth = self.depth
        self.depth += 1
        handled = sys.exception()
        reraised = False
        stretch, stop = 0, self.stop_at.stretch if outer is None else NOWHERE.stretch
        watch, look = self.watch, self.look
        try:
            if self.depth > self.limit:
                raise RecursionError("maximum recursion depth exceeded")
            while True:
                self.frame = frame
                if error is not None:
                    found = self.unwind(frame, base, error, reraised)
                    if found is None:
                        break
                    frame = self.frame = found
                    error = found = None
                    reraised = False
                poll()  # as CPython does where a frame begins
                stretch += 1
                ops = frame.code.ops
                if watch is not None:
                    ops = watch(frame, ops)
                if stretch == stop:
                    ops = self.stopping(ops)
                elif look is not None:
                    ops = followed(ops, look)
                ip = frame.ip
                try:
                    while True:
                        handler, argument = ops[ip]
                        frame.ip = ip
                        signal = handler(frame, argument)
                        if signal is None:
                            ip += 1
                        elif type(signal) is int:
                            poll()
                            ip = signal
                            stretch += 1
                            if stretch == stop:
                                ops = self.stopping(ops)
                        else:
                            break
                except BaseException as raised:
                    error = raised
                    continue
                if type(signal) is Frame:
                    self.depth += 1
                    if self.depth > self.limit:
                        self.depth -= 1
                        error = chained(RecursionError("maximum recursion depth exceeded"))
                        continue
                    signal.back = frame
                    signal.called_at = (stretch, frame.ip)
                    frame = signal
                elif signal is RERAISE:
                    error = frame.value
                    frame.value = None
                    reraised = True
                elif frame is base:
                    if signal is YIELD:
                        frame.ip += 1
                        return YIELD
                    if type(frame.instead) is AtReturn:
                        frame.instead.tell(frame.value)
                    if not hasattr(frame, "viewed"):
                        frame.fast = []  # what only the frame has dies while the program runs
                    return frame.value
                else:
                    # no local variable holds the result: it would live on for as long as this loop does
                    caller: Frame[W] = frame.back  # type: ignore[assignment]
                    self.depth -= 1
                    if frame.instead is MISSING:
                        caller.stack.append(frame.value)
                        caller.ip += 1
                    elif type(frame.instead) is AtReturn:
                        frame.instead.tell(frame.value)
                        caller.stack.append(frame.value)
                        caller.ip += 1
                    elif frame.value is None:
                        caller.stack.append(frame.instead)
                        caller.ip += 1
                    else:
                        error = chained(TypeError(INIT_RETURNED.format(type(frame.value).__name__)))
                    frame = caller
        except BaseException as raised:  # through `finally` it would bring back what was being handled
            error = raised
        finally:
            if outer is None:
                self.stopped, self.stopped_at = frame, Position(stretch, frame.ip)
            self.frame = outer
            self.depth = depth
            _frame.swap_handled(handled)
        try:
            raise_as_is(error)
        finally:
            del error

    def stopping(self, ops: Ops) -> Ops:
        """The instructions of the stretch in which the run is to end, unless it went another way now."""
        ops = ops.copy()
        if self.stop_at.ip < len(ops):
            ops[self.stop_at.ip] = (end_run, self.stop_with)
        return ops

    def unwind(
        self, frame: Frame[W], base: Frame[W], error: BaseException, reraised: bool
    ) -> Frame[W] | None:
        """The frame whose handler takes the error, its stack prepared; None: it leaves `base`."""
        if not self.world.errors.catchable(error):
            return None
        raised_at = frame.ip
        if reraised:
            raised_at = first_raise(frame)
        else:
            add_entry(error, frame)
        while True:
            entry = frame.code.handler_at(frame.ip)
            if entry is not None:
                self.world.errors.catching(error)
                del frame.stack[entry.depth :]
                frame.kwnames = ()  # those of a call that raised
                if entry.push_lasti:
                    frame.stack.append(last_instruction(raised_at, raised_at))
                frame.stack.append(error)
                frame.ip = entry.target
                return frame
            # it may live on in the traceback
            frame.ip = raised_at
            frame.stack.clear()
            if frame is base:
                return None
            frame = frame.back  # type: ignore[assignment]
            self.depth -= 1
            raised_at = frame.ip
            add_entry(error, frame)


def first_raise(frame: Frame) -> int:
    """The instruction that raised what is raised again now."""
    handler, depth = frame.code.ops[frame.ip]
    return frame.stack[-depth].number if depth and handler is HANDLERS["RERAISE"] else frame.ip


# An exception class may have an attribute of its own with this name, or forbid setting any.
context_of = vars(BaseException)["__context__"].__get__
set_context = vars(BaseException)["__context__"].__set__


def chained(error: E) -> E:
    """What a `raise` does to the context of an error."""
    try:
        raise error
    except BaseException:
        return error


def raise_as_is(error: BaseException) -> Any:
    """Raises without the implicit chaining that a `raise` statement does."""
    context = context_of(error)
    try:
        raise error
    finally:
        set_context(error, context)
        del error, context
