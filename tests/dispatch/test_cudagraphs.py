"""The backend `cudagraphs`, and the modes of Inductor that replay, where there is nothing to replay on."""

from __future__ import annotations

import logging

import pytest
import torch

import framelift
from check import entries, why_not
from framelift.dispatch import cudagraphs


def test_on_the_cpu_a_graph_is_run_as_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cudagraphs, "_told", set())
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    compiled = framelift.compile(model, backend="cudagraphs", fullgraph=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            x = torch.randn(2, 3)
            grads = []
            for each in (model, compiled):
                model.zero_grad()
                each(x).sum().backward()
                grads.append(model[0].weight.grad)
            assert torch.equal(*grads)
            with torch.no_grad():
                assert torch.equal(compiled(x), model(x))
    assert [record.getMessage() for record in caplog.records] == [
        "cudagraphs: a graph is run as it is, and not replayed: tensors on cpu"
    ]


def test_changes_of_inputs_and_dynamic_shapes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * y.shape[0]

    compiled = framelift.compile(fn, backend="cudagraphs", fullgraph=True, dynamic=True)
    for size in (2, 3, 4):
        x, y = torch.randn(size), torch.randn(size)
        xs = x.clone(), x.clone()
        assert torch.equal(compiled(xs[0], y), fn(xs[1], y))
        assert torch.equal(*xs)
    assert why_not(compiled) is None
    assert entries(compiled) == 1


def test_each_call_from_outside_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.cudagraph_trees as trees

    for backend, mode in (("cudagraphs", None), ("inductor", "reduce-overhead")):
        compiled = framelift.compile(lambda x: x * 2, backend=backend, mode=mode)
        before = trees.GenerationTracker.generation
        for _ in range(3):
            compiled(torch.ones(3))
            torch.compiler.cudagraph_mark_step_begin()
        assert trees.GenerationTracker.generation == before + 3
    before = trees.GenerationTracker.generation
    framelift.compile(lambda x: x * 2, backend="eager")(torch.ones(3))
    assert trees.GenerationTracker.generation == before


def test_what_a_graph_changes() -> None:
    def graph(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.ops.aten.copy_.default(y, x)
        return x

    assert cudagraphs.changed_inputs(torch.fx.symbolic_trace(graph)) == [1]
