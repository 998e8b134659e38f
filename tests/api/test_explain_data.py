"""`explain`: counts that are right, the names that users of torch's know, the program's lines, and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import framelift

X = torch.arange(3.0)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def whole(x: torch.Tensor) -> torch.Tensor:
    return double(x).sin() + torch.cos(x)


def with_breaks(x: torch.Tensor, n: int) -> torch.Tensor:
    y = double(x)
    print("once")
    y = y + n
    print("twice")
    return double(y) - 1


def with_a_loop(x: torch.Tensor) -> torch.Tensor:
    for n in range(3):
        x = x + 1
        print("round", n)
    return double(x)


def with_a_branch(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x.exp()
    return x.log()


def with_two_calls_of_one_that_breaks(x: torch.Tensor) -> torch.Tensor:
    return loud(loud(x))


def loud(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("loud")
    return x * 3


PROGRAMS = {
    whole: (X,),
    with_breaks: (X, 3),
    with_a_branch: (X,),
    with_two_calls_of_one_that_breaks: (X,),
}


class Calls(TorchFunctionMode):
    """Counts what a program asks torch to compute, as eager Python does it."""

    NOT_IN_GRAPHS = ("__get__", "__bool__")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, fn: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(fn.__name__)
        return fn(*args, **(kwargs or {}))

    def ops(self) -> int:
        return sum(name not in self.NOT_IN_GRAPHS for name in self.names)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_ops_are_as_many_as_eager_calls_and_graphs_as_the_backend_gets(fn: Any, backend: str) -> None:
    counter = framelift.testing.CompileCounterWithBackend(backend)
    with Calls() as eager:
        expected = fn(*PROGRAMS[fn])
    report = framelift.explain(fn, backend=counter)(*PROGRAMS[fn])
    assert torch.equal(report.result, expected)
    assert report.op_count == eager.ops() == counter.op_count
    assert report.graph_count == counter.frame_count == len(report.graphs)
    calls = [[node for node in graph.graph.nodes if node.op.startswith("call")] for graph in counter.graphs]
    assert [len(ops) for ops in report.ops_per_graph] == list(map(len, calls))


def test_each_place_is_one_break_however_often_it_is_come_to() -> None:
    counts = {fn: framelift.explain(fn)(*args).graph_break_count for fn, args in PROGRAMS.items()}
    assert list(counts.values()) == [0, 2, 1, 2]
    looping = framelift.explain(with_a_loop)(X)
    lines = [found.stack[-1].line - with_a_loop.__code__.co_firstlineno for found in looping.breaks]
    assert sorted(lines) == [1, 3], "the print, and the loop that goes on after it"
    assert looping.graph_break_count == len(looping.break_reasons) == 2
    assert looping.graph_count == 3 and looping.op_count == 3, "a round before, and after a break; the rest"


def test_an_entry_that_is_gone_is_counted() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        class Holder:
            def __init__(self, x: torch.Tensor) -> None:
                self.x = x + 1

        def used(held: Any) -> torch.Tensor:
            return held.x * 2

        print("made")
        return used(Holder(x))

    report = framelift.explain(fn)(X)
    assert report.op_count == 2 and torch.equal(report.result, (X + 1) * 2)


def test_the_names_that_users_of_torchs_explain_know() -> None:
    report = framelift.explain(with_breaks)(X, 3)
    # two breaks, and what is between them
    assert (report.graph_count, report.graph_break_count, report.op_count) == (3, 2, 4)
    assert len(report.graphs) == len(report.ops_per_graph) == 3
    assert any(str(guard) == "n == 3" for guard in report.out_guards)
    first = report.break_reasons[0]
    assert "run-time effect: print" in first.reason and first.graph_break
    assert first.user_stack[-1].lineno == with_breaks.__code__.co_firstlineno + 2
    assert first.user_stack[-1].filename == __file__
    assert len(report.compile_times.splitlines()) == 1 + len(report.records) == 4


# ---- the program's lines


def marks(report: Any, name: str) -> dict[int, str]:
    """Line, counted from the function's first -> mark."""
    (function,) = [each for each in report.functions if each.name == name]
    first = function.lines[0].number
    return {line.number - first: line.mark for line in function.lines if line.mark}


def test_lines_are_marked() -> None:
    report = framelift.explain(with_breaks)(X, 3)
    assert marks(report, "with_breaks") == {
        1: "captured",
        2: "broken",
        3: "captured",
        4: "broken",
        5: "captured",
    }
    called = report.functions[-1]
    assert called.name == "double" and marks(report, "double") == {1: "captured"}
    assert [line.graphs for line in called.lines] == [[], [0, 2]]
    assert '!     print("once")' in report.source() and "+     y = y + n" in report.source()


def test_lines_that_were_not_come_to_are_not_marked() -> None:
    report = framelift.explain(with_a_branch)(X)
    assert marks(report, "with_a_branch") == {1: "broken", 2: "captured"}


def test_a_function_that_is_left_alone_is_plain() -> None:
    def generator(x: torch.Tensor) -> Any:
        y = x + 1
        yield y

    @framelift.skip
    def drain(x: torch.Tensor) -> list[torch.Tensor]:
        return [y for y in generator(x)]

    report = framelift.explain(lambda x: drain(x))(X)
    assert marks(report, generator.__qualname__) == {1: "plain", 2: "plain"}
    assert generator.__qualname__ in report.skipped and report.op_count == 0


# ---- as data


def test_json_has_all_of_it() -> None:
    report = framelift.explain(with_breaks)(X, 3)
    data = json.loads(report.to_json())
    assert data == json.loads(json.dumps(report.to_dict()))
    # two breaks, and what is between them
    assert (data["graph_count"], data["graph_break_count"], data["op_count"]) == (3, 2, 4)
    (first, second) = data["break_reasons"]
    assert first["name"] == "run-time effect" and first["context"] == "print"
    assert first["hint"] and first["reason"]
    at = first["at"]
    assert at["line"] == with_breaks.__code__.co_firstlineno + 2 and at["expression"] == 'print("once")'
    assert at["file"] == __file__ and at["function"] == "with_breaks"
    ops = [op for graph in data["graphs"] for op in graph["ops"]]
    assert [op["target"] for op in ops] == ["operator.mul", "operator.add", "operator.mul", "operator.sub"]
    assert all(op["shape"] == [3] and op["dtype"] == "torch.float32" for op in ops)
    assert f"line {double.__code__.co_firstlineno + 1}, in double" in ops[0]["at"]
    (about_n,) = [fact for fact in data["guards"]["n"] if fact["check"] == "EQUAL"]
    assert about_n["guard"] == "n == 3" and about_n["at"]["expression"] == "y + n"
    assert [record["ops"] for record in data["compilations"]] == [1, 1, 2]
    assert all(record["phases"]["trace"] > 0 for record in data["compilations"])
    lines = {line["line"]: line["mark"] for line in data["source"][0]["lines"]}
    assert lines[with_breaks.__code__.co_firstlineno + 2] == "broken"


def test_json_has_symbols_and_recompilations() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for n in (1, 2, 3):
            x = helper(x, n)
        return x

    @framelift.skip
    def skipped(x: torch.Tensor, n: int) -> torch.Tensor:
        return inner(x, n)

    def inner(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    helper = skipped
    data = json.loads(framelift.explain(fn)(X).to_json())
    again = [one for one in data["recompilations"] if "inner" in one["function"]]
    assert again[0]["failures"][0]["guard"] == "n == 1" and again[0]["failures"][0]["found"] == "2"
    dynamic = framelift.explain(double, dynamic=True)(X).to_dict()
    shapes = dynamic["graphs"][0]["ops"][0]["shape"]
    assert isinstance(shapes[0], str), "a size that may vary is written as torch does"
    json.dumps(dynamic)


def test_printing_gives_the_report() -> None:
    text = str(framelift.explain(with_breaks)(X, 3))
    assert text.startswith("with_breaks: 3 graph(s), 4 op(s)") and "2 break(s)" in text.splitlines()[0]
    assert text.count("What to do:") == 2 and '!     print("once")' in text
