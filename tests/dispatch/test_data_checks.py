"""Operators that TorchInductor makes of others fail on the data that eager's fail on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import framelift
from framelift.dispatch.data_checks import CHECKS

ROWS, NEGATIVE = torch.tensor([0, 2, 1]), torch.tensor([0, -1, 1])
NUMBERS, WITH_ZERO = torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3])
LIKELY, UNLIKELY = torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.0, 0.5, 1.5])
X = torch.arange(9.0).reshape(3, 3)

CALLS: dict[str, tuple[Callable[[Any], Any], torch.Tensor, torch.Tensor]] = {
    "index_select": (lambda i: X.index_select(0, i), ROWS, NEGATIVE),
    "index_add": (lambda i: X.index_add(0, index=i, source=X), ROWS, NEGATIVE),
    "index_copy": (lambda i: torch.index_copy(X, 0, i, X), ROWS, NEGATIVE),
    "index_reduce": (lambda i: X.index_reduce(0, i, X, "mean"), ROWS, NEGATIVE),
    "index_add_": (lambda i: X.clone().index_add_(0, i, X), ROWS, NEGATIVE),
    "index_copy_": (lambda i: X.clone().index_copy_(0, i, X), ROWS, NEGATIVE),
    "index_reduce_": (lambda i: X.clone().index_reduce_(0, i, X, "mean"), ROWS, NEGATIVE),
    "div": (lambda n: torch.div(7, n, rounding_mode="floor"), NUMBERS, WITH_ZERO),
    "div_": (lambda n: NUMBERS.clone().div_(n, rounding_mode="trunc"), NUMBERS, WITH_ZERO),
    "divide": (lambda n: torch.divide(NUMBERS, n, rounding_mode="trunc"), NUMBERS, WITH_ZERO),
    "divide_": (lambda n: NUMBERS.clone().divide_(n, rounding_mode="floor"), NUMBERS, WITH_ZERO),
    "max_unpool1d": (lambda i: functional.max_unpool1d(X[:1], i[None], 2), ROWS, NEGATIVE),
    "max_unpool2d": (lambda i: functional.max_unpool2d(X[None, :1], i[None, None], 2), ROWS, NEGATIVE),
    "max_unpool3d": (
        lambda i: functional.max_unpool3d(X[None, None, :1], i[None, None, None], 2),
        ROWS,
        NEGATIVE,
    ),
    "binary_cross_entropy": (lambda p: functional.binary_cross_entropy(p, LIKELY), LIKELY, UNLIKELY),
    "bernoulli": (lambda p: torch.bernoulli(p).shape, LIKELY, UNLIKELY),
    "normal": (lambda s: torch.normal(X[0], s).shape, LIKELY, -LIKELY),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_fails_as_eagerly(name: str) -> None:
    call, good, bad = CALLS[name]

    def fn(given: torch.Tensor) -> Any:
        try:
            return call(given)
        except (RuntimeError, IndexError) as error:
            return type(error).__name__, str(error)

    compiled = framelift.compile(fn, backend="aot_eager_decomp_partition", fullgraph=True)
    for given in (good, bad, good):
        found, expected = compiled(given), fn(given)
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found, expected)
        else:
            assert found == expected


def test_every_check_has_a_call() -> None:
    assert CALLS.keys() == CHECKS.keys()


def test_what_needs_no_check_has_none() -> None:
    seen: list[str] = []

    def fn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = torch.div(n, 2, rounding_mode="floor") + torch.div(x, n, rounding_mode="trunc")
        return y + x.bernoulli(0.5) + torch.normal(0.0, 1.0, (3,))

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        from framelift.dispatch.data_checks import with_checks

        seen.append("same" if with_checks(graph) is graph else graph.code)
        return graph.forward

    framelift.compile(fn, backend=backend, fullgraph=True)(torch.ones(3), NUMBERS)
    assert seen == ["same"]


@pytest.mark.inductor
def test_dividing_by_zero_does_not_end_the_process() -> None:
    def fn(n: torch.Tensor) -> Any:
        try:
            torch.div(NUMBERS, n, rounding_mode="trunc")
        except RuntimeError as error:
            return str(error)
        return n + 1

    compiled = framelift.compile(fn, fullgraph=True)
    for given in (NUMBERS, WITH_ZERO):
        assert str(compiled(given)) == str(fn(given))
