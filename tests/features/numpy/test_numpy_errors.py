"""Floating-point errors: what NumPy does about them is what the program has set, in every call."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from check import compare, run

NUMBERS = {
    "quotient": lambda x: (x + 1, np.float64(1) / np.float64(0)),
    "overflow": lambda x: (x + 1, np.float32(3e38) * np.float32(10)),
    "underflow": lambda x: (x + 1, np.float32(1e-38) * np.float32(1e-38)),
    "integers": lambda x: (x + 1, np.int64(1) // np.int64(0)),
    "logarithm": lambda x: (x + 1, np.log(0.0)),
    "root": lambda x: (x + 1, np.sqrt(np.float64(-1))),
    "power": lambda x: (x + 1, np.float64(10) ** 1000),
    "in a helper": lambda x: (x + 1, [np.float64(n) / np.float64(0) for n in range(2)]),
    "ignored inside": lambda x: (x + 1, quietly(lambda: np.float64(1) / np.float64(0))),
}
ARRAYS = {
    "quotient": lambda a: a / (a - a),
    "logarithm": lambda a: np.log(a - a),
    "overflow": lambda a: np.exp(a * 1e6),
    "invalid": lambda a: np.isnan(np.sqrt(-a)),
    "of a tensor": lambda a: torch.from_numpy(a).mul(2).numpy() / np.zeros(3),
    "no error": lambda a: a + 1,
    "ignored inside": lambda a: quietly(lambda: np.log(a - a)),
}
STATES: list[dict[str, Any]] = [
    *({"all": how} for how in ("warn", "ignore", "raise", "ignore", "warn", "raise", "raise")),
    {"all": "call", "call": lambda *told: None},
    {"divide": "raise"},
    {"all": "ignore", "over": "raise"},
]


def quietly(compute: Any) -> Any:
    with np.errstate(all="ignore"):
        return compute()


def outcomes(fn: Any, given: Any, state: dict[str, Any], told: list[Any]) -> Any:
    settings = dict(state)
    if "call" in settings:
        settings["call"] = lambda kind, flags: told.append((kind, flags))
    with warnings.catch_warnings(record=True) as noted, np.errstate(**settings):
        warnings.simplefilter("always")
        found = run(fn, (given,), {})
    return found, [(str(w.message), w.category) for w in noted]


@pytest.mark.parametrize("name", NUMBERS)
def test_errors_of_numbers_are_told_in_every_call(name: str) -> None:
    fn = NUMBERS[name]
    compiled = framelift.compile(fn, backend="eager")
    for state in STATES:
        by_plain: list[Any] = []
        by_compiled: list[Any] = []
        expected, noted = outcomes(fn, torch.ones(2), state, by_plain)
        found, noted_by_compiled = outcomes(compiled, torch.ones(2), state, by_compiled)
        compare(expected, found)
        assert (noted_by_compiled, by_compiled) == (noted, by_plain), state


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("first", range(3))
def test_errors_of_arrays_raise_where_they_are_to(name: str, first: int) -> None:
    """Warnings of arrays are not given: a graph does not tell what was divided by zero."""
    fn = ARRAYS[name]
    as_tensor = lambda a: torch.from_numpy(fn(a))
    compiled = framelift.compile(as_tensor, backend="eager")
    for state in itertools.chain(STATES[first:], STATES[:first]):
        by_plain: list[Any] = []
        by_compiled: list[Any] = []
        expected, _ = outcomes(as_tensor, np.ones(3), state, by_plain)
        found, _ = outcomes(compiled, np.ones(3), state, by_compiled)
        expected.arguments = found.arguments = None
        compare(expected, found)
        assert by_compiled == by_plain, state


@pytest.mark.parametrize("inside", ["raise", "ignore"])
def test_a_state_that_the_program_enters(inside: str) -> None:
    def program(a: Any) -> Any:
        with np.errstate(all=inside):
            return torch.from_numpy(np.log(a - a))

    compiled = framelift.compile(program, backend="eager")
    for around in ("ignore", "raise", "warn"):
        with np.errstate(all=around), contextlib.suppress(RuntimeWarning), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = run(program, (np.ones(2),), {}), run(compiled, (np.ones(2),), {})
            expected.arguments = found.arguments = None
            compare(expected, found)


def test_a_state_like_another_is_not_compiled_for_again() -> None:
    compiled = framelift.compile(lambda a: np.exp(a) + 1, backend="eager", fullgraph=True)
    for _ in range(4):
        with np.errstate(all="ignore"):
            compiled(np.ones(2))
    entries = [state.cache for state in compiled._framelift_context.code_states.values()]
    assert len(entries) == 1
    assert len(entries[0]) == 1
