"""Mistakes that Framelift makes while it traces a program.

The program must not see such an error, let alone handle it: the trace ends in front of the instruction, which
then runs as plain Python.
"""

from __future__ import annotations

import logging

from framelift.bytecode.decode import TRACEBACK_CODE
from framelift.core import breaks
from framelift.core.blame import ACTING
from framelift.core.breaks import Break
from framelift.core.errors import FrameliftError
from framelift.core.policy import OWN_FILES

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
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    code = innermost.tb_frame.f_code
    return code.co_filename.startswith(OWN_FILES) and not (code in ACTING or code.co_flags & TRACEBACK_CODE)
