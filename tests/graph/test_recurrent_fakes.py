"""Recurrent layers over sequences of any length: results, layouts and gradients are eager's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from check import entries
from sameness import alike

LAYERS = {
    "GRU": lambda **how: nn.GRU(3, 4, **how),
    "RNN": lambda **how: nn.RNN(3, 4, **how),
    "RNN of relu": lambda **how: nn.RNN(3, 4, nonlinearity="relu", **how),
    "LSTM": lambda **how: nn.LSTM(3, 4, **how),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("two_ways", [False, True])
def test_lengths_that_vary(name: str, batch_first: bool, two_ways: bool) -> None:
    model = LAYERS[name](batch_first=batch_first, bidirectional=two_ways, num_layers=2)
    twin = copy.deepcopy(model)
    compiled = framelift.compile(twin, backend="eager")

    def given(call: Any, x: torch.Tensor) -> Any:
        x = x.clone().requires_grad_()
        out, state = call(x)
        out.square().sum().backward()
        return out, state, out.stride(), out.contiguous().sum(0), x.grad

    for steps, batch in [(5, 3), (9, 6), (20, 2), (2, 7)]:
        x = torch.randn(*((batch, steps) if batch_first else (steps, batch)), 3)
        alike(given(model, x), given(compiled, x))
    assert entries(compiled) <= 2
    alike([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])


@pytest.mark.parametrize("shape", [(1, 3, 3), (5, 1, 3), (1, 1, 3), (5, 3)])
def test_short_sequences_and_small_batches(shape: tuple[int, ...]) -> None:
    model = nn.GRU(3, 1, batch_first=True)
    x = torch.randn(shape)
    alike(model(x), framelift.compile(model, backend="eager")(x))


def test_dropout_between_layers() -> None:
    model = nn.GRU(3, 4, num_layers=2, dropout=0.5)
    compiled = framelift.compile(model, backend="eager")
    x = torch.randn(7, 2, 3)
    torch.manual_seed(0)
    expected = model(x), torch.rand(2)
    torch.manual_seed(0)
    alike(expected, (compiled(x), torch.rand(2)))


def test_packed_sequences() -> None:
    model = nn.GRU(3, 4)

    def fn(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return nn.utils.rnn.pad_packed_sequence(model(packed)[0])

    compiled = framelift.compile(fn, backend="eager")
    for steps in (5, 7, 9):
        x, lengths = torch.randn(steps, 2, 3), torch.tensor([steps, 3])
        alike(fn(x, lengths), compiled(x, lengths))
