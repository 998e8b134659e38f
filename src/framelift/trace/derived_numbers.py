"""Floats that are computed from floats that may vary: the region computes them, as Python does.

torch's symbols are expressions that may be rearranged, so what they give may be rounded otherwise than in the
program. Each step of a computation is therefore a number of its own: the region computes it before it runs
the graph, and the graph gets it as an input. What is relied on of such a number is relied on of those that it
is computed from, and checked by computing it natively, step by step.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from framelift.core.sentinels import MISSING
from framelift.graph.symbols import SYMBOLIC, settled

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

WIDE = 1 << 53
"""A float holds any integer up to here."""
QUOTIENTS = frozenset({operator.truediv, operator.itruediv})
POWERS = frozenset({operator.pow, operator.ipow})
COMPARISONS = frozenset({operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne})
WRITTEN: dict[Any, str] = {
    **dict.fromkeys((operator.add, operator.iadd), "({0} + {1})"),
    **dict.fromkeys((operator.sub, operator.isub), "({0} - {1})"),
    **dict.fromkeys((operator.mul, operator.imul), "({0} * {1})"),
    **dict.fromkeys(QUOTIENTS, "({0} / {1})"),
    **dict.fromkeys(POWERS, "({0} ** {1})"),
    **{operator.neg: "(-{0})", operator.pos: "({0})"},
}
"""Operator or function -> how a guard has it."""
LARGE, MEDIUM = 1e300, 1e150
LIMITS = {
    **dict.fromkeys((math.cos, math.sin), (-LARGE, LARGE)),
    **{math.exp: (-LARGE, 700.0), math.log: (1 / LARGE, LARGE), math.sqrt: (0.0, LARGE)},
}
"""Function of one number -> between what it never raises, and gives a finite float."""
WRITTEN |= {fn: f"math.{fn.__name__}({{0}})" for fn in LIMITS}
CHOOSING = frozenset({min, max})
ROUNDING = frozenset({int, round, math.floor, math.ceil, math.trunc})
NUMBERS = SYMBOLIC | {int, float, bool}


class DerivedNumbers:
    """The numbers that a region computes."""

    def __init__(self, world: TraceWorld) -> None:
        self.world = world
        self.made: dict[Any, Any] = {}
        """(operator, operands) -> the number."""
        self.symbols: set[Any] = set()

    def compute(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """The result of an operator on numbers, among them a float that may vary. MISSING: nothing was done,
        since it might fail, or gives no float."""
        if not any(is_varying_float(fn, operand) for operand in operands):
            return MISSING
        if not all(map(is_known, operands)) or self.world.recorder.builder.in_body:
            return MISSING
        if fn in COMPARISONS:
            named = tuple([self.as_symbol(operand) for operand in operands])
            return MISSING if MISSING in named else compare(fn, named)
        if fn in POWERS and type(operands[0]) is torch.SymFloat:
            operands = self.as_symbol(operands[0]), operands[1]
        if MISSING in operands or fn not in WRITTEN or not is_safe(fn, operands):
            return MISSING
        return self.number(fn, operands)

    def as_symbol(self, operand: Any) -> Any:
        """A float that is an expression of sizes becomes a symbol, which can be compared as it is."""
        is_computed = type(operand) is torch.SymFloat and not operand.node.expr.is_Symbol
        return self.number(operator.pos, (operand,)) if is_computed else operand

    def number(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        index = fn, tuple([x.node.expr if type(x) in SYMBOLIC else (type(x), repr(x)) for x in operands])
        found = self.made.get(index)
        if found is None:
            value = fn(*[x.node.hint if type(x) in SYMBOLIC else x for x in operands])
            if not math.isfinite(value):
                return MISSING  # there are no symbols for that
            world = self.world
            source = world.runtime_calls.note(fn, tuple(map(self.argument, operands)), {}, pure=True)
            found = self.made[index] = world.inputs.symbolic_number(value, source)
            symbols = world.recorder.builder.symbols
            assert symbols is not None
            symbols.derive(WRITTEN[fn], operands)
            self.symbols.add(found.node.expr)
        return found

    def argument(self, operand: Any) -> Any:
        """Where the region finds a float: it may turn out later which one it has to be."""
        symbols = self.world.recorder.builder.symbols
        if type(operand) is not torch.SymFloat or symbols is None or operand.node._expr not in symbols.reads:
            return operand
        entry = symbols.inputs[symbols.reads[operand.node._expr].input]
        return self.world.inputs.number_inputs[entry.node]

    def call(self, fn: Any, args: list[Any]) -> Any:
        """A function of numbers, with a float that may vary among them. MISSING: nothing was done."""
        if fn in LIMITS and len(args) == 1:
            return self.function(fn, args[0])
        if fn not in CHOOSING and fn not in ROUNDING:
            return MISSING
        if len(args) == 1 and type(args[0]) in (list, tuple):
            args = list(args[0])
        if not all(type(arg) in NUMBERS for arg in args) or self.world.recorder.builder.in_body:
            return MISSING
        if not any(type(arg) is torch.SymFloat for arg in args):
            return MISSING
        if fn in CHOOSING:
            return fn([self.as_symbol(arg) for arg in args], key=lambda arg: Comparable(self.world, arg))
        if not any(self.is_derived(arg) for arg in args):
            return MISSING
        return fn(*map(settled, args))  # a size can't be computed in the region

    def function(self, fn: Any, operand: Any) -> Any:
        if type(operand) not in SYMBOLIC or not is_known(operand) or self.world.recorder.builder.in_body:
            return MISSING
        low, high = LIMITS[fn]
        if type(operand) is torch.SymInt:
            is_within = (high > WIDE or compare(operator.le, (operand, int(high)))) and (
                low < -WIDE or compare(operator.ge, (operand, math.ceil(low)))
            )
        else:
            operand = self.as_symbol(operand)
            is_within = operand is not MISSING and all(
                compare(*fact) for fact in ((operator.ge, (operand, low)), (operator.le, (operand, high)))
            )
        return self.number(fn, (operand,)) if is_within else MISSING

    def is_derived(self, value: Any) -> bool:
        return type(value) is torch.SymFloat and not self.symbols.isdisjoint(value.node._expr.free_symbols)


@dataclass(frozen=True, slots=True)
class Comparable:
    """A number that Python's `min` and `max` compare as the program would."""

    world: TraceWorld
    number: Any

    def __lt__(self, other: Comparable) -> bool:
        return bool(settled(self.world.operators.apply(operator.lt, self.number, other.number)))

    def __gt__(self, other: Comparable) -> bool:
        return bool(settled(self.world.operators.apply(operator.gt, self.number, other.number)))


def is_varying_float(fn: Any, operand: Any) -> bool:
    """Whether it is a float that came in, or is computed. One step of integers torch computes itself."""
    if type(operand) is torch.SymFloat:
        return True
    return type(operand) is torch.SymInt and fn in POWERS


def is_known(operand: Any) -> bool:
    """Whether Python can compute with it in the region."""
    if type(operand) is float:
        return math.isfinite(operand)
    if type(operand) is int:
        return abs(operand) < WIDE
    return type(operand) in (torch.SymInt, torch.SymFloat) and operand.node.hint is not None


def is_safe(fn: Any, operands: tuple[Any, ...]) -> bool:
    """Whether it never raises, and gives a float; what that relies on is noted."""
    if fn in QUOTIENTS:
        return bool(settled(operands[1] != 0))
    if fn in POWERS:
        base, exponent = operands
        if type(base) is torch.SymFloat and type(exponent) in (int, float) and abs(exponent) <= 2:
            return compare(operator.ge, (base, 1 / MEDIUM)) and compare(operator.le, (base, MEDIUM))
        return type(base) is float and 0 < base <= 1 and bool(settled(exponent >= 0))
    return True


def compare(fn: Any, operands: tuple[Any, ...]) -> bool:
    with torch._C.DisableTorchFunction():
        return bool(settled(fn(*operands)))
