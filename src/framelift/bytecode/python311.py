"""What is particular to CPython 3.11's instructions."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

RENAMED = {
    "POP_JUMP_FORWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_FORWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "JUMP_BACKWARD": "JUMP_FORWARD",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD",
    "LOAD_CLASSDEREF": "LOAD_FROM_NAMESPACE_OR_DEREF",
    "PRECALL": "NOP",
}
"""Opcodes that mean the same to the interpreter, which knows neither direction nor interrupts."""

SEND_POPS_RECEIVER = True
"""SEND leaves only the result when the sub-iterator has ended."""

INTRINSICS_PUSH = False
"""Printing an expression and `import *` take a value and push none."""


def wanted(name: str) -> dict[str, str]:
    """What an ImportError says, in keyword arguments, of the name that a module does not have."""
    return {}


THROW_TAKES_ONE = False
"""Whether `throw` warns when it gets a type, a value and a traceback."""

NOT_A_CLASS_PATTERN = "called match pattern must be a type"


def normalise(instruction: dis.Instruction, code: CodeType, index: dict[int, int]) -> tuple[str, Any]:
    """The handler's name and its argument."""
    name, arg, value = instruction.opname, instruction.arg, instruction.argval
    if name == "LOAD_GLOBAL":
        return ("LOAD_GLOBAL_CALLABLE" if arg and arg & 1 else name), value
    if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
        return RENAMED.get(name, name), index[value]
    if name == "KW_NAMES":
        return name, code.co_consts[arg or 0]
    if name == "COMPARE_OP":
        return name, value
    if instruction.opcode in dis.haslocal or instruction.opcode in dis.hasfree:
        return RENAMED.get(name, name), arg
    if instruction.opcode in dis.hasconst or instruction.opcode in dis.hasname:
        return RENAMED.get(name, name), value
    return RENAMED.get(name, name), arg
