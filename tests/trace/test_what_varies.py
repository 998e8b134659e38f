"""What of a program's numbers and sizes becomes a symbol, and which of them are the same one.

Compilations are counted: the first call is compiled for its numbers, the next one that differs for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

import framelift
from check import captures, entries
from sameness import alike


def counted(fn: Callable[..., Any], calls: Iterable[tuple[Any, ...]], **options: Any) -> int:
    """How many entries a series of calls leaves, each of which gives what it gives eagerly."""
    compiled = framelift.compile(fn, **{"backend": "eager", **options})
    for arguments in calls:
        alike(fn(*arguments), compiled(*arguments))
    return entries(compiled)


# ---- sizes that happen to be the same


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_differed_before_are_symbols_of_their_own(backend: str) -> None:
    fn = lambda x, y: (x.sum(0) * x.shape[1], y + x.shape[0])
    shapes = [((5, 3), 4), ((8, 8), 8), ((7, 9), 2), ((4, 6), 6), ((9, 9), 3)]
    calls = [(torch.randn(*shape), torch.randn(n)) for shape, n in shapes]
    assert counted(fn, calls, backend=backend) == 2


def test_sizes_that_were_always_the_same_are_one_symbol() -> None:
    def fn(x, y):
        return x + y if x.shape == y.shape else x.sum() + y.sum()

    calls = [(torch.randn(n, 3), torch.randn(n, 3)) for n in (4, 6, 9, 12)]
    assert counted(fn, calls) == 2
    assert counted(fn, [*calls, (torch.randn(4, 3), torch.randn(5, 3))]) == 3


def test_what_a_break_hands_over_is_known_to_differ() -> None:
    def fn(x, y):
        x, y = x * 2, y.repeat(2)
        framelift.graph_break()
        return x.sum(1), y.view(2, -1)

    sizes = [(4, 3), (6, 5), (8, 4), (10, 5), (6, 3), (3, 9)]
    calls = [(torch.randn(n, m), torch.randn(m)) for n, m in sizes]
    compiled = framelift.compile(fn, backend="eager")
    for arguments in calls:
        alike(fn(*arguments), compiled(*arguments))
    assert [len(report.entries) for report in framelift.entries(compiled)] == [2, 2]


# ---- what only the data decides, behind a break


def part_entries(fn: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> list[int]:
    """How many entries each part of a function has that breaks."""
    compiled = framelift.compile(fn, backend="eager")
    for arguments in calls:
        alike(fn(*arguments), compiled(*arguments))
    return [len(report.entries) for report in framelift.entries(compiled)]


def with_positives(*counts: int) -> list[tuple[torch.Tensor]]:
    return [(torch.tensor([1.0] * count + [-1.0] * (9 - count)),) for count in counts]


DECIDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "mask": lambda x: x[x > 0] * 2,
    "nonzero": lambda x: (x > 0).nonzero() + 1,
    "where": lambda x: torch.where(x > 0)[0] + 1,
    "through a call": lambda x: positive(x) * 2,
    "number": lambda x: x.new_ones((x > 0).sum().item() + 1),
    "list": lambda x: [part.sum() for part in x.split(counted_positives(x).tolist())],
    "float": lambda x: x * x.sum().item(),
}


def positive(x: torch.Tensor) -> torch.Tensor:
    found = x[x > 0]
    return found + 1


def counted_positives(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount((x > 0).long(), minlength=2)


@pytest.mark.parametrize("fn", DECIDED.values(), ids=DECIDED.keys())
def test_what_data_decides_varies_from_the_first_capture_on(fn: Callable[..., Any]) -> None:
    assert part_entries(fn, with_positives(3, 5, 4, 7)) == [1] * len(part_entries(fn, with_positives(3)))


def test_with_dynamic_false_what_data_decides_is_a_constant() -> None:
    fn = lambda x: x[x > 0] * 2
    compiled = framelift.compile(fn, backend="eager", dynamic=False)
    for (x,) in with_positives(3, 5, 4, 3):
        alike(fn(x), compiled(x))
    assert [len(report.entries) for report in framelift.entries(compiled)] == [1, 3]


# ---- which of some numbers is the largest


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_longest_of_some_lengths_is_an_expression(backend: str) -> None:
    def padded(first, second, third):
        sequences = [first, second, third]
        lengths = [len(sequence) for sequence in sequences]
        longest, shortest = max(lengths), min(lengths)
        out = first.new_zeros(len(sequences), longest, 4)
        for n, sequence in enumerate(sequences):
            out[n, : lengths[n]] = sequence
        return out, out[:, :shortest].sum(1), longest, shortest

    sizes = [(3, 4, 5), (7, 6, 8), (9, 5, 4), (4, 8, 6), (5, 5, 9), (6, 7, 6), (2, 9, 2)]
    calls = [tuple(torch.randn(n, 4) for n in lengths) for lengths in sizes]
    assert counted(padded, calls, backend=backend) == 2


def test_a_bound_that_is_always_the_larger_one_is_known() -> None:
    fn = lambda x: x.new_ones(max(x.shape[0], 1) + min(x.shape[0], -1))
    assert counted(fn, [(torch.ones(n),) for n in (4, 6, 9)]) == 2


def test_lists_of_sizes_that_are_summed_up_hold_symbols() -> None:
    def fn(x):
        sides = [(0, 0)] * x.dim()
        sides[0] = (0, -x.shape[0] % 4)
        return torch.nn.functional.pad(x, sum(sides[::-1], ())), sum([[x.shape[0]], [2]], [])

    assert counted(fn, [(torch.ones(n, 3),) for n in (5, 6, 7, 9, 14)]) == 2


def test_with_dynamic_true_floats_that_are_passed_vary_from_the_first_capture_on() -> None:
    def fn(x, scale, options):
        return x * scale + options["shift"] if scale > 0 else x

    compiled = framelift.compile(fn, backend="eager", dynamic=True)
    for n in (1, 2, 3):
        x, options = torch.ones(4), {"shift": n / 7}
        assert torch.equal(compiled(x, n / 3, options), fn(x, n / 3, options))
    assert captures(compiled) == 1


@dataclasses.dataclass
class Settings:
    width: int = 2
    scale: float = 0.5


def state_that_changes() -> Callable[..., Any]:
    settings, counts, steps, scale = Settings(), {"calls": [2]}, 3, 0.25

    def step(x, part, given):
        nonlocal steps, scale
        steps, scale = steps + 1, scale * 1.5
        settings.width += 1
        settings.scale += 0.125
        counts["calls"][0] += 2
        total = x[part].sum() * steps * scale + counts["calls"][0] * given.scale
        return total, x[: settings.width] * settings.scale

    return step


def test_with_dynamic_true_what_a_function_holds_varies_from_the_first_capture_on() -> None:
    plain, compiled = (
        state_that_changes(),
        framelift.compile(state_that_changes(), backend="eager", dynamic=True),
    )
    for n in (3, 5, 4, 7):
        arguments = torch.randn(20), slice(n, n + 6), Settings(scale=n / 3)
        alike(plain(*arguments), compiled(*arguments))
    assert captures(compiled) == 1


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 1
        self.settings = Settings()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.settings.width += 1
        return x * self.calls + self.settings.width


def test_with_dynamic_true_numbers_of_modules_vary_when_they_have_changed() -> None:
    plain, compiled = Counting(), framelift.compile(Counting(), backend="eager", dynamic=True)
    for n in (3, 5, 4, 7):
        x = torch.randn(n)
        alike(plain(x), compiled(x))
    assert captures(compiled) == 2


# ---- definite values


def test_a_branch_for_one_value_is_no_sign_that_a_definite_one_is_needed() -> None:
    def fn(x, n):
        return x + 1 if n == 0 else x * n

    calls = [(torch.ones(size), n) for size, n in ((3, 7), (4, 0), (5, 8), (6, 0), (7, 0))]
    calls += [(torch.ones(size), n) for size, n in ((8, 9), (9, 10), (10, 11), (11, 12))]
    assert counted(fn, calls) == 3


def test_what_is_definite_for_some_values_varies_for_others() -> None:
    def fn(x, n):
        return x + len(range(n)) if n > 10 else x * n

    calls = [(torch.ones(size), n) for size, n in ((3, 12), (4, 20), (5, 11), (6, 14))]
    assert counted(fn, calls) == 4
    assert counted(fn, [*calls, *((torch.ones(size), size) for size in (3, 4, 5, 6, 7))]) == 5


def test_members_of_a_few_values_are_compared_and_no_definite_value_is_needed() -> None:
    def fn(x, n):
        return x + 1 if n == 8 else x + 2 if n == 3 else x * n

    assert counted(fn, [(torch.ones(2), n) for n in (5, 8, 3, 12, 1, 7, 20, 8, 3)]) == 4
