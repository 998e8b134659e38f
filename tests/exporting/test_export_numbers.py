"""Numbers that Python computes of sizes, in artifacts: the graph computes them, as the program does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import framelift
from exporting.check_export import Calls, check_export, same

SIX, OTHERS = torch.randn(6, 4), (torch.randn(9, 4), torch.randn(16, 4))

COMPUTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a root": lambda x: x / math.sqrt(x.shape[0]),
    "a power": lambda x: x * x.shape[0] ** -0.5,
    "a power of two": lambda x: x * 2 ** x.shape[0],
    "steps": lambda x: x * (x.shape[0] / 3 * 0.7 + 0.1),
    "a whole number": lambda x: x[: int(x.shape[0] ** 0.5)],
    "half": lambda x: x[: int(x.shape[0] * 0.5)],
    "a result": lambda x: (x, math.sqrt(x.shape[0])),
    "a tensor": lambda x: x * torch.tensor(math.sqrt(x.shape[0])),
    "the larger": lambda x: x * max(math.sqrt(x.shape[0]), 2.5),
    "the least": lambda x: x * min(x.shape[0] * 0.5, 4.0, math.sqrt(x.shape[0])),
    "attention": lambda x: torch.softmax(x @ x.mT / math.sqrt(x.shape[0] * x.shape[1]), -1),
    "a quotient": lambda x: x * (1 / (x.shape[0] - 2)),
    "a branch": lambda x: torch.cond(
        x.sum() > 0,
        lambda x: x / math.sqrt(x.shape[0]),
        lambda x: x * math.sqrt(x.shape[0]) + x.shape[0] ** 0.5,
        (x,),
    ),
    "in and behind a branch": lambda x: (
        torch.cond(x.sum() > 0, lambda x: x * x.shape[0] ** 0.5, lambda x: x * 1.0, (x,)) * x.shape[0] ** 0.5
    ),
    "a condition": lambda x: x + torch.scalar_tensor(x.shape[0] > 7),
    "a filled tensor": lambda x: x + torch.full_like(x, x.shape[0] > 7) + x.new_full((4,), x.shape[0] > 7),
    "a mask": lambda x: x.masked_fill(x > 0, x.shape[0] > 7),
}
UNSAVED: dict[str, Callable[[torch.Tensor], Any]] = {
    "rounded": lambda x: x[: round(x.shape[0] / 2)],
    "two digits": lambda x: x * round(x.shape[0] / 7, 2),
    "the floor of a root": lambda x: x * math.floor(math.sqrt(x.shape[0]) * 1.5),
}
"""What torch can't write to a file."""


@pytest.mark.parametrize("name", COMPUTED)
def test_an_artifact_computes_numbers_of_its_sizes(name: str) -> None:
    others = [(other,) for other in OTHERS]
    check_export(Calls(COMPUTED[name]), (SIX,), {}, *others, dynamic_shapes=({0: Dim.AUTO},))


@pytest.mark.parametrize("name", UNSAVED)
def test_an_artifact_computes_what_torch_can_not_save(name: str) -> None:
    others = [(other,) for other in OTHERS]
    check_export(Calls(UNSAVED[name]), (SIX,), {}, *others, saves=False, dynamic_shapes=({0: Dim.AUTO},))


@pytest.mark.parametrize("aten", [False, True])
@pytest.mark.parametrize("name", [*COMPUTED, *UNSAVED])
def test_a_graph_computes_numbers_of_its_sizes(name: str, aten: bool) -> None:
    program = {**COMPUTED, **UNSAVED}[name]
    module, _ = framelift.export_graph(program, aten_graph=aten)(SIX)
    for x in (SIX, *OTHERS):
        same(program(x), module(x))


@pytest.mark.parametrize(
    "name",
    ["a root", "a power", "a power of two", "steps", "the larger", "the least", "a quotient", "a branch"],
)
def test_numbers_demand_nothing_of_sizes(name: str) -> None:
    check_export(Calls(COMPUTED[name]), (SIX,), {}, (OTHERS[0],), dynamic_shapes=({0: Dim("rows")},))


def test_a_choice_by_a_number_is_checked() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if math.sqrt(x.shape[0]) > 2.5 else x - 1

    made = framelift.export(Calls(program), (SIX,), dynamic_shapes=({0: Dim.AUTO},)).module()
    same(program(SIX[:3]), made(SIX[:3]))
    with pytest.raises(AssertionError, match="Guard failed"):
        made(OTHERS[0])
    graph, guards = framelift.export_graph(program)(SIX)
    assert any("math.sqrt" in str(guard) for guard in guards)
    same(program(SIX[:3]), graph(SIX[:3]))
    with pytest.raises(AssertionError, match="Guard failed"):
        graph(OTHERS[0])


@pytest.mark.parametrize(
    "program", [lambda x: x * (1 / (x.shape[0] - 9)), lambda x: x * (7 % (x.shape[0] - 9))]
)
def test_an_artifact_raises_what_python_raises(program: Callable[[Any], Any]) -> None:
    made = framelift.export(Calls(program), (SIX,), dynamic_shapes=({0: Dim.AUTO},)).module()
    same(program(OTHERS[1]), made(OTHERS[1]))
    for call in (program, made):
        with pytest.raises(ZeroDivisionError):
            call(OTHERS[0])


def test_a_function_without_a_symbol_fixes_the_size() -> None:
    program = lambda x: x * math.log(x.shape[0])  # noqa: E731
    made = framelift.export(Calls(program), (SIX,), dynamic_shapes=({0: Dim.AUTO},)).module()
    same(program(SIX), made(SIX))
    with pytest.raises(AssertionError, match="Guard failed"):
        made(OTHERS[0])


@pytest.mark.parametrize("step", [math.sqrt, lambda n: n / 3 * 0.7, lambda n: int(n / 3)])
def test_numbers_of_data_are_computed_too(step: Callable[[Any], Any]) -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            number = n.item()
            torch._check(number >= 0)
            return x * step(number)

    check_export(Scaled(), (SIX, torch.tensor(4)), {}, (SIX, torch.tensor(11)))
