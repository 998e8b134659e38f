"""Mistakes that Framelift makes while it traces a program.

The program must not see such an error, let alone handle it: the trace ends in front of the instruction, which
then runs as plain Python. An error that looks like the program's, and ends the trace, is compared with what
comes of the plain run: if that does not raise it, it was a mistake too.
"""

from __future__ import annotations

import dis
import logging
from dataclasses import dataclass
from types import TracebackType

from framelift.bytecode.decode import TRACEBACK_CODE
from framelift.core import breaks
from framelift.core.blame import ACTING, OF_OTHERS
from framelift.core.breaks import Break, CodeName, Place
from framelift.core.errors import FrameliftError
from framelift.core.policy import OWN_FILES
from framelift.interpreter.pending import Pending

log = logging.getLogger(__name__)


def as_break(error: BaseException) -> Break:
    """The end of a trace that Framelift has spoilt."""
    log.error("Framelift made a mistake; the code runs as plain Python. Please report this.", exc_info=error)
    return Break(breaks.FAULT, f"{type(error).__name__}: {error}")


DELIBERATE = (FrameliftError, RecursionError, MemoryError)
"""Errors that are raised on purpose, or that any line may raise."""


def is_own(error: BaseException) -> bool:
    """Whether an error that a traced instruction raised is Framelift's."""
    if not isinstance(error, Exception) or isinstance(error, DELIBERATE):
        return False
    if any(type(arg) is str and Pending.__name__ in arg for arg in error.args):
        return True  # C was given what only Framelift knows
    at = innermost(error)
    if at is None:
        return False
    code = at.tb_frame.f_code
    if code.co_flags & TRACEBACK_CODE or not code.co_filename.startswith(OWN_FILES):
        return False
    return code not in ACTING or code.co_code[at.tb_lasti] in OWN_STEPS


OWN_STEPS = frozenset(
    dis.opmap[name]
    for name in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF")
    if name in dis.opmap
)
"""Instructions by which functions look at what is their own, even those that act for the program."""


def innermost(error: BaseException) -> TracebackType | None:
    """Where an error was raised, or what was called that has raised it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at


def failed_handler(error: BaseException) -> str | None:
    """The name of the handler that has raised an error, if it is none of Framelift's. What the handler has
    had interpreted is the program's."""
    name, at = None, error.__traceback__ if OF_OTHERS else None
    while at is not None:
        code = at.tb_frame.f_code
        name = None if code.co_flags & TRACEBACK_CODE else OF_OTHERS.get(code, name)
        at = at.tb_next
    return name


def as_failed_handler(name: str, error: BaseException) -> Break:
    log.error("the handler %s failed; the call that it is for is made as it is", name, exc_info=error)
    return Break(breaks.HANDLER_FAILED, f"{name}: {type(error).__name__}: {error}")


def is_raised_by_program(error: BaseException) -> bool:
    """Whether a statement of the program has raised it, or something that runs as it is."""
    at = innermost(error)
    code = None if at is None else at.tb_frame.f_code
    return code is not None and code not in ACTING and not code.co_filename.startswith(OWN_FILES)


# ---- errors that end a trace, and may be the program's


@dataclass(frozen=True)
class Escaped:
    """What is kept of an error that ended a trace: not the error, which would keep the program's objects."""

    kind: type[BaseException]
    text: str
    of_operator: bool
    """Whether an operator may raise one of another class: on fakes it has, or on real data."""
    is_doubtful: bool
    """Whether the program may not have come to it, for an operator that failed on real data."""
    stack: list[Place]

    @classmethod
    def of(cls, error: BaseException, of_operator: bool, is_doubtful: bool) -> Escaped | None:
        """None: it tells nothing about the program."""
        if not isinstance(error, Exception) or isinstance(error, DELIBERATE):
            return None
        texts = [arg for arg in error.args if type(arg) is str]  # the text of others is for them to say
        text = f"{type(error).__name__}: {texts[0]}" if texts else type(error).__name__
        return cls(type(error), text, of_operator, is_doubtful, places_in(error.__traceback__))

    def differs_from(self, plain: BaseException | None) -> bool:
        """Whether the plain run, which raised this or nothing, did something else."""
        if plain is None:
            return not self.is_doubtful
        if not isinstance(plain, Exception) or isinstance(plain, DELIBERATE) or self.of_operator:
            return False
        return type(plain) is not self.kind

    def as_break(self, plain: BaseException | None) -> Break:
        instead = "does not" if plain is None else f"raises {type(plain).__name__} instead"
        return Break(
            breaks.FAULT, f"{self.text} (raised as it was captured; plain Python {instead})", self.stack
        )


def places_in(traceback: TracebackType | None) -> list[Place]:
    """The frames of the program, outermost first."""
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_flags & TRACEBACK_CODE or not code.co_filename.startswith(OWN_FILES):
            places.append(Place(CodeName.of(code), traceback.tb_lineno))
        traceback = traceback.tb_next
    return places
