"""Gradients that programs take of their own functions, in artifacts: operators, in all their forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from exporting.check_export import Calls, check_export

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a gradient": lambda x: torch.func.grad(lambda v: (v**3).sum())(x),
    "for each row": lambda x: torch.vmap(torch.func.grad(lambda v: (v**3).sum()))(x),
    "with a size": lambda x: torch.func.grad(lambda v: (v * v.shape[0]).mean())(x) * x.shape[0],
    "with a constant": lambda x: torch.func.grad(lambda v: (v * torch.tensor([1.0, 2.0, 3.0])).sum())(x),
    "of a gradient": lambda x: torch.func.grad(lambda v: torch.func.grad(lambda u: (u**4).sum())(v).sum())(x),
    "pulled back": lambda x: torch.func.vjp(torch.sin, x)[1](x),
    "of all results": lambda x: torch.func.jacrev(lambda v: v**2)(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_artifacts_have_the_operators_of_gradients(name: str) -> None:
    made = check_export(
        Calls(PROGRAMS[name]),
        (torch.randn(3, 3),),
        {},
        (torch.randn(5, 3),),
        dynamic_shapes=({0: Dim.DYNAMIC},),
    )
    assert made.graph.find_nodes(op="placeholder")[-1].users
