"""What instructions do to the stack: how much they look at, what they take, and what they leave there."""

from __future__ import annotations

import dis
from dataclasses import dataclass
from typing import Any

from framelift.bytecode.decode import version
from framelift.bytecode.extend import Body

VALUE, NOTHING, HANDLING, UNBOUND = -1, -2, -3, -4
"""What is in a place of the stack: a value; NULL; what PUSH_EXC_INFO leaves there, for which the exception
that is being handled is handed over; a variable without a value that a comprehension has put aside. From
COPY_OF down: the same as in place COPY_OF - n. From 0 on: the instruction that raised, for a handler that
wants it."""
COPY_OF = -10


class NoStepError(Exception):
    """The instruction can't be done on its own."""


@dataclass(frozen=True)
class Outcome:
    """How an instruction can end: `keeps` places of the stack stay, `pushes` values come, it goes on `at`."""

    at: int
    keeps: int
    pushes: tuple[int, ...]

    @property
    def values(self) -> int:
        return sum(kind in (VALUE, HANDLING) for kind in self.pushes)


def pushes_null(name: str, argument: int) -> bool:
    """Whether it pushes two values, of which one is NULL if the instruction without that flag is done."""
    if name in ("LOAD_GLOBAL", "LOAD_SUPER_ATTR") or (name == "LOAD_ATTR" and ATTRIBUTE_OR_METHOD):
        return bool(argument & 1)
    return name == "LOAD_METHOD"


ATTRIBUTE_OR_METHOD = dis.opmap.get("LOAD_METHOD", 256) > 255
"""From 3.12 on LOAD_ATTR does what LOAD_METHOD did, which is only a name within the compiler."""


def target_of(body: Body, at: int) -> int | None:
    """The instruction that another one may jump to."""
    name, opcode = body.name(at), body.opcodes[at]
    if opcode not in dis.hasjrel:
        return None
    argument = body.arguments[at]
    unit = body.starts[at + 1] + (-argument if "BACKWARD" in name else argument)
    if name == "FOR_ITER":
        unit += len(version.LOOP_ENDS_WITH)
    return body.instruction_at(unit)


OPERANDS: dict[str, Any] = {
    "UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT GET_ITER LOAD_ATTR LOAD_METHOD DELETE_ATTR": 1,
    "BEFORE_WITH LIST_TO_TUPLE STORE_GLOBAL IMPORT_STAR PRINT_EXPR CALL_INTRINSIC_1 POP_TOP": 1,
    "POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE UNPACK_SEQUENCE UNPACK_EX": 1,
    "BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP CONTAINS_OP DELETE_SUBSCR STORE_ATTR IMPORT_NAME": 2,
    "CALL_INTRINSIC_2 PREP_RERAISE_STAR": 2,
    "STORE_SUBSCR BINARY_SLICE LOAD_SUPER_ATTR MATCH_CLASS": 3,
    "STORE_SLICE": 4,
    "LOAD_GLOBAL LOAD_DEREF LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR DELETE_GLOBAL": 0,
    "BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_STRING BUILD_SLICE RAISE_VARARGS": lambda n: n,
    "BUILD_MAP": lambda n: 2 * n,
    "BUILD_CONST_KEY_MAP": lambda n: n + 1,
    "CALL": lambda n: n + 2,
    "CALL_FUNCTION_EX": lambda flags: 3 + (flags & 1),
    "FORMAT_VALUE": lambda flags: 2 if flags & 4 else 1,
    "MAKE_FUNCTION": lambda flags: 1 + (flags & 15).bit_count(),
    # these look at more than they take: (how far they look, how much they take)
    "GET_LEN MATCH_MAPPING MATCH_SEQUENCE IMPORT_FROM": (1, 0),
    "MATCH_KEYS": (2, 0),
    "CHECK_EXC_MATCH": (2, 1),
    "WITH_EXCEPT_START": (4, 0),
    "RERAISE": lambda n: (n + 1, n + 1),
    "LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE": lambda n: (n + 1, 1),
    "MAP_ADD": lambda n: (n + 2, 2),
    "DICT_MERGE": lambda n: (n + 3, 1),
}
TAKES = {
    name: takes
    for operands in (OPERANDS, version.OPERANDS)
    for names, takes in operands.items()
    for name in names.split()
}


def plain_name(name: str) -> str:
    return name.replace("_FORWARD", "").replace("_BACKWARD", "") if name.startswith("POP_JUMP") else name


ENDINGS = {
    "FOR_ITER": ((0, 1), (-int(version.LOOP_DROPS_ITERATOR), 0)),
    "JUMP_IF_TRUE_OR_POP": ((-1, 0), (0, 0)),
}
ENDINGS["JUMP_IF_FALSE_OR_POP"] = ENDINGS["JUMP_IF_TRUE_OR_POP"]
"""What goes and what comes, when such an instruction does not jump, and when it does."""


def how_it_ends(body: Body, at: int, depth: int) -> tuple[int, list[Outcome]]:
    """How many places of the stack an instruction looks at, and how it may end without an exception."""
    name, argument = body.name(at), body.arguments[at]
    target = target_of(body, at)
    if name in ENDINGS:
        assert target is not None
        (kept, come), (kept_then, come_then) = ENDINGS[name]
        return 1, [
            Outcome(at + 1, depth + kept, (VALUE,) * come),
            Outcome(target, depth + kept_then, (VALUE,) * come_then),
        ]
    if name == "CHECK_EG_MATCH":
        # from what is handled - a part of it from here on - up: the whole, what was raised, the rest, a class
        return 5, [Outcome(at + 1, depth - 5, (HANDLING, VALUE, VALUE, VALUE, VALUE))]
    takes = TAKES.get(plain_name(name))
    if takes is None:
        raise NoStepError(name)
    takes = takes(argument) if callable(takes) else takes
    looks, taken = takes if isinstance(takes, tuple) else (takes, takes)
    if name in ("RAISE_VARARGS", "RERAISE"):
        return looks, []
    if target is not None:
        return looks, [Outcome(n, depth - taken, ()) for n in (at + 1, target)]
    pushes: tuple[int, ...]
    if pushes_null(name, argument):
        pushes = (VALUE, NOTHING) if version.CALLABLE_FIRST else (NOTHING, VALUE)
    elif name in ("CALL", "CALL_KW"):
        pushes = (VALUE,)
    else:
        operand = argument if body.opcodes[at] >= dis.HAVE_ARGUMENT else None
        pushes = (VALUE,) * (dis.stack_effect(body.opcodes[at], operand) + taken)
    return looks, [Outcome(at + 1, depth - taken, pushes)]
