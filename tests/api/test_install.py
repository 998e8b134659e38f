"""`install`: `torch.compile` and `Module.compile` are Framelift's, until that is undone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framelift

TORCHS = torch.compile
X = torch.ones(2, 3)


@pytest.fixture(autouse=True)
def undone() -> Any:
    yield
    framelift.uninstall()
    assert torch.compile is TORCHS


def is_framelifts(fn: Any) -> bool:
    return hasattr(fn, "_framelift_context")


def test_functions_are_compiled_by_framelift() -> None:
    framelift.install()

    @torch.compile(backend="eager", fullgraph=True, dynamic=False)
    def decorated(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    called = torch.compile(lambda x: x.cos(), backend="aot_eager")
    assert torch.equal(decorated(X), X.sin()) and torch.equal(called(X), X.cos())
    assert is_framelifts(decorated) and decorated._framelift_context.fullgraph
    assert len(framelift.entries(decorated)) == len(framelift.entries(called)) == 1
    assert torch.compile.__module__.startswith("framelift.") and torch.compile.__name__ == "compile"


def test_modules_are_compiled_in_place() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    expected = net(X)
    before = framelift.counters["stats"]["unique_graphs"]
    with framelift.install():
        net.compile(backend="eager", fullgraph=True)
        assert torch.equal(net(X), expected)
    assert framelift.counters["stats"]["unique_graphs"] == before + 1
    assert is_framelifts(net._compiled_call_impl) and torch.equal(net(X), expected)


def test_one_backend_for_all() -> None:
    counter = framelift.testing.CompileCounter()
    framelift.register_backend(counter, "counter")
    try:
        with framelift.install(backend="counter"):
            torch.compile(lambda x: x + 1, mode="max-autotune")(X)
            torch.compile(lambda x: x + 2, backend="inductor", options={"max_autotune": True})(X)
    finally:
        del framelift.dispatch.backend_names._registered["counter"]
    assert counter.frame_count == 2  # one for each function


def test_it_can_be_undone() -> None:
    installed = framelift.install()
    ours = torch.compile
    with framelift.install():
        assert torch.compile is not ours
    assert torch.compile is ours
    installed.undo()
    assert torch.compile is TORCHS
    framelift.install(), framelift.install()
    framelift.uninstall()
    assert torch.compile is TORCHS
    framelift.uninstall()
    with pytest.raises(ValueError), framelift.install():
        raise ValueError
    assert torch.compile is TORCHS


def test_mistakes_are_framelifts_errors() -> None:
    with framelift.install():
        with pytest.raises(TypeError, match="unexpected keyword"):
            torch.compile(lambda x: x, unknown=1)
        with pytest.raises(framelift.exc.InvalidBackend):
            torch.compile(lambda x: x, backend="none")
