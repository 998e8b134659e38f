"""Warnings that C gives are given where the program stands, as often as in plain Python."""

from __future__ import annotations

import types
import warnings
from typing import Any

import pytest
import torch

import framelift


class Odd:
    """Numbers of a kind that Python warns of."""

    def __float__(self) -> float:
        return Real(1.0)

    def __complex__(self) -> complex:
        return Both(1.0)


class Real(float):
    pass


class Both(complex):
    pass


def one(x: torch.Tensor) -> Any:
    return x + 1, float(Odd())


def another(x: torch.Tensor) -> Any:
    return x + 1, float(Odd()), "x"


def two_kinds(x: torch.Tensor) -> Any:
    return x * 2, float(Odd()), complex(Odd())


def in_a_loop(x: torch.Tensor) -> Any:
    return [x * float(Odd()) for _ in range(3)]


def by_the_program(x: torch.Tensor) -> Any:
    warnings.warn("be careful", stacklevel=1)
    return x + 1


def recorded_inside(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = float(Odd())
        warnings.warn("be careful", stacklevel=1)
    return x * found, [str(one.message) for one in given]


def an_error_inside(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return x * float(Odd())
        except DeprecationWarning as warning:
            return x, str(warning)


PROGRAMS = [one, another, two_kinds, in_a_loop, by_the_program, recorded_inside, an_error_inside]


def given_by(fn: Any, filter: Any) -> list[Any]:
    """What each of three calls gives, as text, and the warnings, with their lines."""
    globals().pop("__warningregistry__", None)
    found: list[Any] = []
    with warnings.catch_warnings(record=True) as noted:
        warnings.resetwarnings()
        warnings.simplefilter(filter)
        for _ in range(3):
            try:
                found.append(repr(fn(torch.ones(2))))
            except Warning as warning:
                found.append(repr(warning))
            found.append([(str(w.message), w.category, w.filename, w.lineno) for w in noted])
            noted.clear()
    return found


@pytest.mark.parametrize("filter", ["default", "always", "module", "once", "error", "ignore"])
def test_each_filter_lets_through_what_it_does_eagerly(filter: Any) -> None:
    for _ in range(2):  # a program that gives a warning must not lose that of the next
        for fn in PROGRAMS:
            copy = types.FunctionType(fn.__code__.replace(), globals())
            assert given_by(framelift.compile(copy, backend="eager"), filter) == given_by(fn, filter), fn


def test_a_filter_that_is_set_between_calls_counts() -> None:
    compiled = framelift.compile(one, backend="eager")
    for filter in ("ignore", "always", "error", "ignore", "always"):
        assert given_by(compiled, filter) == given_by(one, filter), filter


def used(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(torch.ones(1), x)


def unused(x: torch.Tensor) -> torch.Tensor:
    torch.nn.functional.l1_loss(torch.zeros(1), x)
    return x + 1


@pytest.mark.parametrize("filter", ["always", "error", "ignore"])
@pytest.mark.parametrize("fn", [used, unused])
def test_functions_of_torch_warn_as_often_as_eagerly(fn: Any, filter: Any) -> None:
    texts = []
    for run in (fn, framelift.compile(fn, backend="eager")):
        given = given_by(run, filter)
        texts.append([[text for text, *_ in one] if isinstance(one, list) else one for one in given])
    assert texts[0] == texts[1]


def test_a_warning_of_c_that_is_no_operators_is_told_of_the_programs_place() -> None:
    """A function of C that warns, and has nothing to do with the graph."""

    def fn(x: torch.Tensor) -> Any:
        return x + 1, torch.get_autocast_gpu_dtype(), bool(NotImplemented)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for action in ("always", "ignore", "always", "default"):
        told = []
        for each in (fn, compiled, compiled):
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter(action)
                each(torch.ones(2))
            told.append([(str(w.message), w.category, w.filename, w.lineno) for w in given])
        assert told[0] == told[1] == told[2]
        assert bool(told[0]) is (action != "ignore")
