"""`torch.func`: functions that are differentiated are graphs within the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp
from torch.utils import _pytree as pytree

import framelift
from check import check, entries, reasons, recompiles, why_not
from framelift.exc import Unsupported

BACKENDS = ["eager", "aot_eager"]
WEIGHT = torch.linspace(-1, 1, 3)
MODEL = torch.nn.Linear(3, 2)
for _parameter in MODEL.parameters():
    torch.nn.init.constant_(_parameter, 0.3)


def rows(n: int = 4) -> torch.Tensor:
    return torch.arange(3.0 * n).reshape(n, 3) / 7


def weighted(y: Any) -> Any:
    return (y.sin() * WEIGHT).sum()


MADE_OUTSIDE = grad(weighted)
JACOBIAN_MADE_OUTSIDE = jacrev(lambda y: (y**2).sum(0))


def simple(x: Any) -> Any:
    return grad(weighted)(x)


def made_outside(x: Any) -> Any:
    return MADE_OUTSIDE(x)


def closed_over(x: Any) -> Any:
    scale = x.mean()
    return grad(lambda y: (y * scale * x).sum())(x)


def the_same_twice(x: Any) -> Any:
    return grad(lambda y, z: (y * z.sin()).sum())(x, x)


def second_argument(x: Any) -> Any:
    return grad(lambda y, z: (y * z.sin()).sum(), argnums=1)(x, x + 1)


def last_argument(x: Any) -> Any:
    return grad(lambda y, z: (y * z.sin()).sum(), argnums=-1)(x, x + 1)


def several_arguments(x: Any) -> Any:
    return grad(lambda y, z, n: (y * z * n).sum(), argnums=(0, 1))(x, x + 1, 3)


def keywords(x: Any) -> Any:
    return grad(lambda y, z, power=1: (y * z**power).sum())(x, z=x + 1, power=2)


def auxiliary(x: Any) -> Any:
    return grad(lambda y: ((y * y).sum(), {"a": y + 1, "b": [y.sum()]}), has_aux=True)(x)


def value_too(x: Any) -> Any:
    return grad_and_value(lambda y: weighted(y) * 2)(x)


def value_and_auxiliary(x: Any) -> Any:
    return grad_and_value(lambda y: (weighted(y), (y, y * 2)), has_aux=True)(x)


def structures(x: Any) -> Any:
    return grad(lambda given: (given["p"] * given["q"][0]).sum())({"p": x, "q": [x + 1]})


def twice(x: Any) -> Any:
    return grad(lambda y: grad(lambda z: (z.sin() * y * z).sum())(y).sum())(x)


def thrice(x: Any) -> Any:
    return grad(lambda y: grad(lambda z: grad(lambda w: (w**4).sum())(z).sum())(y).sum())(x)


def without_gradients_inside(x: Any) -> Any:
    def fn(y: Any) -> Any:
        with torch.no_grad():
            constant = y**2
        return (y * constant).sum()

    return grad(fn)(x)


def without_gradients_outside(x: Any) -> Any:
    with torch.no_grad():
        return grad(weighted)(x)


def asks(x: Any) -> Any:
    return grad(lambda y: y.sum() * (2 if y.requires_grad and torch.is_grad_enabled() else 3))(x)


def changes_of_its_own(x: Any) -> Any:
    def fn(y: Any) -> Any:
        z = y * 2
        z.mul_(y)
        return z.sum()

    return grad(fn)(x)


def of_a_model(x: Any) -> Any:
    def loss(parameters: Any, row: Any) -> Any:
        return functional_call(MODEL, parameters, (row,)).pow(2).sum()

    return grad(loss)(dict(MODEL.named_parameters()), x)


def for_each_row(x: Any) -> Any:
    return torch.vmap(grad(weighted))(x)


def of_mapped(x: Any) -> Any:
    return grad(lambda y: torch.vmap(lambda row: (row * WEIGHT).sin())(y).sum())(x)


def of_a_branch(x: Any) -> Any:
    inside = lambda y: torch.cond(y.sum() > 1, torch.sin, torch.cos, (y,))
    return inside(grad(weighted)(x))


def pulled_back(x: Any) -> Any:
    output, pull = vjp(lambda y: y.sin() * WEIGHT, x)
    return output, pull(x + 1), pull(torch.ones_like(output))


def several_pulled_back(x: Any) -> Any:
    output, pull = vjp(lambda y, z: {"p": y * z, "s": y.sum()}, x, x + 1)
    return output, pull({"p": x, "s": x.mean()})


def pulled_back_with_auxiliary(x: Any) -> Any:
    output, pull, aux = vjp(lambda y: (y.sin(), [y + 1]), x, has_aux=True)
    return output, pull(x), aux


def pulled_back_for_each(x: Any) -> Any:
    _, pull = vjp(lambda y: (y * y).sum(0), x)
    return torch.vmap(pull)(torch.eye(3))


def pushed(x: Any) -> Any:
    return jvp(lambda y: y.sin() * WEIGHT, (x,), (x + 1,))


def several_pushed(x: Any) -> Any:
    return jvp(lambda y, z: (y * z, y.sum()), (x, x + 1), (x, x * 2))


def pushed_with_auxiliary(x: Any) -> Any:
    return jvp(lambda y: (y.sin(), y + 1), (x,), (x,), has_aux=True)


def forward_over_reverse(x: Any) -> Any:
    return jvp(grad(weighted), (x,), (x * 2,))


def reverse_over_forward(x: Any) -> Any:
    return grad(lambda y: jvp(torch.sin, (y,), (y,))[1].sum())(x)


def jacobian(x: Any) -> Any:
    return jacrev(lambda y: (y**2).sum(0))(x)


def jacobian_made_outside(x: Any) -> Any:
    return JACOBIAN_MADE_OUTSIDE(x)


def jacobians(x: Any) -> Any:
    return jacrev(lambda y, z: (y * z, (y - z).sum(1)), argnums=(0, 1))(x, x + 1)


def jacobian_with_auxiliary(x: Any) -> Any:
    return jacrev(lambda y: (y.sum(0), y * 2), has_aux=True)(x)


def jacobian_in_chunks(x: Any) -> Any:
    return jacrev(lambda y: (y**2).sum(0), chunk_size=2)(x)


def forward_jacobian(x: Any) -> Any:
    return jacfwd(lambda y: (y**2).sum(0))(x)


def forward_jacobians(x: Any) -> Any:
    return jacfwd(lambda y, z: (y * z).sum(0), argnums=(0, 1))(x, x + 1)


def second_derivatives(x: Any) -> Any:
    return hessian(lambda y: (y**3).sum())(x)


def reverse_over_reverse(x: Any) -> Any:
    return jacrev(jacrev(lambda y: (y**3).sum()))(x)


PROGRAMS = [simple, made_outside, closed_over, the_same_twice, second_argument, last_argument, keywords]
PROGRAMS += [several_arguments, auxiliary, value_too, value_and_auxiliary, structures, twice, thrice, asks]
PROGRAMS += [without_gradients_inside, without_gradients_outside, changes_of_its_own, of_a_model, of_a_branch]
PROGRAMS += [for_each_row, of_mapped, pulled_back, several_pulled_back, pulled_back_with_auxiliary]
PROGRAMS += [pulled_back_for_each, pushed, several_pushed, pushed_with_auxiliary, forward_over_reverse]
PROGRAMS += [reverse_over_forward, jacobian, jacobian_made_outside, jacobians, jacobian_with_auxiliary]
PROGRAMS += [
    jacobian_in_chunks,
    forward_jacobian,
    forward_jacobians,
    second_derivatives,
    reverse_over_reverse,
]
if torch.__version__ < (2, 13):  # it asks a tensor where the part of each argument begins: a named break
    PROGRAMS = [fn for fn in PROGRAMS if fn not in (jacobians, forward_jacobians)]
NAMED = {"ids": lambda fn: fn.__name__}
ALONE = {of_a_branch: lambda x: (torch.sin if MADE_OUTSIDE(x).sum() > 1 else torch.cos)(MADE_OUTSIDE(x))}
"""What to compare with, where torch would compile something itself."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", PROGRAMS, **NAMED)
def test_a_transform_is_captured(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for x in (rows(), rows() - 1):
        torch.testing.assert_close(compiled(x), ALONE.get(fn, fn)(x))
    assert recompiles(compiled) == 0 and why_not(compiled) is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", PROGRAMS, **NAMED)
def test_what_it_gives_can_be_differentiated(fn: Callable[..., Any], backend: str) -> None:
    x = rows().requires_grad_()

    def gradient(call: Any) -> Any:
        found = [leaf for leaf in pytree.tree_leaves(call(x)) if leaf.requires_grad]
        if not found:
            return None
        loss = sum((leaf * torch.arange(leaf.numel()).reshape(leaf.shape)).sum() for leaf in found)
        return torch.autograd.grad(loss, x, allow_unused=True)[0]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    torch.testing.assert_close(gradient(compiled), gradient(ALONE.get(fn, fn)))
    assert recompiles(compiled) == 0


VARYING = [simple, closed_over, the_same_twice, auxiliary, twice, for_each_row, pulled_back, structures]
"""Forward mode relies on the sizes of what it is given: one graph for each."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", VARYING, **NAMED)
def test_sizes_may_vary(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=True)
    for n in (5, 6, 7):
        torch.testing.assert_close(compiled(rows(n)), fn(rows(n)))
    assert 1 <= entries(compiled) <= 2


def test_a_partial_function_and_a_method() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        def loss(self, times: int, y: torch.Tensor) -> Any:
            return (y.sin() * self.by * times).sum()

    def fn(scaled: Scaled, x: torch.Tensor) -> Any:
        return grad(functools.partial(scaled.loss, 3))(x)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for scaled in (Scaled(2.0), Scaled(3.0)):
        torch.testing.assert_close(compiled(scaled, rows()), fn(scaled, rows()))


def test_a_change_of_what_the_function_reads_is_noticed() -> None:
    class Settings:
        power = 2

    def fn(x: torch.Tensor) -> Any:
        return grad(lambda y: (y**Settings.power).sum())(x)

    check(fn, rows())
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for Settings.power in (2, 3, 3):
        torch.testing.assert_close(compiled(rows()), fn(rows()))
    assert entries(compiled) == 2  # two powers


# ---- effects, and linear approximations


def counts(x: torch.Tensor) -> Any:
    calls: list[str] = []
    settings = {"n": 0}

    def cubed(y: torch.Tensor) -> torch.Tensor:
        calls.append("cubed")
        settings["n"] += 1
        return (y**3).sum() * settings["n"]

    mapped = torch.vmap(lambda row: (calls.append("row"), row * 2)[1])(x)
    return grad(cubed)(x), jvp(cubed, (x,), (x,)), vjp(cubed, x)[0], mapped, calls, settings


def approximated(x: torch.Tensor) -> Any:
    value, push = torch.func.linearize(lambda y, z: {"a": y["y"].sin() * z, "b": z.exp()}, {"y": x}, x + 1)
    return value, push({"y": x}, x), push({"y": x + 1}, x * 2), torch.vmap(push)({"y": x[None]}, x[None])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [counts, approximated], ids=lambda fn: fn.__name__)
def test_effects_happen_once_and_approximations_are_linear(fn: Any, backend: str) -> None:
    check(fn, rows(), backend=backend)


# ---- what can't be


TOTAL = torch.zeros(3)
SEEN: list[Any] = []


def draws(x: torch.Tensor) -> Any:
    torch.manual_seed(3)
    return vjp(lambda y: (y * torch.rand(3)).sum(), x)[1](torch.ones(()))


ERRORS: dict[str, tuple[Any, str]] = {
    "no scalar": (lambda x: grad(torch.sin)(x), "func of torch.func.grad: it must give one tensor"),
    "no tensor": (lambda x: grad(lambda y: 3.0)(x), "func of torch.func.grad: it gives something else"),
    "no pair": (lambda x: grad(lambda y: y.sum(), has_aux=True)(x), "it must give a pair"),
    "a number": (lambda x: grad(lambda y, n: y.sum() * n, argnums=1)(x, 3.0), "something else than tensors"),
    "no argument": (lambda x: grad(lambda y: y.sum(), argnums=4)(x), "torch.func.grad: Got argnum=4"),
    "changes what it is given": (lambda x: grad(lambda y: y.mul_(2).sum())(x), "a change to a tensor"),
    "changes a tensor": (lambda x: grad(lambda y: (y * TOTAL.add_(1)).sum())(x), "a change to a tensor"),
    "leaves something behind": (lambda x: grad(lambda y: (SEEN.append(y), y.sum())[1])(x), "unknown tensor"),
    "draws": (draws, "func of torch.func.vjp, which is differentiated"),
    "cotangents": (lambda x: vjp(torch.sin, x)[1]((x, x)), "instead of gradients for *"),
    "tangents": (lambda x: jvp(torch.sin, (x,), (x, x)), "tangents that do not fit"),
    "linearize": (lambda x: torch.func.linearize(torch.sin, x)[1](x[0]), "tangents that do not fit"),
    "linearized effect": (
        lambda x: torch.func.linearize(lambda y: (SEEN.append(1), y)[1], x)[0],
        "a change to something from outside in func of torch.func.linearize",
    ),
}


KEEPING = ("leaves something behind", "linearized effect", "changes a tensor")
"""Those that change something that the next test sees."""


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_says_what_is_wrong(name: str) -> None:
    fn, message = ERRORS[name]
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    with pytest.raises(Unsupported) as raised:
        compiled(rows())
    assert message in str(raised.value) and __file__ in str(raised.value)


@pytest.mark.parametrize("name", [name for name in ERRORS if name not in KEEPING])
def test_what_is_not_captured_does_as_eager_does(name: str) -> None:
    check(ERRORS[name][0], rows(), fullgraph=False)


def test_a_function_that_pulls_back_does_not_live_on() -> None:
    def fn(x: torch.Tensor) -> Any:
        return vjp(torch.sin, x)

    compiled = framelift.compile(fn, backend="eager")
    torch.testing.assert_close(compiled(rows())[1](rows()), fn(rows())[1](rows()))
    assert reasons(compiled)
