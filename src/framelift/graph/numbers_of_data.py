"""Arithmetic on floats that only the data decides.

Torch simplifies expressions of symbols as if floats were real numbers, so `arithmetic` does with these only
what stays exact. The rest is computed as Python would, by tensors of double precision with one element:
each result is a number of data once more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from framelift.graph.deferred import symbolic_shapes

Call = Callable[[Any, Any, dict[str, Any]], Any]
STEPS: dict[Any, Any] = {
    **{operator.add: torch.add, operator.sub: torch.sub, operator.mul: torch.mul},
    **{operator.iadd: torch.add, operator.isub: torch.sub, operator.imul: torch.mul},
    **dict.fromkeys((operator.truediv, operator.itruediv), torch.div),
    **{operator.neg: torch.neg, operator.abs: torch.abs},
}
"""Operator on numbers -> what does the same with tensors. Powers are computed otherwise by torch."""
FLOATS = (float, torch.SymFloat)
INTEGERS = (int, torch.SymInt)
LARGEST = 1 << 53
"""Smaller integers are floats as well."""
MODERATE = 1e70
"""Powers of smaller numbers are no error."""


def is_of_data(number: Any) -> bool:
    return type(number) in (torch.SymFloat, torch.SymInt) and bool(
        symbolic_shapes.free_unbacked_symbols(number)
    )


def computed(call: Call, fn: Any, operands: tuple[Any, ...], assume: Callable[[Any], bool]) -> Any:
    """What an operator gives; NotImplemented if that is no float, or may be an error. `call` records a call,
    and `assume` has the graph check a condition, if the program raises where it does not hold."""
    if fn in (operator.pow, operator.ipow):
        return powered(call, operands, assume)
    step = STEPS.get(fn)
    if step is None or not any(type(each) in FLOATS for each in operands):
        return NotImplemented
    if not any(map(is_of_data, operands)) or not all(map(is_exact, operands)):
        return NotImplemented
    given = [as_data(call, number) for number in operands]
    if step is torch.div and not is_divisor(call, given[1], assume):
        return NotImplemented
    if not isinstance(given[0], torch.Tensor):
        given[0] = call(torch.scalar_tensor, (given[0],), DOUBLE)
    return call(torch.Tensor.item, (call(step, tuple(given), {}),), {})


def root(call: Call, number: Any, assume: Callable[[Any], bool]) -> Any:
    """`math.sqrt`, which is rounded as Python's; that of a negative number is an error."""
    if type(number) is not torch.SymFloat or not is_of_data(number) or not is_exact(number):
        return NotImplemented
    given = as_data(call, number)
    if not assume(call(torch.ge, (given, 0.0), {})):
        return NotImplemented
    return call(torch.Tensor.item, (call(torch.sqrt, (given,), {}),), {})


def is_divisor(call: Call, number: Any, assume: Callable[[Any], bool]) -> bool:
    """Whether a number is not zero: Python raises if it is."""
    if isinstance(number, torch.Tensor):
        return assume(call(torch.ne, (number, 0.0), {}))
    return bool(number)


def powered(call: Call, operands: tuple[Any, ...], assume: Callable[[Any], bool]) -> Any:
    """A power with a known exponent. The graph computes it of the number, as Python does."""
    base, exponent = operands
    if type(base) is not torch.SymFloat or type(exponent) not in (int, float) or not abs(exponent) <= 4:
        return NotImplemented
    given = as_data(call, base)
    size = call(torch.abs, (given,), {})
    if exponent in (2, 3, 4):
        within = call(torch.lt, (size, MODERATE), {})
    else:  # of other numbers it may be complex, or an error
        within = call(torch.gt, (given, 1 / MODERATE), {}), call(torch.lt, (given, MODERATE), {})
        within = call(torch.logical_and, within, {})
    if not assume(within):
        return NotImplemented
    symbol = base if base.node.expr.is_Symbol else call(torch.Tensor.item, (given,), {})
    with torch._C.DisableTorchFunction():
        return symbol**exponent


def chosen(call: Call, fn: Any, numbers: list[Any]) -> Any:
    """What `min` or `max` gives; NotImplemented if its type depends on the data."""
    if not any(map(is_of_data, numbers)):
        return NotImplemented
    if all(type(number) in INTEGERS for number in numbers):
        best, choose = numbers[0], torch.sym_min if fn is min else torch.sym_max
        for number in numbers[1:]:
            best = choose(best, number)
        return best
    if not all(type(number) in FLOATS for number in numbers):
        return NotImplemented
    best = call(torch.scalar_tensor, (numbers[0],), DOUBLE)
    for number in numbers[1:]:
        tried = call(torch.scalar_tensor, (number,), DOUBLE)
        better = call(torch.lt if fn is min else torch.gt, (tried, best), {})
        best = call(torch.where, (better, tried, best), {})
    return call(torch.Tensor.item, (best,), {})


DOUBLE = {"dtype": torch.float64, "device": torch.device("cpu")}


def is_exact(number: Any) -> bool:
    """Whether a number is the same one as a float of double precision."""
    return type(number) in FLOATS or (type(number) is int and abs(number) < LARGEST)


def as_data(call: Call, number: Any) -> Any:
    return call(torch.scalar_tensor, (number,), DOUBLE) if type(number) is torch.SymFloat else float(number)
