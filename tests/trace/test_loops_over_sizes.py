"""Loops over sizes that vary, with breaks inside: what comes before a break is not captured for each size."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch
from sizes_of_programs import ABOVE_ONE, Programs

import framelift

PROGRAMS = Programs()
randn = torch.randn


def program(captures: int = 3, make: Any = lambda n: (randn(n, 3),)) -> Any:
    return PROGRAMS.add(make, captures, ABOVE_ONE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_over_sizes(name: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        PROGRAMS.check(name)


def test_sizes_known_from_the_start_to_vary_are_not_settled_for_a_loop_that_breaks() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        total = x.sum(0) * x.shape[0]
        for _ in range(x.shape[0]):
            total = total + 1
            framelift.graph_break()
        return total

    compiled = framelift.compile(fn, backend="eager", dynamic=True)
    for n in (4, 6, 9):
        torch.testing.assert_close(compiled(torch.ones(n, 3)), fn(torch.ones(n, 3)))
    assert "expects x.shape[0] ==" not in str(framelift.entries(compiled))


@program(2)
def over_a_range(x):
    total = x.sum(0)
    for _ in range(x.shape[0]):
        total = total + 1
        framelift.graph_break()
        total = total * 2
    return total


@program(2)
def over_a_tensor(x):
    total = x.sum(0)
    for row in x:
        total = total + row
        framelift.graph_break()
    return total


@program(2, make=lambda n: (randn(n, 3).relu(),))
def over_what_the_data_counts(x):
    total, rows = torch.zeros(3), (x.sum(1) > 0).nonzero()
    for row in rows:
        (columns,) = torch.where(x[row[0]] > 0)
        total.index_add_(0, columns, x[row[0]][columns])
    return total


@program(2)
def in_a_function_that_is_called_twice(x):
    total = x.sum(0)
    for turn in range(2):
        total = every_other(x, total * turn)
    return total + x.shape[0]


def every_other(x, total):
    for i in range(1, len(x), 2):
        total = total + x[i]
        print(i)
        if i > 3:
            break
    else:
        total = total * 2
    return total


@program(2, make=lambda n: (randn(3), [n, n + 1]))
def in_another_loop(x, counts):
    for count in counts:
        for i in range(count):
            x = x + i
            print(count)
    return x


@program(2)
def in_a_try(x):
    try:
        for i in range(x.shape[0]):
            with torch.no_grad():
                x = x + i
                print(i)
            if i == 1:
                continue
            if i == 2:
                raise KeyError(i)
    except KeyError as error:
        return x * 2, error.args
    return x, ()


@program(8)
def without_a_break_it_is_unrolled(x):
    total = x.sum(0)
    for row in x:
        total = total + row
    return total
