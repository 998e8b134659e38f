"""Warnings that a program gives: told as eagerly, whatever the filters around the call are."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import capture, entries, recompiles

PROGRAMS: dict[str, Callable[..., Any]] = {}
ACTIONS = ["always", "default", "module", "once", "ignore", "error"]


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def one(x):
    y = x + 1
    warnings.warn("told", stacklevel=1)
    return y * 2


@program
def a_category(x):
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    return x + 1


@program
def several_in_a_loop(x):
    for n in range(3):
        warnings.warn(f"number {n}", RuntimeWarning, stacklevel=1)
        x = x + n
    return x


@program
def of_an_inner_caller(x):
    def warned(y):
        warnings.warn("of the one that calls", stacklevel=2)
        return y + 1

    return warned(x) * 2


@program
def one_that_is_caught(x):
    try:
        warnings.warn("perhaps an error", stacklevel=1)
    except UserWarning as error:
        return x - 1, str(error)
    return x + 1


@program
def recorded(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.warn("first", stacklevel=1)
        warnings.warn("second", RuntimeWarning, stacklevel=1)
    return x + len(told), [(str(w.message), w.category, w.lineno) for w in told]


@program
def recorded_across_a_break(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.warn("before", stacklevel=1)
        print("a break")
        warnings.warn("behind", stacklevel=1)
        y = x + 1
    warnings.warn("outside", stacklevel=1)
    return y, [str(w.message) for w in told]


@program
def ignored(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("not told", stacklevel=1)
        y = x + 1
    return y * 2


@program
def made_an_error(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning, message="th.s")
        try:
            warnings.warn("this", stacklevel=1)
        except UserWarning as error:
            return x + 1, str(error)
    return x


@program
def told_once_in_a_block(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("again", stacklevel=1)
        warnings.simplefilter("always")
        warnings.warn("again", stacklevel=1)
    return x + len(told)


@program
def nested(x):
    with warnings.catch_warnings(record=True) as outer:
        warnings.simplefilter("always")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("inner", stacklevel=1)
        warnings.warn("outer", stacklevel=1)
    return x * len(outer)


def told_by(fn: Callable[..., Any], action: Any) -> list[Any]:
    """What three calls give, and what they write."""
    vars(sys.modules[__name__]).pop("__warningregistry__", None)
    vars(warnings)["onceregistry"].clear()
    seen = []
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter(action)
        for _ in range(3):
            errors, printed = io.StringIO(), io.StringIO()
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(printed):
                try:
                    result = str(fn(torch.ones(2)))
                except Warning as error:
                    result = repr(error)
            seen.append((result, errors.getvalue(), printed.getvalue()))
    return seen


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_warnings_are_told_as_eagerly(name: str, action: str) -> None:
    fn = PROGRAMS[name]
    compiled = framelift.compile(fn, backend="eager", isolate_recompiles=True)
    assert told_by(compiled, action) == told_by(fn, action)


WHOLE = PROGRAMS.keys() - {"recorded_across_a_break"}


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_they_are_captured_whole_unless_they_are_errors(name: str) -> None:
    compiled = framelift.compile(PROGRAMS[name], backend="eager", fullgraph=True, isolate_recompiles=True)
    assert told_by(compiled, "default") == told_by(PROGRAMS[name], "default")
    assert entries(compiled) == 1


def test_another_filter_is_noticed() -> None:
    compiled = capture(one, fullgraph=False)
    for action in ("ignore", "error", "always", "ignore"):
        assert told_by(compiled, action) == told_by(one, action)
    assert recompiles(compiled) <= 3


def test_filters_that_are_changed_for_good_are_changed_outside() -> None:
    def fn(x):
        warnings.simplefilter("ignore", ResourceWarning)
        return x + 1

    with warnings.catch_warnings():
        warnings.resetwarnings()
        capture(fn, torch.ones(2), fullgraph=False)
        assert warnings.filters[0][:3] == ("ignore", None, ResourceWarning)
