"""Functions that `torch._dynamo.decorators.leaf_function` marks: one call in the graph, made as it is."""

from __future__ import annotations

import pytest
import torch

import framelift
from check import capture, check

leaf_function = pytest.importorskip("torch._dynamo.decorators").__dict__.get("leaf_function")
pytestmark = pytest.mark.skipif(leaf_function is None, reason="this version of torch has no leaf functions")
BACKENDS = ["eager", "aot_eager"]


def leaf(real, fake, **options):
    made = leaf_function(**options)(real) if options else leaf_function(real)
    made.register_fake(fake)
    return made


def branching(x):
    return (x + 1 if x.sum() > 0 else x - 1,)


def like(x, *others):
    return (torch.empty_like(x),)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_can_not_be_captured_is_one_call(backend):
    call = leaf(branching, like)
    check(lambda x: call(x)[0] * 2, torch.ones(3), backend=backend, calls=2)
    check(lambda x: call(x)[0] * 2, -torch.ones(3), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_go_through_modules_and_structures(backend):
    def real(module, parts, scale=1):
        return {"sum": module(parts["x"]) * scale + parts["others"][0], "number": 3}

    def fake(module, parts, scale=1):
        return {"sum": torch.empty_like(parts["x"]), "number": 3}

    call, module = leaf(real, fake), torch.nn.Linear(3, 3)

    def fn(x, y):
        found = call(module, {"x": x, "others": [y]}, scale=4)
        return found["sum"] * found["number"]

    def gradients(run):
        module.zero_grad()
        x, y = torch.linspace(0, 1, 6).reshape(2, 3).requires_grad_(), torch.ones(3, requires_grad=True)
        run(x, y).sum().backward()
        return x.grad, y.grad, module.weight.grad, module.bias.grad

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    assert all(map(torch.equal, gradients(compiled), gradients(fn)))


def test_a_call_of_which_nothing_is_used_is_made_each_time():
    seen = []
    call = leaf(lambda x: seen.append(x.sum().item()), lambda x: None)

    def fn(x):
        call(x)
        call(x + 1)
        return x * 2

    compiled = capture(fn)
    compiled(torch.ones(2)), compiled(torch.zeros(2))
    assert seen == [2.0, 4.0, 0.0, 2.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_declared_writes_are_seen(backend):
    def real(x, buffers):
        buffers[0].add_(1)
        return (x + buffers[0],)

    call = leaf(real, like, mutates_args={"buffers[0]"})

    def fn(x, buffer, other):
        return call(x, [buffer, other])[0] + buffer, buffer * 1, other * 1

    check(fn, torch.ones(3), torch.zeros(3), torch.zeros(3), backend=backend, calls=2)


def test_declared_writes_to_a_modules_buffer_are_seen():
    def real(x, norm):
        norm.running_mean.add_(1)
        return (x + norm.running_mean,)

    call, norm = leaf(real, like, mutates_args={"norm.running_mean"}), torch.nn.BatchNorm1d(3)
    compiled = capture(lambda x: call(x, norm)[0] + norm.running_mean)
    for round in (1, 2):
        assert torch.equal(compiled(torch.zeros(3)), torch.full((3,), 2.0 * round))


def test_writes_that_are_not_declared_are_an_error():
    call = leaf(lambda x: (x.add_(1),), like)
    with pytest.raises(RuntimeError, match="Undeclared in-place mutation"):
        capture(lambda x: call(x)[0])(torch.ones(2))


def test_hooks_on_gradients_are_called():
    seen = []
    call = leaf(lambda x: (x * 2,), like)
    call.register_multi_grad_hook(lambda grad: seen.append(grad.sum().item()))
    x = torch.ones(3, requires_grad=True)
    (capture(lambda x: call(x)[0])(x) * 3).sum().backward()
    assert seen == [18.0]


def test_without_a_fake_there_is_a_reason():
    call = leaf_function(lambda x: (x,))
    with pytest.raises(framelift.exc.Unsupported, match="has no register_fake"):
        framelift.compile(lambda x: call(x), backend="eager", fullgraph=True)(torch.ones(2))
