"""What shares memory with its argument eagerly, or is it, does so where sizes are symbols: torch decomposes
some operators then, and not all decompositions keep to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from sameness import alike

GIVING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, False),
    "dropout of none": lambda x: F.dropout(x, 0.0, True),
    "dropout by name": lambda x: F.dropout(training=False, input=x),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, False),
    "a module of dropout": torch.nn.Dropout(0.5).eval(),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, False),
    "dropout of features": lambda x: F.dropout1d(x, 0.5, False),
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(torch.float32),
    "cpu": lambda x: x.cpu(),
    "type_as": lambda x: x.type_as(x),
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.flatten(),
    "flatten one": lambda x: x.flatten(0, 0),
    "ravel": lambda x: x.ravel(),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x.expand(-1, -1),
    "broadcast": lambda x: torch.broadcast_to(x, x.shape),
    "atleast": lambda x: torch.atleast_2d(x),
    "real": lambda x: x.real,
    "conj": lambda x: x.conj(),
    "resolve": lambda x: x.resolve_conj().resolve_neg(),
    "positive": lambda x: +x,
    "tile": lambda x: x.tile(1),
    "repeat": lambda x: x.repeat(1, 1),
    "as_tensor": lambda x: torch.as_tensor(x),
    "no padding": lambda x: F.pad(x, (0, 0)),
    "narrow": lambda x: x.narrow(0, 0, x.shape[0]),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
    "unflatten": lambda x: x.unflatten(0, (-1, 1)),
    "movedim": lambda x: x.movedim(0, -1),
    "an index": lambda x: x[...],
    "a part": lambda x: x[1:],
    "tensor_split": lambda x: torch.tensor_split(x, 2)[0],
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "as_strided": lambda x: torch.as_strided(x, x.shape, x.stride()),
    "detach": lambda x: x.detach(),
    "view of another type": lambda x: x.view(torch.int32),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[None, None], 1)[0, 0],
    "nothing rolled": lambda x: x.roll(0),
    "nothing flipped": lambda x: x.flip(()),
    "cat of one": lambda x: torch.cat([x]),
    "unfold": lambda x: x.unfold(0, 1, 1),
    "first power": lambda x: x.pow(1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", GIVING)
def test_as_eagerly(name: str, backend: str) -> None:
    give = GIVING[name]

    def fn(x: torch.Tensor) -> Any:
        y, before = give(x), x * 2
        y.add_(1)
        return y, before, x * 3, y is x

    def just_given(x: torch.Tensor) -> Any:
        return give(x)

    for one in (fn, just_given):
        compiled = framelift.compile(one, backend=backend, dynamic=True)
        for n in (4, 5):
            eager, own = (torch.arange(3.0 * n).reshape(n, 3) for _ in range(2))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                alike([one(eager), eager], [compiled(own), own])
