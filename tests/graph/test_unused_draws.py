"""Random numbers are drawn though nothing depends on their data: the next ones are as eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

import framelift

X = torch.linspace(-1.0, 1.0, 9).reshape(3, 3)
ROW = torch.ones(3)
WEIGHT = torch.ones(3, requires_grad=True)


def accumulated(x: torch.Tensor) -> Any:
    WEIGHT.grad = None
    (dropout(x) + WEIGHT).sum().backward()
    return WEIGHT.grad


def checkpointed(x: torch.Tensor) -> Any:
    return checkpoint(lambda x: (dropout(x), x * 2), x, use_reentrant=False)


def initialised_again(x: torch.Tensor) -> Any:
    layer = torch.nn.Linear(3, 3)
    torch.nn.init.eye_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    return layer(x)


NOT_LOOKED_AT: dict[str, Callable[[torch.Tensor], Any]] = {
    "expand_as": lambda x: ROW.expand_as(dropout(x)),
    "view_as": lambda x: torch.ones(9).view_as(dropout(x)),
    "reshape_as": lambda x: torch.ones(9).reshape_as(dropout(x)),
    "type_as": lambda x: ROW.type_as(dropout(x)),
    "to": lambda x: ROW.to(dropout(x)),
    "through a stack": lambda x: ROW.expand_as(torch.stack([dropout(x)])),
    "zeros_like": lambda x: torch.zeros_like(dropout(x)),
    "new_zeros": lambda x: dropout(x).new_zeros(3),
    "zero_": lambda x: dropout(x).zero_(),
    "copy_": lambda x: dropout(x).copy_(x),
    "uniform_": lambda x: dropout(x).uniform_(),
    "out": lambda x: torch.add(x, 1, out=dropout(x)),
    "an out that was drawn": lambda x: (y := torch.empty(3, 3).uniform_(), torch.eye(3, out=y), y + 1)[2],
    "drawn and drawn": lambda x: (y := torch.normal(0.0, 1.0, (3,)), torch.arange(3.0, out=y), y + 1)[2],
    "filled and used": lambda x: (y := torch.empty(3).normal_(), y.fill_(2), y + 1)[2],
    "initialised again": initialised_again,
    "another of broadcast_tensors": lambda x: torch.broadcast_tensors(dropout(x), ROW)[1] + 0,
    "another of meshgrid": lambda x: torch.meshgrid(dropout(x)[0], ROW, indexing="ij")[1] + 0,
    "another result of vmap": lambda x: torch.vmap(lambda r: (dropout(r), r * 2), randomness="different")(x)[
        1
    ],
    "nothing of a body": lambda x: torch.vmap(lambda r: (dropout(r), r * 2)[1], randomness="different")(x),
    "another result of a checkpoint": lambda x: checkpointed(x)[1],
    "another result of cond": lambda x: torch.cond(
        x.sum() > 0, lambda x: (dropout(x), x * 2), lambda x: (dropout(x), x * 3), (x,)
    )[1],
    "added to what is differentiated": lambda x: torch.autograd.grad((dropout(x) + WEIGHT).sum(), WEIGHT)[0],
    "added before backward": accumulated,
    "added within func.grad": lambda x: torch.func.grad(lambda w: (dropout(x) + w).sum())(ROW),
    "added within func.jvp": lambda x: torch.func.jvp(lambda w: dropout(x) + w, (ROW,), (ROW,))[1],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", NOT_LOOKED_AT)
def test_it_is_drawn(name: str, backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return NOT_LOOKED_AT[name](x)

    outcomes = []
    for each in (fn, framelift.compile(fn, backend=backend)):
        torch.manual_seed(0)
        outcomes.append((each(X), torch.rand(3)))
    (expected, next_expected), (found, next_found) = outcomes
    assert torch.equal(found, expected)
    assert torch.equal(next_found, next_expected)


FAILING: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "expand_as": lambda x, i: ROW.expand_as(x[i]),
    "out": lambda x, i: torch.add(x, 1, out=x[i]),
    "another result of a checkpoint": lambda x, i: checkpoint(
        lambda x: (x[i], x * 2), x, use_reentrant=False
    )[1],
    "another result of a region": lambda x, i: region(x, i)[1],
    "added to what is differentiated": lambda x, i: torch.autograd.grad((x[i] + WEIGHT).sum(), WEIGHT)[0],
}


@torch.compiler.nested_compile_region
def region(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x[i], x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", FAILING)
def test_it_fails(name: str, backend: str) -> None:
    compiled = framelift.compile(lambda x, i: FAILING[name](x, i), backend=backend)
    inside = torch.tensor([0, 2, 1])
    assert torch.equal(compiled(X, inside), FAILING[name](X, inside))
    with pytest.raises(IndexError):
        compiled(X, inside + 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_checkpoint_that_draws_and_is_not_differentiated(backend: str) -> None:
    """AOTAutograd computes nothing again that draws, in a graph without gradients."""
    programs = [lambda x: checkpointed(x)[0], lambda x: checkpointed(x * WEIGHT)[0].detach()]
    for fn in programs:
        torch.manual_seed(0)
        expected = fn(X)
        torch.manual_seed(0)
        assert torch.equal(framelift.compile(fn, backend=backend)(X), expected)
