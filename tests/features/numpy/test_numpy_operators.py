"""Operators on arrays, as signs and as functions of module `operator`: every type, as NumPy does them."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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
    "fn",
    [
        lambda a: sum(list(map(lambda row: row * 2, a))),
        lambda a: sum(list(map(lambda row, n: row * n, a, range(1, 4)))),
        lambda a: sum(tuple(row + 1 for row in a)),
        lambda a: [n * row for n, row in list(enumerate(row + 1 for row in a))][2],
        lambda a: [
            x * y for x, y in list(zip(map(lambda row: np.sin(row), a), (row for row in a), strict=True))
        ][1],
        lambda a: collections.deque((row - 1 for row in a), 2)[0],
        lambda a: [kept := [], kept.extend(row * 3 for row in a), kept[1] + kept[-1]][2],
        lambda a: next(row * 2 for row in a),
    ],
)
def test_iterators_hand_on_what_functions_give(fn: Callable[..., Any]) -> None:
    same(fn, array("float64", 0))


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: list(filter(None, map(lambda row: row.sum() > 3, a))),
        lambda a: list(filter(lambda row: row.sum() > 3, list(a))),
        lambda a: list(itertools.accumulate(map(lambda row: row.astype("int8"), a))),
        lambda a: [sorted([0, 1], key=lambda n: a[n, 0]) for _ in list(map(str, [1]))],
        lambda a: list(map(lambda n: max(a[0], key=lambda x: x * n), [1, -1])),
    ],
)
def test_what_looks_at_arrays_on_the_way_sees_numpys(fn: Callable[..., Any]) -> None:
    given = array("float64", 0)
    np.testing.assert_array_equal(framelift.compile(fn, backend="eager")(given), fn(given))


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_function_of_arrays_is_one_of_tensors(dynamic: bool | None) -> None:
    wrapped = torch.compiler.wrap_numpy(lambda a, b: (np.sin(a) + b, [a.sum(0)]))
    compiled = framelift.compile(wrapped, backend="eager", fullgraph=True, dynamic=dynamic)
    for n in (3, 4):
        x = torch.linspace(0, 1, 2 * n).reshape(n, 2)
        torch.testing.assert_close(compiled(x, b=x * 2), wrapped(x, b=x * 2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_go_through_a_function_of_arrays(backend: str) -> None:
    """Which plain Python can't do: it is what `wrap_numpy` is compiled for."""

    def of_arrays(a: Any, b: Any) -> Any:
        c = np.sin(a) * b[:, None]
        return {"squares": np.sum(c**2, axis=0), "both": [np.stack([c, c + 1]).T, c.reshape(-1)[1:]]}

    def of_tensors(a: torch.Tensor, b: torch.Tensor) -> Any:
        c = torch.sin(a) * b[:, None]
        both = torch.stack([c, c + 1]).permute(2, 1, 0)
        return {"squares": (c**2).sum(0), "both": [both, c.reshape(-1)[1:]]}

    compiled = framelift.compile(torch.compiler.wrap_numpy(of_arrays), backend=backend, fullgraph=True)
    made: list[Any] = []
    for fn in (compiled, of_tensors):
        a = torch.linspace(0, 1, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
        b = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        found = fn(a, b)
        squares, (both, flat) = found["squares"], found["both"]
        (squares.sum() + (both * both).sum() + flat.prod()).backward()
        made.append([squares, both, flat, a.grad, b.grad])
    torch.testing.assert_close(*made)


def test_an_array_of_a_tensor_with_gradients_does_not_leave_the_function() -> None:
    kept: list[Any] = []

    def fn(a: Any) -> Any:
        kept.append(a * 2)
        return a + 1

    compiled = framelift.compile(torch.compiler.wrap_numpy(fn), backend="eager")
    with pytest.raises(RuntimeError, match="requires grad"):  # as in plain Python
        compiled(torch.ones(2, requires_grad=True))
    assert not kept


@pytest.mark.parametrize(
    "fn", [lambda a: a // 0, lambda a: a % 0, lambda a: a // -1, lambda a: a**-1, lambda a: a // a]
)
def test_what_is_an_error_for_some_integers_breaks(fn: Callable[..., Any]) -> None:
    with pytest.raises(framelift.exc.Unsupported, match="some of which are errors"):
        framelift.compile(fn, backend="eager", fullgraph=True)(array("int64", 0))
