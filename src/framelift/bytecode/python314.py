"""What is particular to CPython 3.14's instructions, as its documentation has them.

Framelift has not been run on 3.14 and refuses it (`core/versions.py`): this is where to begin. What else is
different there: annotations are functions; `__exit__` and the manager of a `with` statement are in two places
of the stack, where others look for a bound method (`trace/errors.py`, `trace/raising_branches.py`), and it is
entered by ordinary calls (`resume.Done`); dicts have no versions (`native/values.h`).
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

from framelift.bytecode import python313
from framelift.bytecode.python313 import (
    ASKS_FOR_TRUTH,
    ASYNC_STEPS_TAKE_TURNS,
    CACHES,
    CALLABLE_FIRST,
    CLOSE_RETURNS,
    EVALUATORS_TAKE_NAMES,
    INTRINSICS_PUSH,
    LOAD_CELL,
    LOCALS_WRITE_THROUGH,
    NOT_A_CLASS_PATTERN,
    SEND_POPS_RECEIVER,
    THROW_TAKES_ONE,
    instructions,
    wanted,
)

__all__ = [
    "ASKS_FOR_TRUTH",
    "ASYNC_STEPS_TAKE_TURNS",
    "CACHES",
    "CALLABLE_FIRST",
    "CLOSE_RETURNS",
    "EVALUATORS_TAKE_NAMES",
    "INTRINSICS_PUSH",
    "LOAD_CELL",
    "LOCALS_WRITE_THROUGH",
    "LOOP_DROPS_ITERATOR",
    "LOOP_ENDS_WITH",
    "NOT_A_CLASS_PATTERN",
    "NO_KEYWORDS",
    "OPERANDS",
    "SEND_POPS_RECEIVER",
    "THROW_TAKES_ONE",
    "instructions",
    "normalise",
    "wanted",
]

RENAMED = {
    "CALL_FUNCTION_EX": "CALL_FUNCTION_EX_BOTH",
    "LOAD_FAST_BORROW": "LOAD_FAST",
    "NOT_TAKEN": "NOP",
    "POP_ITER": "POP_TOP",
    "WITH_EXCEPT_START": "WITH_EXCEPT_START_IN_TWO",
}

LOOP_ENDS_WITH = ("END_FOR",)
LOOP_DROPS_ITERATOR = False
"""What FOR_ITER jumps behind when the iterator, which it leaves there, has ended."""

NO_KEYWORDS = ("PUSH_NULL",)
"""What pushes that a call with unpacked arguments has none with names."""

SUBSCRIPT = 26
"""The operand with which BINARY_OP does what BINARY_SUBSCR did."""

COMMON_CONSTANTS = (AssertionError, NotImplementedError, tuple, all, any)
SPECIAL_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")

OPERANDS: dict[str, Any] = python313.OPERANDS | {
    "LOAD_SPECIAL": 1,
    "BUILD_TEMPLATE": 2,
    "BUILD_INTERPOLATION": lambda flags: 2 + (flags & 1),
    "CALL_FUNCTION_EX": 4,
    "WITH_EXCEPT_START": (5, 0),
}


def normalise(instruction: dis.Instruction, code: CodeType, index: dict[int, int]) -> tuple[str, Any]:
    """The handler's name and its argument."""
    name, arg = instruction.opname.removeprefix("INSTRUMENTED_"), instruction.arg or 0
    if name == "LOAD_SMALL_INT":
        return "LOAD_CONST", arg
    if name == "LOAD_COMMON_CONSTANT":
        return "LOAD_CONST", COMMON_CONSTANTS[arg]
    if name == "LOAD_SPECIAL":
        return name, SPECIAL_METHODS[arg]
    if name == "BINARY_OP" and arg == SUBSCRIPT:
        return "BINARY_SUBSCR", arg
    if name == "FOR_ITER":
        return "FOR_ITER_KEEPING", index[instruction.argval] + len(LOOP_ENDS_WITH)
    if name == "LOAD_FAST_BORROW":
        return ("LOAD_CLOSURE" if python313.holds_cell(instruction.argval, code) else "LOAD_FAST"), arg
    if name == "LOAD_FAST_BORROW_LOAD_FAST_BORROW":
        return "LOAD_FAST_LOAD_FAST", (arg >> 4, arg & 15)
    if name in RENAMED:
        return RENAMED[name], arg
    return python313.normalise(instruction, code, index)
