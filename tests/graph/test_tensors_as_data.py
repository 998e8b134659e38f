"""Tensors of lists with tensors in them: values, types and errors as eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import reasons

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "scalars": lambda x: torch.tensor([x.sum(), x.max()]),
    "a tuple": lambda x: torch.tensor((x.sum(), x.max())),
    "with numbers": lambda x: torch.tensor([x.sum(), 2, True, 0.5]),
    "nested": lambda x: torch.tensor([[x.sum(), 2.0], [x.min(), 1.0], [3.0, x.max()]]),
    "of one element": lambda x: torch.tensor([x[:1], x[1:2]]),
    "one element in several dimensions": lambda x: torch.tensor(
        [x[:1].reshape(1, 1, 1), x[:1].view(1, 1, 1)]
    ),
    "a scalar, then one element": lambda x: torch.tensor([x.sum(), x[:1]]),
    "types that differ": lambda x: torch.tensor([x.double().sum(), x.long().sum(), x[0] > 0]),
    "integers": lambda x: torch.tensor([x.long().sum(), 3]),
    "truth values": lambda x: torch.tensor([x[0] > 0, True]),
    "of a type": lambda x: torch.tensor([x.sum(), x.long().sum()], dtype=torch.float16),
    "integers of a type": lambda x: torch.tensor([x.long()[1]], dtype=torch.int64),
    "on a device": lambda x: torch.tensor([x.sum(), 1], device="cpu"),
    "differentiated": lambda x: torch.tensor([(x * W).sum(), W.sum()]),
    "new_tensor": lambda x: x.new_tensor([x.sum(), 1]),
    "as_tensor": lambda x: torch.as_tensor([x.sum(), x.max()]),
    "by class": lambda x: torch.FloatTensor([x.sum(), 1.0]),
}
W = torch.ones(3, requires_grad=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_list_with_tensors_is_a_tensor(name: str, backend: str) -> None:
    fn = PROGRAMS[name]
    compiled = framelift.compile(lambda x: fn(x), backend=backend, fullgraph=True)
    for x in (torch.arange(3.0), torch.tensor([0.1, -2.7, 1e4])):
        want, got = fn(x), compiled(x)
        assert (want.dtype, want.shape, want.requires_grad) == (got.dtype, got.shape, got.requires_grad)
        assert torch.equal(want, got)


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "no number": lambda x: torch.tensor([x, x]),
    "a float for an integer": lambda x: torch.tensor([x.sum()], dtype=torch.int64),
    "narrower": lambda x: torch.tensor([x.long().sum()], dtype=torch.uint8),
    "a leaf": lambda x: torch.tensor([x.sum()], requires_grad=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_be_an_error_is_left_to_torch(name: str) -> None:
    fn = REFUSED[name]
    compiled = framelift.compile(lambda x: (fn(x), x + 1), backend="eager")
    told = []
    for each in (lambda x: (fn(x), x + 1), compiled):
        try:
            told.append(repr(each(torch.arange(3.0))))
        except Exception as error:
            told.append(repr(error))
    assert told[0] == told[1]
    assert set(reasons(compiled)) == {"data-dependent value"}
