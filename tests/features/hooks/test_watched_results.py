"""Gradients of a result that another result is computed from: AOTAutograd's graphs give both results alike,
and none gets the gradients of another. Such graphs run as captured where the program looks at them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

LOG: list[Any] = []


def noting(name: str) -> Callable[[torch.Tensor], None]:
    return lambda grad: LOG.append((name, None if grad is None else grad.tolist()))


def retained(x: torch.Tensor) -> Any:
    a = x * 2
    a.retain_grad()
    b = a * 3
    b.retain_grad()
    return a, b


def retained_later(x: torch.Tensor) -> Any:
    a = x * 2
    b = a.sin() * 3
    a.retain_grad()
    return a, b


def hooked(x: torch.Tensor) -> Any:
    a = x * 2
    b = a * 3
    a.register_hook(noting("a"))
    b.register_hook(noting("b"))
    return a, b


def hooked_at_once(x: torch.Tensor) -> Any:
    a = x * 2
    a.register_hook(noting("a"))
    return a, a.exp()


def changing(x: torch.Tensor) -> Any:
    a = x * 2
    a.register_hook(lambda grad: grad * 10)
    b = a.sin()
    b.register_hook(lambda grad: grad + 1)
    return a, b


def a_view(x: torch.Tensor) -> Any:
    a = x * 2
    v = a[:1]
    v.register_hook(noting("v"))
    a.register_hook(noting("a"))
    return a, v


def unrelated(x: torch.Tensor) -> Any:
    a, b = x.cos(), x * 2
    a.register_hook(noting("a"))
    return a, b


PROGRAMS = [retained, retained_later, hooked, hooked_at_once, changing, a_view, unrelated]
USED = {"both": (0, 1), "the first": (0,), "the second": (1,)}


def seen(program: Callable[..., Any], used: tuple[int, ...]) -> list[Any]:
    """All that a program can see of the gradients, over two calls."""
    found: list[Any] = []
    for _ in range(2):
        LOG.clear()
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        results = program(x)
        torch.stack([results[n].sum() for n in used]).sum().backward()
        found += [x.grad, *(result.grad for result in results if result.retains_grad), *LOG]
    return found


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("program", "used"), itertools.product(PROGRAMS, USED))
def test_gradients_are_seen_as_eagerly(program: Callable[..., Any], used: str, backend: str) -> None:
    expected = seen(program, USED[used])
    found = seen(framelift.compile(program, backend=backend), USED[used])
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs) if isinstance(theirs, torch.Tensor) else ours == theirs


# ---- what gradients need, and the program changes


def changed(x: torch.Tensor) -> torch.Tensor:
    a = x.sigmoid()
    a.mul_(2)
    return a


def changed_unseen(x: torch.Tensor) -> torch.Tensor:
    a = x.tanh()
    with torch.no_grad():
        a.add_(1)
    return a


def changed_beside(x: torch.Tensor) -> Any:
    a = x.exp()
    b = a * 2
    a.add_(1)
    return b + a


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("program", [changed, changed_unseen, changed_beside])
def test_what_gradients_need_is_changed(
    program: Callable[..., Any], backend: str, dynamic: bool | None
) -> None:
    """Which is an error only where they are computed."""
    compiled = framelift.compile(program, backend=backend, dynamic=dynamic)
    for size in (2, 3, 4):
        x = torch.linspace(1.0, 2.0, size, requires_grad=True)
        found = compiled(x)
        torch.testing.assert_close(found, program(x))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            found.sum().backward()


# ---- hooks, and gradients that are retained behind them


def of_hooks(*steps: str) -> Callable[[torch.Tensor], Any]:
    """A tensor on which hooks are registered, and its gradient retained, in an order."""

    def make(x: torch.Tensor) -> torch.Tensor:
        z = x * 2
        for step in steps:
            if step == "retain":
                z.retain_grad()
            elif step == "add":
                z.register_hook(lambda grad: grad + 1)
            elif step == "scale":
                z.register_hook(lambda grad: grad * 3)
            elif step == "removed":
                z.register_hook(lambda grad: grad * 5).remove()
            else:
                z = z.mul_(2)
        return z

    return make


ORDERS = ["retain", "retain add", "add retain", "add retain scale", "retain removed", "add"]
ORDERS += ["retain add scale", "add retain write", "retain write add"]


def backward_inside(z: torch.Tensor, x: torch.Tensor) -> Any:
    z.sin().sum().backward()
    return z.grad


def backward_twice(z: torch.Tensor, x: torch.Tensor) -> Any:
    z.sin().sum().backward(retain_graph=True)
    z.cos().sum().backward()
    return z.grad


def asked_for(z: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.autograd.grad(z.sin().sum(), x), z.grad


def asked_for_itself(z: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.autograd.grad(z.sin().sum(), z), z.grad


def asked_for_both(z: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.autograd.grad(z.sin().sum(), [z, x]), z.grad


ASKING = [backward_inside, backward_twice, asked_for, asked_for_itself, asked_for_both]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_gradients_are_retained_behind_hooks(order: str, backend: str) -> None:
    make = of_hooks(*order.split())
    for ask in ASKING:
        fn = lambda x, ask=ask: ask(make(x), x)
        compiled = framelift.compile(fn, backend=backend)
        found = []
        for run in (fn, compiled, compiled):
            x = torch.tensor([0.5, 1.0], requires_grad=True)
            found.append((str(run(x)), str(x.grad)))
        assert found[0] == found[1] == found[2], ask.__name__


@pytest.mark.parametrize("later", ["nothing", "retain", "scale"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_result_with_hooks_is_watched_behind_them(order: str, backend: str, later: str) -> None:
    make = of_hooks(*order.split())
    compiled = framelift.compile(make, backend=backend)
    found = []
    for run in (make, compiled, compiled):
        LOG.clear()
        x = torch.tensor([0.5, 1.0], requires_grad=True)
        z = run(x)
        if later == "retain":
            z.retain_grad()
        elif later == "scale":
            z.register_hook(noting("later"))
        z.sin().sum().backward()
        found.append((str(z.grad), str(x.grad), str(LOG)))
    assert found[0] == found[1] == found[2]
