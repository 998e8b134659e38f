"""Sizes of DTensors that vary: of all ranks together, and of the part that this rank has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import framelift
from check import captures
from process_groups import fake_world

SIZES = (5, 8, 3, 12, 7, 20, 2)
Placed = Callable[..., DTensor]


def local(value: Any) -> Any:
    return value.to_local() if isinstance(value, DTensor) else value


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[Placed, int], tuple[Any, ...]]]] = {
    "split": (lambda x: x * 2, lambda of, n: (of(torch.randn(n, 4), Shard(0)),)),
    "split columns": (lambda x: x * x.shape[1], lambda of, n: (of(torch.randn(3, n), Shard(1)),)),
    "its size": (lambda x: x * x.shape[0], lambda of, n: (of(torch.randn(n, 4), Shard(0)),)),
    "the part's size": (
        lambda x: x.to_local() * x.shape[0] + x.to_local().shape[0],
        lambda of, n: (of(torch.randn(n, 4), Shard(0)),),
    ),
    "on all ranks": (lambda x: x * x.shape[0], lambda of, n: (of(torch.randn(n, 4), Replicate()),)),
    "a product": (
        lambda x, w: x @ w,
        lambda of, n: (of(torch.randn(n, 4), Shard(0)), of(torch.randn(4, 4), Replicate())),
    ),
    "a view": (lambda x: x.view(-1, 2, 2).sum(-1), lambda of, n: (of(torch.randn(n, 4), Shard(0)),)),
    "two of a size": (
        lambda x, y: x + y,
        lambda of, n: (of(torch.randn(n, 4), Shard(0)), of(torch.randn(n, 4), Shard(0))),
    ),
    "written to": (
        lambda x: x.mul_(2).add_(x.shape[0]),
        lambda of, n: (of(torch.randn(n, 4), Shard(0)),),
    ),
    "a branch": (
        lambda x: x * 2 if x.shape[0] > 1 else x + 1,
        lambda of, n: (of(torch.randn(n, 4), Shard(0)),),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("ranks, backend", [(1, "eager"), (2, "eager"), (2, "aot_eager")])
def test_a_dtensor_is_captured_for_all_sizes(name: str, ranks: int, backend: str) -> None:
    fn, make = PROGRAMS[name]
    with fake_world(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        compiled = framelift.compile(fn, backend=backend, isolate_recompiles=True)
        for n in SIZES:
            placed = lambda tensor, placement: DTensor.from_local(tensor, mesh, [placement])
            torch.manual_seed(n)
            args = make(placed, n)
            torch.manual_seed(n)
            given = make(placed, n)
            expected, found = fn(*args), compiled(*given)
            assert (expected.shape, expected.stride()) == (found.shape, found.stride())
            for a, b in zip((expected, *args), (found, *given), strict=True):
                assert type(a) is type(b) and torch.equal(local(a), local(b))
                if isinstance(a, DTensor):
                    assert (a.shape, a.placements) == (b.shape, b.placements)
        assert captures(compiled) == 2
