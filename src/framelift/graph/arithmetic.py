"""Arithmetic on symbols as Python does it on numbers: the same type, the same value, the same sign of zero.

torch's symbols are expressions of exact numbers, which may be rearranged. Integers are the same in any order.
A float is rounded at each step, and torch's expressions know neither -0.0 nor infinities nor NaN. So a float
is one step away from symbols: what is computed of that, and what is not in the tables below, is computed with
definite values, which the trace relies on from there on. Where a result depends on nothing but the sign of a
symbol, that is what it relies on.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import torch

from framelift.core.blame import acts_for_program
from framelift.graph.symbols import (
    PYTHON_TYPES,
    SYMBOLIC,
    data_dependence,
    is_of_artifact,
    settled,
    simplest,
)

SymInt, SymFloat, SymBool = torch.SymInt, torch.SymFloat, torch.SymBool
NUMBERS = SYMBOLIC | {int, float, bool}
WIDE = 62
"""Integers of more bits are not computed with symbols: graphs have 64."""
LARGEST_EXACT = 1 << 53
"""A float holds any integer up to here."""

Operands = tuple[Any, ...]
Step = Callable[[Any, Operands], Any]
"""Does an operator with symbols, or gives NotImplemented."""


def compute(fn: Any, operands: Operands, in_place: Any = None) -> Any:
    """An operator on numbers, some of which are symbols. Its form in place words its errors differently."""
    with torch._C.DisableTorchFunction(), data_dependence():
        known = tuple([simplest(operand) for operand in operands])
        step = step_for(fn, known)
        if step is not None:
            result = step(fn, known)
            if result is not NotImplemented:
                return simplest(result)
    return compute_definite(in_place or fn, known)


@acts_for_program
def compute_definite(fn: Any, operands: Operands) -> Any:
    """The same with the values that the symbols have, on which the trace relies from here on."""
    return fn(*map(settled, operands))


def step_for(fn: Any, operands: Operands) -> Step | None:
    types = {type(operand) for operand in operands}
    if SymBool in types:
        return logical_step if fn in LOGICAL and types <= {SymBool, bool} else None
    if not types & SYMBOLIC:
        return None
    if SymFloat in types or float in types:
        return float_step if fn in FLOAT_STEPS else None
    return INTEGER_STEPS.get(fn)


# ---- truth values

LOGICAL = frozenset({operator.and_, operator.or_})


def logical_step(fn: Any, operands: Operands) -> Any:
    return fn(*operands)


# ---- integers


def integer_step(fn: Any, operands: Operands) -> Any:
    given = [operand if type(operand) is SymInt else int(operand) for operand in operands]
    if any(type(n) is int and n.bit_length() > WIDE for n in given):
        return NotImplemented
    result = fn(*given)
    expected = result.node.hint if type(result) is SymInt else 0
    return NotImplemented if expected is not None and expected.bit_length() > WIDE else result


def dividing_step(fn: Any, operands: Operands) -> Any:
    """Python says what is wrong with a divisor that is zero."""
    return integer_step(fn, operands) if divides(operands[1]) else NotImplemented


def divides(divisor: Any) -> bool:
    """Whether a divisor is not zero. An artifact asks when it is called."""
    if type(divisor) is SymInt and is_of_artifact(divisor) and divisor.node.hint:
        return True
    return is_true(divisor != 0)


def power_step(fn: Any, operands: Operands) -> Any:
    exponent = operands[1]
    if type(exponent) is SymInt or not 0 <= exponent <= WIDE:
        return NotImplemented
    return integer_step(fn, operands)


def inverting_step(fn: Any, operands: Operands) -> Any:
    return integer_step(lambda n: -n - 1, operands)


COMPARISONS: frozenset[Any] = frozenset(
    {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}
)
INTEGER_STEPS: dict[Any, Step] = {
    **dict.fromkeys((operator.add, operator.sub, operator.mul, operator.neg, operator.pos), integer_step),
    **dict.fromkeys((operator.and_, operator.or_, operator.xor, operator.abs, *COMPARISONS), integer_step),
    **dict.fromkeys((operator.floordiv, operator.mod, operator.truediv), dividing_step),
    **dict.fromkeys((operator.pow, operator.lshift, operator.rshift), power_step),
    operator.invert: inverting_step,
}


# ---- floats

FLOAT_STEPS: frozenset[Any] = COMPARISONS | {operator.add, operator.sub, operator.mul, operator.truediv}
FLOAT_STEPS |= {operator.neg, operator.pos, operator.abs}


def float_step(fn: Any, operands: Operands) -> Any:
    """One symbol and a number, of which at least one is a float; or a symbol alone."""
    symbols = [operand for operand in operands if type(operand) in SYMBOLIC]
    if len(symbols) != 1:
        return NotImplemented
    (symbol,) = symbols
    if len(operands) == 1:
        return fn(symbol) if symbol.node.expr.is_Symbol else NotImplemented
    number = operands[1] if operands[0] is symbol else operands[0]
    if type(symbol) is SymFloat:
        return step_of_float(fn, operands, symbol, number)
    if fn in COMPARISONS:
        return compared(fn if operands[0] is symbol else MIRRORED[fn], symbol, number)
    if number == 0 or not math.isfinite(number):
        return step_by_sign(fn, operands, symbol, number)
    if fn is operator.truediv and operands[1] is symbol and not divides(symbol):
        return NotImplemented
    return fn(*operands)


def step_of_float(fn: Any, operands: Operands, symbol: Any, number: int | float) -> Any:
    """Zeros would do away with the symbol, or with its sign."""
    if not symbol.node.expr.is_Symbol or not is_exact(number):
        return NotImplemented
    if number == 0 and fn not in COMPARISONS:
        return NotImplemented
    if fn is operator.truediv and operands[1] is symbol and not is_true(symbol != 0):
        return NotImplemented
    return fn(*operands)


def is_exact(number: int | float) -> bool:
    """Whether torch takes a number for what it is: a float, and one that is finite."""
    return math.isfinite(number) if type(number) is float else abs(number) <= LARGEST_EXACT


MIRRORED: dict[Any, Any] = {
    **{operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt},
    **{operator.ge: operator.le, operator.eq: operator.eq, operator.ne: operator.ne},
}
"""Comparison -> the one that gives the same with its operands exchanged."""
NEAREST: dict[Any, Callable[[float], int]] = {
    **{operator.lt: math.ceil, operator.ge: math.ceil, operator.gt: math.floor, operator.le: math.floor},
}
"""Comparison of an integer with a float -> the integer that gives the same in its place."""


def compared(fn: Any, symbol: Any, number: float) -> Any:
    """An integer compared with a float. Python does it exactly; torch would round the integer."""
    if not math.isfinite(number):
        return fn(0, number)
    whole = NEAREST.get(fn)
    if whole is None and not number.is_integer():
        return fn is operator.ne
    return integer_step(fn, (symbol, int(number) if whole is None else whole(number)))


def step_by_sign(fn: Any, operands: Operands, symbol: Any, number: float) -> Any:
    """An integer and a zero, an infinity or a NaN."""
    is_first = operands[0] is symbol
    example = lambda n: fn(n, number) if is_first else fn(number, n)
    if fn in (operator.add, operator.sub):
        if number != 0:
            return example(0)
        if is_first or fn is operator.add:
            return torch.sym_float(symbol)
        return -torch.sym_float(symbol) if is_true(symbol != 0) else NotImplemented
    if fn is operator.truediv and (number == 0 if is_first else not is_true(symbol != 0)):
        return NotImplemented  # which raises
    zero_counts = number != 0 and fn is operator.mul
    if is_true(symbol > 0 if zero_counts else symbol >= 0):
        return example(1)
    return example(-1) if not zero_counts or is_true(symbol < 0) else example(0)


def is_true(condition: Any) -> bool:
    """Decides a condition, which the trace relies on from here on."""
    return bool(settled(simplest(condition)))


# ---- functions of numbers


def of_number(step: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A function of one number."""

    def apply(args: list[Any]) -> Any:
        if len(args) != 1 or type(args[0]) not in SYMBOLIC:
            return NotImplemented
        number = simplest(args[0])
        return simplest(step(number)) if type(number) in SYMBOLIC else NotImplemented

    return apply


def rounding(fn: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A function that gives an integer: of a float that has one. Graphs have integers of 64 bits."""

    def step(number: Any) -> Any:
        if type(number) is SymInt:
            return number
        if type(number) is SymBool:
            return NotImplemented
        if number.node.hint is not None and not is_of_artifact(number):
            inside = abs(number.node.hint) < LARGEST_EXACT
            if not (inside and is_true(number < LARGEST_EXACT) and is_true(number > -LARGEST_EXACT)):
                return NotImplemented
        return fn(number)

    return of_number(step)


def to_float(number: Any) -> Any:
    return NotImplemented if type(number) is SymBool else torch.sym_float(number)


def truth(number: Any) -> Any:
    return number if type(number) is SymBool else compute(operator.ne, (number, 0))


def of_sequence(fn: Any, first: int) -> Callable[[list[Any]], Any]:
    """A function of a sequence of integers. Floats are rounded differently by each version of Python."""

    def apply(args: list[Any]) -> Any:
        if len(args) != 1 or type(args[0]) not in SEQUENCES:
            return NotImplemented
        if not all(type(item) in (SymInt, int, bool) for item in args[0]) or not has_symbols(args[0]):
            return NotImplemented
        return reduce(lambda a, b: compute(fn, (a, b)), args[0], first)

    return apply


def extreme(compare: Any, symbolic: Any) -> Callable[[list[Any]], Any]:
    """The least or the largest of some numbers. Where it is not known which one of some integers that is, it
    is an expression; so a program that takes the longest of some lengths does not depend on which it is."""

    def apply(args: list[Any]) -> Any:
        if len(args) == 1 and type(args[0]) in SEQUENCES:
            args = list(args[0])
        elif len(args) == 1:
            return NotImplemented
        if not all(type(item) in NUMBERS for item in args) or not has_symbols(args):
            return NotImplemented
        best = args[0]
        for item in args[1:]:
            if are_integers(best, item) and not is_known(compare, item, best):
                best = symbolic(best, item)
            elif settled(compute(compare, (item, best))):
                best = item
        return best

    return apply


def are_integers(*numbers: Any) -> bool:
    """Of floats, one may be a NaN, which is what Python gives only where it comes first, and torch does not
    keep the order."""
    return all(type(number) in (int, SymInt) for number in numbers)


def is_known(compare: Any, left: Any, right: Any) -> bool:
    """Whether a comparison comes out the same whatever its symbols are."""
    with torch._C.DisableTorchFunction():
        condition = compare(left, right)
    if type(condition) is not SymBool:
        return True
    env: Any = condition.node.shape_env
    return env is not None and env._maybe_evaluate_static(condition.node.expr) is not None


def has_symbols(items: Iterable[Any]) -> bool:
    return any(type(item) in SYMBOLIC for item in items)


SEQUENCES = (list, tuple, torch.Size)

absolute = of_number(lambda number: compute(operator.abs, (number,)))
as_float = of_number(to_float)
as_int = rounding(torch.sym_int)
as_bool = of_number(truth)
floor, ceil, trunc = rounding(math.floor), rounding(math.ceil), rounding(math.trunc)
least, largest = extreme(operator.lt, torch.sym_min), extreme(operator.gt, torch.sym_max)
total, product = of_sequence(operator.add, 0), of_sequence(operator.mul, 1)


def of_torch(fn: Any) -> Callable[[list[Any]], Any]:
    """One of torch's own functions of integers and truth values that may be symbols."""

    def apply(args: list[Any]) -> Any:
        if not has_symbols(args) or not all(type(arg) in (SymInt, SymBool, int, bool) for arg in args):
            return NotImplemented
        return simplest(fn(*args))

    return apply


def about_kind(fn: Any) -> Callable[[list[Any]], Any]:
    """A function that asks what kind of object something is: of any number of that type it is the same."""

    def apply(args: list[Any]) -> Any:
        if len(args) != 1 or type(args[0]) not in SYMBOLIC:
            return NotImplemented
        return fn(PYTHON_TYPES[type(args[0])]())

    return apply


def chosen(args: list[Any]) -> Any:
    """`torch.sym_ite`, which takes numbers of one type: that of a symbol is another one to it."""
    kinds = {PYTHON_TYPES.get(type(arg), type(arg)) for arg in args[1:]}
    if len(args) != 3 or not has_symbols(args) or len(kinds) > 1:
        return NotImplemented
    if type(args[1]) is type(args[2]):
        return simplest(torch.sym_ite(*args))
    return args[1] if settled(args[0]) else args[2]
