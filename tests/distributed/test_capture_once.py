"""One rank captures for all: the others trace nothing, and get what they would have captured themselves."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import framelift
from check import Comparison, entries, why_not
from framelift.dispatch.restarts import CaptureRuns
from framelift.distributed import capture_once
from process_groups import ranks

LIMITS = [10.0, 20.0]


class Block(nn.Module):
    scale = 0.5

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.2)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.detach().sum()
        return x + self.scale * self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        for block in self.blocks:
            x = block(x)
        with torch.no_grad():
            size = x.abs().max()
        return {"result": x.clamp(max=LIMITS[0]), "size": size, "shape": tuple(x.shape)}


@contextlib.contextmanager
def traces() -> Iterator[list[str]]:
    """Which functions are traced on this rank, and why anything was not handed over."""
    found: list[str] = []
    original = CaptureRuns.capture

    def counting(runs: CaptureRuns, *args: Any) -> Any:
        found.append(runs.fn.__qualname__)
        return original(runs, *args)

    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("framelift.graph")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    with pytest.MonkeyPatch.context() as patch, framelift.config.patch(capture_once=True):
        patch.setattr(CaptureRuns, "capture", counting)
        try:
            yield found
        finally:
            log.removeHandler(handler)
            log.setLevel(level)


def alike(fn: Any, compiled: Any, *args: Any) -> None:
    results = []
    for each in (fn, compiled):
        torch.manual_seed(7)
        results.append(each(*args))
    Comparison().same(results[0], results[1], "result")


@ranks(2, 4)
def test_a_model_is_traced_by_one_rank() -> None:
    one_rank_traces("eager")


@ranks(2)
def test_a_model_is_traced_by_one_rank_and_compiled_by_each() -> None:
    one_rank_traces("aot_eager")


def one_rank_traces(backend: str) -> None:
    with traces() as found:
        torch.manual_seed(0)
        model = Model()
        other = copy.deepcopy(model)
        compiled = framelift.compile(other, backend=backend, fullgraph=True)
        for n in range(3):
            x = torch.randn(4, 8, requires_grad=True) * (n + 1)
            alike(model, compiled, x)
            for each in (model, other):
                torch.manual_seed(n)
                each(x)["result"].sum().backward(retain_graph=True)
        Comparison().same(list(model.state_dict().values()), list(other.state_dict().values()), "state")
        assert why_not(compiled) is None and entries(compiled) == 1
        assert found == (["Model.forward"] if dist.get_rank() == 0 else []), found
        compiled.blocks[0].scale = 2.0  # an attribute of the instance, where the class's was relied on
        model.blocks[0].scale = 2.0
        alike(model, compiled, x)
        compiled.eval()
        model.eval()
        alike(model, compiled, x)
        assert entries(compiled) == 3  # at first; with another scale; in evaluation


def bounded(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(max=LIMITS[1])


@ranks(2)
def test_guards_are_checked_against_what_each_rank_has() -> None:
    rank = dist.get_rank()
    with traces() as found:
        LIMITS[1] = 20.0 + rank  # which the first rank's capture relies on
        try:
            compiled = framelift.compile(bounded, backend="eager", fullgraph=True)
            x = torch.full((3,), 30.0)
            assert compiled(x).tolist() == 3 * [20.0 + rank]
        finally:
            LIMITS[1] = 20.0
        framelift.reset()
        sized = framelift.compile(bounded, backend="eager", fullgraph=True)
        x = torch.full((3 + rank,), 30.0)
        assert torch.equal(sized(x), bounded(x))
        with torch.set_grad_enabled(rank == 0):
            framelift.reset()
            moded = framelift.compile(bounded, backend="eager", fullgraph=True)
            x = torch.full((3,), 30.0, requires_grad=True)
            assert moded(x).requires_grad is (rank == 0)
    if rank == 1:
        assert [told for told in found if told == "bounded"] == 3 * ["bounded"]
        said = [told for told in found if told.startswith("rank 1 captures for itself")]
        assert "LIMITS[1] == 20.0" in said[0] and "x" in said[1] and "grad mode" in said[2], said


def by_rank(x: torch.Tensor) -> torch.Tensor:
    return x * (dist.get_rank() + 1)


def by_coordinate(x: torch.Tensor, mesh: Any) -> torch.Tensor:
    return x + mesh.get_local_rank() + (10 if dist.get_rank(mesh.get_group()) else 20)


def by_environment(x: torch.Tensor) -> torch.Tensor:
    return x + int(os.environ["RANK"])


def summed(x: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(x)
    return x + 1


@ranks(2)
def test_what_is_said_of_one_rank_is_not_said_of_another() -> None:
    rank = dist.get_rank()
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    with traces():
        for n in (1, 2):
            for fn, args in ((by_rank, ()), (by_coordinate, (mesh,)), (by_environment, ()), (summed, ())):
                compiled = framelift.compile(fn, backend="eager")
                x = torch.full((2,), float(n + rank))
                expected = fn(x.clone(), *args)
                assert torch.equal(compiled(x.clone(), *args), expected), fn
                assert torch.equal(compiled(x.clone(), *args), expected), fn


def wrapped(fn: Any) -> Any:
    @functools.wraps(fn)
    def inner(*args: Any) -> Any:
        return fn(*args)

    return inner


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return y + 1


KEY = object()
TABLE = {KEY: 3.0}


def looked_up(x: torch.Tensor) -> torch.Tensor:
    return x * TABLE[KEY]


def unnecessary(x: torch.Tensor) -> torch.Tensor:
    return x - 1


@ranks(2)
def test_a_rank_that_alone_calls_a_function_captures_it() -> None:
    with traces() as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture_once, "PATIENCE", 0.3)
        if dist.get_rank() == 1:
            alike(unnecessary, framelift.compile(unnecessary, backend="eager"), torch.ones(2))
            assert found == ["rank 1 captures for itself: rank 0 does not capture it", "unnecessary"]


@ranks(2)
def test_a_function_that_is_made_inside_another_is_captured_once() -> None:
    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with traces() as found:
        fn = wrapped(local)
        alike(fn, framelift.compile(fn, backend="eager"), torch.ones(3))
    assert not any("for itself" in told for told in found), found


@ranks(2)
def test_what_has_no_name_that_all_know_is_captured_by_each() -> None:
    with traces() as found:
        x = torch.ones(3)
        for fn in (printing, looked_up):
            alike(fn, framelift.compile(fn, backend="eager"), x)
        dynamic = framelift.compile(bounded, backend="eager", dynamic=True)
        alike(bounded, dynamic, x)
    said = "\n".join(told for told in found if "for itself" in told)
    for reason in ("it breaks (run-time effect)", "builtins.object", "vary"):
        assert reason in said, found
    assert {"printing", "looked_up", "bounded"} <= set(found)


def in_double(x: torch.Tensor) -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    made = torch.ones(3) + x
    torch.set_default_dtype(torch.float32)
    return made


def more(grad: torch.Tensor) -> torch.Tensor:
    return grad + 1


def hooked(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    y.register_hook(more)
    return y * 2, y * 3


@ranks(2)
def test_a_backend_is_given_the_same_on_each_rank() -> None:
    """The flags that are set for the graph, what its nodes give, and which graphs are run as they are."""
    seen: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        given = [node.meta["example_value"].dtype for node in graph.graph.nodes if node.op != "output"]
        seen.append((torch.get_default_dtype(), given, [each.is_leaf for each in inputs]))
        return graph.forward

    framelift.counters.clear()
    with traces() as found:
        for fn in (in_double, hooked):
            x = torch.ones(3, requires_grad=fn is hooked)
            alike(fn, framelift.compile(fn, backend=backend, fullgraph=True), x)
    assert seen == [(torch.float64, [torch.float32, torch.float64, torch.float64], [True])], seen
    assert sum(framelift.counters["graphs_run_as_captured"].values()) == 1
    assert found == (["in_double", "hooked"] if dist.get_rank() == 0 else []), found
    loaded = framelift.compile_records()[0]
    assert (loaded.trace_seconds > 0) is (dist.get_rank() == 0) and loaded.phases()["generate"] > 0


@ranks(2)
def test_an_explanation_has_lines_and_names_on_each_rank() -> None:
    with traces() as found:
        report = framelift.explain(unnecessary)(torch.ones(2))
        assert [line.mark for line in report.functions[0].lines] == [None, "captured"]
        assert report.parts[0].input_names == {"l_x_": "x"}
    assert found == (["unnecessary"] if dist.get_rank() == 0 else []), found


@ranks(2)
def test_it_goes_with_ddp_and_with_agreement() -> None:
    with traces() as found, framelift.config.patch(rank_agreement="check"):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(3)))
        other = copy.deepcopy(model)
        eager = DDP(model, bucket_cap_mb=0.01)
        compiled = framelift.compile(DDP(other, bucket_cap_mb=0.01), backend="aot_eager", fullgraph=True)
        for n in range(3):
            x = torch.randn(4, 64)
            for each in (eager, compiled):
                each(x).sum().backward()
            Comparison().same(
                [p.grad for p in model.parameters()], [p.grad for p in other.parameters()], f"step {n}"
            )
    traced = [name for name in found if "compiled in 3 parts" not in name]
    assert len(traced) == (dist.get_rank() == 0), found


def test_a_capture_that_can_not_be_saved_or_loaded_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Any:
        raise ValueError("no")

    compilation: Any = type("", (), {"fn": None, "arguments": []})
    monkeypatch.setattr(capture_once, "save_capture", fails)
    assert capture_once.serialize(None, compilation) == (b"", "it could not be packed (ValueError: no)")  # type: ignore[arg-type]
    monkeypatch.setattr(capture_once, "wait_for_capture", fails)
    channel: Any = type("", (), {"rank": 1})
    assert capture_once.receive_capture(channel, "key", compilation) is None


def test_code_is_told_apart_by_what_it_does() -> None:
    from framelift.dispatch.object_names import digest

    def one(x: float) -> float:
        return x + 1.0

    first = digest(one.__code__)

    def one(x: float) -> float:  # type: ignore[no-redef]  # noqa: F811
        return x + 1

    assert digest(one.__code__) != first
