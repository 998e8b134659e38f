"""The catalogue of programs without tensors (`tests/torchless/programs`), each called by a compiled function.

What a program does must not depend on who calls it. Where it breaks, and why, is in `torchless_breaks.py`,
which this file writes anew when it is run (look at the difference before it is committed):

    python tests/conformance/test_torchless_catalogue.py

and which goes to `ruff format` then. Another Python has other libraries: `BREAKS_ON` has what differs there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "torchless")]

from catalogue import CATALOGUE, Outcome, Program, observe  # noqa: E402
from torchless_breaks import BREAKS, BREAKS_ON  # noqa: E402

import framelift  # noqa: E402
from check import reasons  # noqa: E402

TABLE = HERE / "torchless_breaks.py"
HEAD = '''"""Which programs of the catalogue without tensors break within a compiled function, and why.

Written by `test_torchless_catalogue.py`.
"""

'''
ABOUT_OTHERS = '''"""On the oldest Python that has the program."""

BREAKS_ON: dict[str, dict[str, tuple[str, ...]]] = '''


def calling(program: Program) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        result = program()
        return y * 2, result

    return f


def ran(fn: Any, tensors: list[Any]) -> Outcome:
    def run() -> object:
        tensor, result = fn(torch.ones(2))
        tensors.append(tensor)
        return result

    return observe(run)


def compiled_as_eagerly(program: Program) -> set[str]:
    """Compares two calls of the program with what it does eagerly, and gives the reasons why it broke."""
    fn = calling(program)
    compiled = framelift.compile(fn, backend="eager")
    expected = observe(program)
    for _ in range(2):
        tensors: list[Any] = []
        found = ran(compiled, tensors)
        assert found == expected
        assert expected.raised or torch.equal(tensors[0], torch.full((2,), 4.0))
    return set(reasons(compiled))


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    framelift.reset()
    yield
    framelift.reset()


MADE_FRAMES = "after a break, the frames in a traceback are made for it: without a line, and nothing to clear"
KNOWN = {
    "classes::del_runs_when_the_last_reference_goes": (
        "after a break in a function that was called, its caller holds its variables until it returns"
    ),
    "callbacks_from_c::weak_references_and_finalizers": "a value that dies is finalised later",
    "metaclasses::enumerating_subclasses": "a variable that is not read again is gone after a break",
    "frames_and_tracebacks::a_traceback_of_ones_own": MADE_FRAMES,
    "frames_and_tracebacks::cleared_frames_let_go_of_their_variables": MADE_FRAMES,
    "frames_and_tracebacks::the_line_of_a_frame_is_where_it_first_raised": (
        "an error that goes through a `with` of a resumed frame leaves that at the line of the `with`"
    ),
    "generators::a_broken_close_of_what_is_delegated_to": (
        "an error in the end of a generator that is dropped in a trace is not reported as unraisable"
    ),
}
"""Programs that behave differently, and how. The architecture's page names the first two differences."""


VERSION = "{}.{}".format(*sys.version_info)
OLDEST = "3.11"


def expected_of(name: str) -> tuple[str, ...]:
    return BREAKS_ON.get(VERSION, {}).get(name, BREAKS.get(name, ()))


def is_first_here(name: str) -> bool:
    """Whether this is the oldest Python that has the program."""
    module = name.partition("::")[0]
    return VERSION == (f"3.{module[len('python3') :]}" if module.startswith("python3") else OLDEST)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in KNOWN])
def test_within_a_compiled_function(name: str) -> None:
    assert compiled_as_eagerly(CATALOGUE[name]) == set(expected_of(name))


def test_the_table_is_of_programs_that_are_there() -> None:
    assert {name for name in BREAKS if not name.startswith("python3")} <= set(CATALOGUE)


def write_table() -> None:
    first, failed = dict(BREAKS), {}
    others: dict[str, tuple[str, ...]] = {}
    for name, program in CATALOGUE.items():
        if name in KNOWN:
            continue
        framelift.reset()
        try:
            why = tuple(sorted(compiled_as_eagerly(program)))
        except Exception as error:
            failed[name] = error
            continue
        if is_first_here(name):
            first[name] = why
        elif why != first.get(name, ()):
            others[name] = why
    rows = [f"    {name!r}: {why!r},\n" for name, why in sorted(first.items()) if why]
    on = dict(sorted((BREAKS_ON | ({VERSION: dict(sorted(others.items()))} if others else {})).items()))
    TABLE.write_text(
        f"{HEAD}BREAKS: dict[str, tuple[str, ...]] = {{\n{''.join(rows)}}}\n{ABOUT_OTHERS}{on!r}\n"
    )
    for name, error in failed.items():
        print(f"{name}: {type(error).__name__}: {str(error)[:600]}")


if __name__ == "__main__":
    write_table()
