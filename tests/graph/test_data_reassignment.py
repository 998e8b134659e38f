"""Tensors that are given other memory: `x.data = y`, `x.set_(y)`, `x.resize_(...)`."""

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
def data_of_another(x, y):
    before = x * 2
    x.data = y
    after = x + 1
    x.add_(1)
    return before, after, x.sum(), y * 2


@program
def data_made_inside(x, y):
    x.data = torch.cat([y, y])
    return x + 1, x.shape


@program
def data_of_a_tensor_made_inside(x, y):
    t = torch.zeros(2)
    t.data = y
    t.mul_(3)
    return t, x


@program
def data_exchanged(x, y):
    x.data, y.data = y.data, x.data
    x.add_(1)
    return x * 2


@program
def data_set_again(x, y):
    x.data = y
    y.data = x * 2
    x.add_(1)
    return x + y


@program
def set_to_another(x, y):
    x.set_(y)
    x.add_(1)
    return x * 2


@program
def a_parameter_made_inside(x, y):
    made = nn.Parameter(torch.empty(2))
    made.data = y
    return made


@program
def made_smaller(x, y):
    z = x.clone().resize_(2)
    return z + 1, z


@program
def made_larger(x, y):
    z = x.clone()
    z.resize_(4, 2)
    z[-1] = 1
    z.resize_(2, 2).resize_(0)
    return z.resize_(3), torch.empty(0).resize_(x.shape).copy_(x), torch.empty(1).resize_as_(y).copy_(y)


def outcome(fn: Any, rows: int) -> tuple[Any, Any]:
    """What a call has left behind: what is to be seen of tensors, which share memory, and their values."""
    generator = torch.Generator().manual_seed(rows)
    x, y = torch.randn(3, 2, generator=generator), torch.randn(rows, 2, generator=generator)
    view = x.view(-1)
    result = fn(x, y)
    parts = result if isinstance(result, tuple) else (result,)
    tensors = [part for part in parts if isinstance(part, torch.Tensor)] + [x, y, view]
    facts: list[Any] = [(type(t), t.shape, t.stride(), t.requires_grad, t._is_view()) for t in tensors]
    memory = [tensor.untyped_storage()._cdata for tensor in tensors]
    facts += [[a == b for a in memory for b in memory], x._version > 0]
    facts += [part for part in parts if not isinstance(part, torch.Tensor)]
    return facts, [tensor.detach().clone() for tensor in tensors]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_reassigned_as_eagerly(name, backend):
    compare(PROGRAMS[name], backend)


@pytest.mark.parametrize("name", ["data_of_another", "data_made_inside", "set_to_another", "made_larger"])
def test_memory_of_tensors_whose_sizes_vary(name):
    compare(PROGRAMS[name], "aot_eager", dynamic=True)


def compare(fn: Any, backend: str, dynamic: bool | None = None) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (4, 4, 5) if dynamic else (3, 3):
        (facts, values), (found_facts, found) = outcome(fn, rows), outcome(compiled, rows)
        assert found_facts == facts
        torch.testing.assert_close(found, values, rtol=0, atol=0)
    assert why_not(compiled) is None and entries(compiled) == 1


def step(p, x):
    loss = (p * x).sum()
    loss.backward()
    p.data = p.data - 0.1 * p.grad
    p.grad = None
    return loss.detach()


def without_gradients(p, x):
    p.data = p.data * 2
    with torch.no_grad():
        y = p * x
    p.data.add_(1)
    return y


def used_before(p, x):
    y = (p * p * x).sum()
    p.data = p.data * 2
    return y


def used_after(p, x):
    p.data = p.data * 2
    return (p * x).sum()


def differentiated_after(p, x):
    y = (p * p * x).sum()
    p.data = p.data * 2
    return torch.autograd.grad(y, p)[0]


BROKEN = {used_after: "differentiated", differentiated_after: "which histories may hold"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [step, without_gradients, used_before, *BROKEN])
def test_data_of_parameters(fn, backend):
    """Where autograd would have to be told of the new data, which it knows nothing of, the capture ends."""
    compiled = framelift.compile(fn, backend=backend, fullgraph=fn not in BROKEN)
    found: list[Any] = []
    for run in (fn, compiled):
        p, x = nn.Parameter(torch.arange(3.0) + 1), torch.arange(3.0) + 2
        for _ in range(3):
            out = run(p, x)
            if out.requires_grad:
                out.backward()
            found.append((out.detach(), p.detach().clone(), None if p.grad is None else p.grad.clone()))
    torch.testing.assert_close(found[:3], found[3:])
    assert why_not(compiled) is None and entries(compiled) > 0
    said = [
        str(found) for record in compiled._framelift_context.code_states.values() for found in record.breaks
    ]
    assert any(BROKEN[fn] in text for text in said) if fn in BROKEN else not said


def test_a_tensor_that_turns_out_to_be_another_one():
    def f(a, b):
        a.data = torch.ones(3)
        return b * 2

    compiled = capture(f)
    assert torch.equal(compiled(torch.zeros(3), torch.zeros(3)), torch.zeros(3))
    both = torch.zeros(3)
    # two tensors, then one that is given twice
    assert torch.equal(compiled(both, both), torch.full((3,), 2.0)) and entries(compiled) == 2


def resized_input(x):
    return x.resize_(2) + 1


def resized_with_views(x):
    y = x.clone()
    z = y.view(-1)
    y.resize_(2)
    return y, z


def resized_in_a_format(x):
    return torch.empty(0).resize_(1, 1, 2, 2, memory_format=torch.channels_last).fill_(0) + x[0]


def set_to_a_storage(x):
    return torch.empty(0).set_(x.untyped_storage()) + 1


@pytest.mark.parametrize("fn", [resized_input, resized_with_views, resized_in_a_format, set_to_a_storage])
def test_a_reassignment_that_no_graph_can_hold_breaks(fn):
    compiled = capture(fn, fullgraph=False)
    x, y = torch.arange(4.0), torch.arange(4.0)
    torch.testing.assert_close(compiled(x), fn(y))
    torch.testing.assert_close(x, y)
    assert reasons(compiled)[0] in ("memory of a tensor", "address of an abstract value")
