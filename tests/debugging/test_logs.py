"""Logs by name, the debug directory, and torch's structured trace: what happened, told to who asks."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import framelift
from framelift.core import logs
from framelift.debugging import reporting

X = torch.ones(2)


def program(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x.sin() * n
    print("hello")
    return y + 1


@pytest.fixture(autouse=True)
def as_before() -> Any:
    framelift.reset()
    yield
    framelift.set_logs()
    framelift.config.reset()
    framelift.reset()


def run_program(backend: Any = "eager") -> None:
    compiled = framelift.compile(program, backend=backend, isolate_recompiles=True)
    compiled(X, 2), compiled(X, 3)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    records = [record for record in caplog.records if record.name.startswith("framelift")]
    return [(record.name.removeprefix("framelift."), record.getMessage()) for record in records]


# ---- by name


def test_nothing_is_told_and_nothing_is_formatted_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    never = mock.Mock(side_effect=AssertionError("formatted"))
    with mock.patch.multiple(reporting, readable=never, guards_text=never, guards_data=never, indented=never):
        run_program()
    assert not told(caplog) and not never.called


@pytest.mark.parametrize(
    "name, first",
    [
        ("graph", "y: "),
        ("breaks", "run-time effect: print"),
        ("guards", "n == 2    # "),
        ("recompiles", "entry 0: n == 2, found 3"),
        ("code", "def region_of_program("),
    ],
)
def test_each_name_tells_its_own(name: str, first: str, caplog: pytest.LogCaptureFixture) -> None:
    framelift.set_logs(name)
    run_program()
    assert {which for which, _ in told(caplog)} == {name}
    assert first in told(caplog)[0][1] and "program (" + __file__ in told(caplog)[0][1]


def test_a_graph_is_told_with_the_lines_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    framelift.set_logs("graph")
    run_program()
    graphs = [text for _, text in told(caplog)]
    # before print with n == 2, after it, before it with n == 3
    assert len(graphs) == 3 and "y = x.sin() * n" in graphs[0] and "return y + 1" in graphs[1]
    assert 'sin: "f32[2][1]cpu"' in graphs[0]


def test_a_graph_is_told_before_the_backend_gets_it(caplog: pytest.LogCaptureFixture) -> None:
    def failing(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        raise ValueError(len(told(caplog)))

    framelift.set_logs("graph")
    with pytest.raises(framelift.exc.BackendCompilerFailed, match="ValueError: 1"):
        run_program(failing)


def test_a_break_is_told_once_and_with_details_each_time(caplog: pytest.LogCaptureFixture) -> None:
    framelift.set_logs("breaks")
    run_program()
    assert len(told(caplog)) == 1
    caplog.clear()
    framelift.set_logs("+breaks")
    run_program()
    assert len(told(caplog)) == 2


def test_all_logs_can_be_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    framelift.set_logs("all")
    run_program()
    assert {which for which, _ in told(caplog)} == set(logs.LEVELS) - {"cache"}  # which tests do without
    caplog.clear()
    framelift.set_logs("+all,-graph")
    run_program()
    assert {which for which, _ in told(caplog)} == set(logs.LEVELS) - {"graph", "cache"}
    assert logs.ROOT.isEnabledFor(logging.DEBUG)


def test_by_keyword_and_the_latest_call_counts(caplog: pytest.LogCaptureFixture) -> None:
    framelift.set_logs("graph")
    framelift.set_logs(breaks=logging.DEBUG, recompiles=True, code=False)
    run_program()
    assert [which for which, _ in told(caplog)] == ["breaks", "recompiles", "breaks"]
    caplog.clear()
    framelift.set_logs()
    run_program()
    assert not told(caplog)


@pytest.mark.parametrize("names", ["grph", "graph,", "graph,brakes", "+", "++graph", "graph breaks"])
def test_an_unknown_name_is_an_error_that_lists_the_known(names: str) -> None:
    if names == "graph,":
        return framelift.set_logs(names)
    with pytest.raises(framelift.exc.UserError, match="there is no log .*; known are: graph, breaks, guards"):
        framelift.set_logs(names)


@pytest.mark.parametrize("wrong", [{"grph": True}, {"graph": "yes"}])
def test_a_wrong_keyword_is_an_error_and_changes_nothing(wrong: Any, caplog: Any) -> None:
    framelift.set_logs("code")
    with pytest.raises(framelift.exc.UserError):
        framelift.set_logs(**wrong)
    with pytest.raises(framelift.exc.UserError, match="takes names"):
        framelift.set_logs(3)  # type: ignore[arg-type]
    run_program()
    assert {which for which, _ in told(caplog)} == {"code"}


def test_asking_for_logs_in_a_compiled_function_is_a_break() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        framelift.set_logs("graph")
        return x + 1

    with pytest.raises(framelift.exc.Unsupported, match="set_logs"):
        framelift.compile(fn, backend="eager", fullgraph=True)(X)
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        framelift.set_logs()
        compiled(X)
        assert logs.LOGGERS["graph"].level == logging.DEBUG


# ---- in a process of its own

SCRIPT = """
import torch, framelift
def program(x, n):
    y = x.sin() * n
    print("hello")
    return y + 1
compiled = framelift.compile(program, backend={backend!r})
import os; os.chdir("/")
x = torch.ones(2, requires_grad=True)
compiled(x, 2).sum().backward()
compiled(x, 3)
"""


def run_script(tmp_path: Path, backend: str = "eager", **variables: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(backend=backend))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_")}
    return subprocess.run(
        [sys.executable, script], env=environment | variables, capture_output=True, text=True, timeout=300
    )


def test_the_environment_variable_tells_on_stderr(tmp_path: Path) -> None:
    ran = run_script(tmp_path, FRAMELIFT_LOGS="breaks,recompiles")
    assert ran.returncode == 0 and ran.stdout == "hello\n" * 2
    heads = [line for line in ran.stderr.splitlines() if not line.startswith(" ")]
    assert [head.split()[0] for head in heads] == ["framelift.breaks:", "framelift.recompiles:"]


def test_an_unknown_name_in_the_environment_is_an_error(tmp_path: Path) -> None:
    ran = run_script(tmp_path, FRAMELIFT_LOGS="brakes")
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert "FRAMELIFT_LOGS=brakes: there is no log 'brakes'; known are: graph, breaks" in last


def test_torchs_own_variable_works_too(tmp_path: Path) -> None:
    ran = run_script(tmp_path, TORCH_LOGS="+framelift")
    assert ran.returncode == 0 and "def region_of_program(" in ran.stderr and "found 3" in ran.stderr
    ran = run_script(tmp_path, TORCH_LOGS="framelift")
    assert "run-time effect: print" in ran.stderr and "def region_of_program(" not in ran.stderr


def test_torchs_logs_follow_a_trace(tmp_path: Path) -> None:
    ran = run_script(tmp_path, TORCH_LOGS="trace_source")
    found = [line.rpartition("] ")[2].strip() for line in ran.stderr.splitlines()]
    assert ran.returncode == 0 and "y = x.sin() * n" in found and "return y + 1" in found
    assert (
        found[found.index("y = x.sin() * n") - 1]
        == f"TRACE starts_line {tmp_path / 'script.py'}:4 in program"
    )


def test_torchs_logs_show_which_part_of_a_line_a_call_is(tmp_path: Path) -> None:
    ran = run_script(tmp_path, TORCH_LOGS="trace_call")
    found = [line.rpartition("] ")[2] for line in ran.stderr.splitlines()]
    assert ran.returncode == 0
    at = found.index(f"TRACE FX call y from {tmp_path / 'script.py'}:4 in program")
    assert found[at + 1 : at + 3] == ["    y = x.sin() * n", "        ~~~~~~~~^~~"]
    assert found[at + 1].index("x.sin()") == found[at + 2].index("~")


# ---- the debug directory


def test_each_compilation_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with framelift.config.patch(debug_dir=str(tmp_path)):
        run_program()
        run_program()
    (run,) = tmp_path.iterdir()
    folders = sorted(run.iterdir())
    records = framelift.compile_records()
    assert len(folders) == len(records) == 6
    assert {str(folder) for folder in folders} == {record.folder for record in records}
    first, rest, again = (Path(record.folder) for record in records[:3])
    names = {"graph.txt", "guards.txt", "code.py", "record.json"}
    assert {path.name for path in rest.iterdir()} == names
    assert {path.name for path in first.iterdir()} == names | {"breaks.txt"}
    assert {path.name for path in again.iterdir()} == names | {"breaks.txt", "recompiles.txt"}
    assert "y = x.sin() * n" in (first / "graph.txt").read_text()
    assert "n == 2" in (first / "guards.txt").read_text()
    assert "def region_of_program(" in (first / "code.py").read_text()
    assert "run-time effect" in (first / "breaks.txt").read_text()
    assert json.loads((first / "record.json").read_text())["ops"] == 2


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_a_backward_graph_is_with_its_forward(tmp_path: Path, backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin()

    # one that comes out of torch's cache on disk is not compiled
    from torch._functorch import config as cached

    with framelift.config.patch(debug_dir=str(tmp_path)), cached.patch(enable_autograd_cache=False):
        framelift.compile(fn, backend=backend)(X.clone().requires_grad_()).sum().backward()
    forward, _ = framelift.compile_records()
    text = Path(forward.folder, "backward.txt").read_text()
    assert "torch.ops.aten.cos" in text and "return (x * 2).sin()" in text


def test_a_folder_is_never_written_over(tmp_path: Path) -> None:
    record = framelift.core.records.CompileRecord("forward", "a<b>.c", "f.py", 1, compile_id="0/0")
    folders = [reporting.new_folder(tmp_path, record) for _ in range(3)]
    assert len(set(folders)) == 3 and all(folder.is_dir() for folder in folders)


def test_a_directory_that_cannot_be_made_does_not_stop_the_program(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "file").write_text("in the way")
    with framelift.config.patch(debug_dir=str(tmp_path / "file")):
        run_program()
    assert "could not be reported" in caplog.text and framelift.compile_records()[0].folder is None


def test_the_directory_can_be_given_by_the_environment(tmp_path: Path) -> None:
    ran = run_script(tmp_path, FRAMELIFT_DEBUG_DIR=os.path.relpath(tmp_path / "debug"))
    assert ran.returncode == 0 and ran.stderr == ""
    assert len(list((tmp_path / "debug").glob("run_*/*/graph.txt"))) == 3
    (times,) = (tmp_path / "debug").glob("run_*/compile_times.txt")
    assert times.read_text().startswith("phase ") and "program" in times.read_text()
    rows = times.with_suffix(".csv").read_text().splitlines()
    assert rows[0].startswith("compile_id,kind,name,file,line,trace,") and len(rows) == 4


# ---- torch's structured trace


def traced(directory: Path) -> list[tuple[dict[str, Any], str]]:
    """The records of a trace: (metadata, payload). A line with a tab before it belongs to a payload."""
    (path,) = directory.glob("dedicated_log_torch_trace_*.log")
    found: list[tuple[dict[str, Any], str]] = []
    for line in path.read_text().splitlines():
        if line.startswith("\t"):
            metadata, payload = found[-1]
            found[-1] = metadata, payload + line[1:] + "\n"
        else:
            found.append((json.loads(line.partition("] ")[2]), ""))
    return found


def named(records: list[tuple[dict[str, Any], str]], name: str) -> list[tuple[dict[str, Any], str]]:
    """Those of one kind, with their own metadata only; of an artifact by its name."""
    found = [(record.get("artifact"), record, payload) for record, payload in records]
    artifacts = [(record, payload) for kept, record, payload in found if kept and kept["name"] == name]
    return artifacts or [(record, payload) for record, payload in records if name in record]


def test_torchs_structured_trace_has_each_compilation(tmp_path: Path) -> None:
    ran = run_script(tmp_path, "aot_eager", TORCH_TRACE=str(tmp_path / "trace"))
    assert ran.returncode == 0, ran.stderr
    records = traced(tmp_path / "trace")
    starts, graphs = named(records, "dynamo_start"), named(records, "dynamo_output_graph")
    assert [(start["frame_id"], start["frame_compile_id"]) for start, _ in starts] == [(0, 0), (1, 0), (0, 1)]
    strings = {number: text for text, number in (record["str"] for record, _ in named(records, "str"))}
    calls = [strings[frame["filename"]] for frame in starts[0][0]["dynamo_start"]["stack"]]
    assert calls == [str(tmp_path / "script.py")] * 2, "the caller and the function, nothing of Framelift's"
    assert graphs[0][0]["dynamo_output_graph"]["sizes"] == {"l_x_": [2], "sin": [2], "y": [2]}
    # before print with n == 2, after it, before it with n == 3
    assert "y = x.sin() * n" in graphs[0][1] and len(graphs) == 3
    guards = json.loads(named(records, "dynamo_guards")[0][1])
    (about_n,) = [guard for guard in guards if guard["code"] == "n == 2"]
    assert about_n["user_stack"][0]["line"] == 4
    metrics = [record["compilation_metrics"] for record, _ in named(records, "compilation_metrics")]
    assert [(one["co_name"], one["graph_op_count"], one["cache_size"]) for one in metrics] == [
        ("program", 2, 0),
        ("program", 1, 0),
        ("program", 2, 1),
    ]
    assert all(one["entire_frame_compile_time_s"] > one["backend_compile_time_s"] > 0 for one in metrics)
    reasons = named(records, "dynamo_graph_break_reason")
    assert len(reasons) == 2 and "run-time effect: print" in reasons[0][1] and reasons[0][0]["frame_id"] == 0
    assert "def region_of_program(" in named(records, "framelift_generated_code")[0][1]
    assert json.loads(named(records, "recompile_reasons")[0][1]) == ["n == 2, found 3"]
    aot = named(records, "aot_forward_graph") + named(records, "aot_joint_graph")
    assert {record["frame_id"] for record, _ in aot} == {0, 1}, "what torch's compilers write has the number"


PATHS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
TLPARSE = shutil.which("tlparse", path=PATHS)


@pytest.mark.skipif(TLPARSE is None, reason="tlparse is not installed")
def test_tlparse_makes_its_usual_report_of_it(tmp_path: Path) -> None:
    assert run_script(tmp_path, "aot_eager", TORCH_TRACE=str(tmp_path / "trace")).returncode == 0
    (log,) = (tmp_path / "trace").iterdir()
    given = [str(TLPARSE), str(log), "-o", str(tmp_path / "out"), "--no-browser", "--strict-compile-id"]
    ran = subprocess.run(given, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    folders = {path.name: path for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert {"-_0_0_0", "-_1_0_0", "-_0_1_0"} <= set(folders), "a folder for each compilation"
    first, again = folders["-_0_0_0"], folders["-_0_1_0"]
    names = {path.name.rpartition("_")[0] for path in first.iterdir()}
    usual = {"dynamo_output_graph", "dynamo_guards", "compilation_metrics", "dynamo_graph_break_reason"}
    assert usual | {"aot_forward_graph", "framelift_generated_code"} <= names
    read = lambda folder, name: next(folder.glob(f"{name}_*")).read_text()  # noqa: E731
    assert "y = x.sin() * n" in read(first, "dynamo_output_graph")
    assert "n == 2" in read(first, "dynamo_guards")
    assert "run-time effect: print" in read(first, "dynamo_graph_break_reason")
    assert "n == 2, found 3" in read(again, "recompile_reasons")
    assert "program" in (tmp_path / "out" / "index.html").read_text()


# ---- by torch's names

TORCHS = {
    "graph_breaks": "Graph break in user code at",
    "recompiles": "Recompiling function program",
    "recompiles_verbose": "triggered by the following guard failure",
    "guards": "n == 2",
    "graph_code": "def forward(self, ",
    "graph_code_verbose": "TRACED GRAPH",
    "graph": " ===== __compiled_fn_",
    "graph_sizes": "y: (2)",
    "bytecode": "ORIGINAL BYTECODE program",
    "trace_source": "y = x.sin() * n",
    "trace_call": "TRACE FX call",
}


@pytest.mark.parametrize("name", TORCHS)
def test_artifacts_are_shown_by_torchs_names_with_the_compilations_number(name: str) -> None:
    text = shown_by_torch(name, run_program)
    assert TORCHS[name] in text and f"[__{name}]" in text
    assert "[0/0] [__" in text or "[0/1] [__" in text


def shown_by_torch(name: str, run: Callable[[], Any]) -> str:
    written = io.StringIO()
    torch._logging.set_logs(**{name: True})
    try:
        found: list[Any] = logging.getLogger("torch").handlers  # pytest's own are among them
        (handler,) = (each for each in found if type(each.formatter).__name__ == "TorchLogsFormatter")
        handler.setStream(written)
        run()
        handler.setStream(sys.stderr)
    finally:
        torch._logging.set_logs()
    return written.getvalue()


def test_the_stack_of_a_break_begins_with_who_called() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return x + 1

    def outer() -> Any:
        return framelift.compile(broken, backend="eager")(torch.ones(2))

    _, _, text = shown_by_torch("graph_breaks", outer).partition("User code traceback:")
    names = re.findall(r'File ".*", line \d+, in (\w+)', text)
    assert names[-2:] == ["outer", "broken"]


def test_a_graph_is_called_in_logs_as_the_backend_knows_it() -> None:
    names: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        names.append(graph.meta["backend_id"])
        return graph.forward

    compiled = framelift.compile(lambda x: torch.vmap(torch.sin)(x), backend=backend)
    text = shown_by_torch("graph_code", lambda: compiled(torch.ones(2)))
    assert f" ===== {names[0]} =====" in text
