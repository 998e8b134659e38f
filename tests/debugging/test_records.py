"""Counters by group, compile times by phase, and compile records as JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.core.records import PHASES

X = torch.ones(2)


@pytest.fixture(autouse=True)
def fresh() -> Any:
    framelift.reset()
    limit = framelift.compile_records.limit
    yield
    framelift.compile_records.resize(limit)
    framelift.reset()


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def program(x: torch.Tensor, n: int) -> torch.Tensor:
    y = helper(helper(x)) * n
    print("hello")
    return helper(y) + 1


# ---- counters


def test_counters_have_their_groups() -> None:
    compiled = framelift.compile(program, backend="eager", dynamic=False)
    compiled(X, 2), compiled(X, 3), compiled(X, 3)
    counters = framelift.counters
    assert counters["frames"] == {"total": 3, "ok": 3}
    # before print with n == 2, after it, before it with n == 3
    assert counters["stats"] == {"unique_graphs": 3, "calls_captured": 3 + 2 + 3}
    assert counters["graph_break"] == {"run-time effect": 1}
    assert counters["unimplemented"] == {"run-time effect": 2}
    assert counters["recompiles"] == {"program: n == 2, found 3": 1}
    assert counters["inline_call"] == {"inlined": 2 + 1 + 2}
    groups = {"frames", "stats", "graph_break", "unimplemented", "recompiles", "inline_call", "restarts"}
    assert set(counters) == groups


def test_a_backend_that_fails_is_counted() -> None:
    def failing(graph: Any, inputs: Any) -> Any:
        raise ValueError("no")

    compiled = framelift.compile(helper, backend=failing)
    for _ in range(2):
        with pytest.raises(framelift.exc.BackendCompilerFailed):
            compiled(X)
    (name,) = framelift.counters["backend_failures"]
    assert name.endswith("failing") and framelift.counters["backend_failures"][name] == 2
    assert framelift.counters["frames"] == {"total": 2}


def test_reset_forgets_counters_records_and_times() -> None:
    framelift.compile(helper, backend="eager")(X)
    assert framelift.counters and framelift.compile_records() and "trace" in framelift.compile_times()
    framelift.reset()
    assert not framelift.counters and not framelift.compile_records()
    assert framelift.compile_times("csv").splitlines() == ["phase,count,seconds,mean,max"]


# ---- times


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_phases_add_up_to_what_a_compilation_took() -> None:
    compiled = framelift.compile(program, backend="aot_eager", dynamic=False)
    compiled(X.clone().requires_grad_(), 2).sum().backward()
    records = framelift.compile_records()
    assert [record.kind for record in records].count("backward") == 2
    for record in records:
        assert math.isclose(sum(record.phases().values()), record.seconds, rel_tol=1e-6)
        assert set(record.phases()) <= set(PHASES) and min(record.phases().values()) >= 0
    for row in rows(framelift.compile_times("csv", aggregate=False)):
        parts = sum(float(row[phase]) for phase in PHASES)
        assert math.isclose(parts, float(row["seconds"]), abs_tol=1e-5)


def test_sums_by_phase_are_over_all_compilations_kept_or_not() -> None:
    compiled = framelift.compile(lambda x, n: x * n, backend="aot_eager", dynamic=False)
    for n in range(4):
        compiled(X, n)
    seconds = sum(record.trace_seconds for record in framelift.compile_records())
    framelift.compile_records.resize(1)
    (trace,) = [row for row in rows(framelift.compile_times("csv")) if row["phase"] == "trace"]
    assert trace["count"] == "4" and math.isclose(float(trace["seconds"]), seconds, abs_tol=1e-5)
    assert math.isclose(float(trace["mean"]) * 4, seconds, abs_tol=1e-5) and float(trace["max"]) < seconds
    assert len(rows(framelift.compile_times("csv", aggregate=False))) == 1


def test_the_time_of_a_slow_backend_is_the_backends() -> None:
    import time

    def slow(graph: Any, inputs: Any) -> Any:
        time.sleep(0.2)
        if fails:
            raise ValueError("no")
        return graph.forward

    fails = False
    framelift.compile(helper, backend=slow)(X)
    fails = True
    framelift.reset()
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(helper, backend=slow)(X)
    for record in framelift.compile_records():
        assert record.phases()["backend"] >= 0.2 and record.phases()["rest"] < 0.2


def test_times_as_a_table() -> None:
    framelift.compile(helper, backend="eager")(X)
    heads, *lines = framelift.compile_times().splitlines()
    assert heads.split() == ["phase", "count", "seconds", "mean", "max"]
    assert [line.split()[0] for line in lines] == ["trace", "generate", "backend", "rest"]
    single = framelift.compile_times(aggregate=False).splitlines()
    assert len(single) == 2 and "helper" in single[1]
    with pytest.raises(framelift.exc.UserError, match="one of str, csv"):
        framelift.compile_times("html")


# ---- records


def test_records_as_json_lines(tmp_path: Path) -> None:
    compiled = framelift.compile(program, backend="eager", dynamic=False)
    compiled(X, 2), compiled(X, 3)
    path = tmp_path / "records.jsonl"
    assert framelift.compile_records.to_jsonl(path) == 3
    first, rest, again = map(json.loads, path.read_text().splitlines())
    assert (first["name"], first["line"], first["ops"]) == ("program", program.__code__.co_firstlineno, 3)
    assert first["ended_by"] == "run-time effect: print" and rest["ended_by"] is None
    assert again["recompiled_because"] == "n == 2, found 3" and again["entries"] == 1
    assert first["compile_id"].partition("/")[0] == again["compile_id"].partition("/")[0]
    assert set(first["phases"]) <= set(PHASES)
    assert framelift.compile_records.to_jsonl(path) == 3 and len(path.read_text().splitlines()) == 3
    framelift.compile_records.clear()
    assert framelift.compile_records.to_jsonl(path) == 0 and path.read_text() == ""


def test_compilations_have_numbers_of_their_own() -> None:
    compiled = framelift.compile(program, backend="eager", dynamic=False)
    for n in range(3):
        compiled(X, n)
    numbers = [record.compile_id for record in framelift.compile_records()]
    assert len(set(numbers)) == 4
    frames = {number.partition("/")[0] for number in numbers}
    assert sorted(number.partition("/")[2] for number in numbers) == ["0", "0", "1", "2"] and len(frames) == 2


def test_operators_of_the_programs_own_are_in_the_record() -> None:
    with torch.library._scoped_library("recorded_operators", "DEF") as library:
        library.define("marked(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
        library.define("unmarked(Tensor x) -> Tensor")
        for name in ("marked", "unmarked"):
            library.impl(name, lambda x: x * 2, "CompositeExplicitAutograd")
            library._register_fake(name, torch.empty_like)
        ops: Any = torch.ops.recorded_operators
        framelift.compile(lambda x: ops.marked(x) + ops.unmarked(x).sin(), backend="eager")(torch.ones(2))
    record = framelift.compile_records()[-1]
    assert [name.split(".")[1] for name in record.compliant_custom_ops] == ["marked"]
    assert [name.split(".")[1] for name in record.non_compliant_ops] == ["unmarked"]


def test_a_record_has_the_class_of_what_failed() -> None:
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(lambda x: print(x), backend="eager", fullgraph=True)(torch.ones(2))
    assert framelift.compile_records()[-1].failed_as == "Unsupported"
