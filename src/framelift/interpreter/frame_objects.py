"""Frames as the program may look at them: `sys._getframe()`, `generator.gi_frame`, tracebacks.

A `FrameView` stands for a frame that is being interpreted and claims to be a `types.FrameType`. A
traceback takes nothing but a real frame object, so its entries get one that is made for them: it has
the function's names, globals and line table, and its `f_locals` know the frame that it is made for, but
it has no caller. Where the program looks at it, it finds the view instead (`as_seen`).
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from framelift.bytecode.decode import TRACEBACK_CODE, version
from framelift.core.policy import OWN_FILES
from framelift.interpreter.frame_locals import FrameLocals, function_variables, variables
from framelift.interpreter.lookups import stands_for

if TYPE_CHECKING:
    from framelift.interpreter.frame import Frame

E = TypeVar("E", bound=BaseException)


@stands_for(FrameType)
class FrameView:
    """What a frame that is being interpreted looks like to the program, now and whenever it looks."""

    __class__ = property(lambda self: FrameType)
    __slots__ = ("__weakref__", "_frame", "f_trace", "f_trace_lines", "f_trace_opcodes")

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.f_trace = None
        self.f_trace_lines = True
        self.f_trace_opcodes = False

    @property
    def f_code(self) -> CodeType:
        return self._frame.code.code

    @property
    def f_globals(self) -> dict[str, Any]:
        return self._frame.globals

    @property
    def f_builtins(self) -> dict[str, Any]:
        fn: Any = self._frame.func
        return fn.__builtins__

    @property
    def f_locals(self) -> Any:
        if version.LOCALS_WRITE_THROUGH and self._frame.namespace is None:
            return FrameLocals(self)
        return local_variables(self._frame)

    @property
    def f_lineno(self) -> int | None:
        return self._frame.line

    @property
    def f_lasti(self) -> int:
        return self._frame.code.instructions[self._frame.ip].offset

    @property
    def f_back(self) -> FrameView | FrameType | None:
        frame = self._frame
        if frame.back is not None:
            return frame.back.view()
        return None if is_suspended(frame) else frame.machine.called_from()

    def clear(self) -> None:
        frame = self._frame
        if is_executing(frame):
            raise RuntimeError("cannot clear an executing frame")
        generator = is_suspended(frame) and frame.owner()
        if generator:
            if version.LOCALS_WRITE_THROUGH and generator.is_suspended():
                raise RuntimeError("cannot clear a suspended frame")
            generator.clear()
        frame.stack.clear()
        frame.fast = []

    def __repr__(self) -> str:
        code = self.f_code
        where = f"file {code.co_filename!r}, line {self.f_lineno}"
        return f"<frame at {id(self):#x}, {where}, code {code.co_name}>"


def is_suspended(frame: Frame) -> bool:
    """Whether the frame is a generator's that does not run."""
    return frame.generator is None and hasattr(frame, "owner")


def is_executing(frame: Frame) -> bool:
    at = getattr(frame.machine, "frame", None)  # one that is done with has none
    while at is not None and at is not frame:
        at = at.back
    return at is frame


def local_variables(f: Frame) -> Any:
    if f.namespace is None:
        return function_variables(f)
    # the variables of comprehensions (3.12) are beside the namespace of a class or a module
    hidden = variables(f, f.code.code.co_varnames)
    return {**f.namespace, **hidden} if hidden else f.namespace


def frame_at(f: Frame, depth: int) -> Frame | FrameType | None:
    """The frame that many calls out from `f`; a real one beyond those being interpreted."""
    frame: Frame | None = f
    while frame is not None and depth > 0:
        frame = frame.back
        depth -= 1
    if frame is not None:
        return frame
    real = f.machine.called_from()
    while real is not None and depth > 0:
        real = real.f_back
        depth -= 1
    return real


# ---- tracebacks

# An exception class may have attributes of its own with these names, or forbid setting any.
traceback_of = vars(BaseException)["__traceback__"].__get__
set_traceback = BaseException.with_traceback

OTHER_KINDS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
PARAMETERS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS


def add_entry(error: BaseException, frame: Frame) -> None:
    """Notes in the error's traceback that it came through `frame`."""
    instruction = frame.code.instructions[frame.ip]
    line = frame.line or frame.code.code.co_firstlineno
    below = traceback_of(clean_traceback(error))
    set_traceback(error, TracebackType(below, real_frame(frame), instruction.offset, line))


def clean_traceback(error: E) -> E:
    """Takes Framelift's frames out of the error's traceback, which keeps them alive with all they hold."""
    first = at = behind_own(traceback_of(error))
    while at is not None and not at.tb_frame.f_code.co_flags & TRACEBACK_CODE:
        at.tb_next = behind_own(at.tb_next)
        at = at.tb_next
    return set_traceback(error, first)


def behind_own(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(OWN_FILES):
        traceback = traceback.tb_next
    return traceback


def real_frame(frame: Frame) -> FrameType:
    """The frame of a generator that will not be started: the one kind that has no caller to keep alive."""
    code = frame.code.for_tracebacks
    if code is None:
        code = frame.code.for_tracebacks = code_of_entry(frame.code.code)
    namespace = frame.globals
    had_builtins = "__builtins__" in namespace
    made: FrameType = eval(code, namespace, Locals(frame)).gi_frame
    if not had_builtins:
        namespace.pop("__builtins__", None)  # which `eval` puts there
    return made


class Locals(Mapping[str, Any]):
    """The variables of a frame, whenever somebody looks."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def __getitem__(self, name: str) -> Any:
        return local_variables(self.frame)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(local_variables(self.frame))

    def __len__(self) -> int:
        return len(local_variables(self.frame))

    def __delitem__(self, name: str) -> None:
        """What CPython asks for where a variable of the frame made for a traceback has no value."""


def as_seen(frame: Any) -> Any:
    """A frame object as the program should see it."""
    if type(frame) is FrameType and frame.f_code.co_flags & TRACEBACK_CODE:
        of: Any = frame.f_locals
        interpreted: Frame = of.frame
        return interpreted.view()
    return frame


def as_real(frame: Any) -> Any:
    """What C takes for a frame object."""
    return real_frame(frame._frame) if type(frame) is FrameView else frame


def code_of_entry(code: CodeType) -> CodeType:
    """A generator's code, with the name and positions of `code`, that takes no arguments."""
    flags = code.co_flags & ~(OTHER_KINDS | PARAMETERS | FUNCTION)
    return code.replace(
        co_code=bytes([dis.opmap["RETURN_GENERATOR"], 0]) + code.co_code[2:],
        co_flags=flags | inspect.CO_GENERATOR | TRACEBACK_CODE,
        co_argcount=0,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_cellvars=(),
        co_freevars=(),
        co_exceptiontable=b"",
    )
