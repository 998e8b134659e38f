"""A mistake of Framelift's is none of the program's: it never sees it, and gets its result."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import framelift
from check import capture, reasons
from framelift.regions import region
from framelift.trace import faults, native_calls

pytestmark = pytest.mark.faults


def handles_everything(x: torch.Tensor, log: list[Any]) -> Any:
    y = x + 1
    try:
        largest = max(log, default=0)
    except Exception as error:
        return repr(error)
    log.append(largest + 1)
    return y * largest


def test_the_program_does_not_see_it(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(native_calls, "rule_of", None)
    compiled = capture(handles_everything, fullgraph=False)
    log = [3]
    with caplog.at_level(logging.ERROR):
        assert compiled(torch.ones(2), log).tolist() == [6.0, 6.0]
    assert log == [3, 4]
    assert "bug in Framelift" in reasons(compiled)
    assert "'NoneType' object is not callable" in caplog.text
    assert "please report" in caplog.text.lower()


def test_with_fullgraph_it_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_calls, "rule_of", None)
    with pytest.raises(framelift.exc.Unsupported, match="bug in Framelift.*TypeError"):
        capture(handles_everything)(torch.ones(2), [3])


def test_after_the_trace_the_frame_runs_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region, "replay", None)
    log = [3]
    assert capture(handles_everything, fullgraph=False)(torch.ones(2), log).tolist() == [6.0, 6.0]
    assert log == [3, 4]


def errors_of_the_programs(x: torch.Tensor, n: int) -> Any:
    found = []
    for operation in (
        lambda: {}["missing"],
        lambda: [][n],
        lambda: n / 0,
        lambda: n.nothing,
        lambda: undefined_name,  # noqa: F821
        lambda: next(iter(())),
        lambda: int("x"),
        lambda: x.reshape(7),
        lambda: sorted([n, "a"]),
        lambda: len(n),
        lambda: (lambda a: a)(),
        lambda: hash([]),
        lambda: {[]: 1},
        lambda: setattr(n, "a", 1),
        lambda: isinstance(n, 3),
        lambda: x + "a",
        lambda: getattr(x, "nothing"),  # noqa: B009
        lambda: torch.cat(3),
    ):
        try:
            operation()
        except Exception as error:
            found.append(type(error))
    return x + len(found), found


def test_errors_of_the_programs_are_not_taken_for_it(caplog: Any) -> None:
    with caplog.at_level(logging.ERROR, logger=faults.__name__):
        found = capture(errors_of_the_programs, torch.ones(3), 1, fullgraph=False)(torch.ones(3), 1)
    assert found[1] == errors_of_the_programs(torch.ones(3), 1)[1]
    assert not caplog.records
