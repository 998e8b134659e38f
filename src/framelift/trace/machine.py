"""The machine of a trace: the interpreter, over the world of the trace."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.calls import call, call_function
from framelift.interpreter.frame import Frame
from framelift.interpreter.machine import Machine
from framelift.trace.addresses import Address
from framelift.trace.callable_rules import HANDLERS

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld  # noqa: F401 (named in quotes)

TraceFrame = Frame["TraceWorld"]
"""A frame that is traced."""

TOLD_OF_CLASSES = {"__init_subclass__": 0, "__set_name__": 1}
"""Methods that C calls while it makes a class -> which of their arguments that is."""

OF_DESCRIPTORS = frozenset({"__get__", "__set__", "__delete__"})
"""Methods that C calls of what it has found on a class."""

GIVING_NUMBERS = frozenset(
    {"__len__", "__length_hint__", "__index__", "__int__", "__float__", "__complex__", "__hash__", "__bool__"}
)
"""Methods of which C needs the number that they give, whatever it does with what others give."""

UNARY = ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc")
BINARY = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
    *("lshift", "rshift", "and", "or", "xor"),
)
HANDED_ON = frozenset(
    {f"__{side}{name}__" for name in BINARY for side in ("", "r", "i")}
    | {f"__{name}__" for name in (*UNARY, "getattr", "getattribute", "get")}
)
"""Methods by which C does an operation for the program, of which the result is what they give."""

VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

CALLING_BACK: set[types.CodeType] = set()
"""Functions that have run code of the program's when they break: the trace has to begin again."""


def calls_back(fn: Any) -> Any:
    CALLING_BACK.add(fn.__code__)
    return fn


class TracingMachine(Machine["TraceWorld"]):
    served = HANDLERS
    invokes = False
    """Whether the world is making a call on the program's behalf."""

    def called_from(self) -> types.FrameType | None:
        """What is captured may be called from anywhere."""
        raise Break(breaks.INTERNALS, "the frame that calls what is captured")

    def enter(self, func: types.FunctionType, arguments: list[Any], namespace: Any) -> Any:
        """C called the function, so it may look into what it gets: nothing pending may be in there."""
        if not self.world.calls.interprets(func):
            return self.world.calls.native(self.frame, func, arguments, None)  # to be told that it can't be
        of_new_class = TOLD_OF_CLASSES.get(func.__name__)
        if of_new_class is not None and isinstance(arguments[of_new_class], type):
            self.world.created.add_class(arguments[of_new_class])
        if func.__name__ in OF_DESCRIPTORS and len(arguments) > 1:
            arguments[0] = self.world.classes.found_by_c(*arguments[:3])
        if func in self.served and not func.__code__.co_flags & VARIADIC:
            count = func.__code__.co_argcount
            named = dict(zip(func.__code__.co_varnames[count:], arguments[count:], strict=False))
            return self.world.materialize.for_c(self.invoke(func, tuple(arguments[:count]), named))
        show = self.world.materialize
        if func.__name__ in GIVING_NUMBERS:
            result = show.for_c(super().enter(func, arguments, namespace))
        else:
            run = functools.partial(super().enter, func, arguments, namespace)
            result = show.for_caller(run, func.__name__ in HANDED_ON)
        if type(result) is Address and result.source is not None:
            self.world.addresses.fix(result)  # the hash of something, which tables have already
        if namespace is not None and namespace is not func.__globals__:
            # of a class, which C, or code that is not interpreted, makes of it
            self.world.materialize.for_c(namespace)
        return result

    def invoke(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the world makes on the program's behalf, as if the program stood at it."""
        assert self.frame is not None
        before, self.invokes = self.invokes, True
        try:
            result = call(self.frame, fn, list(args), kwargs or None)
        finally:
            self.invokes = before
        return self.run(result) if type(result) is Frame else result


def interpreted(f: TraceFrame, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
    """The function is not served after all."""
    return call_function(f, fn, args, kwargs or None)
