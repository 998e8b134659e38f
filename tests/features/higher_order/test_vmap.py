"""`torch.vmap`, and what is built on it: the function is a graph within the graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state
from torch.nn import functional

import framelift
from check import check, entries, recompiles, why_not

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


def a_change(x: torch.Tensor) -> Any:
    y = x * 1
    torch.vmap(lambda row: row.add_(1))(y)
    made = torch.vmap(lambda row: row.new_zeros(3).copy_(row))(y)
    return y, made, torch.vmap(lambda row: row.mul_(2).sum())(x)


def without_gradients(x: torch.Tensor) -> torch.Tensor:
    def fn(row: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = row.sum()
        return row * scale

    return torch.vmap(fn)(x)


def chunks(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: (row * WEIGHT, {"s": row.sum()}), chunk_size=3, out_dims=(1, 0))(x)


def keywords(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row, by, n=1, weight=None: row * by * n + weight)(x, x, n=2, weight=WEIGHT)


def other_results(x: torch.Tensor) -> Any:
    fn = lambda row: (row.sum(), WEIGHT * 2, row.outer(row), 7)
    return torch.vmap(fn, out_dims=(0, None, -1, None))(x), torch.vmap(torch.sin, out_dims=(1,))(x)


def different_numbers(x: torch.Tensor) -> Any:
    fn = lambda row: (row + torch.rand(3), torch.rand_like(row), functional.dropout(row))
    return torch.vmap(fn, randomness="different")(x)


def the_same_numbers(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row + torch.rand(3), randomness="same")(x)


def gradients_of_random_numbers(x: torch.Tensor) -> Any:
    loss = lambda row: (row.sin() * torch.rand(3)).sum()
    return torch.vmap(grad(loss), randomness="different")(x)


def ensemble(x: torch.Tensor) -> Any:
    run = lambda parameters, buffers, y: functional_call(BASE, (parameters, buffers), (y,))
    return torch.vmap(run, in_dims=(0, 0, None))(*STACKED, x)


def for_each_sample(x: torch.Tensor) -> Any:
    parameters = {name: value.detach() for name, value in MODELS[0].named_parameters()}
    loss = lambda given, row: functional_call(MODELS[0], given, (row,)).pow(2).sum()
    return torch.vmap(grad(loss), in_dims=(None, 0))(parameters, x)


def levels(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: torch.vmap(lambda a: grad(lambda b: b.sin() * a)(a) + row.sum())(row))(x)


def strictly(x: torch.Tensor) -> Any:
    return jvp(torch.sin, (x,), (x,), strict=True)


MODELS = [torch.nn.Linear(3, 2) for _ in range(3)]
STACKED = stack_module_state(MODELS)  # type: ignore[arg-type]
BASE = copy.deepcopy(MODELS[0]).to("meta")


def numbers_of_a_batch(x):
    chosen = torch.tensor([1, 0, 1])
    picked = torch.vmap(lambda n: x[n] + x[n, n] * x[n, 1])(chosen)
    largest = torch.vmap(lambda row: row[row.argmax()] + row[0])(x)
    pairs = torch.vmap(lambda n: torch.vmap(lambda m: x[n, m])(chosen))(chosen)
    return picked, largest, pairs, torch.vmap(lambda row, n: row[n])(x[:3], chosen)


PROGRAMS = [
    numbers_of_a_batch,
    closure,
    an_operator,
    other_dimensions,
    nested,
    containers,
    sizes,
    an_empty_batch,
    scan,
]
PROGRAMS += [
    a_change,
    without_gradients,
    chunks,
    keywords,
    other_results,
    different_numbers,
    the_same_numbers,
]
PROGRAMS += [gradients_of_random_numbers, ensemble, for_each_sample, levels, strictly]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_mapped_function_is_captured(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in range(2):
        xs = [rows() - n, rows() - n]
        found, expected = (outcome(call, x) for call, x in zip((compiled, fn), xs, strict=True))
        torch.testing.assert_close((found, xs[0]), (expected, xs[1]))
    assert recompiles(compiled) == 0 and why_not(compiled) is None


def outcome(call: Callable[..., Any], x: torch.Tensor) -> Any:
    """Its result, and what is drawn after it."""
    torch.manual_seed(5)
    return call(x), torch.rand(1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [closure, an_operator, nested, without_gradients], ids=lambda fn: fn.__name__)
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


def appends(x: torch.Tensor) -> Any:
    seen: list[int] = []
    out = torch.vmap(lambda row: (seen.append(row.dim()), row + 1)[1])(x)
    return out, seen


def wrong_dimension(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.sin, in_dims=5)(x)


def gives_a_number(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: (row, 3))(x)


def draws_unasked(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row + torch.rand(3))(x)


def the_same_for_chunks(x: torch.Tensor) -> Any:
    torch.manual_seed(3)
    return torch.vmap(lambda row: row + torch.rand(3), randomness="same", chunk_size=2)(x)


ODD = [the_same_for_chunks, appends, wrong_dimension, gives_a_number, draws_unasked]


@pytest.mark.parametrize("fn", ODD, ids=lambda fn: fn.__name__)
def test_what_is_not_captured_does_as_eager_does(fn: Callable[..., Any]) -> None:
    check(fn, rows(), fullgraph=False)


def test_a_change_to_something_from_outside_happens_once() -> None:
    def fn(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        return torch.vmap(lambda row: (seen.append(1), row + 1)[1])(x)

    check(fn, rows(), [])


# ---- a compiled function within a transform


def summed(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * WEIGHT).sum(-1)


def drawn(x: torch.Tensor) -> torch.Tensor:
    return WEIGHT * torch.rand(3)


TRANSFORMS: dict[str, Any] = {
    "vmap": lambda fn: torch.vmap(fn)(rows()),
    "grad": lambda fn: grad(fn)(rows()[0]),
    "jvp": lambda fn: jvp(fn, (rows(),), (rows(),)),
    "both": lambda fn: torch.vmap(grad(fn))(rows()),
    "jacrev": lambda fn: jacrev(fn)(rows()),
    "hessian": lambda fn: hessian(fn)(rows()[0]),
    "two levels": lambda fn: torch.vmap(torch.vmap(fn))(rows().expand(2, 4, 3)),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_function_within_a_transform_does_as_eager_does(backend: str) -> None:
    compiled = framelift.compile(summed, backend=backend)
    for transform in TRANSFORMS.values():
        torch.testing.assert_close(transform(compiled), transform(summed))
        torch.testing.assert_close(compiled(rows()), summed(rows()))
    assert entries(compiled) > 0


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_a_compiled_function_within_a_transform_draws_as_eager_does(randomness: str) -> None:
    compiled = framelift.compile(drawn, backend="aot_eager")
    map_over = lambda fn: lambda x: torch.vmap(lambda row: row + fn(row), randomness=randomness)(x)
    for _ in range(2):
        torch.testing.assert_close(outcome(map_over(compiled), rows()), outcome(map_over(drawn), rows()))
        torch.testing.assert_close(outcome(compiled, rows()), outcome(drawn, rows()))
