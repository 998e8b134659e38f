"""Tensors whose strides vary, their sizes or not: parts of larger tensors that are not always as large.

A stride that follows from sizes is no number of its own; others become symbols once they have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import entries
from sameness import alike

WIDTHS = (9, 10, 13, 24, 7)
Part = Callable[[int], torch.Tensor]

PARTS: dict[str, Part] = {
    "columns": lambda n: torch.randn(3, n)[:, :4],
    "one_column": lambda n: torch.randn(1, n)[:, :1],
    "a_row": lambda n: torch.randn(n, 3).t()[1, :5],
    "a_number": lambda n: torch.randn(2, n).t()[0],
    "last_rows": lambda n: torch.randn(2, n, 3)[:, -2:],
    "every_other": lambda n: torch.randn(2, n)[:, :6:2],
    "transposed": lambda n: torch.randn(4, n)[:, :3].t(),
    "permuted": lambda n: torch.randn(2, n, 3)[:, :2].permute(2, 0, 1),
    "columns_and_rows": lambda n: torch.randn(n, n + 3)[:, :4],
    "all_but_one": lambda n: torch.randn(n, 2, n + 1)[..., :-1],
    "channels": lambda n: torch.randn(2, n, 4, 4).to(memory_format=torch.channels_last)[:, :3],
    "inner": lambda n: torch.randn(2, 3, n)[:, :, :4].unflatten(-1, (2, 2)),
}


def used(x: torch.Tensor) -> Any:
    y = x * 2 + x.sum()
    return y, x.reshape(-1), x.unsqueeze(0).contiguous(), torch.cat([x, y]), x.flip(0), x.clone().stride()


def written(x: torch.Tensor) -> Any:
    x.mul_(2)
    x[0] += 1
    return x.sum(-1)


def gradient(x: torch.Tensor) -> Any:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad((leaf * leaf).sum(), leaf)[0], leaf.stride()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("program", [used, written, gradient])
def test_parts_of_tensors_that_vary_are_captured_twice(program: Any, name: str, backend: str) -> None:
    compiled = framelift.compile(program, backend=backend)
    for width in WIDTHS:
        whole = PARTS[name](width)
        given, expected = same_place(whole), same_place(whole)
        alike(program(expected), compiled(given))
        alike(expected, given)
    assert entries(compiled) <= 2


def same_place(part: torch.Tensor) -> torch.Tensor:
    """The same part of another memory."""
    memory = part.as_strided((part.untyped_storage().nbytes() // 4,), (1,), 0).clone()
    return memory.as_strided(part.shape, part.stride(), part.storage_offset())


def test_sizes_and_strides_that_vary_at_different_times() -> None:
    compiled = framelift.compile(used, backend="eager")
    for rows, width in [(4, 9), (5, 9), (5, 11), (7, 30), (2, 8)]:
        x = torch.randn(rows, width)[:, :6]
        alike(used(x), compiled(x))
    assert entries(compiled) == 2


def test_strides_that_the_program_asks_for_are_relied_on() -> None:
    def fn(x):
        return x * 2 if x.stride(0) > 12 else x * 3

    compiled = framelift.compile(fn, backend="eager")
    for width in (9, 10, 11, 20, 30, 12, 13):
        x = torch.randn(3, width)[:, :4]
        alike(fn(x), compiled(x))
    assert entries(compiled) == 3


def test_a_dense_tensor_is_captured_apart() -> None:
    fn = lambda x: (x.is_contiguous(), x.view(-1) if x.is_contiguous() else x + 1)
    compiled = framelift.compile(fn, backend="eager")
    for width in (6, 9, 4, 12, 4):
        x = torch.randn(3, width)[:, :4]
        alike(fn(x), compiled(x))
    assert entries(compiled) == 3


def test_strides_stay_fixed_where_nothing_may_vary() -> None:
    compiled = framelift.compile(used, backend="eager", dynamic=False)
    for width in (6, 9, 12):
        x = torch.randn(3, width)[:, :4]
        alike(used(x), compiled(x))
    assert entries(compiled) == 3
