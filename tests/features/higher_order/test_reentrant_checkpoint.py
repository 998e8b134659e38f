"""Reentrant checkpoints: the function runs without gradients, and once more with them in the backward pass.

What it can tell these runs apart by is answered as eagerly; where nothing comes of it, it is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import framelift

W = torch.nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))
CAPTURED: list[Callable[..., Any]] = []
BROKEN: list[Callable[..., Any]] = []


def ck(f: Any, *args: Any) -> Any:
    return checkpoint(f, *args, use_reentrant=True)


@CAPTURED.append
def plain(x):
    return ck(lambda y: (y @ W).sin() @ W, x)


@BROKEN.append
def asks_grad(x):
    return ck(lambda y: y * 2 if torch.is_grad_enabled() else y * 3, x)


@CAPTURED.append
def asks_benign(x):
    def b(y):
        g = torch.is_grad_enabled()
        return y * 2

    return ck(b, x)


@BROKEN.append
def asks_req(x):
    def b(y):
        z = y.sin()
        return z * 2 if z.requires_grad else z * 3

    return ck(b, x)


@BROKEN.append
def asks_leaf(x):
    def b(y):
        z = y.sin()
        return z * 2 if z.is_leaf else z * 3

    return ck(b, x)


@BROKEN.append
def asks_fn(x):
    def b(y):
        z = y.sin()
        return z * 2 if z.grad_fn is None else z * 3

    return ck(b, x)


@CAPTURED.append
def asks_param(x):
    def b(y):
        return y @ W if W.requires_grad else y

    return ck(b, x)


@CAPTURED.append
def nograd_inside(x):
    def b(y):
        with torch.no_grad():
            s = y.sum()
        return y * s

    return ck(b, x)


@CAPTURED.append
def enable_inside(x):
    def b(y):
        with torch.enable_grad():
            s = y.sum()
        return y * s

    return ck(b, x)


@CAPTURED.append
def inplace_leaf_alias(x):
    def b(y):
        z = y * 1
        z.add_(1)
        return z

    return ck(b, x)


@BROKEN.append
def write_arg(x):
    def b(y):
        y.add_(1)
        return y * 2

    return ck(b, x * 1)


@BROKEN.append
def write_leaf_try(x):
    def b(y):
        try:
            y.add_(1)
            return y * 2
        except RuntimeError:
            return y * 3

    return ck(b, x)


@BROKEN.append
def detach(x):
    return ck(lambda y: y.detach() * 2, x)


@BROKEN.append
def const(x):
    return ck(lambda y: (y * 2, torch.ones(3)), x)


@CAPTURED.append
def ints(x):
    return ck(lambda y: (y * 2, y.argmax()), x)


@BROKEN.append
def nested(x):
    return ck(lambda y: (y * 2, [y * 3]), x)


@BROKEN.append
def aslist(x):
    return ck(lambda y: [y * 2, y * 3], x)


@BROKEN.append
def ident(x):
    return ck(lambda y: y, x)


@BROKEN.append
def twice(x):
    def b(y):
        z = y * 2
        return z, z

    return ck(b, x)


@BROKEN.append
def view(x):
    return ck(lambda y: y.view(-1), x)


@BROKEN.append
def returns_flag(x):
    return ck(lambda y: (y * 2, torch.is_grad_enabled()), x)


@CAPTURED.append
def returns_const(x):
    return ck(lambda y: (y * 2, 3, "a", None), x)


@CAPTURED.append
def dropout(x):
    return ck(lambda y: torch.nn.functional.dropout(y @ W, 0.5), x)


@CAPTURED.append
def inner_grad(x):
    def b(y):
        with torch.enable_grad():
            z = (y.detach().requires_grad_() ** 2).sum()
        return y * z

    return ck(b, x)


@BROKEN.append
def try_backward(x):
    def b(y):
        try:
            (g,) = torch.autograd.grad((y**2).sum(), y)
        except RuntimeError:
            g = torch.ones(())
        return y * g

    return ck(b, x)


@BROKEN.append
def hook(x):
    def b(y):
        z = y.sin()
        try:
            z.register_hook(lambda g: g * 2)
        except RuntimeError:
            return z * 7
        return z

    return ck(b, x)


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() if ctx.needs_input_grad[0] else x.cos()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


@BROKEN.append
def function(x):
    return ck(lambda y: F.apply(y), x)


@BROKEN.append
def function_mid(x):
    return ck(lambda y: F.apply(y * 2), x)


@BROKEN.append
def append(x):
    l = []

    def b(y):
        l.append(1)
        return y * 2

    o = ck(b, x)
    return o * len(l)


@BROKEN.append
def under_no_grad(x):
    with torch.no_grad():
        o = ck(lambda y: y, x)
    return o, o is x


@CAPTURED.append
def two_args(x):
    return ck(lambda y, k: y * k, x, 3.0)


@BROKEN.append
def numpy(x):
    def b(y):
        try:
            return y * float((y * 2).numpy().sum())
        except RuntimeError:
            return y * 0

    return ck(b, x)


@BROKEN.append
def nested_ck(x):
    return ck(lambda y: ck(lambda z: z.sin(), y * 2) * 3, x)


@BROKEN.append
def nested_ck2(x):
    return ck(lambda y: checkpoint(lambda z: z.sin(), y * 2, use_reentrant=False) * 3, x)


@BROKEN.append
def saved_req(x):
    def b(y):
        r = y.sin().requires_grad
        return y * 2, r

    return ck(b, x)


def run(call: Callable[..., Any]) -> Any:
    """What a call gives, with gradients or the error that the backward pass raises."""
    torch.manual_seed(0)
    x, W.grad = torch.linspace(0.1, 2, 9).reshape(3, 3).requires_grad_(), None
    out = call(x)
    leaves = pytree.tree_leaves(out)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    about = [(one.requires_grad, one.is_leaf, one.grad_fn is None) for one in tensors]
    rest = [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]
    error = None
    try:
        torch.autograd.backward([one.sum() for one in tensors if one.requires_grad])
    except RuntimeError as raised:
        error = str(raised)
    return [*tensors, x.grad, W.grad, x.detach()], about, rest, error


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"backend": "aot_eager"}], ids=str)
@pytest.mark.parametrize("fn", [*CAPTURED, *BROKEN], ids=lambda fn: fn.__name__)
@pytest.mark.filterwarnings("ignore")
def test_the_function_is_run_as_eagerly(fn: Callable[..., Any], options: dict[str, Any]) -> None:
    expected = run(fn)
    compiled: Any = framelift.compile(fn, **{"backend": "eager", **options}, isolate_recompiles=True)
    for _ in range(2):
        found = run(compiled)
        torch.testing.assert_close(found[0], expected[0])
        assert found[1:] == expected[1:]
    if fn in CAPTURED:
        x = torch.ones(3, 3, requires_grad=True)
        framelift.compile(fn, **{"backend": "eager", **options}, fullgraph=True, isolate_recompiles=True)(x)
    W.grad = None
