"""`torch.vmap`, and what is built on it: the function is a graph within the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

import framelift
from check import check, reasons, recompiles

BACKENDS = ["eager", "aot_eager"]
WEIGHT = torch.linspace(-1, 1, 3)


def rows() -> torch.Tensor:
    return torch.arange(12.0).reshape(4, 3) / 7


def closure(x: torch.Tensor) -> torch.Tensor:
    scale = x.mean()
    return torch.vmap(lambda row: row * WEIGHT + row.sum() * scale)(x)


def an_operator(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.dot)(x, x + 1)


def other_dimensions(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.outer, in_dims=(1, None), out_dims=2)(x, WEIGHT)


def nested(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.vmap(lambda value: value.sin() * 2))(x)


def containers(x: torch.Tensor) -> Any:
    fn = lambda given, n: {"a": given["p"] + n, "b": (given["q"] * given["p"],)}
    return torch.vmap(fn, in_dims=({"p": 0, "q": None}, None))({"p": x, "q": WEIGHT}, 3)


def sizes(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: row.new_ones(row.shape) * row.dim() + row)(x)


def an_empty_batch(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: row * 2 + WEIGHT)(x[:0])


def scan(x: torch.Tensor) -> Any:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(combine, (x, x + 1), dim=0, combine_mode="generic")


PROGRAMS = [closure, an_operator, other_dimensions, nested, containers, sizes, an_empty_batch, scan]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_mapped_function_is_captured(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for x in (rows(), rows() - 1):
        torch.testing.assert_close(compiled(x), fn(x))
    assert recompiles(compiled) == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [closure, an_operator, nested], ids=lambda fn: fn.__name__)
def test_gradients_go_through(fn: Callable[..., Any], backend: str) -> None:
    x = rows().requires_grad_()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    expected, found = (torch.autograd.grad(call(x).sum(), x)[0] for call in (fn, compiled))
    torch.testing.assert_close(found, expected)


def test_a_mapped_function_may_be_kept() -> None:
    def fn(x: torch.Tensor, kept: list[Any]) -> torch.Tensor:
        twice = torch.vmap(lambda row: row * 2 + n)
        kept.append(twice)
        return twice(x)

    n = 5
    kept: list[Any] = []
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(compiled(rows(), kept), rows() * 2 + 5)
    assert torch.equal(kept[0](rows()), rows() * 2 + 5)


def changes_its_argument(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: row.add_(1))(x)


def draws(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.vmap(lambda row: row + torch.rand_like(row), randomness="different")(x)


def draws_first(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.vmap(lambda row: torch.rand(3) * row, randomness="different")(x)


def appends(x: torch.Tensor) -> Any:
    seen: list[int] = []
    out = torch.vmap(lambda row: (seen.append(row.dim()), row + 1)[1])(x)
    return out, seen


def wrong_dimension(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.sin, in_dims=5)(x)


def gives_a_number(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: (row, 3))(x)


ODD = [changes_its_argument, draws, draws_first, appends, wrong_dimension, gives_a_number]


@pytest.mark.parametrize("fn", ODD, ids=lambda fn: fn.__name__)
def test_what_is_not_captured_does_as_eager_does(fn: Callable[..., Any]) -> None:
    check(fn, rows(), fullgraph=False)


def test_a_change_to_something_from_outside_breaks() -> None:
    def fn(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        return torch.vmap(lambda row: (seen.append(1), row + 1)[1])(x)

    compiled = check(fn, rows(), [], fullgraph=False)
    assert "run-time effect" in reasons(compiled)
