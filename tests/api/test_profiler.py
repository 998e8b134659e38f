"""The profiler backend: graphs, operations and time are counted; what stands in the way is told."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import pytest
import torch

import framelift
from framelift import CompileProfiler

X = torch.ones(2)


def program(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x.sin() * n
    print("hello")
    return y.sin() + 1


def test_graphs_operations_and_time_are_counted() -> None:
    def slow(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        time.sleep(0.05)
        return lambda *given: (time.sleep(0.02), graph(*given))[1]

    profiler = CompileProfiler(slow)
    compiled = framelift.compile(program, backend=profiler, dynamic=False)
    for n in (2, 2, 3):
        compiled(X, n)
    # before print with n == 2, after it, before it with n == 3
    assert (profiler.frame_count, profiler.op_count) == (3, 6)
    assert [graph.calls for graph in profiler.graphs] == [2, 3, 1]
    first, rest, _ = profiler.graphs
    assert first.ops == {"Tensor.sin": 1, "_operator.mul": 1} and "program (" in first.name
    assert first.compile_seconds >= 0.05 and first.seconds >= 0.04 and rest.seconds >= 0.06
    profiler.clear()
    assert (profiler.frame_count, profiler.op_count) == (0, 0)


def test_breaks_and_recompilations_are_reported_with_what_to_do() -> None:
    profiler = CompileProfiler("eager")
    compiled = framelift.compile(program, backend=profiler, dynamic=False)
    for n in (2, 3, 4):
        compiled(X, n)
    ((found, times),) = profiler.breaks
    assert found.reason.name == "run-time effect" and times == 3
    assert [what.partition(" ")[0] for what, _ in profiler.recompiles] == ["program", "program"]
    text = profiler.report()
    assert text.startswith("4 graph(s), 8 op(s), 1 break(s), 2 recompilation(s); backend eager")
    assert "break, 3 time(s):\n  run-time effect: print" in text and found.reason.hint in text
    assert "entry 0: n == 2, found 3" in text
    assert "Compile with dynamic=True, or pass `n` as a tensor." in text
    assert "     4  Tensor.sin" in text
    data = json.loads(json.dumps(profiler.to_dict()))
    assert data["breaks"][0]["times"] == 3 and data["graphs"][0]["calls"] == 1
    assert data["recompilations"][0]["failures"] == ["n == 2, found 3"]
    assert "dynamic=True" in data["recompilations"][0]["hint"]


def test_a_function_without_problems() -> None:
    profiler = CompileProfiler("aot_eager")
    x = torch.ones(3, requires_grad=True)
    framelift.compile(lambda x: x.sin(), backend=profiler)(x).sum().backward()
    assert "nothing stands in the way" in profiler.report() and x.grad is not None
    assert CompileProfiler().report() == (
        "0 graph(s), 0 op(s), 0 break(s), 0 recompilation(s); backend eager\n\n"
        "nothing stands in the way: no breaks, no recompilations"
    )


def test_it_keeps_no_compiled_function() -> None:
    profiler = CompileProfiler()
    compiled = framelift.compile(program, backend=profiler, isolate_recompiles=True)
    other = framelift.compile(program, backend="eager")
    compiled(X, 2), other(X, 2)
    assert len(profiler.contexts()) == 1
    del compiled
    gc.collect()
    # before and after print
    assert not profiler.contexts() and not profiler.breaks and profiler.frame_count == 2


def test_a_backend_that_fails_is_no_graph() -> None:
    def failing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise ValueError("no")

    profiler = CompileProfiler(failing)
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(program, backend=profiler)(X, 2)
    assert profiler.frame_count == 0
    with pytest.raises(framelift.exc.InvalidBackend):
        CompileProfiler("none")
