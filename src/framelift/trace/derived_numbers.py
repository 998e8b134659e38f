"""Floats that are computed from floats that may vary: the region computes them, as Python does.

torch's symbols are expressions that may be rearranged, so what they give may be rounded otherwise than in the
program. Each step of a computation is therefore a number of its own: the region computes it before it runs
the graph, and the graph gets it as an input. What is relied on of such a number is relied on of those that it
is computed from, and checked by computing it natively, step by step.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from framelift.core.sentinels import MISSING
from framelift.graph import numbers_of_data
from framelift.graph.symbols import SYMBOLIC, data_dependence, settled

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

WIDE = 1 << 53
"""A float holds any integer up to here."""
WIDEST = 62
"""Integers of more bits are not computed: graphs have 64."""
QUOTIENTS = frozenset({operator.truediv, operator.itruediv})
FLOORS = frozenset({operator.floordiv, operator.ifloordiv, operator.mod, operator.imod})
POWERS = frozenset({operator.pow, operator.ipow})
SHIFTS = frozenset({operator.lshift, operator.ilshift})
COMPARISONS = frozenset({operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne})
WRITTEN: dict[Any, str] = {
    **dict.fromkeys((operator.add, operator.iadd), "({0} + {1})"),
    **dict.fromkeys((operator.sub, operator.isub), "({0} - {1})"),
    **dict.fromkeys((operator.mul, operator.imul), "({0} * {1})"),
    **dict.fromkeys(QUOTIENTS, "({0} / {1})"),
    **dict.fromkeys(POWERS, "({0} ** {1})"),
    **dict.fromkeys(SHIFTS, "({0} * 2 ** {1})"),
    **dict.fromkeys(FLOORS, "of_floats({0}, {1})"),  # which is not done natively
    **{operator.neg: "(-{0})", operator.pos: "({0})", operator.abs: "abs({0})"},
}
"""Operator or function -> how a guard has it."""
LARGE, MEDIUM = 1e300, 1e150
Limits = tuple[float, float]
ANY: Limits = (-LARGE, LARGE)
POSITIVE: Limits = (1 / LARGE, LARGE)
INTEGER: Limits = (-(1 << 62), 1 << 62)

LIMITS: dict[Any, tuple[Limits, ...]] = {
    **dict.fromkeys((math.cos, math.sin, math.tan, math.atan, math.tanh, math.asinh, math.cbrt), (ANY,)),
    **dict.fromkeys((math.erf, math.erfc, math.fabs, math.radians), (ANY,)),
    **dict.fromkeys((math.log, math.log2, math.log10), (POSITIVE,)),
    **dict.fromkeys((math.exp, math.expm1), ((-LARGE, 700.0),)),
    **dict.fromkeys((math.sinh, math.cosh), ((-700.0, 700.0),)),
    **dict.fromkeys((math.asin, math.acos), ((-1.0, 1.0),)),
    **{math.sqrt: ((0.0, LARGE),), math.exp2: ((-LARGE, 1000.0),), math.degrees: ((-MEDIUM, MEDIUM),)},
    **{math.log1p: ((-0.99, LARGE),), math.acosh: ((1.0, LARGE),), math.atanh: ((-0.99, 0.99),)},
    **{math.gamma: ((0.01, 170.0),), math.lgamma: ((0.01, MEDIUM),)},
    **dict.fromkeys((math.atan2, math.copysign), (ANY, ANY)),
    **dict.fromkeys((math.fmod, math.remainder), (ANY, POSITIVE)),
    **{math.pow: ((1e-10, 1e10), (-30.0, 30.0)), math.hypot: ((-MEDIUM, MEDIUM),) * 2},
    **{math.isqrt: ((0, WIDE),), math.gcd: (INTEGER, INTEGER), math.lcm: ((-(1 << 30), 1 << 30),) * 2},
    **{math.factorial: ((0, 20),), math.comb: ((0, 60), (0, 1 << 62)), math.perm: ((0, 19),) * 2},
    **{int.bit_length: (INTEGER,), int.bit_count: (INTEGER,)},
}
"""Function of numbers -> between what each never raises, and gives a finite number that a graph can hold."""
OF_INTEGERS = frozenset({math.isqrt, math.gcd, math.lcm, math.factorial, math.comb, math.perm})
OF_INTEGERS |= {int.bit_length, int.bit_count}
WRITTEN |= {fn: f"{fn.__name__}({{0}})" for fn in (int.bit_length, int.bit_count, round, int)}
WRITTEN |= {fn: f"{fn.__name__}({{0}}, {{1}})" for fn in (min, max)}
WRITTEN |= {
    fn: f"math.{fn.__name__}({', '.join(f'{{{n}}}' for n in range(len(limits)))})"
    for fn, limits in LIMITS.items()
    if fn not in WRITTEN
}
WRITTEN |= {fn: f"math.{fn.__name__}({{0}})" for fn in (math.floor, math.ceil, math.trunc)}
WITH_BASE, WITH_DIGITS = "log_with_base({0}, {1})", "round_to({0}, {1})"  # which are not done natively
CHOOSING = frozenset({min, max})
ROUNDING = frozenset({int, round, math.floor, math.ceil, math.trunc})
FINITE = frozenset(LIMITS) | ROUNDING | FLOORS
"""What gives a finite number within the limits that are checked."""
NUMBERS = SYMBOLIC | {int, float, bool}
INTEGERS = frozenset({int, torch.SymInt})
CALLED: dict[Any, Any] = {
    **{operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul},
    **dict.fromkeys(QUOTIENTS, operator.truediv),
    **dict.fromkeys(POWERS, operator.pow),
    **{fn: fn for fn in (operator.add, operator.sub, operator.mul, operator.neg, operator.abs, round)},
    **{fn: fn for fn in (math.floor, math.ceil, math.trunc)},
    **{operator.pos: None, int: math.trunc, math.sqrt: vars(torch)["_sym_sqrt"]},
    **{max: torch.sym_max, min: torch.sym_min},
}
"""Operator or function -> what a graph calls that computes it; None: nothing, it is the operand."""


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
        if not is_derivable(fn, operands):
            return MISSING
        if not all(map(is_known, operands)) or not self.can_be_made(fn):
            return MISSING
        if fn in COMPARISONS:
            named = tuple([self.as_symbol(operand) for operand in operands])
            return MISSING if MISSING in named else compare(fn, named)
        if fn in POWERS and type(operands[0]) is torch.SymFloat:
            operands = self.as_symbol(operands[0]), operands[1]
        if fn in FLOORS:
            operands = tuple([self.as_symbol(operand) for operand in operands])
        if MISSING in operands or fn not in WRITTEN:
            return MISSING
        if not (gives_number if self.by_graph else is_safe)(fn, operands):
            return MISSING
        return self.number(fn, operands)

    def as_symbol(self, operand: Any) -> Any:
        """A float that is an expression of sizes becomes a symbol, which can be compared as it is."""
        is_computed = type(operand) is torch.SymFloat and not operand.node.expr.is_Symbol
        return self.number(operator.pos, (operand,)) if is_computed else operand

    def number(self, fn: Any, operands: tuple[Any, ...], text: str = "") -> Any:
        index = fn, tuple([x.node.expr if type(x) in SYMBOLIC else (type(x), repr(x)) for x in operands])
        found = self.made.get(index)
        if found is None:
            value = value_of(fn, operands)
            if value is None or not math.isfinite(value):
                return MISSING  # there are no symbols for that
            builder = self.world.recorder.builder
            if self.by_graph:
                found = builder.numbers.add_step(CALLED[fn], operands, value)
            else:
                found = self.input(fn, operands, value)
            self.made[index] = found
            symbols = builder.symbols
            assert symbols is not None
            symbols.derive(text or WRITTEN[fn], operands, is_finite=self.by_graph or fn in FINITE)
            self.symbols.add(found.node.expr)
        return found

    @property
    def by_graph(self) -> bool:
        """Whether the graph computes them."""
        return self.world.recorder.builder.computes_numbers

    def can_be_made(self, fn: Any) -> bool:
        if self.by_graph:
            return fn in CALLED or fn in COMPARISONS or fn in CHOOSING
        return not self.world.recorder.builder.in_body

    def input(self, fn: Any, operands: tuple[Any, ...], value: int | float) -> Any:
        """A number that the region computes, and the graph gets."""
        world = self.world
        source = world.runtime_calls.note(fn, tuple(map(self.argument, operands)), {}, pure=True)
        return world.inputs.symbolic_number(value, source)

    def argument(self, operand: Any) -> Any:
        """Where the region finds a float: it may turn out later which one it has to be."""
        symbols = self.world.recorder.builder.symbols
        if type(operand) is not torch.SymFloat or symbols is None or operand.node._expr not in symbols.reads:
            return operand
        entry = symbols.inputs[symbols.reads[operand.node._expr].input]
        return self.world.inputs.number_inputs[entry.node]

    def call(self, fn: Any, args: list[Any]) -> Any:
        """A function of numbers, with one that may vary among them. MISSING: nothing was done."""
        if fn in LIMITS:
            return self.function(fn, args)
        if fn not in CHOOSING and fn not in ROUNDING:
            return MISSING
        if len(args) == 1 and type(args[0]) in (list, tuple):
            args = list(args[0])
        if not all(type(arg) in NUMBERS for arg in args) or not self.can_be_made(fn):
            return MISSING
        if not any(type(arg) is torch.SymFloat for arg in args) or not all(map(is_known, args)):
            return MISSING
        if fn in CHOOSING:
            if self.by_graph and all(type(arg) in (float, torch.SymFloat) for arg in args):
                return functools.reduce(lambda a, b: self.number(fn, (a, b)), args)
            return self.chosen(fn, tuple([self.as_symbol(arg) for arg in args]))
        if not self.is_derived(args[0]) and fn is not round:
            return MISSING
        return self.rounded(fn, args)

    def chosen(self, fn: Any, numbers: tuple[Any, ...]) -> Any:
        """The least or largest of numbers. Where some are integers it has to be known which one it is."""
        if all(type(number) in (float, torch.SymFloat) for number in numbers):
            places = ", ".join(f"{{{n}}}" for n in range(len(numbers)))
            return self.number(fn, numbers, f"{fn.__name__}({places})")
        return fn(numbers, key=lambda number: Comparable(self.world, number))

    def rounded(self, fn: Any, args: list[Any]) -> Any:
        """What gives an integer of a float, or a float with fewer digits."""
        number, *digits = args
        number = self.as_symbol(number)
        if number is MISSING or not all(type(n) is int and abs(n) < 16 for n in digits):
            return MISSING
        if not self.by_graph and not is_rounded_exactly(number):
            return MISSING
        return self.number(fn, (number, *digits), WITH_DIGITS if digits else WRITTEN[fn])

    def function(self, fn: Any, operands: list[Any]) -> Any:
        limits = LIMITS[fn]
        text = WRITTEN[fn]
        if fn is math.log and len(operands) == 2:
            limits, text = (POSITIVE, (1.001, LARGE)), WITH_BASE
        if len(operands) != len(limits) or not self.can_be_made(fn):
            return MISSING
        if not any(type(operand) in SYMBOLIC for operand in operands):
            return MISSING
        if not all(map(is_known, operands)):
            return self.of_data(fn, operands) if self.by_graph else self.of_data_exactly(fn, operands)
        if fn in OF_INTEGERS and not all(type(operand) in (int, torch.SymInt) for operand in operands):
            return MISSING  # which raises
        named = tuple([self.as_symbol(operand) for operand in operands])
        is_within = MISSING not in named and (self.by_graph or all(map(lies_within, named, limits)))
        return self.number(fn, named, text) if is_within else MISSING

    def of_data(self, fn: Any, operands: list[Any]) -> Any:
        """A function of numbers that only the data decides, as torch has it."""
        with torch._C.DisableTorchFunction(), data_dependence():
            return CALLED[fn](*map(torch.sym_float, operands))

    def of_data_exactly(self, fn: Any, operands: list[Any]) -> Any:
        """The same where tensors are rounded as Python's floats."""
        if fn is not math.sqrt:
            return MISSING
        world = self.world
        found = numbers_of_data.root(world.recorder.call, operands[0], world.operators.is_assumed)
        return MISSING if found is NotImplemented else found

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


def is_derivable(fn: Any, operands: tuple[Any, ...]) -> bool:
    """Whether there is a float that came in, or is computed. Most steps of integers torch computes itself."""
    types = {type(operand) for operand in operands}
    if fn in SHIFTS:  # of floats they are errors
        return [type(operand) for operand in operands] == [int, torch.SymInt]
    if torch.SymFloat in types:
        return True
    if torch.SymInt not in types:
        return False
    return fn in POWERS or (fn in FLOORS and float in types)


def lies_within(operand: Any, limits: Limits) -> bool:
    """Whether a number is between limits; of one that may vary this is noted."""
    low, high = limits
    if type(operand) is not torch.SymInt:
        return compare(operator.ge, (operand, low)) and compare(operator.le, (operand, high))
    return (high > WIDE or compare(operator.le, (operand, int(high)))) and (
        low < -WIDE or compare(operator.ge, (operand, math.ceil(low)))
    )


def is_known(operand: Any) -> bool:
    """Whether Python can compute with it in the region."""
    if type(operand) is float:
        return math.isfinite(operand)
    if type(operand) is int:
        return abs(operand) < WIDE
    return type(operand) in (torch.SymInt, torch.SymFloat) and operand.node.hint is not None


def is_safe(fn: Any, operands: tuple[Any, ...]) -> bool:
    """Whether it never raises, and gives a float; what that relies on is noted."""
    if fn in FLOORS:
        return lies_within(operands[0], ANY) and lies_within(operands[1], POSITIVE)
    if fn in QUOTIENTS:
        return bool(settled(operands[1] != 0))
    if fn in SHIFTS:
        return lies_within(operands[1], (0, WIDEST - operands[0].bit_length()))
    if fn in POWERS:
        return is_safe_power(*operands)
    return True


def is_safe_power(base: Any, exponent: Any) -> bool:
    """The same of a power: neither too large for a float, or an integer of the graph, nor complex."""
    varies = type(base) in SYMBOLIC, type(exponent) in SYMBOLIC
    if type(base) in INTEGERS and type(exponent) in INTEGERS and not exponent_is_negative(exponent):
        if varies == (True, True):
            return lies_within(base, (0, 1 << 10)) and lies_within(exponent, (0, 6))
        return base > 1 and lies_within(exponent, (0, int(WIDEST / math.log2(base)))) if varies[1] else False
    if varies == (True, True):
        if base.node.hint <= 1 and exponent.node.hint >= 0:  # which never is large
            return lies_within(base, (1 / LARGE, 1.0)) and compare(operator.ge, (exponent, 0))
        return all(map(lies_within, (base, exponent), LIMITS[math.pow]))
    if varies[0]:
        most = min(MEDIUM, LARGE ** (1 / max(abs(exponent), 1)))
        if type(base) is torch.SymInt:
            return lies_within(base, (1, min(most, 1 << 30)))
        is_negative = compare(operator.lt, (base, 0)) and float(exponent).is_integer()
        return lies_within(base, (-most, -1 / most) if is_negative else (1 / most, most))
    if 0 < base <= 1:
        return compare(operator.ge, (exponent, 0))
    most = math.log(LARGE) / math.log(base) if base > 1 else 0.0
    return lies_within(exponent, (-most, most)) if most else False


def exponent_is_negative(exponent: Any) -> bool:
    """Of one that varies this is noted."""
    return compare(operator.lt, (exponent, 0)) if type(exponent) is torch.SymInt else exponent < 0


def value_of(fn: Any, operands: tuple[Any, ...]) -> Any:
    """What a step gives now; None if it raises, which the program is then told."""
    try:
        return fn(*[x.node.hint if type(x) in SYMBOLIC else x for x in operands])
    except (ArithmeticError, ValueError):
        return None


def gives_number(fn: Any, operands: tuple[Any, ...]) -> bool:
    """Whether a step that the graph does gives a number of the type that it gives now, whatever the operands
    are, if it raises nothing."""
    if fn not in POWERS:
        return fn in CALLED
    base, exponent = operands
    if type(exponent) is torch.SymInt:
        return type(base) is int and base > 1 and compare(operator.ge, (exponent, 0))
    if type(exponent) is torch.SymFloat:
        return False
    is_float = type(base) is torch.SymFloat or type(exponent) is float or exponent < 0
    return is_float and compare(operator.ge, (base, 0))


def is_rounded_exactly(number: Any) -> bool:
    return compare(operator.le, (number, float(WIDE))) and compare(operator.ge, (number, -float(WIDE)))


def compare(fn: Any, operands: tuple[Any, ...]) -> bool:
    with torch._C.DisableTorchFunction():
        return bool(settled(fn(*operands)))
