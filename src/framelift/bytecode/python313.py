"""What is particular to CPython 3.13's instructions.

A callable is below what it is bound to, or below NULL: the instructions that put both there, and those that
call, have handlers of their own (`interpreter/op_callable_first.py`).

Branches take nothing but True and False: an instruction before them asks for the truth of a value. The
interpreter leaves that to the branch, as it is in other versions. Where a frame goes on at a branch, any
value may therefore be on its stack (`ASKS_FOR_TRUTH`).
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType
from typing import Any

from framelift.bytecode.python312 import (
    INTRINSICS_1,
    INTRINSICS_2,
    INTRINSICS_PUSH,
    NOT_A_CLASS_PATTERN,
    SEND_POPS_RECEIVER,
    THROW_TAKES_ONE,
    holds_cell,
    instructions,
    intrinsic,
    one_operand,
    two_operands,
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
    "JUMP_BACKWARD": "JUMP_FORWARD",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_FROM_DICT_OR_DEREF": "LOAD_FROM_MAPPING_OR_DEREF",
    "LOAD_FROM_DICT_OR_GLOBALS": "LOAD_FROM_MAPPING_OR_GLOBALS",
    "CALL": "CALL_FIRST",
    "CALL_KW": "CALL_KW_FIRST",
    "CALL_FUNCTION_EX": "CALL_FUNCTION_EX_FIRST",
    "DICT_MERGE": "DICT_MERGE_FIRST",
    "MAKE_FUNCTION": "MAKE_PLAIN_FUNCTION",
}
"""Opcodes that mean the same to the interpreter, which knows neither direction nor interrupts, and those that
mean something else than in other versions."""

CALLABLE_FIRST = True
"""A callable is pushed before what it is bound to, or NULL."""

LOAD_CELL = "LOAD_FAST"
"""What pushes a cell itself."""

LOOP_ENDS_WITH = ("END_FOR", "POP_TOP")
LOOP_DROPS_ITERATOR = True
"""What FOR_ITER jumps behind when the iterator, which it drops, has ended."""

NO_KEYWORDS: tuple[str, ...] = ()
"""What pushes that a call with unpacked arguments has none with names."""

ASKS_FOR_TRUTH = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"})
"""Instructions that take nothing but True and False; the interpreter takes any value there."""

ASYNC_STEPS_TAKE_TURNS = True
"""What is thrown into an asynchronous generator waits its turn too; unawaited steps are warned of."""

CLOSE_RETURNS = True
"""Whether `close` gives what the generator returns."""

EVALUATORS_TAKE_NAMES = True
"""Whether `globals` and `locals` of `eval` and `exec` may be given by name."""

LOCALS_WRITE_THROUGH = True
"""`f_locals` of a function's frame is a view of its variables (PEP 667)."""

CACHES: Sequence[int] = [vars(dis)["_inline_cache_entries"].get(name, 0) for name in dis.opname]
"""Units behind an instruction that are CPython's own, by opcode."""

OPERANDS: dict[str, Any] = {
    "TO_BOOL CONVERT_VALUE FORMAT_SIMPLE MAKE_FUNCTION": 1,
    "FORMAT_WITH_SPEC SET_FUNCTION_ATTRIBUTE": 2,
    "CALL_KW": lambda n: n + 3,
    "DICT_MERGE": lambda n: (n + 4, 1),
}
"""What instructions take from the stack where other versions differ; see `stack_effects.OPERANDS`."""


def normalise(instruction: dis.Instruction, code: CodeType, index: dict[int, int]) -> tuple[str, Any]:
    """The handler's name and its argument."""
    name, arg, value = instruction.opname, instruction.arg or 0, instruction.argval
    if name.startswith("INSTRUMENTED_"):
        name = name.removeprefix("INSTRUMENTED_")
    if name == "LOAD_FAST":
        return ("LOAD_CLOSURE" if holds_cell(value, code) else name), arg
    if name == "STORE_FAST":
        return ("STORE_CELL" if holds_cell(value, code) else name), arg
    if name in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
        return name, (arg >> 4, arg & 15)
    if name == "LOAD_GLOBAL":
        return ("LOAD_GLOBAL_FIRST" if arg & 1 else name), code.co_names[arg >> 1]
    if name == "LOAD_ATTR":
        return ("LOAD_METHOD_FIRST" if arg & 1 else name), code.co_names[arg >> 1]
    if name == "LOAD_SUPER_ATTR":
        return ("LOAD_SUPER_METHOD_FIRST" if arg & 1 else name), (code.co_names[arg >> 2], bool(arg & 2))
    if name == "CALL_INTRINSIC_1":
        if arg >= len(INTRINSICS_1):
            return "INTRINSIC_1", intrinsic(instruction, one_operand.__code__)
        return INTRINSICS_1[arg], arg
    if name == "CALL_INTRINSIC_2":
        if arg >= len(INTRINSICS_2):
            return "INTRINSIC_2", intrinsic(instruction, two_operands.__code__)
        return INTRINSICS_2[arg], arg
    if name == "TO_BOOL":
        return ("NOP" if leads_to_branch(instruction, code) else name), arg
    if name == "COMPARE_OP":
        as_bool = arg & 16 and not leads_to_branch(instruction, code)
        return ("COMPARE_OP_AS_BOOL" if as_bool else name), dis.cmp_op[arg >> 5]
    if name == "FOR_ITER":
        return name, index[value] + len(LOOP_ENDS_WITH)  # the handler has already dropped the iterator
    if instruction.opcode in dis.hasjrel:
        return RENAMED.get(name, name), index[value]
    if instruction.opcode in dis.haslocal or instruction.opcode in dis.hasfree:
        return RENAMED.get(name, name), arg
    if instruction.opcode in dis.hasconst or instruction.opcode in dis.hasname:
        return RENAMED.get(name, name), value
    return RENAMED.get(name, name), arg


def leads_to_branch(instruction: dis.Instruction, code: CodeType) -> bool:
    """Whether what an instruction pushes goes to one that asks for its truth, at once or where a resumed
    frame goes on."""
    at = instruction.offset + 2 * (1 + CACHES[instruction.opcode])
    units = code.co_code
    while units[at] == dis.EXTENDED_ARG:
        at += 2
    return dis.opname[units[at]] in BRANCHES


BRANCHES = ASKS_FOR_TRUTH | {"JUMP_BACKWARD_NO_INTERRUPT"}
