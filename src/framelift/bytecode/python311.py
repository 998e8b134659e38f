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


CONST, NAME, JUMP, FORWARD, BACKWARD, VARIABLE, COMPARISON, GLOBAL, CONVERSION = range(1, 10)
KINDS = [0] * 256
"""What the argument of an instruction is, by opcode; 0: a number."""
for _kind, _opcodes in {
    **{CONST: dis.hasconst, NAME: dis.hasname, JUMP: dis.hasjabs, FORWARD: dis.hasjrel},
    **{BACKWARD: [op for op in dis.hasjrel if "JUMP_BACKWARD" in dis.opname[op]]},
    **{VARIABLE: [*dis.haslocal, *dis.hasfree], COMPARISON: dis.hascompare},
    **{GLOBAL: [dis.opmap["LOAD_GLOBAL"]], CONVERSION: [dis.opmap["FORMAT_VALUE"]]},
}.items():
    for _opcode in _opcodes:
        KINDS[_opcode] = _kind
JUMPING = (JUMP, FORWARD, BACKWARD)
EXTENDED = dis.opmap["EXTENDED_ARG"]
CONVERTERS = (None, str, repr, ascii)
LARGEST = 2**31


def instructions(code: CodeType) -> list[dis.Instruction]:
    """What `dis.get_instructions` gives, without what takes most of its time and nobody reads: texts of
    arguments, lines, and what is jumped to."""
    private: Any = code
    variable = private._varname_from_oparg
    raw, consts, names = code.co_code, code.co_consts, code.co_names
    found: list[dis.Instruction] = []
    offset, prefix, end, make = 0, 0, len(raw), tuple.__new__
    while offset < end:
        op = raw[offset]
        arg: int | None = None
        value: Any = None
        if op >= dis.HAVE_ARGUMENT:
            arg = raw[offset + 1] | prefix
            prefix = arg << 8 if op == EXTENDED else 0
            if prefix >= LARGEST:
                prefix -= 2 * LARGEST
            kind = KINDS[op]
            if not kind:
                value = arg
            elif kind == VARIABLE:
                value = variable(arg)
            elif kind == CONST:
                value = consts[arg]
            elif kind == NAME:
                value = names[arg]
            elif kind == GLOBAL:
                value = names[arg // 2]
            elif kind == JUMP:
                value = arg * 2
            elif kind == FORWARD:
                value = offset + 2 + arg * 2
            elif kind == BACKWARD:
                value = offset + 2 - arg * 2
            elif kind == COMPARISON:
                value = dis.cmp_op[arg]
            else:
                value = CONVERTERS[arg & 3], bool(arg & 4)
        step = dis.opname[op], op, arg, value, "", offset, None, False, None
        found.append(make(dis.Instruction, step))
        offset += 2 + 2 * CACHES[op]
    return found


def normalise(instruction: dis.Instruction, code: CodeType, index: dict[int, int]) -> tuple[str, Any]:
    """The handler's name and its argument."""
    name, arg, value = instruction.opname, instruction.arg, instruction.argval
    if name == "LOAD_GLOBAL":
        return ("LOAD_GLOBAL_CALLABLE" if arg and arg & 1 else name), value
    kind = KINDS[instruction.opcode]
    if kind in JUMPING:
        return RENAMED.get(name, name), index[value]
    if name == "KW_NAMES":
        return name, code.co_consts[arg or 0]
    if kind in (CONST, NAME, COMPARISON):
        return RENAMED.get(name, name), value
    return RENAMED.get(name, name), arg
