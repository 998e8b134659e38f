"""Tools that `sys.settrace` serves: what counts lines sees those that were captured, and debuggers that step
pass over Framelift."""

from __future__ import annotations

import contextlib
import io
import pdb
import subprocess
import sys
import trace
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
import torch

import framelift
from framelift.core import tracers

X = torch.ones(2)
OWN = str(framelift.__path__[0])
Line = tuple[str, int]


# ---- lines


class Lines:
    """Which lines of this file run, and which line follows which."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.steps: set[tuple[str, int, int]] = set()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        sys.settrace(self.called)
        try:
            yield
        finally:
            sys.settrace(None)

    def called(self, frame: FrameType, what: str, arg: Any) -> Any:
        if frame.f_code.co_filename != __file__ or frame.f_code.co_name in ("__exit__", "__call__"):
            return None
        before = -frame.f_code.co_firstlineno

        def traced(frame: FrameType, what: str, arg: Any) -> Any:
            nonlocal before
            if what == "line":
                self.seen.add(frame.f_lineno)
                self.steps.add((frame.f_code.co_name, before, frame.f_lineno))
                before = frame.f_lineno
            return traced

        return traced


def helper(x: torch.Tensor, n: int) -> Any:
    total: Any = 0
    for i in range(n):
        if i % 2:
            total = total + x
        else:
            total = total - 1
    return total


def whole(x: torch.Tensor) -> Any:
    ordered = sorted(
        [3, 1, 2],
        key=lambda value: -value,
    )
    y = helper(x, ordered[0])
    if ordered[0] == 5:
        y = y + 9
    return y


def handling(x: torch.Tensor) -> Any:
    try:
        {}["missing"]
    except KeyError:
        x = x + 1
    finally:
        x = x * 2
    return x


def generating(x: torch.Tensor) -> Any:
    def items() -> Iterator[torch.Tensor]:
        yield x
        yield (x + 1)

    return sum(items())


def breaking(x: torch.Tensor) -> Any:
    y = x + 1
    print("a break")
    if y.sum() > 0:
        y = y + 1
    return helper(y, 3)


@pytest.mark.parametrize("fn", [whole, handling, generating, breaking])
def test_lines_are_counted_as_in_eager(fn: Callable[[torch.Tensor], Any]) -> None:
    expected, found = Lines(), Lines()
    with expected():
        result = fn(X)
    compiled = framelift.compile(fn, backend="eager")
    with found():
        assert torch.equal(compiled(X), result)
    assert found.seen == expected.seen
    if fn not in (breaking, generating):  # where functions are entered more than once
        assert found.steps == expected.steps


def test_the_standard_librarys_counter() -> None:
    counter = trace.Trace(count=1, trace=0)
    counter.runfunc(framelift.compile(whole, backend="eager"), X)
    counts = {line for file, line in counter.results().counts if file == __file__}
    first = helper.__code__.co_firstlineno
    assert {first + 1, first + 2, first + 3, first + 4, first + 6, first + 7} <= counts


def test_lines_of_a_backend_and_of_what_it_runs() -> None:
    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compiled = graph.forward
        return compiled

    lines = Lines()
    with lines():
        framelift.compile(lambda x: x + 1, backend=backend)(X)
    first = backend.__code__.co_firstlineno
    assert {first + 1, first + 2} <= lines.seen


def test_nothing_is_noted_without_a_tool() -> None:
    assert not tracers.counts_lines()
    with Lines()():
        assert tracers.counts_lines()


# ---- debuggers


def session(fn: Callable[[], Any], commands: list[str]) -> tuple[Any, list[Line]]:
    """Where a debugger stands after each command, and its output."""
    out = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO("\n".join([*commands, "c"]) + "\n"), stdout=out, nosigint=True, readrc=False
    )
    debugger.runcall(fn)
    stops = [line.removeprefix("(Pdb) ") for line in out.getvalue().splitlines()]
    stops = [line[2:] for line in stops if line.startswith("> ")]
    places = [line.partition(")")[0].rpartition("(") for line in stops]
    return out.getvalue(), [(file, int(number)) for file, _, number in places]


def files(places: list[Line]) -> set[str]:
    return {file for file, _ in places}


WRAPPER = f"{OWN}/api/compile.py"


def test_steps_go_through_the_program_alone() -> None:
    compiled = framelift.compile(breaking, backend="eager")

    def program() -> Any:
        first = compiled(X)
        second = compiled(X)
        return first + second

    _, places = session(program, ["s"] * 60)
    assert {file for file in files(places) if file.startswith(OWN)} == {WRAPPER}
    assert not [file for file in files(places) if file.startswith("<framelift")]
    assert (__file__, breaking.__code__.co_firstlineno + 2) in places  # the break is run by CPython
    assert places[-1][0] == __file__ or len(places) == 61


def test_what_is_behind_a_call_is_reached() -> None:
    compiled = framelift.compile(whole, backend="eager")

    def program() -> Any:
        first = compiled(X)
        return first

    start = program.__code__.co_firstlineno
    _, places = session(program, ["n", "n", "n"])
    assert places[:2] == [(__file__, start + 1), (__file__, start + 2)]


def test_a_backend_is_stepped_through_and_stopped_in() -> None:
    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compiled = [graph]
        return compiled[0]

    compiled = framelift.compile(lambda x: x + 1, backend=backend)
    first = backend.__code__.co_firstlineno

    def program() -> Any:
        return compiled(X)

    _, places = session(program, ["s"] * 8)
    assert (__file__, first + 1) in places and (__file__, first + 2) in places
    framelift.reset()
    _, places = session(program, [f"b {__file__}:{first + 2}", "c"])
    assert places[-1] == (__file__, first + 2)


PROGRAM = """
import torch, framelift

def backend(graph, inputs):
    breakpoint()
    return graph.forward

def fn(x):
    y = x + 1
    breakpoint()
    return y * 2

print(framelift.compile(fn, backend=backend)(torch.ones(2)))
"""


STOPS = ["6)backend", "10)fn", "6)backend"]
if sys.version_info >= (3, 13):  # whose breakpoint() stops where it stands
    STOPS = ["5)backend", "10)fn", "5)backend"]


def test_breakpoint_in_captured_code_and_in_a_backend(tmp_path: Any) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, path], input="c\n" * 3, capture_output=True, text=True)
    stops = [line.partition("program.py(")[2] for line in done.stdout.splitlines() if "program.py" in line]
    assert [stop.partition("()")[0] for stop in stops] == STOPS, done.stdout
    assert "tensor([4., 4.])" in done.stdout
    done = subprocess.run([sys.executable, path], input="q\n", capture_output=True, text=True)
    assert done.returncode and done.stderr.rstrip().endswith("bdb.BdbQuit"), done.stderr


class Stepping(pdb.Pdb):
    def __init__(self) -> None:
        super().__init__(stdin=io.StringIO(), stdout=io.StringIO(), readrc=False, nosigint=True)

    def user_line(self, frame: FrameType) -> None:
        self.set_step()

    def user_call(self, frame: FrameType, arg: Any) -> None:
        self.set_step()

    user_return = user_call


def test_what_was_set_is_there_afterwards() -> None:
    debugger = Stepping()
    compiled = framelift.compile(breaking, backend="eager")
    debugger.reset()
    sys.settrace(debugger.trace_dispatch)
    try:
        before = sys.gettrace()
        compiled(X)
        assert sys.gettrace() == before
    finally:
        sys.settrace(None)
    compiled(torch.ones(3))
    assert sys.gettrace() is None


def test_who_quits_quits(capsys: pytest.CaptureFixture[str]) -> None:
    """The frame is not run once more, as it is when a graph has failed."""

    class Quitting(Stepping):
        def user_call(self, frame: FrameType, arg: Any) -> None:
            if frame.f_code.co_name == "forward":
                self.set_quit()
            else:
                self.set_step()

    compiled = framelift.compile(breaking, backend="eager")
    debugger = Quitting()
    assert debugger.runcall(lambda: [compiled(X), print("went on")]) is None
    assert capsys.readouterr().out == ""


def test_debuggers_of_editors_are_known() -> None:
    class Tracer:
        def dispatch(self, frame: FrameType, what: str, arg: Any) -> Any: ...

    assert not tracers.is_debugger(Tracer().dispatch) and not tracers.is_debugger(print)
    Tracer.__module__ = "_pydevd_bundle.pydevd_trace_dispatch"
    assert tracers.is_debugger(Tracer().dispatch)
    assert tracers.is_debugger(pdb.Pdb(stdin=io.StringIO(), readrc=False, nosigint=True).trace_dispatch)
