"""Signals: what their handlers are, and which exceptions are theirs.

The program's handlers of signals may raise wherever the main thread happens to be (a time limit, Ctrl-C).
While a frame is compiled they wait for places where the program can be interrupted (`native/interrupts.h`).
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, TracebackType
from typing import Any, ParamSpec, TypeVar

from framelift import _frame

P = ParamSpec("P")
R = TypeVar("R")


getsignal: Callable[[int], Any] = vars(signal)["_signal"].getsignal
"""Without making an enumeration's member of what it finds: all signals are looked at."""


SIGNALS = range(1, signal.NSIG)
PLAIN = (int, type(None))
"""What is found where no function of Python's handles a signal."""


def handler_functions() -> tuple[FunctionType, ...]:
    """The Python functions that are entered first when a signal is handled."""
    handlers = [each for each in map(getsignal, SIGNALS) if type(each) not in PLAIN]
    found = map(entered, handlers)
    return tuple([fn for fn in found if fn is not None])


def entered(handler: Any) -> FunctionType | None:
    while True:
        if isinstance(handler, FunctionType):
            return handler
        if isinstance(handler, MethodType):
            handler = handler.__func__
        elif isinstance(handler, functools.partial):
            handler = handler.func
        else:
            found = vars(type(handler)).get("__call__")
            return found if isinstance(found, FunctionType) else None


def exposed(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls what takes long and is not Framelift's: signals are handled at once."""
    return _frame.exposed(handler_functions(), fn, *args, **kwargs)


def raised_by_handler(error: BaseException) -> bool:
    """Whether an exception comes from the handler of a signal. Its traceback is that of the handler then."""
    codes = {fn.__code__ for fn in handler_functions()}
    for entry in entries(error.__traceback__):
        if entry.tb_frame.f_code in codes:
            error.__traceback__ = entry
            return True
    if isinstance(error, KeyboardInterrupt):
        error.__traceback__ = None
        return True
    return False


def entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
