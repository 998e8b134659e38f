"""Backward hooks of modules: order, arguments, changed gradients and effects as eager's, step after step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules

import framelift
from check import Comparison, entries, reasons, why_not

BACKENDS = ["eager", "aot_eager"]


class Net(nn.Module):
    """Two layers with hooks on them, and code of its own around."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2))
        self.scale = 3.0
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 2.0]))
        self.log: list[Any] = []

    def forward(self, x):
        return self.second(self.first(x + 1).sin()) * 2


def training(net: nn.Module, run: Callable[..., Any], steps: int = 3, differentiated: bool = True) -> Any:
    """What a few steps leave behind: gradients of parameters and of the input, and what hooks have logged."""
    torch.manual_seed(1)
    found = []
    for _ in range(steps):
        x = torch.randn(5, 3, requires_grad=differentiated)
        run(x).pow(2).sum().backward()
        found.append((x.grad, [p.grad.clone() for p in net.parameters() if p.grad is not None]))
    return found, net.log, torch.get_rng_state()


def check(
    set_up: Callable[[Net], Any], backend: str, whole: bool = True, make: Any = Net, **kwargs: Any
) -> Any:
    outcomes = []
    for compiling in (False, True):
        torch.manual_seed(0)
        net = make()
        kept = set_up(net)
        run = framelift.compile(net, backend=backend, fullgraph=whole) if compiling else net
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            outcomes.append(training(net, run, **kwargs))
        found = (entries(run), reasons(run)) if compiling else None
        for handle in kept if isinstance(kept, list) else []:
            handle.remove()
    Comparison().same(*outcomes, "outcome")
    assert why_not(run) is None
    if whole:
        assert found == (1, [])
    return run


# ---- hooks that become part of the graph

WHOLE: dict[str, Callable[[Net], Any]] = {}
EFFECTS: dict[str, Callable[[Net], Any]] = {}


def whole(set_up: Callable[[Net], Any]) -> Callable[[Net], Any]:
    WHOLE[set_up.__name__] = set_up
    return set_up


def broken(set_up: Callable[[Net], Any]) -> Callable[[Net], Any]:
    EFFECTS[set_up.__name__] = set_up
    return set_up


@whole
def changed_gradients(net):
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * 2 + outs[0].sum(),))


@whole
def a_pre_hook(net):
    net.second.register_full_backward_pre_hook(lambda m, outs: (outs[0] / 3 + 1,))


@whole
def nothing_changed(net):
    net.first.register_full_backward_hook(lambda m, grads, outs: None)
    net.first.register_full_backward_pre_hook(lambda m, outs: None)


@whole
def several_in_order(net):
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * 2,))
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] + 1,))
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * 5,), prepend=True)
    net.first.register_full_backward_pre_hook(lambda m, outs: [outs[0] - 1])
    net.first.register_full_backward_pre_hook(lambda m, outs: (outs[0] * 3,))


@whole
def hooks_see_what_pre_hooks_gave(net):
    net.first.register_full_backward_pre_hook(lambda m, outs: [outs[0] - 1])
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] + outs[0].sum() + len(outs),))


@whole
def modules_within_modules(net):
    for n, part in enumerate(net.modules()):
        part.register_full_backward_hook(lambda m, grads, outs, n=n: tuple(g * (n + 2) for g in grads))
        part.register_full_backward_pre_hook(lambda m, outs, n=n: tuple(g + n for g in outs))


@whole
def state_of_the_module(net):
    net.first.scale = 3.0
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * m.scale + m.weight.sum(),))


@whole
def a_tensor_from_around(net):
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * net.mask,))


@whole
def a_gradient_withheld(net):
    net.second.register_full_backward_hook(lambda m, grads, outs: (None,))


@whole
def a_global_hook(net):
    return [
        modules.register_module_full_backward_hook(lambda m, grads, outs: (grads[0] * 2,)),
        modules.register_module_full_backward_pre_hook(lambda m, outs: (outs[0] + 1,)),
    ]


@whole
def a_method(net):
    class Hooks:
        factor = 4

        def change(self, module, grads, outs):
            return (grads[0] * self.factor,)

    net.first.register_full_backward_hook(Hooks().change)


@whole
def random_numbers(net):
    net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * torch.rand(3),))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_captured_whole(name, backend):
    check(WHOLE[name], backend)


# ---- hooks that do more


@broken
def a_log(net):
    net.first.register_full_backward_hook(lambda m, grads, outs: net.log.append("first"))
    net.second.register_full_backward_pre_hook(lambda m, outs: net.log.append("before second"))
    net.second.register_full_backward_hook(lambda m, grads, outs: net.log.append("second"))


@broken
def arguments_kept(net):
    def keep(module, grads, outs):
        net.log.append((type(module).__name__, [g.clone() for g in grads], [g.clone() for g in outs]))
        return (grads[0] * 2,)

    net.first.register_full_backward_hook(keep)
    net.second[1].register_full_backward_hook(keep)


@broken
def a_decision_on_data(net):
    def clip(module, grads, outs):
        return (grads[0] / grads[0].norm(),) if grads[0].norm() > 1 else None

    net.first.register_full_backward_hook(clip)


@broken
def a_counter(net):
    def count(module, outs):
        module.count = getattr(module, "count", 0) + 1
        net.log.append(module.count)
        return (outs[0] * module.count,)

    net.first.register_full_backward_pre_hook(count)


@broken
def a_gradient_changed_in_place(net):
    def double(module, grads, outs):
        grads[0].mul_(2)

    net.first.register_full_backward_hook(double)


@broken
def a_gradient_that_was_accumulated(net):
    def read(module, grads, outs):
        net.log.append(net.second[1].weight.grad is None)

    net.first.register_full_backward_hook(read)


@broken
def accumulated_so_far(net):
    net.first.register_full_backward_hook(
        lambda m, grads, outs: None if net.second[1].weight.grad is None else (grads[0] * 2,)
    )


@pytest.mark.parametrize(
    ("name", "backend"), [*((name, "eager") for name in EFFECTS), ("arguments_kept", "aot_eager")]
)
def test_correct_around_a_break(name, backend):
    run = check(EFFECTS[name], backend, whole=False)
    assert reasons(run)


def test_why_a_hook_is_not_captured_is_said():
    net = Net()
    a_log(net)
    compiled = framelift.compile(net, backend="eager", fullgraph=True)
    with pytest.raises(framelift.exc.Unsupported, match="hook of register_full_backward") as error:
        compiled(torch.ones(1, 3, requires_grad=True))
    assert "something from outside" in str(error.value)


# ---- when no input is differentiated, and other shapes of calls


@pytest.mark.parametrize(
    ("name", "backend"),
    [("nothing_changed", "aot_eager"), ("a_pre_hook", "aot_eager"), ("modules_within_modules", "aot_eager")]
    + [("nothing_changed", "eager"), ("a_log", "eager")],
)
def test_no_input_is_differentiated(name, backend):
    set_up = WHOLE.get(name) or EFFECTS[name]
    if name == "modules_within_modules":
        set_up = lambda net: modules_within_modules(net.second)
    check(set_up, backend, whole=name in WHOLE, differentiated=False)


def warnings_of_steps(inside: bool, compiled: str = "", steps: int = 3) -> list[list[str]]:
    """What each step warns of; `inside`: gradients are computed in the function, too."""
    net = Net()
    net.first.register_full_backward_hook(lambda module, grad_inputs, grads: None)

    def step(x):
        y = net(x)
        if inside:
            y.sum().backward()
        return y

    run: Any = framelift.compile(step, backend=compiled, fullgraph=True) if compiled else step
    found = []
    for _ in range(steps):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            y = run(torch.ones(5, 3))
            if not inside:
                y.sum().backward()
        found.append([str(warning.message) for warning in told])
        net.zero_grad()
    return found


@pytest.mark.parametrize("inside", [False, True])
def test_each_step_warns_once_that_no_input_is_differentiated(inside):
    expected = warnings_of_steps(inside)
    assert [len(told) for told in expected] == [1, 1, 1]
    assert warnings_of_steps(inside, "eager") == expected
    # AOTAutograd traces the backward pass once: only then there is someone to warn
    assert warnings_of_steps(inside, "aot_eager") == [expected[0], [], []]


class Several(nn.Module):
    """Tensors of which some are differentiated, and other things, in and out."""

    def forward(self, x, scale, index, *, bias):
        return x * scale + bias, index + 1, scale


class Around(Net):
    def __init__(self) -> None:
        super().__init__()
        self.several = Several()

    def forward(self, x):
        found, index, scale = self.several(self.first(x), 2, torch.arange(4), bias=x.sum())
        return found * index * scale


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_and_results_that_have_no_gradient(backend):
    def set_up(net):
        def hook(module, grads, outs):
            assert [g is None for g in grads] == [False, True, False] and outs[1] is outs[2] is None
            return grads[0] + outs[0], None, grads[2] + 1

        net.several.register_full_backward_hook(hook)

    check(set_up, backend, make=Around)


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_differentiated_results(backend):
    class Pair(Around):
        def forward(self, x):
            a, b = self.pair(x)
            return a + b

    class Two(nn.Module):
        def forward(self, x):
            return x * 2, x.sin()

    def make():
        net = Pair()
        net.pair = Two()
        return net

    def set_up(net):
        net.pair.register_full_backward_hook(lambda m, grads, outs: (grads[0] + outs[0] * outs[1],))

    run = check(set_up, backend, whole=False, make=make)
    assert reasons(run)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_inside_breaks(backend):
    class Printing(nn.Linear):
        def forward(self, x):
            print("inside", end="")
            return super().forward(x).cos()

    def set_up(net):
        net.first = Printing(3, 4)
        changed_gradients(net)

    check(set_up, backend, whole=False)


def test_without_gradients_hooks_are_not_called():
    net = Net()
    a_log(net)
    compiled = framelift.compile(net, backend="eager", fullgraph=True)
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x))
    assert why_not(compiled) is None and entries(compiled) == 1 and net.log == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_whole_step_inside(backend):
    def outcome(compiling):
        torch.manual_seed(0)
        net = Net()
        several_in_order(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            net(x).pow(2).sum().backward()
            optimizer.step()

        run = framelift.compile(step, backend=backend, fullgraph=True) if compiling else step
        for _ in range(3):
            run(torch.randn(5, 3, requires_grad=True))
        if compiling:
            assert why_not(run) is None and 0 < entries(run) <= 2
        return list(net.parameters())

    torch.testing.assert_close(outcome(True), outcome(False))


class Heads(Net):
    """Two results, of which only the first is used."""

    def forward(self, x):
        return self.first(x), self.second(self.first(x))


@pytest.mark.parametrize("kind", ["module", "tensor"])
@pytest.mark.parametrize(
    ("hook", "is_compiled"),
    [
        (lambda grad: grad * 2, True),
        (lambda grad: (-grad.clamp(-1, 1)).t().t() / 3, True),
        (lambda grad: grad + 1, False),
        (lambda grad: grad / grad.norm(), False),
        (lambda grad: grad.clamp(min=0.5), False),
    ],
)
def test_a_result_that_nobody_uses(hook, is_compiled, kind):
    def outcome(compiling):
        torch.manual_seed(0)
        net = Heads()
        if kind == "module":
            net.second.register_full_backward_hook(lambda m, grads, outs: (hook(grads[0]),))

        def fn(x):
            one, other = net(x)
            if kind == "tensor":
                other = other * 1
                other.register_hook(hook)
            return one, other

        x = torch.randn(5, 3, requires_grad=True)
        run = framelift.compile(fn, backend="aot_eager", fullgraph=True) if compiling else fn
        run(x)[0].sum().backward()
        return x.grad

    framelift.counters.clear()
    torch.testing.assert_close(outcome(True), outcome(False))
    # a hook of the result itself is registered when the graph has run
    as_captured = not is_compiled and kind == "module"
    assert sum(framelift.counters["graphs_run_as_captured"].values()) == as_captured


def in_order(x, seen):
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    y.register_hook(lambda grad: grad + y.detach())
    return y


def of_two(x, seen):
    y, z = x * 2, x.exp()
    y.register_hook(lambda grad: grad * z.detach())
    z.register_hook(lambda grad: grad - 1)
    return y, z


def that_feeds_another(x, seen):
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    return y, y * 2


def that_is_taken_back(x, seen):
    y = x * 2
    y.register_hook(lambda grad: grad * 5).remove()
    y.register_hook(lambda grad: None)
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [in_order, of_two, that_feeds_another, that_is_taken_back])
def test_hooks_of_results_come_before_those_of_callers(fn, backend):
    def outcome(run):
        seen = []
        x = torch.linspace(-1, 2, 4, requires_grad=True)
        for _ in range(2):
            results = run(x, seen)
            results = results if isinstance(results, tuple) else (results,)
            for result in results:
                result.register_hook(lambda grad: seen.append(grad.clone()))
                result.retain_grad()
            sum((result * result).sum() for result in results).backward()
            seen.extend(result.grad for result in results)
        return [x.grad, *seen]

    expected, found = outcome(fn), outcome(framelift.compile(fn, backend=backend, fullgraph=True))
    assert len(expected) == len(found)
    for left, right in zip(expected, found, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("fn", [in_order, of_two, that_is_taken_back])
def test_graphs_with_hooked_results_are_compiled(fn):
    framelift.counters.clear()
    framelift.compile(fn, backend="aot_eager", fullgraph=True)(torch.ones(3, requires_grad=True), [])
    assert not framelift.counters["graphs_run_as_captured"]


# ---- hooks that come and go


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_added_changed_and_removed(backend):
    net = Net()
    compiled = framelift.compile(net, backend=backend, fullgraph=True)
    x = torch.randn(4, 3)

    def same():
        found = []
        for run in (net, compiled):
            given = x.clone().requires_grad_()
            run(given).sum().backward()
            found.append(given.grad)
        torch.testing.assert_close(found[1], found[0])
        return entries(compiled)

    assert same() == 1
    handle = net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * net.scale,))
    assert same() == same() == 2
    net.scale = 5.0
    assert same() == same() == 3
    second = net.second.register_full_backward_pre_hook(lambda m, outs: (outs[0] + 1,))
    assert same() == 4
    second.remove()
    assert same() == 4
    handle.remove()
    assert same() == 4
    twice = lambda m, outs: (outs[0] * 2,)
    with modules.register_module_full_backward_pre_hook(twice):
        assert same() == 5
    assert same() == 5


def test_a_hook_that_is_removed_before_the_gradients_come_is_still_called():
    net = Net()
    handle = net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * 7,))
    found = []
    for run in (net, framelift.compile(net, backend="eager", fullgraph=True)):
        x = torch.ones(1, 3, requires_grad=True)
        out = run(x).sum()
        handle.remove()
        out.backward()
        found.append(x.grad)
        handle = net.first.register_full_backward_hook(lambda m, grads, outs: (grads[0] * 7,))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_that_raises_does_so_as_gradients_are_computed(backend):
    def raises(module, grads, outs):
        raise ValueError("from the hook")

    def wrong_number(module, grads, outs):
        return grads[0], grads[0]

    for hook, error in ((raises, "from the hook"), (wrong_number, "invalid number of grad_input")):
        net = Net()
        net.first.register_full_backward_hook(hook)
        out = framelift.compile(net, backend=backend)(torch.ones(2, 3, requires_grad=True))
        with pytest.raises((ValueError, RuntimeError), match=error):
            out.sum().backward()


def test_the_older_kind_of_hook():
    def set_up(net):
        net.first.register_backward_hook(lambda m, grads, outs: net.log.append(len(grads)))

    assert reasons(check(set_up, "eager", whole=False))
