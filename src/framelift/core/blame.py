"""Whose an error is that comes out of a traced instruction: the program's, or Framelift's own.

An error is the program's where it comes out of code of the program's, or where an operation of the program's
was run. Such places are marked, and nothing is guessed from names:

- C functions are called on behalf of the program by `_frame.native` and its kin, which give an error that C
  has raised the traceback `MARK`;
- functions of Framelift's that do operations of the program's by themselves, or raise what the program is to
  get, are registered (`acts_for_program`).

Any other error out of a line of Framelift's is a mistake there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar

from framelift import _frame
from framelift.core.policy import OWN_FILES

F = TypeVar("F")


def program() -> Iterator[FrameType]:
    """Its frame stands in tracebacks for what the program has asked for. That of a generator that waits leads
    to no other: those that import this module are not kept alive."""
    yield sys._getframe()


_waiting = program()
MARK = TracebackType(None, next(_waiting), 0, 0)
_frame.set_program_mark(MARK)

ACTING: set[CodeType] = {program.__code__}
"""Functions whose own errors are the program's."""

OF_OTHERS: dict[CodeType, str] = {}
"""Handlers that are no part of Framelift -> their names. Their errors are for their authors."""


def note_handler(fn: Any) -> None:
    """A handler is registered: errors of one that is not Framelift's are for its author."""
    code = getattr(fn, "__code__", None)
    if code is not None and not code.co_filename.startswith(OWN_FILES):
        OF_OTHERS[code] = f"{fn.__module__}.{fn.__qualname__}"


def acts_for_program(fn: F) -> F:
    """Marks a function that does operations of the program's, or raises errors that the program is to get."""
    codes = [fn.__code__] if isinstance(fn, FunctionType) else []
    while codes:  # with the functions that it defines
        code = codes.pop()
        ACTING.add(code)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return fn


def all_act_for_program(module: ModuleType) -> None:
    """Marks every function and method that a module defines."""
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for member in vars(value).values() if isinstance(value, type) else (value,):
            acts_for_program(getattr(member, "__func__", None) or getattr(member, "fget", None) or member)
