"""Operators: which a graph can hold, which torch's symbols have, and where those differ from numbers."""

from __future__ import annotations

import operator
from typing import Any

import torch

from framelift.graph.symbols import SYMBOLIC, settled

IN_PLACE = {
    getattr(operator, "i" + name.rstrip("_")): getattr(operator, name)
    for name in [
        "add",
        "and_",
        "floordiv",
        "lshift",
        "matmul",
        "mul",
        "mod",
        "or_",
        "pow",
        "rshift",
        "sub",
        "truediv",
        "xor",
    ]
}
OPERATORS = frozenset(
    {*IN_PLACE, *IN_PLACE.values()}
    | {operator.neg, operator.pos, operator.invert, operator.lt, operator.le, operator.eq, operator.ne}
    | {operator.gt, operator.ge, operator.getitem}
)
"""Operators that a graph can hold as they are."""

ARITHMETIC = OPERATORS - {operator.getitem, operator.matmul, operator.imatmul, operator.invert}
"""Operators that torch's symbols have."""
OF_SIZES = frozenset({operator.getitem, operator.add, operator.iadd, operator.eq, operator.ne})
"""Operators on sizes that leave symbols in them what they are."""
NUMBERS = SYMBOLIC | {int, float, bool}


def is_delicate(fn: Any, operands: tuple[Any, ...]) -> bool:
    """Whether symbols would not do exactly what numbers do. With integers they do, but that they know of no
    error; with floats they may compute in another order, so only one step is left to them."""
    floats = [operand for operand in operands if type(operand) is torch.SymFloat]
    if floats:
        others = [operand for operand in operands if type(operand) is not torch.SymFloat]
        one_step = fn in FLOAT_STEPS and len(floats) == 1 and floats[0].node.expr.is_Symbol
        zeros = fn in COMPARISONS  # in a sum or a product they would do away with the symbol, or its sign
        return not (
            one_step and all(type(other) in (int, float) and (zeros or other != 0) for other in others)
        )
    if fn in DIVIDING:
        return not settled(operands[1] != 0)  # if it is, Python says what is wrong with that
    return fn in POWERS and not (type(operands[1]) is int and operands[1] >= 0)


DIVIDING = frozenset({operator.floordiv, operator.mod, operator.truediv})
DIVIDING |= {operator.ifloordiv, operator.imod, operator.itruediv}
POWERS = frozenset({operator.pow, operator.ipow, operator.lshift, operator.rshift})
POWERS |= {operator.ilshift, operator.irshift}
FLOAT_STEPS = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.neg})
FLOAT_STEPS |= {operator.iadd, operator.isub, operator.imul, operator.itruediv}
COMPARISONS = frozenset({operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne})
FLOAT_STEPS |= COMPARISONS
