"""Operators, comparison, subscripts, formatting."""

from __future__ import annotations

import operator
import sys
from typing import Any

from framelift.bytecode.decode import version
from framelift.bytecode.resume import Callee
from framelift.interpreter.frame import Frame
from framelift.interpreter.pending import Pending, opened

NAMES = "add and_ floordiv lshift matmul mul mod or_ pow rshift sub truediv xor"
IN_PLACE = {getattr(operator, "i" + name.rstrip("_")): getattr(operator, name) for name in NAMES.split()}
"""`+=` and so on -> the operator without the assignment."""
BINARY = (*IN_PLACE.values(), *IN_PLACE)
"""By the argument of BINARY_OP."""
COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq}
COMPARISONS |= {"!=": operator.ne, ">": operator.gt, ">=": operator.ge}

OPPOSITE = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
METHODS = {
    fn: (f"__{fn.__name__.strip('_')}__", f"__r{fn.__name__.strip('_')}__") for fn in {*IN_PLACE.values()}
}
METHODS |= {fn: (f"__{fn.__name__}__", *METHODS[plain]) for fn, plain in IN_PLACE.items()}
METHODS |= {getattr(operator, one): (f"__{one}__", f"__{other}__") for one, other in OPPOSITE.items()}
"""Operator with two operands -> the methods by which a class may have its own."""


def BINARY_OP(f: Frame, n: int) -> None:
    stack = f.stack
    left, right = stack[-2], stack[-1]
    operators = f.world.operators
    is_open = type(left) is not Pending and type(right) is not Pending
    stack[-2] = (operators.apply if is_open else operators.apply_unopened)(BINARY[n], left, right)
    stack.pop()


def UNARY_NEGATIVE(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operators.apply(operator.neg, opened(f.stack[-1]))


def UNARY_POSITIVE(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operators.apply(operator.pos, opened(f.stack[-1]))


def UNARY_INVERT(f: Frame, _: Any) -> None:
    value = f.stack[-1]
    if type(value) is Callee:
        f.stack[-1] = value()
    else:
        f.stack[-1] = f.world.operators.apply(operator.invert, opened(value))


def UNARY_NOT(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operators.negated(f.stack[-1])


def COMPARE_OP(f: Frame, symbol: str) -> None:
    stack = f.stack
    left, right = opened(stack[-2]), opened(stack[-1])
    stack[-2] = f.world.operators.apply(COMPARISONS[symbol], left, right)
    stack.pop()


def COMPARE_OP_AS_BOOL(f: Frame, symbol: str) -> None:
    stack = f.stack
    left, right = opened(stack[-2]), opened(stack[-1])
    found = f.world.operators.apply(COMPARISONS[symbol], left, right)
    stack[-2] = f.world.operators.truth(found)
    stack.pop()


def TO_BOOL(f: Frame, _: Any) -> None:
    f.stack[-1] = f.world.operators.truth(f.stack[-1])


def IS_OP(f: Frame, negated: int) -> None:
    stack = f.stack
    stack[-2] = f.world.identity.same(stack[-2], stack[-1]) is not bool(negated)
    stack.pop()


def CONTAINS_OP(f: Frame, negated: int) -> None:
    stack = f.stack
    found = f.world.containers.contains(stack[-1], stack[-2])
    stack[-2] = f.world.operators.negated(found) if negated else found
    stack.pop()


# ---- subscripts


def BINARY_SUBSCR(f: Frame, _: Any) -> None:
    stack = f.stack
    stack[-2] = f.world.containers.load(stack[-2], stack[-1])
    stack.pop()


def STORE_SUBSCR(f: Frame, _: Any) -> None:
    stack = f.stack
    f.world.containers.store(stack[-2], stack[-1], stack[-3])
    del stack[-3:]


def DELETE_SUBSCR(f: Frame, _: Any) -> None:
    f.world.containers.delete(f.stack[-2], f.stack[-1])
    del f.stack[-2:]


def BUILD_SLICE(f: Frame, n: int) -> None:
    parts = [opened(x) for x in f.stack[-n:]]
    f.stack[-n:] = [slice(*parts)]


def BINARY_SLICE(f: Frame, _: Any) -> None:
    stack = f.stack
    stack[-3:] = [f.world.containers.load(stack[-3], slice(opened(stack[-2]), opened(stack[-1])))]


def STORE_SLICE(f: Frame, _: Any) -> None:
    stack = f.stack
    f.world.containers.store(stack[-3], slice(opened(stack[-2]), opened(stack[-1])), stack[-4])
    del stack[-4:]


# ---- formatting

CONVERSIONS = (None, str, repr, ascii)


def FORMAT_VALUE(f: Frame, flags: int) -> None:
    at = -2 if flags & 4 else -1
    spec = opened(f.stack[-1]) if flags & 4 else ""
    value = f.stack[at]
    conversion = CONVERSIONS[flags & 3]
    if conversion is not None:
        value = f.world.operators.apply_unopened(conversion, value)
    if not (type(value) is str and spec == ""):
        value = f.world.operators.apply_unopened(format, value, spec)
    f.stack[at:] = [value]


def CONVERT_VALUE(f: Frame, which: int) -> None:
    f.stack[-1] = f.world.operators.apply_unopened(CONVERSIONS[which], f.stack[-1])


def FORMAT_SIMPLE(f: Frame, _: Any) -> None:
    value = f.stack[-1]
    f.stack[-1] = value if type(value) is str else f.world.operators.apply_unopened(format, value, "")


def FORMAT_WITH_SPEC(f: Frame, _: Any) -> None:
    value, spec = f.stack[-2], opened(f.stack[-1])
    f.stack[-2:] = [f.world.operators.apply_unopened(format, value, spec)]


def BUILD_STRING(f: Frame, n: int) -> None:
    at = len(f.stack) - n
    parts = f.stack[at:]
    is_whole = all(type(part) is str for part in parts)
    f.stack[at:] = ["".join(parts) if is_whole else f.world.operators.apply_unopened(joined, *parts)]


def joined(*parts: str) -> str:
    return "".join(parts)


def PRINT_EXPR(f: Frame, _: Any) -> None:
    f.world.operators.apply(sys.displayhook, opened(f.stack[-1]))
    f.stack[-1:] = [None] if version.INTRINSICS_PUSH else []
