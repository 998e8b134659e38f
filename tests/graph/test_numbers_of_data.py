"""Numbers that only the data decides, computed with: as Python computes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import captures

PROGRAMS: dict[str, Callable[[float, float, int], Any]] = {
    "sum": lambda v, w, n: v + w - 0.1,
    "quotient": lambda v, w, n: v / 3.0 + 1,
    "quotient of two": lambda v, w, n: (v / w, 1 / w),
    "product": lambda v, w, n: (v * w) * 0.1 - v * (w * 0.1),
    "in place": lambda v, w, n: accumulated(v, w),
    "with integers": lambda v, w, n: (v + 2, 3 - v, v * 7, v / 5, 10 / v),
    "signs": lambda v, w, n: (-(v / 3), abs(-(v / 3)), -(-v * 2)),
    "square": lambda v, w, n: (v**2, (v / 3) ** 3),
    "root": lambda v, w, n: (v**-0.8, v**0.5),
    "largest": lambda v, w, n: (max(v, 2.0), min(v, w), max(v, w, 3.5)),
    "largest integer": lambda v, w, n: (max(n, 2), min(n, 3), max(0, n - 2)),
    "largest of computed": lambda v, w, n: max(1.0, v / 3.0) * min(0.5, w - 1),
}


def accumulated(v: float, w: float) -> float:
    v += w
    v *= 0.3
    v -= 1.5
    v /= 7
    return v


DATA = [torch.tensor([0.1, 2.3, 4.7]), torch.tensor([1e-3, 0.7, 0.2]), torch.tensor([3.3, 3.3, 0.6])]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_computed_as_python_does(name: str, backend: str) -> None:
    step = PROGRAMS[name]

    def fn(x: torch.Tensor) -> Any:
        return step(x.double().sum().item(), x.max().item(), x.long().sum().item()), x + 1

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for x in DATA:
        assert repr(fn(x)) == repr(compiled(x))
    assert captures(compiled) == 1


def test_what_python_raises_is_raised() -> None:
    def fn(x: torch.Tensor) -> Any:
        return x * (3.0 / x.sum().item())

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for x in (torch.ones(2), torch.tensor([1.0, -1.0]), torch.ones(2) * 2):
        told = []
        for each in (fn, compiled):
            try:
                told.append(repr(each(x)))
            except ZeroDivisionError as error:
                told.append(repr(error))
        assert told[0] == told[1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 0.0])
def test_special_values_are_chosen_as_python_chooses(value: float) -> None:
    def fn(x: torch.Tensor) -> Any:
        v = x.sum().item()
        return max(v, 1.0), max(1.0, v), min(v, 0.0), min(0.0, v), -v, x + 1

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(torch.ones(1))
    x = torch.tensor([value])
    assert repr(fn(x)) == repr(compiled(x))


def test_a_number_whose_type_depends_on_the_data_is_refused() -> None:
    with pytest.raises(framelift.exc.Unsupported, match="data-dependent"):
        framelift.compile(lambda x: x + max(x.sum().item(), 2), backend="eager", fullgraph=True)(
            torch.ones(2)
        )
