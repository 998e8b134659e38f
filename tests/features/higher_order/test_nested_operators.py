"""Operators in functions that other operators are given; functions of every kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators_in_python import Plain, Torch
from torch.func import grad
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import framelift
from check import entries, why_not
from framelift.exc import Unsupported

WEIGHT = torch.linspace(-1, 1, 3)
LAYER = torch.nn.Linear(3, 3)
for _parameter in LAYER.parameters():
    torch.nn.init.constant_(_parameter, 0.3)


def branch(op: Any, y: Any) -> Any:
    return op.cond(y.sum() > 0, lambda y: y.sin() * WEIGHT, lambda y: y.cos() + WEIGHT, (y,))


def again(fn: Any, *args: Any) -> Any:
    return checkpoint(fn, *args, use_reentrant=False)


def branch_in_loop_in_map(op: Any, x: Any) -> Any:
    def rounds(row: Any) -> Any:
        step = lambda n, y: (n + 1, branch(op, y))
        return op.while_loop(lambda n, y: n < 3, step, (torch.zeros((), dtype=torch.int64), row))[1]

    return op.map(rounds, x)


def branch_in_scan(op: Any, x: Any) -> Any:
    return op.scan(lambda carry, row: (branch(op, carry + row), carry * row), x[0] * 0, x)


def scan_in_branch(op: Any, x: Any) -> Any:
    summed = lambda x: op.scan(lambda carry, row: (carry + row, carry * row), x[0] * 0, x)[0]
    return op.cond(x.sum() > 0, summed, lambda x: x[0] * 2, (x,))


def map_in_map(op: Any, x: Any) -> Any:
    return op.map(lambda row: op.map(lambda one: one * 2 + row.sum(), row), x)


def checkpoint_in_checkpoint(op: Any, x: Any) -> Any:
    return again(lambda y: again(lambda z: LAYER(z).sin(), y) * 2, x)


def checkpoint_in_scan(op: Any, x: Any) -> Any:
    return op.scan(lambda carry, row: (again(lambda c: c.sin() + row, carry), carry * row), x[0] * 0, x)


def branch_in_checkpoint_in_scan(op: Any, x: Any) -> Any:
    step = lambda carry, row: (again(lambda c: branch(op, c) + row, carry), carry * row)
    return op.scan(step, x[0] * 0, x)


def transform_in_branch(op: Any, x: Any) -> Any:
    return op.cond(x.sum() > 0, grad(lambda y: (y.sin() * WEIGHT).sum()), lambda y: y * 2, (x,))


def batch_in_loop(op: Any, x: Any) -> Any:
    step = lambda y: (torch.vmap(lambda row: row * 2 + WEIGHT.abs() + 1)(y),)
    return op.while_loop(lambda y: y.sum() < 50, step, (x.abs(),))


def batch_in_checkpoint(op: Any, x: Any) -> Any:
    return again(lambda y: torch.vmap(lambda row: row.sin() * WEIGHT)(y), x)


def function_in_branch(op: Any, x: Any) -> Any:
    return op.cond(x.sum() > 0, Doubled.apply, lambda y: y * 2, (x,))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.saved_tensors[0].cos() * 2


class Scaled:
    weight = WEIGHT

    def row(self, row: Any) -> Any:
        return row * self.weight

    def __call__(self, carry: Any, row: Any) -> Any:
        return carry + row, carry * self.weight


def modules_and_methods(op: Any, x: Any) -> Any:
    chosen = op.cond(x.sum() > 0, LAYER, lambda y: y * 2, (x,))
    return chosen, op.map(Scaled().row, x), op.scan(Scaled(), x[0] * 0, x)


def partials(op: Any, x: Any) -> Any:
    scaled = lambda by, row, *, times: {"a": row * times, "b": [by + row]}
    return op.map(functools.partial(scaled, WEIGHT, times=2), x)


PROGRAMS = [branch_in_loop_in_map, branch_in_scan, scan_in_branch, map_in_map, checkpoint_in_checkpoint]
PROGRAMS += [checkpoint_in_scan, transform_in_branch, batch_in_loop, batch_in_checkpoint]
PROGRAMS += [branch_in_checkpoint_in_scan, function_in_branch, modules_and_methods, partials]


def rows(n: int = 4) -> torch.Tensor:
    return torch.arange(3.0 * n).reshape(n, 3) / 7


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
def test_results_and_gradients_are_those_of_plain_python(program: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(lambda x: program(Torch, x), backend=backend, fullgraph=True)
    for n in (0, 2):
        x = (rows() - n).requires_grad_(backend == "aot_eager")
        found, expected = compiled(x), program(Plain, x)
        torch.testing.assert_close(found, expected)
        if x.requires_grad:
            torch.testing.assert_close(gradient(found, x), gradient(expected, x))
    assert entries(compiled) == 1 and why_not(compiled) is None


def gradient(out: Any, x: torch.Tensor) -> torch.Tensor:
    tensors = [leaf for leaf in pytree.tree_leaves(out) if leaf.requires_grad]
    loss = sum((tensor * torch.arange(tensor.numel()).reshape(tensor.shape)).sum() for tensor in tensors)
    return torch.autograd.grad(loss, x)[0]


@pytest.mark.parametrize("program", [scan_in_branch, batch_in_checkpoint], ids=lambda fn: fn.__name__)
def test_sizes_may_vary(program: Callable[..., Any]) -> None:
    compiled = framelift.compile(lambda x: program(Torch, x), backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for n in (3, 4, 5, 6):
            torch.testing.assert_close(compiled(rows(n)), program(Plain, rows(n)))
    assert entries(compiled) == 2  # the first size, then any


def test_inductor_takes_them() -> None:
    compiled = framelift.compile(
        lambda x: branch_in_loop_in_map(Torch, x), backend="inductor", fullgraph=True
    )
    with torch.no_grad():
        torch.testing.assert_close(compiled(rows()), branch_in_loop_in_map(Plain, rows()))
    assert entries(compiled) == 1


WITHOUT_RULES: dict[str, Any] = {
    "error of an operator": lambda x: torch.vmap(grad(lambda row: branch(Torch, row).sum()))(x),
}


@pytest.mark.parametrize("message", WITHOUT_RULES)
def test_what_torch_has_no_rule_for_is_a_break(message: str) -> None:
    with pytest.raises(Unsupported) as raised:
        framelift.compile(WITHOUT_RULES[message], backend="eager", fullgraph=True)(rows().requires_grad_())
    assert message in str(raised.value) and __file__ in str(raised.value)
