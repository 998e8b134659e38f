"""Backward passes captured through autograd's own engine: gradients, hooks and errors as without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo._trace_wrapped_higher_order_op import trace_wrapped  # noqa: TID251 - the operator itself

import framelift
from check import Comparison, reasons
from framelift.api import compiled_autograd as engine

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """What the engine has met in another test must not be found in this one."""
    engine._latest.clear()
    yield
    engine._latest.clear()


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was compiled of backward passes."""
    found: list[Any] = []
    compile_model = engine.compile_model

    def compiling(*args: Any, **settings: Any) -> Any:
        made = compile_model(*args, **settings)
        found.extend([made] if isinstance(made, nn.Module) else [])
        return made

    monkeypatch.setattr(engine, "compile_model", framelift.disable(compiling))
    return found


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.log: list[Any] = []
        self.made: dict[str, Any] = {}

    def forward(self, x):
        return self.second(self.first(x).tanh())

    def compiled(self, fn: Callable[..., Any], backend: str, **settings: Any) -> Any:
        """The same for all steps."""
        return self.made.setdefault(fn.__name__, framelift.compile(fn, backend=backend, **settings))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by, unused):
        ctx.save_for_backward(x)
        ctx.by = by
        return x * by, x.sin()

    @staticmethod
    def backward(ctx, grad, other):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, False)
        return grad * ctx.by + other * x.cos(), None, None


STEPS: dict[str, Callable[..., Any]] = {}


def step(fn: Callable[..., Any]) -> Callable[..., Any]:
    STEPS[fn.__name__] = fn
    return fn


@step
def plain(net, x, backend):
    net(x).pow(2).sum().backward()


@step
def gradients_asked_for(net, x, backend):
    net.log += torch.autograd.grad(net(x).pow(2).sum(), list(net.parameters()))


@step
def twice_through_the_same(net, x, backend):
    loss = net(x).pow(2).sum()
    loss.backward(retain_graph=True)
    loss.backward()


@step
def a_tensor_hook(net, x, backend):
    out = net(x)
    out.register_hook(lambda grad: grad * 2 + out.detach())
    out.pow(2).sum().backward()


@step
def a_tensor_hook_with_effects(net, x, backend):
    out = net(x)
    out.register_hook(lambda grad: net.log.append(grad.sum()))
    out.pow(2).sum().backward()


@step
def a_hook_that_decides_on_data(net, x, backend):
    out = net(x)
    out.register_hook(lambda grad: grad / grad.norm() if grad.norm() > 1 else None)
    out.pow(2).sum().backward()


@step
def hooks_after_gradients_are_accumulated(net, x, backend):
    handles = [
        parameter.register_post_accumulate_grad_hook(lambda p: net.log.append(p.grad.norm()))
        for parameter in net.parameters()
    ]
    net(x).pow(2).sum().backward()
    for handle in handles:
        handle.remove()


@step
def an_optimizer_in_hooks(net, x, backend):
    def update(parameter):
        with torch.no_grad():
            parameter.sub_(parameter.grad, alpha=0.1)
        parameter.grad = None

    handles = [parameter.register_post_accumulate_grad_hook(update) for parameter in net.parameters()]
    net(x).pow(2).sum().backward()
    net.log += [parameter.detach().clone() for parameter in net.parameters()]
    for handle in handles:
        handle.remove()


@step
def an_autograd_function(net, x, backend):
    one, other = Scaled.apply(net(x), 3.0, None)
    (one * other).sum().backward()


@step
def hooks_of_modules(net, x, backend):
    handles = [
        net.first.register_full_backward_hook(lambda m, grads, outs: net.log.append(outs[0].sum())),
        net.second.register_full_backward_hook(lambda m, grads, outs: (grads[0] * 3,)),
        net.second.register_full_backward_pre_hook(lambda m, outs: (outs[0] + 1,)),
    ]
    net(x.requires_grad_()).pow(2).sum().backward()
    net.log.append(x.grad)
    for handle in handles:
        handle.remove()


@step
def a_compiled_forward(net, x, backend):
    net.compiled(lambda x: net(x).pow(2).sum(), backend)(x).backward()


@step
def a_hook_in_a_compiled_forward(net, x, backend):
    def forward(x):
        out = net(x)
        out.register_hook(lambda grad: grad * 2)
        return out.pow(2).sum()

    net.compiled(forward, backend)(x).backward()


@step
def inside_a_compiled_function(net, x, backend):
    def whole(x):
        net(x).pow(2).sum().backward()

    net.compiled(whole, backend, fullgraph=True)(x)


@step
def inside_behind_a_break(net, x, backend):
    def broken(x):
        out = net(x)
        print("", end="")
        out.pow(2).sum().backward()

    net.compiled(broken, backend)(x)


@step
def wrapped_calls(net, x, backend):
    def kept(grad):
        net.log.append(grad.sum())
        return grad * 2

    out = net(x)
    out.register_hook(lambda grad: trace_wrapped(grad, fn=kept))
    out.pow(2).sum().backward()


@step
def callbacks_at_the_end(net, x, backend):
    def last():
        net.log.append(net.first.weight.grad.sum())

    def queue(grad):
        torch.autograd.Variable._execution_engine.queue_callback(last)

    out = net(x)
    out.register_hook(queue)
    out.pow(2).sum().backward()
    net.log.append(torch.ones(()))


@step
def packed_tensors(net, x, backend):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x * 2, lambda x: x / 2):
        loss = net(x).pow(2).sum()
    loss.backward()


@step
def views_written_to(net, x, backend):
    out = net(x) * 1
    out[:, 0] = out[:, 1] * 2
    out.pow(2).sum().backward()


def training(run: Callable[..., Any], backend: str) -> Any:
    torch.manual_seed(0)
    net = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for size in (4, 4, 5) if backend == "eager" else (4, 4):
            run(net, torch.randn(size, 3), backend)
    return [parameter.grad for parameter in net.parameters()], net.log


DIFFERENTLY = ("an_optimizer_in_hooks", "an_autograd_function", "a_compiled_forward", "views_written_to")
DIFFERENTLY += ("inside_behind_a_break", "hooks_of_modules", "a_tensor_hook_with_effects")
"""What AOTAutograd has to do with."""


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "eager") for name in STEPS), *((name, "aot_eager") for name in DIFFERENTLY)],
)
def test_a_captured_backward_pass_is_as_eagerly(name, backend, models):
    expected = training(STEPS[name], backend)
    with framelift.compiled_autograd(backend=backend):
        found = training(STEPS[name], backend)
    torch.testing.assert_close(found[0], expected[0])
    Comparison().same(len(found[1]), len(expected[1]), "log")
    torch.testing.assert_close(found[1], expected[1])
    assert models or name == "inside_a_compiled_function"
    broke = [reason for model in models for reason in reasons(model)]
    if name == "a_hook_that_decides_on_data":
        assert "data-dependent branch" in broke
    else:
        assert broke == []


# ---- what is compiled, and when again


def graphs_of(run: Callable[[], Any]) -> list[torch.fx.GraphModule]:
    """The graphs that a backend is given of backward passes."""
    found = []

    def backend(graph, inputs):
        found.append(graph)
        return graph

    with framelift.compiled_autograd(backend=backend):
        run()
    return found


def test_a_structure_is_captured_once():
    net = Net()
    x = torch.randn(4, 3)

    def run():
        for n in range(4):
            net.zero_grad()
            out = net(x)
            out.register_hook(lambda grad: grad * 2)
            out.sum().backward()

    assert len(graphs_of(run)) == 1


def test_gradients_that_are_there_already_are_another_structure():
    net = Net()
    # without gradients, then with them
    assert len(graphs_of(lambda: [net(torch.ones(2, 3)).sum().backward() for _ in range(4)])) == 2


def test_sizes_become_symbols():
    net = Net()

    def run():
        for size in (4, 5, 6, 7):
            net.zero_grad()
            net(torch.ones(size, 3)).sum().backward()

    assert len(graphs_of(run)) == 2  # the first size, then any


def test_another_hook_is_noticed():
    w = torch.ones(3, requires_grad=True)
    factor = 2

    def run():
        nonlocal factor
        for hook in (lambda grad: grad * factor, lambda grad: grad + 1, lambda grad: None):
            out = w * 1
            out.register_hook(hook)
            out.sum().backward()
        factor = 5
        out = w * 1
        out.register_hook(lambda grad: grad * factor)
        out.sum().backward()

    graphs_of(run)
    assert torch.equal(w.grad, torch.full((3,), 2.0 + 2 + 1 + 5))


def test_the_backward_graph_of_a_compiled_forward_is_part_of_it():
    net = Net()
    forward = framelift.compile(lambda x: net(x).sum(), backend="aot_eager", fullgraph=True)
    (graph,) = graphs_of(lambda: forward(torch.ones(2, 3)).backward())
    called = [node.target for node in graph.graph.nodes]
    assert torch.ops.aten.mm.default in called and torch.ops.aten.tanh_backward.default in called


def test_other_settings_compile_anew():
    net = Net()
    run = lambda: (net.zero_grad(), net(torch.ones(2, 3)).sum().backward())
    assert len(graphs_of(run)) == len(graphs_of(run)) == 1


# ---- errors, switches


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_in_a_hook_is_the_programs(backend):
    w = torch.ones(3, requires_grad=True)

    def fails(grad):
        raise ValueError("from the hook")

    for _ in range(2):
        out = w * 2
        out.register_hook(fails)
        with framelift.compiled_autograd(backend=backend), pytest.raises(ValueError, match="from the hook"):
            out.sum().backward()
    with framelift.compiled_autograd(backend=backend):
        (w * 2).sum().backward()
    assert torch.equal(w.grad, torch.full((3,), 2.0))


def test_what_must_be_whole_and_is_not_is_an_error():
    w = torch.ones(3, requires_grad=True)
    out = w * 2
    out.register_hook(lambda grad: print("hook"))
    with framelift.compiled_autograd(backend="eager", fullgraph=True):
        with pytest.raises(framelift.exc.Unsupported, match="print"):
            out.sum().backward()


def test_it_ends_where_it_ends_and_can_be_left_out():
    net = Net()
    backward = lambda: net(torch.ones(2, 3)).sum().backward()

    def run():
        with framelift.compiled_autograd(disable=True):
            backward()

    assert graphs_of(run) == []
    before = framelift.counters["frames"]["total"]
    backward()
    assert framelift.counters["frames"]["total"] == before


def test_settings_are_checked_at_once():
    with pytest.raises(TypeError), framelift.compiled_autograd(colour="red"):
        pass
    with pytest.raises(framelift.exc.UserError), framelift.compiled_autograd(mode="fast"):
        pass


def test_it_is_an_option_of_compile():
    found = []

    def backend(graph, inputs):
        found.append([node.target for node in graph.graph.nodes])
        return graph

    w = torch.ones(3, requires_grad=True)

    def fn(x):
        out = w * x
        print("", end="")
        out.sum().backward()

    with framelift.config.patch(compiled_autograd=True):
        compiled = framelift.compile(fn, backend=backend)
    compiled(torch.full((3,), 2.0))
    assert torch.equal(w.grad, torch.full((3,), 2.0))
    assert any("MulBackward0" in str(target) for targets in found for target in targets)


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrapped_calls_without_the_engine(backend):
    def fn(x):
        return trace_wrapped(x * 2, fn=lambda y: y + 1)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
