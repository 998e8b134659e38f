"""What of a program's numbers and sizes becomes a symbol, and which of them are the same one.

Compilations are counted: the first call is compiled for its numbers, the next one that differs for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

import framelift
from check import entries
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
