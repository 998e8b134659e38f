"""Operators, comparison, subscripts, formatting."""

from __future__ import annotations

import operator
from typing import Any

from framelift.interpreter.frame import Frame
from framelift.world.pending import Pending, opened

BINARY = (
    operator.add,
    operator.and_,
    operator.floordiv,
    operator.lshift,
    operator.matmul,
    operator.mul,
    operator.mod,
    operator.or_,
    operator.pow,
    operator.rshift,
    operator.sub,
    operator.truediv,
    operator.xor,
    operator.iadd,
    operator.iand,
    operator.ifloordiv,
    operator.ilshift,
    operator.imatmul,
    operator.imul,
    operator.imod,
    operator.ior,
    operator.ipow,
    operator.irshift,
    operator.isub,
    operator.itruediv,
    operator.ixor,
)
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def BINARY_OP(f: Frame, n: int) -> None:
    stack = f.stack
    right = stack.pop()
    if type(right) is Pending:
        right = right.open()
    left = stack[-1]
    if type(left) is Pending:
        left = left.open()
    stack[-1] = f.world.operate(BINARY[n], left, right)


def UNARY_NEGATIVE(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operate(operator.neg, opened(f.stack[-1]))


def UNARY_POSITIVE(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operate(operator.pos, opened(f.stack[-1]))


def UNARY_INVERT(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operate(operator.invert, opened(f.stack[-1]))


def UNARY_NOT(f: Frame, _: Any) -> None:
    f.stack[-1] = not f.world.truth(f.stack[-1])


def COMPARE_OP(f: Frame, symbol: str) -> None:
    stack = f.stack
    right = opened(stack.pop())
    stack[-1] = f.world.operate(COMPARISONS[symbol], opened(stack[-1]), right)


def IS_OP(f: Frame, negated: int) -> None:
    right = f.stack.pop()
    f.stack[-1] = f.world.same(f.stack[-1], right) is not bool(negated)


def CONTAINS_OP(f: Frame, negated: int) -> None:
    container = f.stack.pop()
    f.stack[-1] = f.world.contains(container, f.stack[-1]) is not bool(negated)


# ---- subscripts


def BINARY_SUBSCR(f: Frame, _: Any) -> None:
    key = f.stack.pop()
    f.stack[-1] = f.world.load_item(f.stack[-1], key)


def STORE_SUBSCR(f: Frame, _: Any) -> None:
    stack = f.stack
    key = stack.pop()
    container = stack.pop()
    f.world.store_item(container, key, stack.pop())


def DELETE_SUBSCR(f: Frame, _: Any) -> None:
    key = f.stack.pop()
    f.world.delete_item(f.stack.pop(), key)


def BUILD_SLICE(f: Frame, n: int) -> None:
    parts = [opened(x) for x in f.stack[-n:]]
    f.stack[-n:] = [slice(*parts)]


def BINARY_SLICE(f: Frame, _: Any) -> None:
    BUILD_SLICE(f, 2)
    BINARY_SUBSCR(f, _)


def STORE_SLICE(f: Frame, _: Any) -> None:
    BUILD_SLICE(f, 2)
    STORE_SUBSCR(f, _)


# ---- formatting

CONVERSIONS = (None, str, repr, ascii)


def FORMAT_VALUE(f: Frame, flags: int) -> None:
    spec = opened(f.stack.pop()) if flags & 4 else ""
    value = opened(f.stack.pop())
    conversion = CONVERSIONS[flags & 3]
    if conversion is not None:
        value = f.world.operate(conversion, value)
    if not (type(value) is str and spec == ""):
        value = f.world.operate(format, value, spec)
    f.stack.append(value)


def BUILD_STRING(f: Frame, n: int) -> None:
    f.stack[-n:] = ["".join(f.stack[-n:])]


def PRINT_EXPR(f: Frame, _: Any) -> None:
    import sys

    f.world.operate(sys.displayhook, opened(f.stack[-1]))
    f.stack[-1] = None
