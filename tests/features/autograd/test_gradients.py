"""Gradients asked for inside a compiled function: values, where they go, what is left of the histories."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import framelift
from check import capture, entries, reasons, why_not

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]
PROGRAMS: dict[str, Program] = {}


def program(*makers: Callable[[], Any]) -> Any:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fn.__name__.strip("_")] = (fn, lambda: tuple(make() for make in makers))
        return fn

    return register


def given(*sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*sizes)


def leaf(*sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*sizes, requires_grad=True)


@program(given(3), leaf(3))
def backward(x, w):
    (x * w).sum().backward()
    return w.grad.clone()


@program(given(3, 3), leaf(3, 3))
def a_loss_that_lives_on(x, w):
    loss = (x @ w).pow(2).sum()
    loss.backward()
    return loss


@program(leaf(3), leaf(3))
def a_result_that_comes_of_the_other_one(a, b):
    (a * b).sum().backward()
    return torch.sigmoid(a.grad + b)


@program(leaf(3))
def grad(x):
    (found,) = torch.autograd.grad((x**2).sum(), x)
    return found * 2


@program(leaf(3))
def grad_of_a_grad(x):
    (found,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return torch.autograd.grad(found.sum(), x)[0]


@program(given(3), leaf(3))
def a_penalty_that_is_differentiated_outside(x, w):
    (found,) = torch.autograd.grad((x * w).sin().sum(), w, create_graph=True)
    return (found**2).sum()


@program(given(3), leaf(3))
def accumulated_twice(x, w):
    (x * w).sum().backward()
    (x * w * w).sum().backward()


@program(leaf(3, 4))
def an_expanded_gradient(w):
    w.sum().backward()


@program(leaf(3, 4), leaf(3, 4))
def one_gradient_for_two(a, b):
    (a + b).sum().backward()
    a.grad.add_(1)


@program(leaf(3, 4), given(3, 4))
def a_given_gradient(a, g):
    (a + 1).backward(g)
    a.grad.mul_(2)


@program(lambda: torch.randn(4, 3).t().requires_grad_())
def strides_of_a_gradient(a):
    (a.contiguous() * 2).sum().backward()


@program(lambda: torch.randn(8, 3)[::2].detach().requires_grad_())
def a_gradient_for_a_tensor_with_holes(a):
    (a * 2).sum().backward()


@program(given(3))
def of_a_tensor_made_inside(x):
    y = x.detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad


@program(given(3))
def requires_grad_set(x):
    y = x * 2
    y.requires_grad = True
    (y * y).sum().backward()
    return y.grad


@program(given(3))
def of_a_leaf_made_inside(x):
    w = torch.ones(3, requires_grad=True)
    (w * x).sum().backward()
    return w.grad


@program(given(3))
def a_leaf_that_lives_on(x):
    w = torch.ones(3, requires_grad=True)
    return w


@program(given(3), leaf(3))
def grad_set(x, w):
    w.grad = x * 2
    return w.grad + 1


@program(given(3), leaf(3))
def grad_set_and_taken_away(x, w):
    w.grad = x * 2
    w.grad = None
    return w.grad is None, x + 1


@program(given(3), leaf(3))
def a_retained_graph(x, w):
    loss = (x * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()


@program(given(3), leaf(3), leaf(3))
def what_is_not_used(x, w, v):
    return torch.autograd.grad((x * w).sum(), (w, v), allow_unused=True)


@program(given(3), leaf(3), leaf(3))
def what_is_not_used_as_zeros(x, w, v):
    return torch.autograd.grad((x * w).sum(), (w, v), materialize_grads=True)


@program(leaf(3), leaf(3))
def only_some_inputs(a, b):
    (a * b).sum().backward(inputs=[a])


@program(leaf(3), leaf(3))
def several_roots(a, b):
    torch.autograd.backward([(a * b).sum(), (a + b)], [None, torch.ones(3)])


@program(given(2, 3), lambda: nn.Linear(3, 3))
def of_parameters(x, m):
    return torch.autograd.grad(m(x).sum(), m.parameters())


@program(given(2, 3), lambda: nn.Linear(3, 3))
def norms(x, m):
    m.zero_grad()
    m(x).pow(2).sum().backward()
    return nn.utils.clip_grad_norm_(m.parameters(), 1.0)


@program(given(2, 3), lambda: nn.Linear(3, 3))
def values_clipped(x, m):
    m(x).pow(2).sum().backward()
    nn.utils.clip_grad_value_(m.parameters(), 0.1)


@program(given(2, 3), lambda: nn.Linear(3, 3))
def zero_grad_in_place(x, m):
    m(x).sum().backward()
    m.zero_grad(set_to_none=False)


@program(given(2, 3), lambda: nn.Linear(3, 3))
def without_grad_around(x, m):
    with torch.no_grad():
        y = m(x)
        with torch.enable_grad():
            m(x + y).sum().backward()


@program(given(4, 3), lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)))
def statistics_and_dropout(x, m):
    m(x).pow(2).sum().backward()


@program(given(2, 3), lambda: nn.Linear(3, 3))
def under_autocast(x, m):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = m(x).float().pow(2).sum()
    loss.backward()
    return loss.detach()


@program(given(5), leaf(5))
def a_custom_function(x, w):
    Doubled.apply(x * w).sum().backward()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + x


# ---- hooks, retained gradients, checkpoints


@program(given(3), leaf(3))
def a_hook(x, w):
    y = x * w
    y.register_hook(lambda grad: grad * 3)
    y.sum().backward()


@program(given(3), leaf(3))
def a_hook_that_uses_tensors_around_it(x, w):
    y = x * w
    z = y.sin()
    y.register_hook(lambda grad: grad * z + x)
    (y * z).sum().backward()


@program(given(3), leaf(3))
def a_hook_that_gives_nothing_back(x, w):
    y = x * w
    y.register_hook(lambda grad: None)
    y.sum().backward()


@program(given(3), leaf(3))
def a_hook_removed(x, w):
    y = x * w
    handle = y.register_hook(lambda grad: grad * 2)
    handle.remove()
    y.sum().backward()


@program(given(3), leaf(3))
def a_retained_gradient(x, w):
    y = x * w
    y.retain_grad()
    (y * y).sum().backward(retain_graph=True)
    y.sum().backward()
    return y.grad, y.retains_grad


@program(given(3, 4), lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)))
def a_checkpoint(x, m):
    checkpoint(m, x, use_reentrant=False).sum().backward()


@program(given(3), leaf(3))
def a_checkpoint_with_several_results(x, w):
    def inner(a, k):
        return {"a": a.sin() * k, "b": (a.cos(), 3)}

    found = checkpoint(inner, x * w, k=w, use_reentrant=False)
    ((found["a"] * found["b"][0]).sum() * found["b"][1]).backward()


@program(given(3), leaf(3))
def data_changed_in_place(x, w):
    w.data.mul_(0.9).add_(x)
    (w * x).sum().backward()
    w.data.sub_(w.grad)


# ---- training


def train(x, model, optimizer):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), torch.zeros(2, 3))
    loss.backward()
    optimizer.step()
    return loss.detach()


def train_by_closure(x, model, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss

    return optimizer.step(closure).detach()


def train_twice(x, model, optimizer):
    return train(x, model, optimizer) + train(x, model, optimizer)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW, foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters),
}


def training(name: str) -> tuple[Any, ...]:
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    return torch.randn(2, 3), model, OPTIMIZERS[name](model.parameters())


def state(value: Any) -> list[Any]:
    """All that is to be seen of the tensors in results and arguments."""
    if isinstance(value, nn.Module):
        return [facts for tensor in (*value.parameters(), *value.buffers()) for facts in state(tensor)]
    if isinstance(value, torch.Tensor):
        grad = None if value.grad_fn is not None else value.grad
        return [
            (value, value.requires_grad, value.is_leaf, value.stride()),
            *(state(grad) if grad is not None else ()),
        ]
    if isinstance(value, (tuple, list)):
        return [facts for item in value for facts in state(item)]
    return [value] if pytree.tree_is_leaf(value) and not isinstance(value, torch.optim.Optimizer) else []


def assert_alike(expected: Any, found: Any, exact: bool) -> None:
    ours, theirs = state(found), state(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(theirs, ours, strict=True):
        if isinstance(a, tuple):
            assert a[1:] == b[1:]
            torch.testing.assert_close(b[0], a[0], rtol=0 if exact else 1e-3, atol=0 if exact else 1e-5)
        else:
            assert a == b


def compare(fn: Any, make: Any, backend: str, exact: bool = True, calls: int = 3, **options: Any) -> Any:
    torch.manual_seed(0)
    plain = make()
    torch.manual_seed(0)
    mine = make()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, **options)
    for seed in range(calls):
        torch.manual_seed(seed)
        expected = fn(*plain)
        torch.manual_seed(seed)
        found = compiled(*mine)
        assert_alike((expected, plain), (found, mine), exact)
    assert why_not(compiled) is None and entries(compiled) > 0
    return compiled


def of_the_program(graph: torch.fx.GraphModule, examples: Any) -> Any:
    """A backend that is not one of Framelift's."""
    return graph.forward


@pytest.mark.parametrize("backend", ["eager", "aot_eager", of_the_program])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_inside_are_as_eagerly(name, backend):
    fn, make = PROGRAMS[name]
    compare(fn, make, backend, exact=backend != "aot_eager")


@pytest.mark.parametrize("name", ["backward", "norms", "an_expanded_gradient", "grad_of_a_grad"])
def test_with_sizes_that_vary(name):
    fn, make = PROGRAMS[name]
    compare(fn, make, "aot_eager", exact=False, dynamic=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("step", [train, train_by_closure, train_twice])
def test_a_whole_training_step(step, name, backend):
    compare(step, lambda: training(name), backend, exact=False)


def test_a_training_step_becomes_one_entry_once_there_are_gradients():
    compiled = compare(train, lambda: training("SGD"), "eager", exact=False, calls=6)
    assert entries(compiled) <= 3  # no gradients yet; no momentum yet; everything there


def test_going_back_twice_is_an_error_as_ever():
    w = torch.ones(3, requires_grad=True)

    def f(w):
        loss = (w * w).sum()
        loss.backward()
        return loss

    loss = capture(f)(w)
    assert loss.requires_grad and not loss.is_leaf
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


CHAINED = {
    "keeps_nothing": lambda value, w: value + w,
    "keeps_a_result": lambda value, w: torch.tanh(value + w),
    "keeps_its_operands": lambda value, w: value * w,
    "keeps_one_of_two": lambda value, w: (value * 2).view(-1) - w.exp(),
    "keeps_a_mask": lambda value, w: torch.where(w > 0, value, w),
    "written_to": lambda value, w: (value + w).add_(w),
}


@pytest.mark.parametrize("step", CHAINED.values(), ids=CHAINED)
def test_a_chain_whose_gradients_were_computed_goes_on_as_eagerly(step):
    """What lets go of nothing works again. What does not says so, before any gradient is complete."""

    def f(state):
        state["value"] = step(state["value"], state["w"])
        state["value"].sum().backward()

    def outcomes(fn):
        state = {"value": torch.ones(3), "w": torch.tensor([1.0, -1.0, 0.5], requires_grad=True)}
        for _ in range(3):
            try:
                fn(state)
                yield None
            except RuntimeError as error:
                yield str(error)
            yield state["w"].grad.tolist(), state["value"].tolist()

    assert list(outcomes(capture(f, fullgraph=False))) == list(outcomes(f))


@pytest.mark.parametrize("inputs", [None, []])
def test_going_back_to_no_leaf_is_autograds_error(inputs):
    def fn(x):
        try:
            x.sum().backward(inputs=inputs)
        except RuntimeError as error:
            return x + 1, str(error)

    compiled = framelift.compile(fn, backend="eager")
    for x in (torch.ones(3), torch.ones(3)):
        expected, found = fn(x), compiled(x)
        assert expected[1] == found[1] and torch.equal(expected[0], found[0])


def test_going_back_twice_inside_is_the_programs_error():
    def f(w):
        loss = (w * w).sum()
        loss.backward()
        loss.backward()

    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        capture(f, fullgraph=False)(torch.ones(3, requires_grad=True))


def test_history_from_before_is_not_lost():
    def f(y, w):
        return torch.autograd.grad((y * w).sum(), w)[0]

    def outcome(fn):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        return fn(w * 3, w)

    compiled = capture(f, fullgraph=False)
    torch.testing.assert_close(outcome(compiled), outcome(f))
    assert reasons(compiled) == ["gradients inside"]


def test_what_lies_behind_an_input_does_not_matter_if_gradients_end_there():
    def f(y):
        return torch.autograd.grad((y * y).sum(), y)[0]

    w = torch.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    torch.testing.assert_close(capture(f)(y), f(w * 3))


def test_backward_goes_on_into_what_was_computed_before():
    def f(y):
        y.sum().backward()

    compiled = capture(f, fullgraph=False)
    for _ in range(2):
        w = torch.ones(3, requires_grad=True)
        compiled(w * 2)
        assert torch.equal(w.grad, torch.full((3,), 2.0))
    assert reasons(compiled) == ["gradients inside"]
    leaf = torch.ones(3, requires_grad=True)
    compiled(leaf)
    assert torch.equal(leaf.grad, torch.ones(3))


def test_a_history_that_leads_to_a_leaf_inside_is_kept():
    def f(x):
        w = torch.ones(3, requires_grad=True)
        return w, (w * x).sum()

    compiled = framelift.compile(f, backend="aot_eager")
    w, loss = compiled(torch.full((3,), 2.0))
    loss.backward()
    assert torch.equal(w.grad, torch.full((3,), 2.0))


def test_hooks_are_noticed():
    def f(w):
        (w * 2).sum().backward()

    compiled = capture(f, fullgraph=False)
    w = torch.ones(3, requires_grad=True)
    compiled(w)
    assert reasons(compiled) == []
    handle = w.register_hook(lambda grad: grad * 10)
    compiled(w)
    assert torch.equal(w.grad, torch.full((3,), 22.0))
    handle.remove()
    after = w.register_post_accumulate_grad_hook(lambda tensor: [tensor.grad.zero_()] and None)
    compiled(w)
    assert torch.equal(w.grad, torch.zeros(3))
    after.remove()
    before = entries(compiled)
    compiled(w)
    assert torch.equal(w.grad, torch.full((3,), 2.0)) and entries(compiled) == before


def test_two_tensors_that_turn_out_to_be_one():
    def f(a, b):
        (a * 2 + b * 3).sum().backward()

    compiled = capture(f)
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    compiled(a, b)
    c = torch.ones(3, requires_grad=True)
    compiled(c, c)
    assert torch.equal(c.grad, torch.full((3,), 5.0))


def test_a_break_between_gradients_and_step():
    def f(x, model, optimizer):
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        print("step")
        optimizer.step()

    def outcome(fn):
        torch.manual_seed(0)
        x, model, optimizer = training("SGD")
        model.eval()
        for _ in range(3):
            fn(x, model, optimizer)
        return [parameter.detach() for parameter in model.parameters()]

    compiled = capture(f, fullgraph=False)
    torch.testing.assert_close(outcome(compiled), outcome(f))
    assert "run-time effect" in reasons(compiled)


def hooked(x, w):
    y = x * w
    z = y.sin()
    y.register_hook(lambda grad: grad * z)
    return (y * z).sum()


def retained(x, w):
    y = x * w
    y.retain_grad()
    return y.sum()


def checkpointed(x, w):
    return checkpoint(
        lambda y: nn.functional.dropout(torch.sin(y), 0.5) * w, x * w, use_reentrant=False
    ).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [hooked, retained, checkpointed])
def test_differentiated_outside(fn, backend):
    found = []
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for run in (fn, compiled):
        torch.manual_seed(0)
        x, w = torch.randn(20), torch.randn(20, requires_grad=True)
        run(x, w).backward()
        found.append((w.grad, torch.get_rng_state()))
    torch.testing.assert_close(found[0], found[1])
    assert entries(compiled) == 1


def cut(leaf: torch.Tensor, other: torch.Tensor) -> Any:
    return (leaf * other.detach()).tanh().sum()


def looked_at(leaf: torch.Tensor, other: torch.Tensor) -> Any:
    with torch.no_grad():
        scale = other.norm()
    return (leaf * scale).sum(), scale


def averaged(leaf: torch.Tensor, other: torch.Tensor) -> Any:
    with torch.no_grad():
        other.lerp_(leaf, 0.5)
    return (leaf * other.data).sum()


def only_compared(leaf: torch.Tensor, other: torch.Tensor) -> Any:
    return torch.where(other > 0, leaf, -leaf).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [cut, looked_at, averaged, only_compared])
def test_hooks_of_what_no_result_is_differentiated_to_are_not_called(fn, backend):
    def run(call: Any) -> Any:
        called: list[Any] = []
        leaf, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 0.5))
        for one in (leaf, other):
            one.register_hook(lambda grad: called.append(("gradient", grad is None)))
            one.register_post_accumulate_grad_hook(lambda one: called.append(one.grad is None))
        for _ in range(2):
            given = call(leaf, other)
            (given[0] if isinstance(given, tuple) else given).backward()
        return called, leaf.grad.tolist(), other.grad, other.tolist(), other.requires_grad

    assert run(framelift.compile(fn, backend=backend, fullgraph=True)) == run(fn)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_hooks_on_results_are_called_where_gradients_reach_them(backend, dynamic):
    def fn(x):
        return x * 2, x.sin(), x.detach() + 1, x.view(-1), x.cos().sum()

    def outcome(run):
        x, called = torch.arange(3.0, requires_grad=True), []
        results = run(x)
        for n, result in enumerate(results):
            if result.requires_grad:
                result.register_hook(lambda grad, n=n: called.append((n, grad)))
                result.retain_grad()
        results[1].sum().backward(retain_graph=True)
        (results[0].sum() + results[4]).backward()
        kept = [result.grad for result in results if result.requires_grad]
        return called, x.grad, kept, [result._is_view() for result in results]

    expected = outcome(fn)
    assert [n for n, _ in expected[0]] == [1, 4, 0]
    found = outcome(framelift.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True))
    torch.testing.assert_close(found[1:], expected[1:])
    torch.testing.assert_close(dict(found[0]), dict(expected[0]))


def test_a_hook_on_a_tensor_from_outside_is_registered_for_real():
    def f(w):
        w.register_hook(lambda grad: grad * 2)
        return w * 3

    compiled = capture(f)
    w = torch.ones(3, requires_grad=True)
    compiled(w).sum().backward()
    assert torch.equal(w.grad, torch.full((3,), 6.0))


def test_a_checkpointed_function_with_effects_is_left_alone():
    calls = []

    def inner(y):
        calls.append(1)
        return torch.sin(y)

    def f(x):
        return checkpoint(inner, x, use_reentrant=False)

    compiled = capture(f, fullgraph=False)
    x = torch.ones(3, requires_grad=True)
    compiled(x).sum().backward()
    assert len(calls) == 2  # once more for the gradients
    torch.testing.assert_close(x.grad, torch.cos(torch.ones(3)))


def test_gradients_through_a_checkpoint_that_draws_random_numbers():
    def f(x):
        y = checkpoint(lambda y: nn.functional.dropout(y, 0.5).sin(), x * 2, use_reentrant=False)
        return torch.autograd.grad(y.sum(), x)

    compiled = framelift.compile(f, backend="aot_eager")
    found = []
    for run in (f, compiled):
        torch.manual_seed(0)
        found.append((run(torch.ones(20, requires_grad=True)), torch.get_rng_state()))
    torch.testing.assert_close(*found)
    assert "generator of random numbers" in reasons(compiled)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_and_modules_made_inside(backend):
    fn = lambda x: (nn.Linear(3, 3), nn.Parameter(x * 2), copy.deepcopy(x))
    found = []
    for run in (fn, framelift.compile(fn, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        x = torch.ones(2, 3, requires_grad=True)
        module, parameter, copied = run(x)
        (module(copied) + parameter).sum().backward()
        assert type(parameter) is nn.Parameter and x.grad is None
        found.append((parameter.grad, copied.grad, [p.grad for p in module.parameters()]))
    torch.testing.assert_close(*found)


POWERS = {
    "operator": lambda x, n: (x**n).sum(),
    "function": lambda x, n: torch.pow(x, n).sum(),
    "base": lambda x, n: (n**x).sum(),
    "in_place": lambda x, n: (x + 0).pow_(n).sum(),
    "float": lambda x, n: torch.float_power(x, n).sum(),
    "of_a_size": lambda x, n: (x ** x.shape[0] * n).sum(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("power", POWERS.values(), ids=POWERS)
def test_gradients_of_powers_with_exponents_that_vary(power, backend):
    """Autograd asks whether an exponent is zero."""

    def inside(x, n):
        power(x, n).backward()
        return x.grad

    def by_transform(x, n):
        return torch.func.grad(power)(x.detach(), n)

    def outside(x, n):
        return torch.autograd.grad(power(x, n), x)[0]

    for fn in (inside, by_transform, outside):
        compiled = framelift.compile(fn, backend=backend, fullgraph=fn is not outside)
        for n in (2, 3, 4, 0, 1, 2):
            expected, found = (torch.full((n + 2,), 2.0, requires_grad=True) for _ in range(2))
            assert torch.equal(fn(expected, n), compiled(found, n)), (fn.__name__, n)
