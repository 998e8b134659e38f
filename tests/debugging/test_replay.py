"""Replay records: what fails is left in the debug directory with its arguments, and runs again."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.cli import main
from framelift.debugging import replay_records
from framelift.testing import same

X = torch.arange(6.0).reshape(2, 3)
FAILS = True


def failing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    if FAILS and any(node.target == "sin" for node in graph.graph.nodes):
        raise ValueError("no sines here")
    return graph.forward


@pytest.fixture(autouse=True)
def debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    framelift.reset()
    with framelift.config.patch(debug_dir=str(tmp_path)):
        yield
    framelift.reset()


def only(tmp_path: Path) -> Path:
    (path,) = tmp_path.glob("run_*/*/replay.pt")
    return path


@dataclasses.dataclass
class Options:
    scale: float
    names: tuple[str, ...] = ()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, *more: Any, options: Options, **rest: Any) -> torch.Tensor:
        return self.linear(x).sin() * options.scale + more[0] + rest["offset"]


def scaled(x: torch.Tensor, y: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x.sin() * n + y


# ---- what is left


def test_a_backend_that_fails_leaves_a_record_that_fails_again(tmp_path: Path, capsys: Any) -> None:
    base = torch.arange(12.0)
    with pytest.raises(framelift.exc.BackendCompilerFailed) as caught:
        framelift.compile(scaled, backend=failing)(base[:6], base[6:], n=3)
    path = only(tmp_path)
    assert f"to run it again: framelift replay {path}" in caught.value.__notes__
    record = replay_records.read(path)
    x, y, n = record.arguments
    assert (n, record.about["backend"]["name"]) == (3, "failing") and same(y, base[6:])
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr(), "they share memory, as before"
    assert (
        "no sines here" in record.about["traceback"]
        and record.about["versions"]["torch"] == torch.__version__
    )
    assert main(["replay", str(path)]) == 1
    assert f"scaled ({__file__}:" in (said := capsys.readouterr().out) and "no sines here" in said
    assert main(["replay", "--json", str(path.parent)]) == 1
    assert json.loads(capsys.readouterr().out)["error"].startswith("BackendCompilerFailed: ")


def test_what_was_repaired_is_compiled(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(scaled, backend=failing)(X, X)
    path = str(only(tmp_path))
    assert main(["replay", "--backend", "aot_eager", path]) == 0
    assert "is compiled: 1 graph(s), 0 break(s); before: " in capsys.readouterr().out
    monkeypatch.setattr(sys.modules[__name__], "FAILS", False)
    assert main(["replay", path]) == 0
    assert main(["replay", "--show", path]) == 0
    assert "ValueError: no sines here" in capsys.readouterr().out
    assert main(["replay", "--show", "--json", path]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["fullgraph"] is False


def test_models_keyword_arguments_and_objects_are_kept(tmp_path: Path, capsys: Any) -> None:
    net = Net()
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(net, backend=failing)(X, 1, options=Options(2.0, ("a",)), offset=3)
    record = replay_records.read(only(tmp_path))
    args, kwargs = record.call()
    assert same(args[0], net) and args[0] is not net and args[2] == 1
    assert kwargs == {"options": Options(2.0, ("a",)), "offset": 3}
    assert main(["replay", "--backend", "eager", str(only(tmp_path))]) == 0


def test_functions_within_functions_are_found_again(tmp_path: Path) -> None:
    weight, lock = torch.full((3,), 2.0), threading.Lock()

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * weight

    def outer(x: torch.Tensor, then: Any, depth: int = 2) -> torch.Tensor:
        return then(inner(x).sin()) if depth else outer(x, then)

    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(outer, backend=failing)(X, lambda y: y + 1)
    record = replay_records.read(only(tmp_path))
    assert same(record.function(*record.arguments), outer(X, lambda y: y + 1))
    assert record.function.__defaults__ == (2,) and record.function.__code__ is not outer.__code__


def test_the_rest_of_a_function_after_a_break_is_run_again(tmp_path: Path, capsys: Any) -> None:
    def inner(x: torch.Tensor, n: int) -> torch.Tensor:
        print("hello")
        return x.sin() * n

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        for n in range(2, 4):
            y = y + inner(y, n)
        return y

    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(fn, backend=failing)(X)
    record = replay_records.read(only(tmp_path))
    capsys.readouterr()
    expected = fn(X)
    capsys.readouterr()
    assert same(record.function(*record.arguments), expected) and capsys.readouterr().out == "hello\n"
    assert main(["replay", str(only(tmp_path))]) == 1
    assert "no sines here" in capsys.readouterr().out


def test_a_record_of_each_compilation_on_request(tmp_path: Path) -> None:
    compiled = framelift.compile(scaled, backend="eager")
    compiled(X, X)
    assert not list(tmp_path.glob("run_*/*/replay.pt"))
    with framelift.config.patch(replay_record_enabled=True):
        compiled(X.double(), X)
    assert main(["replay", str(only(tmp_path))]) == 0


@pytest.mark.faults
def test_a_fault_of_framelifts_leaves_a_record(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    def broken(*given: Any) -> Any:
        raise ZeroDivisionError("a mistake")

    with monkeypatch.context() as patched:
        patched.setattr("framelift.dispatch.tracing.generate", broken)
        assert same(framelift.compile(scaled, backend="eager")(X, X), scaled(X, X))
        path = str(only(tmp_path))
        assert main(["replay", path]) == 1
        assert "fails: bug in Framelift: ZeroDivisionError: a mistake" in capsys.readouterr().out
    assert main(["replay", path]) == 0


def test_nothing_is_left_without_a_directory_or_a_failure(tmp_path: Path) -> None:
    framelift.compile(scaled, backend="eager")(X, X)
    with framelift.config.patch(debug_dir=""), pytest.raises(framelift.exc.BackendCompilerFailed) as caught:
        framelift.compile(scaled, backend=failing)(X, X)
    assert not list(tmp_path.glob("run_*/*/replay.pt")) and not hasattr(caught.value, "__notes__")


# ---- scripts

SCRIPT = """
import torch, framelift

class Options:
    def __init__(self, scale):
        self.scale = scale

def failing(graph, inputs):
    raise ValueError("not today")

def fn(x, options):
    return x.sin() * options.scale

if __name__ == "__main__":
    print("ran")
    framelift.compile(fn, backend=failing)(torch.ones(2), Options(3))
"""


def test_what_a_script_has_is_found_in_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = {"PYTHONPATH": str(Path(framelift.__file__).parents[1]), "FRAMELIFT_DEBUG_DIR": str(tmp_path)}
    run = lambda *given: subprocess.run(  # noqa: E731
        [sys.executable, *given], capture_output=True, text=True, timeout=300, env=os.environ | paths, cwd="/"
    )
    ran = run(script)
    assert ran.returncode == 1 and "to run it again: framelift replay " in ran.stderr
    ran = run("-m", "framelift", "replay", str(only(tmp_path)))
    assert ran.returncode == 1 and "not today" in ran.stdout and "ran" not in ran.stdout.split(), ran.stderr


# ---- what can't be run


def test_what_cannot_be_saved_is_named(tmp_path: Path, capsys: Any) -> None:
    def fn(x: torch.Tensor, lock: Any) -> torch.Tensor:
        return x.sin()

    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(fn, backend=failing)(X, threading.Lock())
    assert main(["replay", str(only(tmp_path))]) == 2
    assert "lock could not be saved, so the function can't be run again (TypeError: cannot pickle" in (
        capsys.readouterr().err
    )
    assert main(["replay", "--show", str(only(tmp_path))]) == 0


def a_record(tmp_path: Path) -> bytes:
    with framelift.config.patch(replay_record_enabled=True):
        framelift.compile(scaled, backend="eager")(X, X)
    return only(tmp_path).read_bytes()


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda data: b"", "is no replay record"),
        (lambda data: b"\x00\x01", "is no replay record"),
        (lambda data: data[:10], "is no replay record"),
        (lambda data: data[:40], "that is cut off or damaged"),
        (lambda data: data[:-100], "that is cut off: it has "),
        (lambda data: data[:-100] + b"x" * 100, "that is damaged"),
        (lambda data: data.replace(b'"bytes"', b'"bites"'), "that is cut off or damaged"),
        (lambda data: data.replace(b'"python": "3.', b'"python": "2.'), "is of Python 2."),
        (lambda data: data.replace(b'test_replay.py"', b'test_replax.py"', 1), "is not there"),
    ],
)
def test_a_record_that_is_broken_or_foreign(change: Any, said: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "other.pt"
    path.write_bytes(change(a_record(tmp_path)))
    assert main(["replay", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("framelift: ") and said in line


@pytest.mark.parametrize("given", [["missing.pt"], ["."], ["--backend", "none", "x"]])
def test_a_mistake_is_said_in_a_sentence(given: list[str], capsys: Any) -> None:
    assert main(["replay", *given]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_function_that_is_gone(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    source = tmp_path / "program_to_replay.py"
    monkeypatch.delitem(sys.modules, "program_to_replay", raising=False)
    source.write_text("def fn(x):\n    return x.sin()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import program_to_replay  # type: ignore[import-not-found]

    with framelift.config.patch(replay_record_enabled=True):
        framelift.compile(program_to_replay.fn, backend="eager")(X)
    for text, code in {
        "# moved\n\ndef fn(x):\n    return x.cos()\n": 0,
        "def other(x):\n    return x\n": 2,
        "def": 2,
    }.items():
        source.write_text(text)
        assert main(["replay", str(only(tmp_path))]) == code
    assert "has no function(s) fn" in (said := capsys.readouterr().err) and "can't be read" in said
