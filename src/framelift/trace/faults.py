"""Whose fault an error is: the program's, or Framelift's own while it traced the program.

What the program does wrong comes out of code of its own, out of an operation that is done on its behalf (a
call of `native`), or out of a `raise`. Anything else that comes out of a line of Framelift's is a mistake
there. The program must not see it, let alone handle it: the trace ends in front of the instruction, which
then runs as plain Python.
"""

from __future__ import annotations

import dis
import logging
import os
from types import CodeType, TracebackType

from framelift.bytecode.decode import MADE
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.per_code import PerCode
from framelift.core.policy import OWN_FILES

log = logging.getLogger(__name__)

ON_BEHALF = frozenset({"native", "untouched", "call"})
"""What the program's operations are called through."""
RAISING = frozenset({"RAISE_VARARGS", "RERAISE"})

DIRECT = frozenset(
    os.path.join(OWN_FILES, path)
    for path in (
        *("interpreter/op_operators.py", "interpreter/op_containers.py", "interpreter/op_names.py"),
        *("interpreter/op_patterns.py", "interpreter/op_exceptions.py", "interpreter/calls.py"),
        *("rules/torch_functions.py", "rules/objects.py", "rules/standard_library.py"),
        *("trace/operations.py", "graph/recorder.py", "graph/op_memory.py"),
    )
)
"""Files that do operations of the program's without more ado, on builtin values and fakes."""


def as_break(error: BaseException) -> Break:
    """The end of a trace that Framelift has spoilt."""
    log.error("Framelift made a mistake; the code runs as plain Python. Please report this.", exc_info=error)
    return Break(breaks.FAULT, f"{type(error).__name__}: {error}")


def is_own(error: BaseException) -> bool:
    """Whether an error that a traced instruction raised is Framelift's."""
    if not isinstance(error, Exception) or isinstance(error, (RecursionError, MemoryError)):
        return False
    innermost = last(error.__traceback__)
    if innermost is None:
        return False
    code = innermost.tb_frame.f_code
    if not code.co_filename.startswith(OWN_FILES) or code.co_filename in DIRECT or code.co_flags & MADE:
        return False
    verdicts = _verdicts.get(code)
    if verdicts is None:
        verdicts = _verdicts.set(code, {})
    at = innermost.tb_lasti
    if at not in verdicts:
        verdicts[at] = is_for_the_program(code, at)
    return not verdicts[at]


_verdicts: PerCode[dict[int, bool]] = PerCode()
"""Code -> which of its instructions raise errors of the program's."""


def last(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def is_for_the_program(code: CodeType, offset: int) -> bool:
    """Whether the instruction raises on purpose, or is a call of one that stands in `ON_BEHALF`.

    What is called begins where the call begins, as the positions of the instructions say.
    """
    instructions = list(dis.get_instructions(code))
    failed = next(one for one in instructions if one.offset == offset)
    if failed.opname in RAISING or failed.positions is None or failed.positions.lineno is None:
        return True
    begin = (failed.positions.lineno, failed.positions.col_offset)
    return any(
        one.argval in ON_BEHALF
        for one in instructions
        if one.opname in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "LOAD_DEREF")
        and one.positions is not None
        and (one.positions.lineno, one.positions.col_offset) == begin
        and one.offset < offset
    )
