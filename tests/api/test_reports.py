"""Functions that only tell something: called after the graph (`reorderable_logging_functions`), with what
they were given; and what is told of functions that remember."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framelift

told: list[Any] = []


def tell(*args: Any, **kwargs: Any) -> None:
    told.append((*(a.clone() if isinstance(a, torch.Tensor) else a for a in args), *kwargs.items()))


@pytest.fixture(autouse=True)
def reported() -> Iterator[None]:
    told.clear()
    framelift.reset()
    with framelift.config.patch(reorderable_logging_functions={tell, print}):
        yield


def plain(x: Any) -> Any:
    tell("before", x)
    y = x + 1
    tell(y, 3, how=None)
    return y * 2


def many(x: Any) -> Any:
    for n in range(3):
        x = x + n
        tell(n, x.sum())
    return x


def broken(x: Any) -> Any:
    tell("first", x + 1)
    framelift.graph_break()
    tell("second", x + 2)
    return x


def written(x: Any) -> Any:
    y = x + 1
    tell("old", y)
    y.add_(1)
    tell("new", y)
    return y


def other_kinds(x: Any) -> Any:
    tell([x, {"shape": x.shape}])
    return x + 1


def written_input(x: Any) -> Any:
    tell(x)
    x.mul_(3)
    return x


@pytest.mark.parametrize("program", [plain, many, broken, written, other_kinds, written_input])
def test_what_is_told_is_what_is_told_eagerly(program: Any) -> None:
    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        told.clear()
        program(torch.ones(3))
        expected = repr(told)
        told.clear()
        compiled(torch.ones(3))
        assert repr(told) == expected


@pytest.mark.parametrize("program", [plain, many])
def test_nothing_breaks_for_it(program: Any) -> None:
    framelift.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
    assert told


def test_print_is_one_of_these(capsys: pytest.CaptureFixture[str]) -> None:
    def shows(x: torch.Tensor) -> torch.Tensor:
        print("x is", x, sep=": ")
        return x + 1

    framelift.compile(shows, backend="eager", fullgraph=True)(torch.ones(2))
    assert capsys.readouterr().out == "x is: tensor([1., 1.])\n"


def test_otherwise_it_breaks() -> None:
    with (
        framelift.config.patch(reorderable_logging_functions=set()),
        pytest.raises(framelift.exc.Unsupported),
    ):
        framelift.compile(lambda x: (print(x), x + 1)[1], backend="eager", fullgraph=True)(torch.ones(2))


# ---- functions that remember


def test_a_memory_that_is_not_used_is_warned_of_once() -> None:
    @functools.lru_cache
    def doubled(n: int) -> int:
        return n * 2

    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for _ in range(2):
            framelift.reset()
            framelift.compile(lambda x: x * doubled(3), backend="eager")(torch.ones(2))
    texts = [str(each.message) for each in given]
    assert len(texts) == 1
    assert "call to a `functools.lru_cache`-wrapped function at 'test_reports.py:" in texts[0]
    assert "ignores the cache wrapper and directly traces the wrapped function" in texts[0]


def test_where_warnings_are_errors_the_program_goes_on() -> None:
    doubled = functools.lru_cache(lambda n: n * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = framelift.compile(lambda x: x * doubled(3), backend="eager")(torch.ones(2))
    assert found.tolist() == [6.0, 6.0]
