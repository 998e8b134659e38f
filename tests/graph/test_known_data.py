"""Tensors that factories make of constants have data that is known: numbers and lists of it are constants."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import check

FACTORIES: dict[str, Callable[[], torch.Tensor]] = {
    "tensor": lambda: torch.tensor([3, 1, 2]),
    "floats": lambda: torch.tensor([0.5, -2.0, 1e-3]),
    "number": lambda: torch.tensor(7),
    "zeros": lambda: torch.zeros(2, 2, dtype=torch.int32),
    "full": lambda: torch.full((3,), True),
    "arange": lambda: torch.arange(1, 5),
    "linspace": lambda: torch.linspace(0, 1, 3, dtype=torch.float64),
    "triangle": lambda: torch.ones(3, 3).tril(),
    "stack": lambda: torch.stack([torch.tensor([1, 2]), torch.arange(2)]),
}
STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nothing": lambda t: t,
    "sum": lambda t: t.sum(),
    "cumulated": lambda t: t.reshape(-1).cumsum(0),
    "compared": lambda t: (t > 0).all(),
    "element": lambda t: t.reshape(-1)[-1] * 2,
    "sorted": lambda t: t.reshape(-1).sort().values,
}


@pytest.mark.parametrize(("factory", "step"), list(itertools.product(FACTORIES, STEPS)))
def test_lists_and_numbers_of_known_data(factory: str, step: str) -> None:
    make, compute = FACTORIES[factory], STEPS[step]

    def fn(x):
        t = compute(make())
        number = t.item() if t.numel() == 1 else t.max().item()
        return t.tolist(), number, bool(t.sum()), int(t.sum()), float(t.max()), x * number

    check(fn, torch.ones(2), calls=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.rand(2),
        lambda x: torch.empty(2).fill_(1),
        lambda x: torch.zeros(2).add_(x),
        lambda x: torch.zeros(2) + x,
        lambda x: torch.full_like(x, 2.0).clone().mul_(2),
        lambda x: torch.zeros(2, requires_grad=True) * x,
    ],
)
def test_data_that_is_drawn_written_or_of_an_input_is_not_known(make: Any) -> None:
    def fn(x):
        return make(x).tolist(), x + 1

    torch.manual_seed(0)
    expected = [fn(torch.full((2,), float(n)))[0] for n in range(3)]
    torch.manual_seed(0)
    compiled = framelift.compile(fn, backend="eager")
    assert [compiled(torch.full((2,), float(n)))[0] for n in range(3)] == expected


def test_a_write_makes_it_unknown() -> None:
    def fn(x):
        t = torch.zeros(2)
        before = t.tolist()
        view = t[0]
        view.add_(1)
        return before, t.tolist(), x + t

    check(fn, torch.ones(2), fullgraph=False)


QUESTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x.item(),
    "bool": lambda x: bool(x),
    "int": lambda x: int(x),
    "float": lambda x: float(x),
    "complex": lambda x: complex(x),
    "index": lambda x: [0, 1, 2][x],
    "range": lambda x: list(range(x)),
    "nonzero": lambda x: "yes" if x else "no",
    "len": lambda x: len(x),
    "equal": lambda x: torch.equal(x, x.t()),
    "is_nonzero": lambda x: torch.is_nonzero(x),
    "in a list": lambda x: x in [torch.zeros(7)],
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_that_have_no_answer_are_errors_of_the_programs(name: str, dynamic: bool | None) -> None:
    ask = QUESTIONS[name]

    def fn(x: torch.Tensor, made: int) -> Any:
        known = [
            torch.full((3,), 1.5),
            torch.full((), 1.5),
            torch.tensor([[1, 2], [3, 4]]),
            torch.tensor([]),
            torch.tensor(1j),
            torch.tensor(2),
        ][made]
        try:
            return x * 2, ask(known)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return x + 1, type(error), str(error)

    compiled = framelift.compile(fn, backend="eager", dynamic=dynamic)
    for made in range(6):
        for size in (3, 4):
            check_equal(fn(torch.ones(size), made), compiled(torch.ones(size), made))


def check_equal(expected: Any, found: Any) -> None:
    assert torch.equal(expected[0], found[0])
    assert expected[1:] == found[1:]
