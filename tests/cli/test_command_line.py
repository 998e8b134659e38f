"""The command line: what it prints, its exit codes, and that what is wrong is said in one sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from framelift.cli import doctor, main
from framelift.core.versions import DISTRIBUTION

MODULE = """
import torch

def scaled(x, n=1):
    y = x.sin() * n
    print("hello")
    return y + 1

@torch.compile
def decorated(x):
    return scaled(x, 2)

def fails(x):
    raise KeyError("no such thing")

net = torch.nn.Linear(3, 2)
number = 3
"""

SCRIPT = """
import sys
import torch

@torch.compile
def scaled(x, n):
    y = x.sin() * n
    print("hello", *sys.argv[1:])
    return y + 1

x = torch.ones(3)
assert torch.equal(scaled(x, 2), x.sin() * 2 + 1)
scaled(x, 3)
net = torch.nn.Linear(3, 2)
net.compile(backend="eager")
net(torch.ones(1, 3))
assert __name__ == "__main__" and torch.compile.__module__.startswith("framelift.")
{end}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "subject_of_explain.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("subject_of_explain", None)
    framelift.reset()


def script(folder: Path, end: str = "") -> str:
    path = folder / "script.py"
    path.write_text(SCRIPT.format(end=end))
    return str(path)


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(framelift.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-m", "framelift", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env=environment,
    )


# ---- doctor and backends


def test_doctor_says_what_is_there_and_that_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert (
        re.search(rf"torch +{re.escape(torch.__version__.partition('+')[0])}", text) and "FAILED" not in text
    )
    assert main(["doctor", "--json", "--backend", "aot_eager"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] and len(data["checks"]) == 7 and all(each["ok"] for each in data["checks"])
    assert data["versions"]["framelift"] == framelift.__version__


@pytest.mark.parametrize("extension", ["frame_hook", "guards"])
def test_doctor_fails_where_an_extension_does(extension: str, monkeypatch: Any, capsys: Any) -> None:
    if extension == "frame_hook":
        monkeypatch.setattr("framelift.interpreter.plain.interpret", lambda *args, **kwargs: [1, 2, 3])
    else:
        monkeypatch.setattr(framelift, "compile", lambda fn, **settings: lambda x, n: x)
    assert main(["doctor"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 1 and "wrong result" in failed[0]


def test_doctor_knows_what_is_not_supported(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(doctor, "version_of", lambda package: "1.13.1")
    assert main(["doctor"]) == 1
    assert "1.13.1 is not; supported are 2.11 to 2.13" in capsys.readouterr().out


def test_doctor_sees_that_another_project_has_written_into_the_package(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """As `pip install framelift` does, which gets that project."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "framelift"
    package.mkdir()
    for name in ("__init__.py", "exc.py"):
        (package / name).touch()
    monkeypatch.setattr(framelift, "__file__", str(package / "__init__.py"))
    for name, files in {"framelift": ["framelift/__init__.py"], DISTRIBUTION: ["framelift/exc.py"]}.items():
        about = tmp_path / f"{name.replace('-', '_')}-0.7.1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.7.1\n")
        (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    assert main(["doctor"]) == 1
    (failed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert "framelift 0.7.1 is another project" in failed and "pip uninstall framelift, then" in failed


def test_nothing_says_to_install_what_the_package_index_has_under_the_name_of_the_module() -> None:
    root = Path(__file__).parents[2]
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION
    texts = [
        root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
    ]
    for folder, kinds in {"docs": "*.md", "src": "*.py", "bench": "*.py", "examples": "*.py"}.items():
        texts += (root / folder).rglob(kinds)
    said = [line for text in texts for line in re.findall(r"pip install .*", text.read_text())]
    named = [
        word for line in said for word in re.findall(r"(?<![\w./-])framelift[\w-]*", line.partition("#")[0])
    ]
    assert len(named) > 5 and set(named) == {DISTRIBUTION}, named


def test_doctor_says_of_versions_what_the_package_does() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (_, last), (least, most) = doctor.SUPPORTED["python"], doctor.SUPPORTED["torch"]
    assert project["requires-python"] == f">=3.11,<3.{last[1] + 1}"
    assert f"torch>=2.{least[1]},<2.{most[1] + 1}" in project["dependencies"]
    assert project["scripts"]["framelift"] == "framelift.cli:main"


def test_backends_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backends"]) == 0
    assert re.search(r"^eager +Runs the graph as captured\.$", capsys.readouterr().out, re.MULTILINE)
    assert main(["backends", "--json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)]
    assert names == framelift.list_backends()


# ---- explain


def test_a_function_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["explain", "subject_of_explain:scaled", "--arg", "torch.ones(3)", "--arg", "n=number"]
    assert main(given) == 0
    text = capsys.readouterr().out
    assert "scaled: 2 graph(s), 3 op(s)" in text and '!     print("hello")' in text and "n == 3" in text
    assert main([given[0], "--source", *given[1:]]) == main([*given, "--source"]) == 0
    assert "graph(s)" not in capsys.readouterr().out
    assert main([*given, "--json"]) == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    # before and after print
    assert (data["graph_count"], data["op_count"], data["graph_break_count"]) == (2, 3, 1)
    assert printed.err == "hello\n", "what the program prints does not come between"


def test_what_torch_compile_decorates_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "subject_of_explain:decorated", "--arg", "torch.ones(3)", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    # before and after print
    assert (data["graph_count"], data["op_count"], data["graph_break_count"]) == (2, 3, 1)


def test_a_module_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "subject_of_explain:net", "--arg", "torch.ones(1, 3)", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["op_count"] == 1


@pytest.mark.parametrize("end, code", [("", 0), ("sys.exit(3)", 3)])
def test_a_script_is_explained(folder: Path, capsys: Any, end: str, code: int) -> None:
    assert main(["explain", "--json", script(folder, end), "--flag"]) == code
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    assert printed.err == "hello --flag\n" * 2
    # before print with n == 2 and n == 3, after it, and net
    assert (data["graph_count"], data["graph_break_count"], data["op_count"]) == (4, 1, 6)
    assert data["recompilations"][0]["failures"][0]["guard"] == "n == 2"
    (function,) = [each for each in data["source"] if each["name"] == "scaled"]
    assert [line["mark"] for line in function["lines"]][2:] == ["captured", "broken", "captured"]


# ---- run


def test_a_script_runs_with_framelift_behind_torch_compile(folder: Path) -> None:
    ran = command("run", "--backend", "eager", script(folder), "a", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "hello a --json\n" * 2, "what stands after the script is the script's"
    first, *rest = ran.stderr.splitlines()
    assert first == "framelift: 2 function(s), 4 graph(s), 6 op(s), 1 break(s), 1 recompilation(s)"
    assert any("break: run-time effect at " in line and "script.py:8" in line for line in rest)
    assert "  compiled again: scaled: n == 2, found 3" in rest


def test_the_summary_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.compile
    assert main(["run", "--json", "--backend", "eager", script(folder)]) == 0
    assert torch.compile is before
    data = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (data["graphs"], data["ops"], data["compilations"]) == (4, 6, 4)
    assert data["breaks"][0]["name"] == "run-time effect" and data["breaks"][0]["times"] == 2
    assert data["failed"] == [] and data["seconds"] > data["backend_seconds"] > 0


@pytest.mark.parametrize(
    "end, code, last",
    [
        ("sys.exit(7)", 7, None),
        ("sys.exit()", 0, None),
        ("sys.exit('that was that')", 1, "that was that"),
        ("raise ValueError('oh')", 1, "ValueError: oh"),
    ],
)
def test_the_exit_code_is_the_scripts(folder: Path, capsys: Any, end: str, code: int, last: str) -> None:
    assert main(["run", "--backend", "eager", script(folder, end)]) == code
    errors = capsys.readouterr().err
    assert last is None or last in errors.splitlines()
    assert "framelift: 2 function(s)" in errors and "runpy" not in errors


FUNCTIONS = """
import torch
from subject_of_explain import scaled

def step(x):
    return x.sin() + 1

class Net(torch.nn.Module):
    def forward(self, x):
        return step(x) * 2

net = Net()
assert torch.equal(net(torch.ones(3)), step(torch.ones(3)) * 2)
scaled(torch.ones(3))
"""


@pytest.mark.parametrize(
    "names, functions, graphs",
    [(["step"], 1, 1), (["Net.forward", "step"], 2, 2), (["subject_of_explain:scaled"], 1, 2)],
)
def test_chosen_functions_are_compiled(
    folder: Path, capsys: Any, names: list[str], functions: int, graphs: int
) -> None:
    (folder / "functions.py").write_text(FUNCTIONS)
    chosen = [part for name in names for part in ("--function", name)]
    assert main(["run", "--json", "--backend", "eager", *chosen, "functions.py"]) == 0
    data = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (data["functions"], data["graphs"]) == (functions, graphs)


# ---- bench


def test_a_function_is_timed_plainly_and_compiled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["bench", "--backend", "eager", "--input", "torch.ones(3)", "--times", "3"]
    assert main([*given, "subject_of_explain:decorated"]) == 0
    text = capsys.readouterr().out.replace("hello\n", "")
    assert text.startswith("subject_of_explain:decorated: 2 graph(s), 1 break(s), backend eager; medians of")
    assert main([*given, "--json", "subject_of_explain:net.forward"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["same"] and data["speedup"] > 0 and data["first_call_seconds"] > data["compile_seconds"] > 0


def test_results_that_differ_are_said_to_when_timed(folder: Path, capsys: Any) -> None:
    framelift.register_backend(lambda graph, inputs: lambda *given: [t + 1 for t in graph(*given)], "off")
    try:
        assert main(["bench", "--backend", "off", "--arg", "torch.ones(3)", "subject_of_explain:net"]) == 1
    finally:
        del framelift.dispatch.backend_names._registered["off"]
    assert "the results differ: the result: 2 of 2 elements differ" in capsys.readouterr().out


# ---- progress


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals_only(folder: Path, monkeypatch: Any, terminal: bool, capsys: Any) -> None:
    from framelift.cli import progress

    shown = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(progress.Progress, "hear", lambda self, note, phase: shown.append(phase))
    assert main(["run", "--backend", "eager", script(folder)]) == 0
    assert bool(shown) is terminal and shown.count("done") == (4 if terminal else 0)
    assert capsys.readouterr().out == "hello\nhello\n"


# ---- mistakes


@pytest.mark.parametrize(
    "given, said",
    [
        (["run", "missing.py"], "framelift: there is no file missing.py"),
        (["run", "--backend", "none", "script.py"], "framelift: Invalid backend: 'none'; known are: "),
        (["explain", "missing.py"], "framelift: there is no file missing.py"),
        (["explain", "nothing"], "framelift: 'nothing' is neither module:function nor a script"),
        (["explain", "no_such_module:f"], "framelift: no_such_module can't be imported: No module named"),
        (["explain", "subject_of_explain:f"], "framelift: subject_of_explain has no f"),
        (["explain", "subject_of_explain:number"], "subject_of_explain:number is not a function but a int"),
        (["explain", "subject_of_explain:scaled", "x"], "framelift: 'x' is one too many"),
        (["explain", "subject_of_explain:scaled", "--arg", "1 +"], "framelift: --arg '1 +': SyntaxError"),
        (["explain", "subject_of_explain:scaled", "--backend", "no"], "framelift: Invalid backend: 'no'"),
        (["explain", "--arg", "1", "script.py"], "framelift: --arg is for a function"),
        (["explain", "subject_of_explain:scaled", "--input", "torch.no()"], "--arg 'torch.no()': "),
        (["run", "--function", "no_such:f", "subject_of_explain.py"], "no_such can't be imported"),
        (["run", "--function", "torch:oops", "subject_of_explain.py"], "torch has no function oops"),
        (["run", "--function", "oops", "subject_of_explain.py"], "defines no function oops"),
        (["bench", "subject_of_explain:oops"], "framelift: subject_of_explain has no oops"),
        (["bench", "--times", "0", "subject_of_explain:scaled"], "framelift: --times 0: at least one call"),
        (["bench", "--backend", "oops", "x:y"], "framelift: Invalid backend: 'oops'"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(given: list[str], said: str, folder: Path, capsys: Any) -> None:
    assert main(given) == 2
    printed = capsys.readouterr()
    assert said in printed.err and len(printed.err.splitlines()) == 1 and not printed.out


def test_a_wrong_setting_is_said_in_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMELIFT_LOGS", "brakes")
    ran = command("run", script(folder), cwd=folder)
    assert ran.returncode == 2 and ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("framelift: FRAMELIFT_LOGS=brakes: there is no log 'brakes'; known are: graph, ")


def test_a_function_that_raises(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "subject_of_explain:fails", "--arg", "torch.ones(1)"]) == 1
    assert capsys.readouterr().err == "framelift: subject_of_explain:fails raised KeyError: 'no such thing'\n"


def test_wrong_usage_and_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["dctor"], ["run"]):
        with pytest.raises(SystemExit) as left:
            main(given)
        assert left.value.code == 2
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0 and f"framelift {framelift.__version__}" in capsys.readouterr().out
