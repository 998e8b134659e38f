"""`torch.autograd.Function`: what forward is given and gives beside tensors, and what backward gives."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function

import framelift
from check import check
from framelift.exc import Unsupported


class Kind(enum.Enum):
    SINE = 0
    COSINE = 1


@dataclasses.dataclass
class Settings:
    factor: float
    shift: Any = None


class Chosen(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, kind: Any, settings: Any) -> Any:
        ctx.kind, ctx.settings = kind, settings
        ctx.save_for_backward(x)
        return (x.sin() if kind is Kind.SINE else x.cos()) * settings.factor + settings.shift

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, None, None
        inner = x.cos() if ctx.kind is Kind.SINE else -x.sin()
        return grad * inner * ctx.settings.factor, None, None


class Unfilled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None if grad is None else grad * 2


class Filling(Function):
    """Backward gives something of its own where there is no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        y = x.exp()
        ctx.save_for_backward(x, y)
        ctx.more = y * 3
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        _, y = ctx.saved_tensors
        return y * 7 + ctx.more if grad is None else grad * y


class Demanding(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class Counting(Function):
    """Not captured: what backward does to its context can't be traced twice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.calls = 0
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.calls += 1
        return None if grad is None else grad * ctx.calls


class Written(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.mark_dirty(x.mul_(2))
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None if grad is None else grad * 2


class Stop(Function):
    """Gives no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None


class Mixed(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 3, x * 2, None, "text", x * 3, torch.float32

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        assert [n for n, grad in enumerate(grads) if grad is None] == [0, 2, 3, 5]
        return grads[1] * 2 + grads[4]


class ConstantsOnly(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2, 7

    @staticmethod
    def backward(ctx: Any, grad: Any, nothing: Any) -> Any:
        return grad * 2


class Fewer(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, kind: Any) -> Any:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def options(x: Any) -> Any:
    return Chosen.apply(x, Kind.COSINE, Settings(3.0, x.sum()))


def not_filled(x: Any) -> Any:
    return Unfilled.apply(x) + 1


def mixed(x: Any) -> Any:
    found = Mixed.apply(x)
    return found[1] + found[4] * found[0], found


def a_constant(x: Any) -> Any:
    y, n = ConstantsOnly.apply(x)
    return y * n


FUNCTIONS = [options, not_filled, mixed, a_constant]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_a_function_gives_what_it_gives_eagerly(
    fn: Callable[..., Any], backend: str, requires_grad: bool
) -> None:
    def step(x: Any) -> Any:
        found = fn(x)
        return found if isinstance(found, tuple) else (found,)

    compiled = check(step, torch.arange(3.0), backend=backend)
    given = [torch.arange(3.0, requires_grad=requires_grad) for _ in range(2)]
    for call, x in zip((compiled, step), given, strict=True):
        if requires_grad:
            call(x)[0].sum().backward()
    torch.testing.assert_close(given[0].grad, given[1].grad)


def test_a_backward_that_does_not_fit_fails_in_the_backward_pass() -> None:
    def fn(x: Any) -> Any:
        return Fewer.apply(x, Kind.SINE)

    x = torch.ones(2, requires_grad=True)
    found = framelift.compile(fn, backend="eager", fullgraph=True)(x)
    torch.testing.assert_close(found, x.sin())
    for result in (found, fn(x)):
        with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
            result.sum().backward()


class UnfilledMany(Unfilled):
    @staticmethod
    def forward(ctx: Any, x: Any, count: int) -> Any:
        ctx.set_materialize_grads(False)
        return (*[x * n for n in range(count)], x.sort().indices, "text")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        assert grads[-2] is grads[-1] is None
        which = [n for n, grad in enumerate(grads) if grad is not None]
        return (sum(grads[n] * 10**n for n in which) if which else None), None


class Demands(UnfilledMany):
    """Works where the first result has got a gradient."""

    @staticmethod
    def backward(ctx: Any, first: Any, *others: Any) -> Any:
        return first * 2 + sum(1 for grad in others if grad is not None), None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [UnfilledMany, Demands])
@pytest.mark.parametrize("used", list(itertools.product([True, False], repeat=3)), ids=str)
def test_which_of_several_results_get_a_gradient_is_seen(function: Any, used: Any, backend: str) -> None:
    def fn(x: Any) -> Any:
        return function.apply(x * 1, 3)

    def gradient(call: Callable[..., Any]) -> Any:
        x = torch.linspace(0, 1, 3).requires_grad_()
        results = call(x)
        stopped = [result if is_used else Stop.apply(result) for result, is_used in zip(results, used)]
        try:
            sum(result.sum() for result in stopped).backward()
        except TypeError:
            return TypeError
        return x.grad if x.grad is None else x.grad.tolist()

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    if backend == "eager":
        assert [gradient(compiled) for _ in range(2)] == [gradient(fn)] * 2
    elif all(used):  # AOTAutograd fills up for all that a graph gives
        assert gradient(compiled) == gradient(fn)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("used", list(itertools.product([True, False], repeat=2)), ids=str)
def test_which_of_several_results_are_used_inside_is_seen(used: Any, backend: str) -> None:
    def fn(x: Any) -> Any:
        results = UnfilledMany.apply(x * 1, 3)
        return x.exp() + sum(result for result, is_used in zip(results, used) if is_used)

    grads = []
    for call in (fn, framelift.compile(fn, backend=backend, fullgraph=True)):
        x = torch.linspace(0, 1, 3).requires_grad_()
        call(x).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)


def test_gradients_of_many_results_that_are_not_filled_up_are_refused() -> None:
    def fn(x: Any) -> Any:
        return UnfilledMany.apply(x, 4)[1]

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(Unsupported, match=r"set_materialize_grads\(False\) with many results"):
        framelift.compile(fn, backend="eager", fullgraph=True)(x)
    framelift.compile(fn, backend="eager")(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 10.0))


class InContainers(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, given: Any) -> Any:
        return x * 2, [1, (2, "a")], {"k": 3, "nested": [None]}, given, {4, 5}

    @staticmethod
    def backward(ctx: Any, grad: Any, *nothing: Any) -> Any:
        assert not any(nothing)
        return grad * 3, None


class Holding(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2, [x * 3]

    @staticmethod
    def backward(ctx: Any, grad: Any, nothing: Any) -> Any:
        return grad * 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_containers_of_constants_are_results(requires_grad: bool, backend: str) -> None:
    def fn(x: Any, given: Any) -> Any:
        y, listed, named, same, members = InContainers.apply(x, given)
        listed.append(named["k"])
        return y * listed[0], listed, named, same is given, members

    found, grads = [], []
    for call in (fn, framelift.compile(fn, backend=backend, fullgraph=True)):
        x = torch.linspace(0, 1, 3, requires_grad=requires_grad)
        result, *others = call(x, [7, 8])
        if requires_grad:
            result.sum().backward()
        found.append((result.tolist(), others))
        grads.append(x.grad)
    assert found[0] == found[1]
    torch.testing.assert_close(*grads)


def test_tensors_in_containers_are_refused() -> None:
    with pytest.raises(Unsupported, match="in something else than a tuple"):
        framelift.compile(lambda x: Holding.apply(x)[0], backend="eager", fullgraph=True)(
            torch.ones(2, requires_grad=True)
        )


@pytest.mark.parametrize("stopped", ["not", "inside", "outside"])
@pytest.mark.parametrize("function", [Unfilled, Filling, Demanding, Counting, Written])
def test_a_gradient_that_there_is_none_of_is_none_if_the_function_says_so(
    function: Any, stopped: str
) -> None:
    def fn(x: Any) -> Any:
        y = function.apply(x * 1)
        return Stop.apply(y) if stopped == "inside" else y

    def gradient(call: Callable[..., Any]) -> Any:
        x = torch.linspace(0, 1, 3).requires_grad_()
        y = call(x)
        try:
            (Stop.apply(y) if stopped == "outside" else y).sum().backward()
        except TypeError as error:
            return str(error)
        return x.grad if x.grad is None else x.grad.tolist()

    compiled = framelift.compile(fn, backend="eager", fullgraph=function is not Counting)
    assert [gradient(compiled) for _ in range(2)] == [gradient(fn)] * 2


@pytest.mark.parametrize("function", [Unfilled, Filling, Written])
def test_compilers_see_such_a_gradient_too(function: Any) -> None:
    def fn(x: Any) -> Any:
        return Stop.apply(function.apply(x * 1))

    grads = []
    for call in (fn, framelift.compile(fn, backend="aot_eager", fullgraph=True)):
        x = torch.linspace(0, 1, 3).requires_grad_()
        call(x).sum().backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)
