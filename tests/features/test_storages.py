"""The memory of tensors as an object: how large it is, memory given and taken, storages that live on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from check import Comparison, entries, reasons

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def freed() -> torch.Tensor:
    """A tensor whose memory was taken away."""
    made = torch.ones(3)
    made.untyped_storage().resize_(0)
    return made


def full() -> torch.Tensor:
    return torch.arange(3.0)


def part() -> torch.Tensor:
    return torch.arange(5.0)[1:4]


def sizes(x: torch.Tensor) -> Any:
    y = x * 2
    of_x, of_y = x.untyped_storage(), y.untyped_storage()
    return x + of_x.nbytes(), of_x.size(), len(of_x), of_y.nbytes(), of_x is x[1:].untyped_storage()


def taken(x: torch.Tensor) -> Any:
    y = torch.sin(x + 1)
    found = x.untyped_storage()
    found.resize_(0)
    return torch.cos(y), found.size()


def given(x: torch.Tensor) -> Any:
    x.untyped_storage().resize_(12)
    x.copy_(torch.arange(3.0))
    return x + 1


def sizes_of(tensor: torch.Tensor) -> list[Any]:
    return [tensor.untyped_storage().nbytes(), tensor.tolist() if tensor.untyped_storage().nbytes() else None]


@BACKENDS
@pytest.mark.parametrize(
    ("fn", "make"), [(sizes, full), (sizes, part), (taken, full), (taken, part), (given, freed)]
)
def test_what_is_asked_and_done_of_a_storage(fn: Any, make: Any, backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        ours, theirs = make(), make()
        Comparison().same(fn(theirs), compiled(ours), "result")
        assert sizes_of(ours) == sizes_of(theirs)
    assert entries(compiled) == 1


@BACKENDS
def test_a_storage_that_lives_on_is_that_of_the_tensor(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + 1
        return x.untyped_storage(), y, [y.untyped_storage()]

    x = torch.ones(2)
    of_x, y, (of_y,) = framelift.compile(fn, backend=backend, fullgraph=True)(x)
    assert of_x is x.untyped_storage() and of_y is y.untyped_storage()


def test_the_size_of_a_storage_is_guarded_where_it_is_asked_for() -> None:
    compiled = framelift.compile(lambda x: x + x.untyped_storage().nbytes(), backend="eager", fullgraph=True)
    for elements in (2, 4, 4, 2, 8):
        x = torch.ones(elements)[:2]
        assert compiled(x).tolist() == [4 * elements + 1] * 2
    assert entries(compiled) == 3


def test_sizes_that_vary() -> None:
    compiled = framelift.compile(lambda x: x + x.untyped_storage().nbytes(), backend="eager", fullgraph=True)
    for elements in (2, 3, 4):
        assert compiled(torch.ones(elements)).tolist() == [4 * elements + 1] * elements


def given_and_taken(x: torch.Tensor) -> Any:
    x.untyped_storage().resize_(12)
    x.copy_(torch.arange(3.0))
    y = x @ x
    x.untyped_storage().resize_(0)
    return y


def asked_for_its_address(x: torch.Tensor) -> Any:
    y = x * 2
    return y, x.untyped_storage().data_ptr() == x.data_ptr()


@BACKENDS
@pytest.mark.parametrize(("fn", "make"), [(given_and_taken, freed), (asked_for_its_address, full)])
def test_what_compilers_do_not_know_is_done_for_real(fn: Any, make: Any, backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        ours, theirs = make(), make()
        Comparison().same(fn(theirs), compiled(ours), "result")
        assert sizes_of(ours) == sizes_of(theirs)
    assert reasons(compiled)
