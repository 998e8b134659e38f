"""The state of torch that a program switches on and off: gradient modes, autocast, devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded_graphs import F, W, X, check, reason, state

import framelift

# ---- modes of autograd


def no_grad(x, w):
    with torch.no_grad():
        y = x * w
        assert not torch.is_grad_enabled()
    return y, x * w


def nested(x, w):
    with torch.no_grad():
        a = x * w
        with torch.enable_grad():
            b = x * w
        c = b * 2
    return a, b, c


def set_grad_enabled(x, w):
    with torch.set_grad_enabled(False):
        y = x * w
    with torch.set_grad_enabled(torch.is_grad_enabled()):
        z = x * w
    return y, z


@torch.no_grad()
def decorated(x, w):
    return x * w


def calls_decorated(x, w):
    return decorated(x, w), x * w


@torch.enable_grad()
def decorated_enable(x, w):
    return x * w


def calls_both(x, w):
    with torch.no_grad():
        return decorated_enable(x, w), x * w


def switch(x, w):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x * w
    torch.set_grad_enabled(before)
    return y, x * w


def leaves_no_grad_by_exception(x, w):
    try:
        with torch.no_grad():
            y = x * w
            raise KeyError
    except KeyError:
        return y, x * w


def detached(x, w):
    y = x * w
    z = y.detach()
    return y, z, z * 2, y.detach().add_(1)


def detached_in_place(x, w):
    y = x * w
    y.detach_()
    return y, y * 2


def changes_a_view(x, w):
    y = x * 1
    y[0].mul_(w[0])
    return y, y.requires_grad


def changes_the_base_of_a_view(x, w):
    y = x * 1
    v = y[0]
    y.mul_(w[:3])
    return v, v.requires_grad, y


GRAD = [
    *(no_grad, nested, set_grad_enabled, calls_decorated, calls_both, switch, leaves_no_grad_by_exception),
    *(detached, detached_in_place, changes_a_view, changes_the_base_of_a_view),
]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("fn", GRAD, ids=lambda fn: fn.__name__)
def test_gradient_modes_are_switched_as_eagerly(fn: Callable[..., Any], grad: bool) -> None:
    with torch.set_grad_enabled(grad):
        check(fn, X, W[:3])


@pytest.mark.parametrize(
    "fn", [no_grad, nested, set_grad_enabled, calls_decorated, detached], ids=lambda fn: fn.__name__
)
def test_gradient_modes_through_aot_autograd(fn: Callable[..., Any]) -> None:
    weight = W.detach()[:3].clone().requires_grad_()
    check(fn, X, weight, backend="aot_eager")


def inference(x, w):
    with torch.inference_mode():
        y = x * w
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        z = y.view(-1)
        z.add_(1)
    return y, z, x * w


@torch.inference_mode()
def decorated_inference(x, w):
    return x * w


def calls_decorated_inference(x, w):
    return decorated_inference(x, w), decorated_inference(x, w) + 1, x * w


def inference_off(x, w):
    with torch.inference_mode(False):
        return x * w


def gradients_inside_inference(x, w):
    with torch.inference_mode(), torch.enable_grad():
        y = x * w
    return y, x * w


def views_inside_inference(x, w):
    with torch.inference_mode():
        y = (x * w)[1:]
        with torch.inference_mode(False):
            z = x * w
        return x.view(-1), y, y[1:], z


INFERENCE = [inference, calls_decorated_inference, inference_off, gradients_inside_inference]
INFERENCE += [views_inside_inference]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", INFERENCE, ids=lambda fn: fn.__name__)
def test_inference_mode_is_switched_as_eagerly(fn: Callable[..., Any], backend: str) -> None:
    weight = W.detach()[:3].clone().requires_grad_()
    check(fn, X, weight, backend=backend)
    compiled = framelift.compile(fn, backend=backend, dynamic=True)
    for _ in range(2):
        for a, b in zip(listed(fn(X, weight)), listed(compiled(X, weight)), strict=True):
            assert torch.equal(a, b) and a.requires_grad is b.requires_grad
            assert (b.is_inference(), b._is_view(), vars(b)) == (a.is_inference(), a._is_view(), {})


def listed(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def switched_by_torch(x):
    with torch.backends.mkldnn.flags(enabled=False):
        return x + 1


def test_a_switch_that_the_graph_does_not_hold_breaks() -> None:
    assert reason(switched_by_torch, X) in ("state of torch", "unknown native function", "run-time effect")


def test_a_compiled_function_in_inference_mode() -> None:
    with torch.inference_mode():
        check(lambda x: (x * 2).view(-1).add_(1), X + 1)


def test_gradients_flow_through_the_graph() -> None:
    def fn(x, w):
        with torch.no_grad():
            scale = (x * w).sum()
        return (F.gelu(x @ w) * scale).sum()

    grads = []
    for backend in (None, "eager", "aot_eager"):
        weight = W.detach().clone().requires_grad_()
        run = fn if backend is None else framelift.compile(fn, backend=backend, fullgraph=True)
        run(torch.ones(4, 4), weight).backward()
        grads.append(weight.grad)
    assert torch.equal(grads[0], grads[1]) and torch.allclose(grads[0], grads[2])


# ---- autocast


def autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        assert torch.is_autocast_enabled("cpu")
    return y, x @ w


def autocast_off_inside(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
        return y, z, x @ w


def autocast_disabled(x, w):
    with torch.autocast("cpu", torch.bfloat16, enabled=False):
        return x @ w


def autocast_half(x, w):
    with torch.autocast("cpu", dtype=torch.float16):
        return x @ w, torch.get_autocast_dtype("cpu")


def autocast_and_no_grad(x, w):
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        return x @ w, (x @ w).softmax(-1)


@torch.autocast("cpu", torch.bfloat16)
def autocast_decorator(x, w):
    return x @ w


def calls_autocast_decorator(x, w):
    return autocast_decorator(x, w), x @ w


def autocast_left_by_exception(x, w):
    try:
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ w
            raise KeyError
    except KeyError:
        return y, x @ w


CASTS = [
    *(autocast, autocast_off_inside, autocast_disabled, autocast_half, autocast_and_no_grad),
    *(calls_autocast_decorator, autocast_left_by_exception),
]


@pytest.mark.parametrize("fn", CASTS, ids=lambda fn: fn.__name__)
def test_autocast_is_switched_as_eagerly(fn: Callable[..., Any]) -> None:
    for _ in range(2):
        check(fn, X, W)


@pytest.mark.parametrize("fn", CASTS[:3], ids=lambda fn: fn.__name__)
def test_autocast_through_aot_autograd(fn: Callable[..., Any]) -> None:
    check(fn, X, W.detach(), backend="aot_eager")


def test_a_compiled_function_under_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        check(lambda x, w: (x @ w).softmax(-1), X, W)


# ---- a trace that ends in the middle leaves torch as it was


def breaks_in_no_grad(x):
    with torch.no_grad():
        return (x + 1).sum().item()


def breaks_in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ x.T).sum().item()


def breaks_in_nested_autocast(x):
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad(), torch.autocast("cpu", enabled=False):
        return (x @ x.T).sum().item()


def breaks_in_inference_mode(x):
    with torch.inference_mode():
        return (x + 1).sum().item()


def breaks_in_a_device(x):
    with torch.device("cpu"):
        return (x + torch.ones(4)).sum().item()


@pytest.mark.parametrize(
    "fn",
    [
        breaks_in_no_grad,
        breaks_in_autocast,
        breaks_in_nested_autocast,
        breaks_in_a_device,
        breaks_in_inference_mode,
    ],
    ids=lambda f: f.__name__,
)
def test_the_state_of_torch_after_a_break(fn: Callable[..., Any]) -> None:
    assert reason(fn, X) == "data-dependent value"


def raises_in_no_grad(x):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        raise KeyError(x.shape)


def test_the_state_of_torch_after_an_error() -> None:
    before = state()
    with pytest.raises(KeyError):
        framelift.compile(raises_in_no_grad, backend="eager")(X)
    assert state() == before


def test_a_graph_that_raises_at_run_time_leaves_the_switches_alone() -> None:
    table = torch.ones(4, 2)

    def fn(index: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.nn.functional.embedding(index, table) + 1

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.tensor([9]))
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
