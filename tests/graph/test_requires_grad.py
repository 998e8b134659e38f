"""`requires_grad` set on tensors from outside, held by objects, made inside, and what is seen of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framelift
from check import capture, entries, reasons, why_not

BACKENDS = ["eager", "aot_eager"]
PROGRAMS: dict[str, Any] = {}


def program(fn: Any) -> Any:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def switched_on(x, w):
    y = x * 2
    x.requires_grad_()
    return y, (x * w).sin(), x.requires_grad


@program
def assigned(x, w):
    y = x * 2
    x.requires_grad = True
    (x * x * w).sum().backward()
    return y, x.grad * 2


@program
def switched_off(x, w):
    y = x * w
    w.requires_grad_(False)
    return y, x * w, w.requires_grad


@program
def off_and_on_again(x, w):
    y = x * w
    w.requires_grad = False
    z = x * w
    w.requires_grad = True
    (x + w).sum().backward()
    return y, z


@program
def on_and_off_again(x, w):
    x.requires_grad_()
    y = x * w
    x.requires_grad_(False)
    return y, x * 2


@program
def changed_in_place_before_and_after(x, w):
    x.mul_(2)
    x.requires_grad_()
    with torch.no_grad():
        x.add_(1)
    return x * x * w


@program
def what_is_switched_off_gets_no_gradient(x, w):
    loss = (x * w * w).sum()
    w.requires_grad_(False)
    x.requires_grad_()
    (loss + (x * x).sum()).backward()
    return x.grad + 1, w.grad


@program
def twice_the_same(x, w):
    x.requires_grad_()
    x.requires_grad_()
    w.requires_grad_()
    return x * w


@program
def made_inside(x, w):
    y = torch.ones(2, requires_grad=True)
    y.requires_grad_(False)
    z = x.detach()
    z.requires_grad = True
    return y * w, z


@program
def under_no_grad(x, w):
    with torch.no_grad():
        x.requires_grad_()
        y = x * w
    return y, x * w


def outcome(fn: Any, rows: int) -> tuple[Any, Any]:
    """What a call has left behind, flags first, and what gradients come of it."""
    generator = torch.Generator().manual_seed(rows)
    x, w = (torch.randn(rows, 2, generator=generator) for _ in range(2))
    w.requires_grad_()
    result = fn(x, w)
    parts = result if isinstance(result, tuple) else (result,)
    tensors = [part for part in parts if isinstance(part, torch.Tensor)] + [x, w]
    flags = [(t.requires_grad, t.is_leaf) for t in tensors]
    flags += [part for part in parts if not isinstance(part, torch.Tensor)]
    values = [tensor.detach().clone() for tensor in tensors]
    roots = [tensor.sum() for tensor in tensors if tensor.requires_grad]
    if roots:
        torch.autograd.backward(roots)
    return flags, (values, [t.grad if t.is_leaf else None for t in tensors])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_flags_are_set_as_eagerly(name, backend):
    compare(PROGRAMS[name], backend)


@pytest.mark.parametrize("name", ["switched_on", "off_and_on_again", "changed_in_place_before_and_after"])
def test_flags_of_tensors_whose_sizes_vary(name):
    compare(PROGRAMS[name], "aot_eager", dynamic=True)


def compare(fn: Any, backend: str, dynamic: bool | None = None) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (3, 3, 4) if dynamic else (3, 3):
        (flags, values), (found_flags, found) = outcome(fn, rows), outcome(compiled, rows)
        assert found_flags == flags
        torch.testing.assert_close(found, values, rtol=0, atol=0 if backend == "eager" else 1e-6)
    assert why_not(compiled) is None and entries(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_frozen_and_thawed(backend):
    def step(model, x, frozen):
        model[0].requires_grad_(not frozen)
        for parameter in model[1].parameters():
            parameter.requires_grad = not frozen
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    found = []
    compiled = framelift.compile(step, backend=backend, fullgraph=True)
    for run in (step, compiled):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
        x = torch.randn(2, 3)
        for frozen in (True, True, False, False, True):
            found.append((run(model, x, frozen), [p.grad for p in model.parameters()]))
            found[-1] += ([float(p.requires_grad) for p in model.parameters()],)
    torch.testing.assert_close(found[:5], found[5:])
    assert why_not(compiled) is None and entries(compiled) > 1


def test_a_tensor_that_turns_out_to_be_another_one():
    def f(a, b):
        a.requires_grad_()
        return b * 2

    compiled = capture(f)
    assert not compiled(torch.ones(3), torch.ones(3)).requires_grad
    both = torch.ones(3)
    assert compiled(both, both).requires_grad and entries(compiled) == 2  # two tensors, then one


def test_an_error_of_torchs_is_as_ever():
    def integers(x):
        return x.requires_grad_() * 2

    def no_leaf(x):
        y = x * 2
        y.requires_grad_(False)
        return y

    for fn, x in ((integers, torch.ones(3, dtype=torch.int64)), (no_leaf, torch.ones(3, requires_grad=True))):
        with pytest.raises(RuntimeError) as expected:
            fn(x)
        with pytest.raises(RuntimeError, match=str(expected.value)[:40]):
            framelift.compile(fn, backend="eager")(x)


def views_before(x, w):
    v = x.view(-1)
    x.requires_grad_()
    return v, x * w


def a_view_after(x, w):
    w.requires_grad_(False)
    return w.view(-1), x * w


WEIGHT = torch.ones(3, 2, requires_grad=True)


def a_history_after(x, w):
    w.requires_grad_(False)
    w.add_(WEIGHT * x)
    return w * 2


BROKEN = {
    "run-time effect": [views_before, a_history_after],
    "value that can't be rebuilt": [a_view_after],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reason, fn", [(why, fn) for why, fns in BROKEN.items() for fn in fns])
def test_a_flag_that_no_graph_can_hold_breaks(reason, fn, backend):
    """Views without a history require grad as their base does; a graph has nothing of the kind."""
    compiled = framelift.compile(fn, backend=backend)
    (flags, values), (found_flags, found) = outcome(fn, 3), outcome(compiled, 3)
    assert found_flags == flags
    torch.testing.assert_close(found, values)
    assert reason in reasons(compiled)
