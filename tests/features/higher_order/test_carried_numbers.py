"""Numbers in functions that operators are given: carried from round to round, and used from around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint

import framelift
from check import entries, why_not
from framelift.exc import Unsupported


def plainly(cond_fn: Any, body_fn: Any, carried: Any) -> Any:
    while cond_fn(*carried):
        carried = body_fn(*carried)
    return carried


def counted(x: Any, loop: Any) -> Any:
    return loop(lambda n, y: n < 3, lambda n, y: (n + 1, y + n), (0, x))


def up_to_a_size(x: Any, loop: Any) -> Any:
    return loop(lambda n, y: 2 * n < y.shape[0], lambda n, y: (n + 1, y * 2 + n), (x.dim(), x))


def used_afterwards(x: Any, loop: Any) -> Any:
    n, y = loop(lambda n, y: y.sum() < 50, lambda n, y: (n + 1, y * 2 + 1), (0, x))
    return y * n, n


def an_index(x: Any, loop: Any) -> Any:
    def step(n: Any, y: Any) -> Any:
        return n + 1, y + x.narrow(0, n, 1).sum()

    return loop(lambda n, y: n < x.shape[0], step, (0, x))


def two(x: Any, loop: Any) -> Any:
    return loop(lambda a, y, b: a < b, lambda a, y, b: (a + 2, y + b, b + 1), (0, x, 3))


def a_branch(x: Any, loop: Any) -> Any:
    choose = lambda n, y: torch.cond(y.sum() > 9, lambda y: y - n, lambda y: y + n, (y,))
    return loop(lambda n, y: n < 3, lambda n, y: (n + 1, choose(n, y)), (0, x))


LOOPS = [counted, up_to_a_size, used_afterwards, an_index, two, a_branch]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", LOOPS, ids=lambda fn: fn.__name__)
def test_a_number_is_carried(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(lambda x: fn(x, while_loop), backend=backend, fullgraph=True)
    for n in (4, 4, 5, 6):
        x = torch.arange(2.0 * n).reshape(n, 2)
        expected = fn(x, plainly) if fn is not a_branch else branches(x)
        torch.testing.assert_close(compiled(x), expected)
    assert entries(compiled) == 2 and why_not(compiled) is None  # the first size, then any


def branches(x: torch.Tensor) -> Any:
    for n in range(3):
        x = x - n if x.sum() > 9 else x + n
    return 3, x


WRONG: dict[str, Any] = {
    "output 0 has type SymFloat, but that of what is carried has int": lambda x: while_loop(
        lambda n, y: n < 3, lambda n, y: (n + 0.5, y + 1), (0, x)
    ),
    "carried input 0 is a bool, not a tensor or an int": lambda x: while_loop(
        lambda n, y: n, lambda n, y: (n, y + 1), (True, x)
    ),
    "cond_fn of while_loop: output 0 has type bool": lambda x: while_loop(
        lambda n, y: False, lambda n, y: (n + 1, y + 1), (0, x)
    ),
    "a number is carried, where tensors are differentiated": lambda x: while_loop(
        lambda n, y: n < 3, lambda n, y: (n + 1, y * LEAF), (0, x)
    ),
}
LEAF = torch.ones((), requires_grad=True)


@pytest.mark.parametrize("message", WRONG)
def test_what_can_not_be_carried_is_named(message: str) -> None:
    with pytest.raises(Unsupported) as raised:
        framelift.compile(WRONG[message], backend="eager", fullgraph=True)(torch.ones(3))
    assert message in str(raised.value) and __file__ in str(raised.value)


FLOATS: dict[str, Any] = {
    "vmap": lambda x, s: torch.vmap(lambda row: row * s)(x),
    "grad": lambda x, s: torch.func.grad(lambda y: (y * s).sum())(x),
    "checkpoint": lambda x, s: checkpoint(lambda y: y * s, x, use_reentrant=False),
    "nested": lambda x, s: torch.vmap(torch.func.grad(lambda row: (row * s).sum()))(x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_from_around_may_vary(name: str, backend: str) -> None:
    compiled = framelift.compile(FLOATS[name], backend=backend, fullgraph=True)
    for s in (0.5, 1.5, 2.5, 3.5, 4.5):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        torch.testing.assert_close(compiled(x, s), FLOATS[name](x, s))
    assert entries(compiled) == 2  # the second time it is known to vary, as anywhere
