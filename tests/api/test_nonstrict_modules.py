"""`nonstrict_trace` of functions that are given modules: the call gets their parameters and buffers."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import framelift


def model() -> nn.Module:
    made = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    made[2].weight = made[0].weight
    return made


@framelift.nonstrict_trace
def called(parts: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()  # which is not looked at
    return parts["model"](x).sin()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_reach_parameters_and_buffers_are_updated(backend: str) -> None:
    ours, eager = model(), model()
    eager.load_state_dict(ours.state_dict())
    x = torch.randn(4, 3)
    compiled = framelift.compile(lambda m, x: called({"model": m}, x) * 2, backend=backend, fullgraph=True)
    for _ in range(2):
        compiled(ours, x).sum().backward()
        (eager(x).sin() * 2).sum().backward()
    for one, other in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    for one, other in zip(ours.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(one, other)
    assert all(isinstance(parameter, nn.Parameter) for parameter in ours.parameters())


def test_another_module_and_another_mode_are_noticed() -> None:
    first, second, x = model(), model(), torch.randn(4, 3)
    compiled = framelift.compile(lambda m, x: called({"model": m}, x), backend="aot_eager", fullgraph=True)
    for given in (first, second, first):
        for mode in (True, False):
            expected = copy.deepcopy(given.train(mode))(x).sin()
            torch.testing.assert_close(compiled(given, x), expected)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    @framelift.nonstrict_trace
    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


def test_a_method_of_a_module_is_traced_so() -> None:
    module, x = Own(), torch.randn(2, 3)
    compiled: Any = framelift.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module.layer(x) + 1)


def test_modules_are_not_kept_alive() -> None:
    module = model()
    compiled = framelift.compile(lambda m, x: called({"model": m}, x), backend="eager")
    compiled(module, torch.randn(4, 3))
    seen = weakref.ref(module)
    del module
    gc.collect()
    assert seen() is None


def test_a_module_that_is_made_in_the_captured_code_breaks() -> None:
    def making(x: torch.Tensor) -> torch.Tensor:
        return called({"model": nn.Identity()}, x)

    with pytest.raises(framelift.exc.Unsupported, match="a module that is made in the captured code"):
        framelift.compile(making, backend="eager", fullgraph=True)(torch.ones(4, 3))
