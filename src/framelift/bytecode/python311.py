"""What is particular to CPython 3.11's instructions."""

from __future__ import annotations

import dis
from collections.abc import Sequence
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

CALLABLE_FIRST = False
"""A callable is pushed before what it is bound to, or NULL."""

LOAD_CELL = "LOAD_CLOSURE"
"""What pushes a cell itself."""

LOOP_ENDS_WITH: tuple[str, ...] = ()
LOOP_DROPS_ITERATOR = True
"""What FOR_ITER jumps behind when the iterator, which it drops, has ended."""

NO_KEYWORDS: tuple[str, ...] = ()
"""What pushes that a call with unpacked arguments has none with names."""

ASKS_FOR_TRUTH: frozenset[str] = frozenset()
"""Instructions that take nothing but True and False: they take any value."""

ASYNC_STEPS_TAKE_TURNS = False
"""What is thrown into an asynchronous generator waits its turn too; unawaited steps are warned of."""

CLOSE_RETURNS = False
"""Whether `close` gives what the generator returns."""

EVALUATORS_TAKE_NAMES = False
"""Whether `globals` and `locals` of `eval` and `exec` may be given by name."""

LOCALS_WRITE_THROUGH = False
"""`f_locals` of a function's frame is a view of its variables (PEP 667)."""

CACHES: Sequence[int] = vars(dis)["_inline_cache_entries"]
"""Units behind an instruction that are CPython's own, by opcode."""

OPERANDS: dict[str, Any] = {}
"""What instructions take from the stack where other versions differ; see `stack_effects.OPERANDS`."""


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
