"""Which lines an interpreted run comes to, for tools that count lines (`coverage`, `trace`).

Such a tool is told by CPython of what it runs. What was captured is not run by CPython, so it is told
afterwards: a function is called that has the lines of the program's own, in the order in which the run came
to them, and does nothing.
"""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import Any

from framelift import _frame
from framelift.bytecode import Decoded
from framelift.core import policy
from framelift.interpreter.frame import Frame

Ops = list[tuple[Any, Any]]
LIMIT = 100_000
"""How many lines of one frame are told of."""


class Visits:
    """Given to a machine as `watch`: notes the lines of each frame of the program's."""

    def __init__(self) -> None:
        self.visited: list[tuple[CodeType, dict[str, Any], list[int]]] = []
        self.noting: dict[int, tuple[Decoded, Ops]] = {}
        """By the identity of frames, which are not kept alive: what they hold dies with them."""

    def __call__(self, frame: Frame[Any], ops: Ops) -> Ops:
        known = self.noting.get(id(frame))
        # one that begins may have the place of one that is gone
        if known is None or known[0] is not frame.code or frame.ip == 0:
            known = self.noting[id(frame)] = frame.code, self.begin(frame, ops)
        return known[1]

    def begin(self, frame: Frame[Any], ops: Ops) -> Ops:
        if not policy.is_user_code(policy.module_name(frame.func)):
            return ops
        lines: list[int] = []
        self.visited.append((frame.original, frame.globals, lines))
        noting: Ops = []
        for at, instruction in enumerate(ops):
            line = frame.code.place(at).line
            noting.append(instruction if line is None else (visit, (lines, line, instruction)))
        return noting

    def tell(self) -> None:
        """Has the tool see the lines."""
        for code, variables, lines in self.visited:
            if lines:
                _frame.untouched(FunctionType(walking(code, lines), variables))


def visit(frame: Frame[Any], about: tuple[list[int], int, tuple[Any, Any]]) -> Any:
    lines, line, (handler, argument) = about
    if (not lines or lines[-1] != line) and len(lines) < LIMIT:
        lines.append(line)
    return handler(frame, argument)


def walking(code: CodeType, lines: list[int]) -> CodeType:
    """Code that goes through these lines of a function, and does nothing else."""
    first, last = code.co_firstlineno, max(lines)
    steps = [ast.Pass(lineno=line, col_offset=0, end_lineno=line, end_col_offset=4) for line in lines]
    made = ast.parse("def walk(): pass")
    function: Any = made.body[0]
    function.lineno, function.end_lineno, function.body = first, max(first, last), steps
    whole = compile(made, code.co_filename, "exec")
    found = next(constant for constant in whole.co_consts if isinstance(constant, CodeType))
    return found.replace(co_name=code.co_name, co_qualname=code.co_qualname, co_firstlineno=first)
