"""`torch.autograd.forward_ad` in captured code: primals, tangents and what has none, as eagerly."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

import framelift
from check import check

BACKENDS = ["eager", "aot_eager"]


def tensors(count: int = 2) -> tuple[torch.Tensor, ...]:
    return tuple(torch.linspace(n + 0.5, n + 2, 6).reshape(2, 3) for n in range(count))


def simple(x, t):
    with dual_level():
        return tuple(unpack_dual((make_dual(x, t) ** 2).sin()))


def of_several(x, t):
    with dual_level():
        dual = make_dual(x, t)
        made = torch.nn.functional.linear(dual, t).relu()
        parts = unpack_dual(made), unpack_dual(made + 1), unpack_dual(dual.sum(0))
    return [(part.primal, part.tangent) for part in parts]


def of_none(x, t):
    with dual_level():
        dual = make_dual(x, t)
        found = [unpack_dual(x).tangent, unpack_dual(dual.detach()).tangent, unpack_dual(x * 2).tangent]
        return found, unpack_dual(x).primal


def switched_off(x, t):
    with dual_level():
        dual = make_dual(x, t)
        with forward_ad._set_fwd_grad_enabled(False):
            without = dual * 2
        return unpack_dual(without).tangent, unpack_dual(dual * 3).tangent, forward_ad._is_fwd_grad_enabled()


def decorated(x, t):
    @dual_level()
    def inner(x):
        return unpack_dual(make_dual(x, t).exp()).tangent

    return inner(x)


def written_to(x, t):
    with dual_level():
        made = torch.zeros(2, 3)
        made.copy_(make_dual(x, t))
        made.mul_(2)
        return tuple(unpack_dual(made))


def lives_on(x, t):
    with dual_level():
        made = make_dual(x, t) * 2
    return made, unpack_dual(made).tangent


def at_once(x, t):
    with dual_level():
        tangent = unpack_dual(make_dual(x, t)).tangent
    return tangent


def twice(x, t):
    with dual_level():
        first = unpack_dual(make_dual(x, t) ** 3).tangent
    with dual_level():
        return unpack_dual(make_dual(x, first) ** 2).tangent


def beside_transforms(x, t):
    return torch.func.jvp(torch.sin, (x,), (t,)), simple(x, t)


PROGRAMS = [simple, of_several, of_none, switched_off, decorated, written_to, lives_on]
PROGRAMS += [at_once, twice, beside_transforms]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_tangents_are_captured_whole(fn, backend):
    check(fn, *tensors(), backend=backend, calls=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tangents_are_differentiated_by_what_came_in(backend):
    given = [x.requires_grad_() for x in tensors()]
    compiled = framelift.compile(simple, backend=backend, fullgraph=True)
    expected = torch.autograd.grad(simple(*given)[1].sum(), given)
    assert all(map(torch.equal, torch.autograd.grad(compiled(*given)[1].sum(), given), expected))


def printing(x, t):
    y = x + 1
    with dual_level():
        dual = make_dual(y, t)
        print("between")
        primal, tangent = unpack_dual(dual.sin())
    return primal, tangent * 2


def nested(x, t):
    with dual_level(), dual_level():
        return unpack_dual(make_dual(x, t) * 2).tangent


def of_integers(x, t):
    with dual_level():
        return make_dual(x.long(), t)


def both_ways(x, t):
    with dual_level():
        made, tangent = unpack_dual(make_dual(x.detach().requires_grad_(), t).sin())
    return torch.autograd.grad(made.sum() + tangent.sum(), made)


@pytest.mark.parametrize("fn", [printing, nested, of_integers, both_ways])
def test_what_is_not_captured_is_as_eagerly(fn):
    check(fn, *tensors(), fullgraph=False, calls=2)


def test_no_level_is_left_open():
    for fn in (printing, nested, of_integers):
        with pytest.raises(framelift.exc.Unsupported):
            framelift.compile(fn, backend="eager", fullgraph=True)(*tensors())
    assert forward_ad._current_level == -1
