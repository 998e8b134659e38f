"""Operators on arrays, as signs and as functions of module `operator`: every type, as NumPy does them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import framelift
import framelift.exc

TYPES = "bool uint8 int8 int32 int64 float32 float64".split()
BINARY = "add sub mul truediv floordiv mod pow and_ xor lt eq".split()
IN_PLACE = "iadd imul itruediv ifloordiv imod ipow".split()
NUMBERS = (2, 3, -3, 2.5)


def array(dtype: str, seed: int) -> Any:
    numbers = np.random.RandomState(seed).randint(1, 7, (3, 4))
    signs = np.where(np.arange(4) % 2, -1, 1) if dtype[0] in "if" else 1
    return (numbers * signs).astype(dtype)


def same(fn: Callable[..., Any], *given: Any) -> None:
    """Whole, and equal to NumPy, or an error of NumPy's, which is the program's business."""
    try:
        with np.errstate(all="ignore"):
            expected = fn(*[value.copy() if isinstance(value, np.ndarray) else value for value in given])
    except (TypeError, ValueError, OverflowError):
        return
    framelift.reset()
    found = framelift.compile(fn, backend="eager", fullgraph=True)(*given)
    assert type(found) is type(expected) and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "dtype"), itertools.product(BINARY, TYPES))
def test_a_function_of_an_operator_is_the_operator(name: str, dtype: str) -> None:
    fn = getattr(operator, name)
    for number in NUMBERS:
        if (name == "pow" and number == -3 and dtype[0] in "biu") or dtype == "bool":
            continue
        same(lambda a: fn(a, number), array(dtype, 0))  # noqa: B023 - called at once
    if name not in ("floordiv", "mod", "pow") or dtype[0] == "f":
        same(lambda a, b: fn(a, b), array(dtype, 0), array(dtype, 1))


@pytest.mark.parametrize(("name", "dtype"), itertools.product(IN_PLACE, TYPES))
def test_an_operator_that_writes_to_its_array(name: str, dtype: str) -> None:
    fn = getattr(operator, name)
    for number in (2, 3):
        same(lambda a: fn(a.copy(), number), array(dtype, 0))  # noqa: B023 - called at once


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "bool"])
@pytest.mark.parametrize("number", [-3, 300, 1 << 40, 5])
def test_integers_out_of_range_are_compared_as_they_are(dtype: str, number: int) -> None:
    for name in "lt le eq ne gt ge".split():
        fn = getattr(operator, name)
        same(lambda a: fn(a, number), array(dtype, 0))  # noqa: B023 - called at once
    same(lambda a: np.greater(a, number), array(dtype, 0))
    same(lambda a: number >= a, array(dtype, 0))


@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_of_integers_are_of_double_precision(dtype: str) -> None:
    same(lambda a, b: a / b, array(dtype, 0), array(dtype, 1))
    same(lambda a, b: np.true_divide(a, b), array(dtype, 0), array(dtype, 1))
    same(lambda a: 3 / a, array(dtype, 0))
    same(lambda a: a / 2, array(dtype, 0))
    same(lambda a, b: a / b, array(dtype, 0), array("float64", 1))


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: operator.getitem(a, 1),
        lambda a: sum([a, a + 1, a * 2]),
        lambda a: sum([a], a),
        lambda a: sum((a[0], a[1])),
        lambda a: operator.pos(a) + operator.abs(a) - operator.neg(a),
        lambda a: operator.matmul(a, a.T),
        lambda a: sum([x * y for x, y in zip(a, a + 1, strict=True)]),
        lambda a: sum([n * row for n, row in enumerate(a)]) + list(a)[0] + tuple(a)[1],
        lambda a: sum(list(filter(lambda row: row.shape[0] == 4, a))) + next(iter(a)),
        lambda a: [operator.setitem(b := a + 0, 0, 5), b][1],
    ],
)
def test_other_functions_that_do_what_operators_do(fn: Callable[..., Any]) -> None:
    same(fn, array("float64", 0))


@pytest.mark.parametrize(
    "fn", [lambda a: a // 0, lambda a: a % 0, lambda a: a // -1, lambda a: a**-1, lambda a: a // a]
)
def test_what_is_an_error_for_some_integers_breaks(fn: Callable[..., Any]) -> None:
    with pytest.raises(framelift.exc.Unsupported, match="some of which are errors"):
        framelift.compile(fn, backend="eager", fullgraph=True)(array("int64", 0))
