"""What is particular to CPython 3.12's instructions."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any

RENAMED = {
    "JUMP_BACKWARD": "JUMP_FORWARD",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_FROM_DICT_OR_DEREF": "LOAD_FROM_MAPPING_OR_DEREF",
    "LOAD_FROM_DICT_OR_GLOBALS": "LOAD_FROM_MAPPING_OR_GLOBALS",
}
"""Opcodes that mean the same to the interpreter, which knows neither direction nor interrupts."""

SEND_POPS_RECEIVER = False
"""SEND leaves the receiver below the result when it has ended; END_SEND removes it."""

INTRINSICS_PUSH = True
"""Printing an expression and `import *` are intrinsics, which replace a value by another: None."""

CALLABLE_FIRST = False
"""A callable is pushed before what it is bound to, or NULL."""

LOAD_CELL = "LOAD_CLOSURE"
"""What pushes a cell itself."""

LOOP_ENDS_WITH: tuple[str, ...] = ("END_FOR",)
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
    return {"name_from": name}


THROW_TAKES_ONE = True
"""Whether `throw` warns when it gets a type, a value and a traceback."""

NOT_A_CLASS_PATTERN = "called match pattern must be a class"

INTRINSICS_1 = (
    "INVALID",
    "PRINT_EXPR",
    "IMPORT_STAR",
    "STOPITERATION_ERROR",
    "ASYNC_GEN_WRAP",
    "UNARY_POSITIVE",
    "LIST_TO_TUPLE",
)
INTRINSICS_2 = ("INVALID", "PREP_RERAISE_STAR")
"""Intrinsics that have handlers. Those behind them make type parameters: CPython executes them itself."""


def one_operand(value: Any) -> Any:
    return value


def two_operands(first: Any, second: Any) -> Any:
    return first


def intrinsic(instruction: dis.Instruction, like: CodeType) -> FunctionType:
    """A function that executes just this instruction on its arguments."""
    operands = range(like.co_argcount)
    instructions = [
        ("RESUME", 0),
        *(("LOAD_FAST", n) for n in operands),
        (instruction.opname, instruction.arg or 0),
        ("RETURN_VALUE", 0),
    ]
    made = bytes(part for name, arg in instructions for part in (dis.opmap[name], arg))
    made_code = like.replace(co_code=made, co_name=instruction.argrepr, co_stacksize=len(operands))
    return FunctionType(made_code, globals())


def instructions(code: CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


def normalise(instruction: dis.Instruction, code: CodeType, index: dict[int, int]) -> tuple[str, Any]:
    """The handler's name and its argument."""
    name, arg, value = instruction.opname, instruction.arg or 0, instruction.argval
    if name.startswith("INSTRUMENTED_"):
        name = name.removeprefix("INSTRUMENTED_")
    if name == "STORE_FAST":
        return ("STORE_CELL" if holds_cell(value, code) else name), arg
    if name == "LOAD_GLOBAL":
        return ("LOAD_GLOBAL_CALLABLE" if arg & 1 else name), value
    if name == "LOAD_ATTR":
        return ("LOAD_METHOD" if arg & 1 else name), code.co_names[arg >> 1]
    if name == "LOAD_SUPER_ATTR":
        return ("LOAD_SUPER_METHOD" if arg & 1 else name), (code.co_names[arg >> 2], bool(arg & 2))
    if name == "CALL_INTRINSIC_1":
        if arg >= len(INTRINSICS_1):
            return "INTRINSIC_1", intrinsic(instruction, one_operand.__code__)
        return INTRINSICS_1[arg], arg
    if name == "CALL_INTRINSIC_2":
        if arg >= len(INTRINSICS_2):
            return "INTRINSIC_2", intrinsic(instruction, two_operands.__code__)
        return INTRINSICS_2[arg], arg
    if name == "COMPARE_OP":
        return name, dis.cmp_op[arg >> 4]
    if name == "FOR_ITER":
        return name, index[value] + len(LOOP_ENDS_WITH)  # the handler has already dropped the iterator
    if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
        return RENAMED.get(name, name), index[value]
    if name == "KW_NAMES":
        return name, code.co_consts[arg]
    if instruction.opcode in dis.haslocal or instruction.opcode in dis.hasfree:
        return RENAMED.get(name, name), arg
    if instruction.opcode in dis.hasconst or instruction.opcode in dis.hasname:
        return RENAMED.get(name, name), value
    return RENAMED.get(name, name), arg


def holds_cell(name: str, code: CodeType) -> bool:
    """Whether what a slot holds is a cell: a resume function may have it as an argument."""
    return name in code.co_cellvars or name in code.co_freevars or name.startswith(".free")
