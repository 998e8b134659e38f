"""Comparisons of sizes that vary: `torch.cond` of one stays a choice of the artifact; wherever else the
program asks how it came out, the artifact refuses sizes for which it comes out otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

import framelift
from exporting.check_export import Calls, same


def chosen(x: Any, condition: Any) -> Any:
    return torch.cond(condition, lambda x: x.sin(), lambda x: x.cos(), (x,))


KEPT: dict[str, Callable[..., Any]] = {
    "one": lambda x: chosen(x, x.shape[0] > 4),
    "both": lambda x: chosen(x, (x.shape[0] > 4) & (x.shape[0] < 10)),
    "either": lambda x: chosen(x, (x.shape[0] > 8) | (x.shape[0] < 5)),
    "a chain": lambda x: chosen(x, 2 < x.shape[0] < 10),
    "torch's not": lambda x: chosen(x, torch.sym_not(x.shape[0] > 4)),
    "a remainder": lambda x: chosen(x, x.shape[0] % 2 == 0),
    "a size in a branch": lambda x: torch.cond(
        x.shape[0] > 4, lambda x: x.sum(), lambda x: x.sum() * x.shape[0], (x,)
    ),
    "a factor": lambda x: x * (x.shape[0] > 4),
    "a tensor": lambda x: torch.where(torch.tensor(x.shape[0] > 4), x, -x),
    "a filled tensor": lambda x: x + torch.full((), x.shape[0] > 4),
    "given": lambda x: (x + 1, x.shape[0] > 4),
}


class Holder:
    condition: bool


def held(x: Any) -> Any:
    holder = Holder()
    holder.condition = x.shape[0] > 4
    return x + 1 if holder.condition else x


def asserted(x: Any) -> Any:
    assert x.shape[0] > 4
    return x + 1


ASKED: dict[str, Callable[..., Any]] = {
    "a branch": lambda x: x + 1 if x.shape[0] > 4 else x,
    "not": lambda x: x + 1 if not x.shape[0] > 4 else x,
    "and": lambda x: x + 1 if x.shape[0] > 4 and x.shape[0] < 100 else x,
    "is": lambda x: x + 1 if (x.shape[0] > 4) is True else x,
    "equal": lambda x: x + 1 if (x.shape[0] > 4) == True else x,  # noqa: E712
    "exclusive or": lambda x: x + 1 if (x.shape[0] > 4) ^ True else x,
    "an index": lambda x: [x.sin(), x.cos()][x.shape[0] > 4],
    "a key": lambda x: {True: x + 1, False: x - 1}[x.shape[0] > 4],
    "an element": lambda x: x + 1 if (x.shape[0] > 4) in {True} else x,
    "a number": lambda x: x + int(x.shape[0] > 4),
    "a sum": lambda x: x + sum(size > 4 for size in x.shape),
    "any": lambda x: x + 1 if any(size > 4 for size in x.shape) else x,
    "a text": lambda x: x + len(f"{x.shape[0] > 4}"),
    "a key of sorting": lambda x: x * sorted([x.shape[0] > 4, True])[0],
    "an option of an operator": lambda x: x.sum(0, keepdim=x.shape[0] > 4),
    "an attribute": held,
    "an assertion": asserted,
}


def exported(program: Callable[..., Any]) -> Any:
    return framelift.export(Calls(program), (torch.randn(6, 3),), dynamic_shapes=({0: Dim.AUTO},)).module()


@pytest.mark.parametrize("kind", KEPT)
def test_a_condition_stays_one_of_the_artifact(kind: str) -> None:
    program, module = KEPT[kind], exported(KEPT[kind])
    for size in (6, 3, 7, 12):
        x = torch.randn(size, 3)
        same(program(x), module(x))


@pytest.mark.parametrize("kind", ASKED)
def test_a_condition_that_is_asked_is_checked(kind: str) -> None:
    program, module = ASKED[kind], exported(ASKED[kind])
    for size in (6, 7, 12):
        x = torch.randn(size, 3)
        same(program(x), module(x))
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.randn(3, 3))


def test_the_side_of_a_condition_that_did_not_hold_is_there() -> None:
    program = framelift.export(Calls(KEPT["one"]), (torch.randn(6, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert any(node.target is torch.ops.higher_order.cond for node in program.graph.nodes)
