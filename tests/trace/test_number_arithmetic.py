"""Arithmetic on sizes and numbers that are symbols gives what Python gives: type, value, sign of zero, error.

The catalogue has every operator, and the functions of numbers that Python has, over symbols that stand for an
int, a size and a float, with constants at the corners of their types. Each program is called with values that
come as symbols and with values at the corners; what it computes is returned, used with a tensor (whose dtype
shows the type of the number), or used before the program decides something else about the symbols.
"""

from __future__ import annotations

import decimal
import fractions
import itertools
import math
import operator
import statistics
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from check import captures

OPERATORS = "+ - * / // % ** << >> & | ^ < <= > >= == !=".split()
CONSTANTS = "0 1 -1 2 3 7 -2 True False 0.0 -0.0 0.5 -0.5 1.0 2.5 -1.0 0.1 1e308 5e-324".split()
CONSTANTS += ["math.inf", "-math.inf", "math.nan", "2**70", "-(2**63)"]
OF_ONE = "abs int float bool complex str repr hash round".split()
OF_ONE += [
    f"math.{name}"
    for name in "floor ceil trunc fabs sqrt isqrt exp log log2 sin cos atan gamma frexp".split()
]
OF_ONE += [
    f"math.{name}" for name in "modf isnan isinf isfinite degrees factorial ulp erf cbrt expm1".split()
]
OF_ONE += (
    "operator.neg operator.index torch.sym_int torch.sym_float fractions.Fraction decimal.Decimal".split()
)
OF_TWO = "divmod pow min max torch.sym_max torch.sym_min".split()
OF_TWO += [f"math.{name}" for name in "atan2 copysign fmod gcd lcm hypot isclose ldexp log nextafter".split()]
OF_TWO += [f"math.{name}" for name in "pow remainder comb perm".split()]
FORMS = """
    -({0}) | +({0}) | ~({0}) | not ({0}) | format({0}, ".3f") | f"{{{0}!r}}" | "%s %d" % ({0}, {0})
    round({0}, 1) | round({0}, -1) | ({0}).__class__.__name__ | isinstance({0}, (float, bool))
    type({0}) is int | {0} is {0} | {0} * 3 * 0.1 | ({0} + 1) * 0.1 | ({0} * 2) / 4 | {0} * 0.1 * 3
    ({0} / 3) * 3 | {0} - {0} | {0} * {0} / 3 | int({0} * 0.5) | math.floor({0} * 0.3)
    math.ceil({0} / 3) | round({0} / 3) | -({0} * 0.5) | -({0} * 0) | ({0} * 0.5) * 0 | float({0}) * 0.0
    abs({0} * -0.5) | ({0} > 2) + 1 | ({0} > 2) * 0.5 | ({0} > 2) & True | {0} ** 2 * 0.1 | {0} ** 0.5
    {0} ** -1 | 2 ** ({0}) | ({0} * 1.0) // 1 | 0.1 * {0} + 0.2 * {0} | min({0}, 2) * 0.5 | max({0}, 0.0)
    max(-0.0, {0}) | {0} * 1j | complex({0}, -0.0) | ({0}).real | ({0}).conjugate() | [10, 20, 30][{0}]
    "ab" * ({0}) | {{{0}: 1}} | range({0}) | {0} in [3, 0.5] | sorted([{0}, 3, 0.25])
    sum([{0}, 0.1, 0.2]) | sum(({0}, {0}, {0})) | sum([{0}], 0.1) | math.prod([{0}, 0.1, 3.0])
    math.prod([{0}, {0}]) | math.fsum([{0}, 0.1]) | min([{0}, 0, 0.0]) | max({0}, 3, key=lambda k: -k)
    sum({0}) | min({0}) | int([{0}]) | int({0}, 10) | float("1") + {0} | {0} * 10**18 * 10**18
    ({0} * 10**18) // 10**17 | {0} + 2**62 | 1 / ({0} + 0.5) | statistics.mean([{0}, 2])
    ({0}).__mul__(0.0) | (lambda a: a * -0.0)({0}) | ({0} & 3) + 1 | ({0} & 1) == 1 | ({0} ^ 5) * 2 + 1
    ({0} << 2) >> 1 | ({0} // 2) % 3 | (-{0}) % 7 | -{0} // 2
"""


def catalogue() -> Iterator[str]:
    forms = [form.strip() for line in FORMS.strip().splitlines() for form in line.split(" | ")]
    for symbol in ("n", "s", "f"):
        yield from (form.format(symbol) for form in forms)
        yield from (f"{function}({symbol})" for function in OF_ONE)
        for other in (*CONSTANTS, *{"n", "s", "f"} - {symbol}):
            pairs = [(symbol, f"({other})"), (f"({other})", symbol)]
            yield from (f"{a} {op} {b}" for (a, b), op in itertools.product(pairs, OPERATORS))
            yield from (f"{function}({a}, {b})" for (a, b), function in itertools.product(pairs, OF_TWO))
            yield from (f"{symbol}; r {op}= ({other})" for op in OPERATORS[:12])
    zeros = ("f * 0", "-0.0 * f", "n * f * 0", "f - f", "s * -0.0")  # or NaN, whose hash is of the object
    yield from (f"{function}({zero})" for zero in zeros for function in OF_ONE if function != "hash")


USES = [
    "return x + 1, r",
    "return x * r if type(r) in (int, float, bool, complex) else x, r",
    "y = x * r if type(r) in (int, float, bool) else x\n"
    "    return y + (1 if n == 0 else 0) + (1 if s == 3 else 0) + (1 if f == 0 else 0), r",
]
SIZES_AND_NUMBERS = [
    *[(4, 5, 0.5), (5, 7, 0.25), (3, 9, 1.5)],  # by the third call all are symbols
    *[(6, 0, 0.1), (0, -3, 0.0), (1, 1, -0.0), (3, 6, -0.0), (4, 6, -2.5), (5, 8, 1e300), (3, 2, 5e-324)],
    *[
        (7, -3, math.inf),
        (2, 2**40, math.nan),
        (3, -(2**62), -math.inf),
        (4, 2**63 + 1, 1.0),
        (3, 2**53 + 1, 2.0),
    ],
]
EXPLOSIVE = ("**", "<<", "pow", "factorial", "comb", "perm", "range", '"ab"', "ldexp")
"""What takes forever, or all memory, with large numbers."""


def program(expression: str, use: str) -> Callable[..., Any]:
    text = f"def program(x, n, f):\n    s = x.shape[0]\n    x = x.clone()\n    r = {expression}\n    {use}\n"
    modules = (math, operator, torch, fractions, decimal, statistics)
    scope: dict[str, Any] = {module.__name__: module for module in modules}
    exec(text, scope)
    return scope["program"]


def seen(value: Any) -> Any:
    """What can be told of a value: its type, and each bit of its numbers. All NaNs are one."""
    match value:
        case float():
            return "float", struct.pack("d", value) if value == value else "nan"
        case complex():
            return "complex", seen(value.real), seen(value.imag)
        case torch.Tensor():
            return str(value.dtype), tuple(value.shape), seen(value.flatten().tolist())
        case tuple() | list():
            return type(value).__name__, [seen(item) for item in value]
    return type(value).__name__, repr(value)


def outcome(fn: Callable[..., Any], size: int, *numbers: Any) -> Any:
    try:
        return seen(fn(torch.arange(1, size + 1), *numbers))
    except Exception as error:
        return type(error), str(error)


def check(expression: str, n: int, backend: str) -> None:
    fn = program(expression, USES[n % len(USES)])
    compiled = framelift.compile(fn, backend=backend, dynamic=True if n % 2 else None)
    small = any(word in expression for word in EXPLOSIVE)
    corners = SIZES_AND_NUMBERS[3:]
    for size, *numbers in SIZES_AND_NUMBERS[:3] + corners[n % 3 :: 3] + corners[n % 5 :: 5]:
        if not (small and abs(numbers[0]) > 100):
            expected = outcome(fn, size, *numbers)
            assert outcome(compiled, size, *numbers) == expected, (size, *numbers)


EXPRESSIONS = {expression: n for n, expression in enumerate(dict.fromkeys(catalogue()))}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_numbers_that_are_symbols_are_pythons_numbers(expression: str) -> None:
    check(expression, EXPRESSIONS[expression], "eager")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_with_aot_autograd_too(expression: str) -> None:
    check(expression, EXPRESSIONS[expression], "aot_eager")


def test_a_zero_weight_needs_no_other_graph_for_another_size() -> None:
    def loss(x, weight):
        return x.sum() * weight * (x.shape[0] * 0.0), x.shape[0] * -0.0, x.shape[0] / math.inf

    compiled = framelift.compile(loss, backend="eager", fullgraph=True)
    for size in (3, 4, 5, 6, 7):
        assert seen(compiled(torch.arange(size), 2)) == seen(loss(torch.arange(size), 2))
    assert captures(compiled) == 2


def laid_out(*sizes: int, like: torch.memory_format) -> torch.Tensor:
    return torch.empty(sizes, memory_format=like).copy_(torch.arange(math.prod(sizes)).reshape(sizes))


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("like", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(
    "fn", ["x + 1", "x.permute(0, 2, 3, 1) + 1", "F.gelu(x)", "x.unsqueeze(1) * 1", "x[:, 0:1]"]
)
def test_strides_of_one_channel_are_those_of_real_tensors(fn: str, like: Any, dynamic: bool | None) -> None:
    made = eval(f"lambda x: {fn}", {"F": torch.nn.functional})

    def strides(x):
        y = made(x)
        return y.stride(), y.stride(1), y.stride(-1), y.is_contiguous()

    compiled = framelift.compile(strides, backend="eager", dynamic=dynamic)
    for sizes in ((2, 1, 4, 5), (3, 1, 4, 6), (2, 3, 4, 5), (1, 1, 4, 4)):
        x = laid_out(*sizes, like=like)
        assert compiled(x) == strides(x)
