"""What is compiled is shown on a terminal, and nowhere else."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
import torch

import framelift
from framelift.core.records import listening
from framelift.debugging import progress
from framelift.debugging.progress import Progress

WAIT = 0.02


def slow_backend(seconds, look=lambda: None):
    def backend(graph, inputs):
        look()
        time.sleep(seconds)
        return graph.forward

    return backend


def lines_on(screen):
    """What stands on a terminal after all that was written: text, and the line below it."""
    rows, row, column, kept = [[]], 0, 0, (0, 0)
    for token in re.findall(r"\x1b\[[AB]|\x1b\[K|\x1b[78D]|\r|\n|[^\x1b]", screen):
        if token in ("\x1bD", "\x1b[B", "\n"):
            row += 1
            rows += [[]] * (row == len(rows) and token != "\x1b[B")
            column = 0 if token == "\n" else column
        elif token == "\x1b[A":
            row -= 1
        elif token == "\r":
            column = 0
        elif token == "\x1b[K":
            rows[row] = rows[row][:column]
        elif token == "\x1b7":
            kept = row, column
        elif token == "\x1b8":
            row, column = kept
        else:
            rows[row] = [
                *rows[row][:column],
                *" " * (column - len(rows[row])),
                token,
                *rows[row][column + 1 :],
            ]
            column += 1
    return ["".join(row) for row in rows], (row, column)


def test_the_line_says_what_is_done_and_how_long_already():
    framelift.reset()
    showing, lines = Progress(io.StringIO(), 60.0), []
    look = lambda *_: lines.append(showing.line())

    def traced(x):
        framelift.comptime(look)
        return x + 1

    with listening(showing.hear):
        for _ in range(2):
            framelift.compile(traced, backend=slow_backend(0, look))(torch.ones(2))
            framelift.reset()
    what = rf"framelift: .*traced \({re.escape(__file__)}:\d+\)"
    for line, phase in zip(lines, ["tracing", "compiling a graph of 3 nodes"] * 2, strict=True):
        assert re.fullmatch(rf"{what}: {phase}, \d+\.\d s(; 1 before it)?", line)
    assert lines[2].endswith("; 1 before it") and not showing.active
    assert showing.stream.getvalue() == ""


def test_the_line_comes_below_what_the_program_has_written_and_goes():
    screen = io.StringIO()
    screen.write("first\nhalf a li")
    showing, seen = Progress(screen, WAIT), []

    def look():
        while not showing.is_shown:
            time.sleep(WAIT)
        seen.append(lines_on(screen.getvalue()))

    with listening(showing.hear):
        framelift.compile(lambda x: x + 1, backend=slow_backend(0, look))(torch.ones(2))
    screen.write("ne\nlast")
    (((first, half, shown), place),) = seen
    assert (first, half, place) == ("first", "half a li", (1, 9))
    assert shown.startswith("framelift: ")
    assert lines_on(screen.getvalue())[0] == ["first", "half a line", "last"]


def test_what_is_done_at_once_is_not_shown():
    screen = io.StringIO()
    showing = Progress(screen)
    with listening(showing.hear):
        framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert screen.getvalue() == ""


def test_an_error_takes_the_line_away():
    screen = io.StringIO()
    showing = Progress(screen, WAIT)

    def failing(graph, inputs):
        while not showing.is_shown:
            time.sleep(WAIT)
        raise ValueError

    with listening(showing.hear), pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(lambda x: x + 1, backend=failing)(torch.ones(2))
    assert "".join(lines_on(screen.getvalue())[0]) == ""


def test_a_stream_that_is_closed_stops_nothing():
    screen = io.StringIO()
    showing = Progress(screen, WAIT)
    screen.close()
    with listening(showing.hear):
        framelift.compile(lambda x: x + 1, backend=slow_backend(5 * WAIT))(torch.ones(2))


TERMINALS = {("terminal", "xterm"): True, ("terminal", "dumb"): False, ("file", "xterm"): False}


@pytest.mark.parametrize("stream, variable", TERMINALS)
def test_only_terminals_that_can_do_it_are_written_to(stream, variable, monkeypatch):
    made = io.StringIO()
    made.isatty = lambda: stream == "terminal"
    monkeypatch.setenv("TERM", variable)
    assert progress.is_terminal(made) is TERMINALS[stream, variable]
    assert progress.is_terminal(None) is False


PROGRAM = """
import sys, time, torch
from framelift import compile
def backend(graph, inputs):
    time.sleep(2.5)
    return graph.forward
print("before", end=" ", flush=True)
y = compile(lambda x: x + 1, backend=backend)(torch.ones(2))
print("after", y.tolist())
"""


def on_a_terminal(**variables):
    """What a plain script writes to a terminal, both streams."""
    mine, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=its, stdout=its, stderr=its, env=environment, close_fds=True
    )
    os.close(its)
    written = b""
    while True:
        if select.select([mine], [], [], 120)[0]:
            try:
                got = os.read(mine, 65536)
            except OSError:  # the other end is closed
                break
            if not got:
                break
            written += got
    os.close(mine)
    assert process.wait() == 0
    return written.decode()


def test_a_plain_script_shows_it_and_its_output_is_what_it_was():
    written = on_a_terminal()
    assert "compiling a graph of 3 nodes" in written
    assert lines_on(written.replace("\r\n", "\n"))[0][0] == "before after [2.0, 2.0]"
    assert "framelift" not in "".join(lines_on(written.replace("\r\n", "\n"))[0])


def test_an_option_turns_it_off():
    assert on_a_terminal(FRAMELIFT_PROGRESS="0").split() == ["before", "after", "[2.0,", "2.0]"]
