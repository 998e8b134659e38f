"""A capture is good for all who call the function: what is asked of their frames is not known in it."""

from __future__ import annotations

import inspect
import logging
import sys
from typing import Any

import pytest
import torch

import framelift
from check import check, reasons

X = torch.arange(3.0)


def has_caller(x: torch.Tensor) -> Any:
    return x + 1, sys._getframe().f_back is not None


def callers(x: torch.Tensor) -> Any:
    names, frame = [], inspect.currentframe()
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return x + 1, names[0], "the_caller" in names


def far_out(x: torch.Tensor) -> Any:
    def look() -> Any:
        return sys._getframe(2).f_globals is not None, sys._getframe(1).f_code.co_name

    y = x + 1
    return y * 2, look()


def too_far_out(x: torch.Tensor) -> Any:
    try:
        return x + 1, sys._getframe(100_000)
    except ValueError as error:
        return x + 1, str(error)


def logged(x: torch.Tensor) -> Any:
    y = x + 1
    found = logging.getLogger("of a program").findCaller()
    return y * 2, found[2]


@pytest.mark.parametrize("fn", [has_caller, callers, far_out, too_far_out, logged])
def test_frames_beyond_what_is_captured_are_the_real_ones(fn: Any) -> None:
    framelift.reset()
    compiled = framelift.compile(fn, backend="eager")

    def the_caller(called: Any) -> Any:
        return called(X)

    for _ in range(2):
        (tensor, *rest), (expected, *others) = the_caller(compiled), the_caller(fn)
        assert torch.equal(tensor, expected) and rest == others
    assert "bug in Framelift" not in reasons(compiled)


def test_frames_within_what_is_captured_are_known() -> None:
    def outer(x: torch.Tensor) -> Any:
        def inner() -> Any:
            frame = sys._getframe()
            return frame.f_back.f_code.co_name, frame.f_back is sys._getframe(1)

        return x + 1, inner()

    compiled = framelift.compile(outer, backend="eager", fullgraph=True)
    assert compiled(X)[1] == outer(X)[1] == ("outer", True)


def set_by_code(x: torch.Tensor) -> Any:
    """Before Python 3.13 code sets names for the frame itself."""
    y = x + 1
    exec("z = y * 2")
    print("in between")
    try:
        return eval("z + y"), sorted(locals())
    except NameError as error:
        return str(error)


def set_by_the_program(x: torch.Tensor) -> Any:
    here = locals()
    here["z"] = x + 1
    print("in between")
    return locals().get("z"), len(here)


@pytest.mark.parametrize("fn", [set_by_code, set_by_the_program])
def test_names_beside_the_variables_of_a_frame_stay_there(fn: Any) -> None:
    check(fn, X, calls=2, fullgraph=False)
