"""Integers in tensors that come in: where the program has to know something of one, it is read like an
integer that is passed, and guarded. Otherwise it is what the data decides, and nothing is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import captures
from sameness import alike

NUMBERS = (5, 8, 3, 12, 1, 7, 0, 20)


def at_most(n: int, few: int) -> bool:
    return n <= few


def branch(x: torch.Tensor, t: torch.Tensor) -> Any:
    n = t.item()
    return x[:n] * 2 if n > 7 else x * n


def branch_of_int(x: torch.Tensor, t: torch.Tensor) -> Any:
    n = int(t)
    return x * 2 if at_most(n, 7) else x[n - 1]


def not_asked(x: torch.Tensor, t: torch.Tensor) -> Any:
    return x[:t] * t.item()


def in_a_dictionary(x: torch.Tensor, t: torch.Tensor) -> Any:
    held = {"n": t}
    return x + 1 if held["n"].item() == 5 else x - 1


def of_a_copy(x: torch.Tensor, t: torch.Tensor) -> Any:
    return x + 1 if t.clone().item() % 2 == 0 else x - 1


def computed(x: torch.Tensor, t: torch.Tensor) -> Any:
    return x + 1 if (t * 2 - 1).item() > 9 else x - 1


def padded(x: torch.Tensor, t: torch.Tensor) -> Any:
    n = t.item()
    missing = max(0, 8 - n)
    return torch.nn.functional.pad(x[:, :1], (0, missing)), missing


PROGRAMS: dict[Callable[..., Any], int] = {
    branch: 2,
    branch_of_int: 2,
    not_asked: 1,
    in_a_dictionary: 2,
    of_a_copy: 2,
    computed: 2,
    padded: 3,
}
"""Program -> how many captures eight numbers may take."""


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_branch_on_an_integer_is_guarded(fn: Callable[..., Any], whole: bool) -> None:
    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(fn, backend="eager", fullgraph=whole, isolate_recompiles=True)
        for n in NUMBERS:
            x = torch.randn(24, 3)
            alike(fn(x, torch.tensor(n)), compiled(x, torch.tensor(n)))
        assert captures(compiled) <= PROGRAMS[fn]


def test_no_option_is_needed_where_a_break_is_an_error() -> None:
    compiled = framelift.compile(branch, backend="eager", fullgraph=True)
    x = torch.ones(24, 3)
    for n in NUMBERS:
        alike(branch(x, torch.tensor(n)), compiled(x, torch.tensor(n)))


def test_dynamic_false_takes_each_number_for_a_constant() -> None:
    compiled = framelift.compile(
        branch, backend="eager", fullgraph=True, dynamic=False, isolate_recompiles=True
    )
    x = torch.ones(24, 3)
    for n in (5, 6, 5, 9):
        alike(branch(x, torch.tensor(n)), compiled(x, torch.tensor(n)))
    assert captures(compiled) == 3


def written_before(x: torch.Tensor, t: torch.Tensor) -> Any:
    t.add_(3)
    return x + 1 if t.item() > 7 else x - 1


def written_through_a_view(x: torch.Tensor, t: torch.Tensor) -> Any:
    t.view(1).mul_(2)
    return x + 1 if t.item() > 7 else x - 1


def data_replaced(x: torch.Tensor, t: torch.Tensor) -> Any:
    t.data = torch.tensor(9)
    return x + 1 if t.item() > 7 else x - 1


def written_after(x: torch.Tensor, t: torch.Tensor) -> Any:
    found = x + 1 if t.item() > 7 else x - 1
    t.add_(10)
    return found, t.item() * 2


@pytest.mark.parametrize("fn", [written_before, written_through_a_view, data_replaced, written_after])
def test_what_the_program_writes_is_seen(fn: Callable[..., Any]) -> None:
    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(fn, backend="eager")
        for n in NUMBERS:
            x, t, given = torch.ones(3), torch.tensor(n), torch.tensor(n)
            alike(fn(x, t), compiled(x, given))
            alike(t, given)


def test_what_is_written_through_another_input_is_seen() -> None:
    def fn(x: torch.Tensor, all_of_it: torch.Tensor, t: torch.Tensor) -> Any:
        all_of_it.add_(3)
        return x + 1 if t.item() > 7 else x - 1

    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(fn, backend="eager")
        for apart in (True, False):
            for n in NUMBERS:
                held, given = torch.tensor([n, 1]), torch.tensor([n, 1])
                of = lambda held, n=n, apart=apart: torch.tensor(n) if apart else held[0]
                alike(
                    fn(torch.ones(3), held, of(held)),
                    compiled(torch.ones(3), given, of(given)),
                )


@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.tensor(n, dtype=torch.int32),
        lambda n: torch.tensor([n]),
        lambda n: torch.tensor(float(n)),
        lambda n: torch.tensor(n > 7),
        lambda n: torch.tensor(n, requires_grad=False).expand(()),
        lambda n: torch.arange(30)[n],
    ],
)
def test_other_tensors_of_one_number_break_as_before(make: Callable[[int], torch.Tensor]) -> None:
    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(branch, backend="eager")
        x = torch.randn(24, 3)
        for n in NUMBERS:
            try:
                expected = branch(x, make(n))
            except TypeError as error:
                with pytest.raises(TypeError, match=str(error)[:20]):
                    compiled(x, make(n))
            else:
                alike(expected, compiled(x, make(n)))
