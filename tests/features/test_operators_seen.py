"""The operators that a program's own handlers get to see - of tensor subclasses, dispatch modes and function
modes - are those that they see eagerly, in that order, in every call after the first.

While tracing, the `__torch_dispatch__` of a tensor that wraps others is also asked about fakes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

import framelift

T = torch.Tensor
SEEN: list[str] = []


class Wrapping(torch.Tensor):
    """Notes what is done to it, and does it to what it wraps."""

    @staticmethod
    def __new__(cls, inner: T) -> Wrapping:
        about: Any = {"strides": inner.stride(), "dtype": inner.dtype, "requires_grad": inner.requires_grad}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **about)

    def __init__(self, inner: T) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Wrapping:
        return Wrapping(inner["inner"])

    def __repr__(self) -> str:
        return "Wrapping()"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(func))
        given = pytree.tree_map_only(Wrapping, lambda tensor: tensor.inner, (args, kwargs or {}))
        out = pytree.tree_map_only(torch.Tensor, Wrapping, func(*given[0], **given[1]))
        return return_and_correct_aliasing(func, args, kwargs, out)


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Derived(torch.Tensor):
    """With methods of its own, if it had any."""


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(func))
        return func(*args, **(kwargs or {}))


class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(func.__name__)
        return func(*args, **(kwargs or {}))


KINDS: dict[str, tuple[Callable[[T], T], Callable[[], Any]]] = {
    "wrapping": (Wrapping, contextlib.nullcontext),
    "overriding": (lambda x: x.as_subclass(Overriding), contextlib.nullcontext),
    "dispatch mode": (lambda x: x, DispatchMode),
    "dispatch mode, derived": (lambda x: x.as_subclass(Derived), DispatchMode),
    "function mode": (lambda x: x, FunctionMode),
}


def write(x: T) -> Any:
    y = x + 1
    y.add_(x)
    return y, x


def write_view(x: T) -> Any:
    y = x.view(-1)
    y.add_(1)
    return y, x


def break_off(x: T) -> Any:
    y = x * 2
    print(end="")
    return y + x


def without_gradients(x: T) -> Any:
    with torch.no_grad():
        return x * 3


PROGRAMS: list[Callable[[T], Any]] = [
    *[write, write_view, break_off, without_gradients],
    lambda x: x * 2 + 1,
    lambda x: x.t().sum(0),
    lambda x: x.mul_(2),
    lambda x: x,
    lambda x: x.detach(),
    lambda x: torch.cat([x, x]).relu().chunk(2),
    lambda x: (x[0], x[1:], x.mean()),
    lambda x: (x.clone(), x.contiguous()),
    lambda x: torch.nn.functional.linear(x, x),
    lambda x: [x, x * 2, {"a": x}],
    lambda x: x.to(torch.float64),
]


@pytest.mark.parametrize("trained", [False, True], ids=["", "trained"])
@pytest.mark.parametrize("program", PROGRAMS, ids=map(str, range(len(PROGRAMS))))
@pytest.mark.parametrize("kind", KINDS)
def test_handlers_see_what_they_see_eagerly(kind: str, program: Any, trained: bool) -> None:
    if trained and program in (PROGRAMS[1], PROGRAMS[6]):
        return  # writes to a leaf
    make, mode = KINDS[kind]

    def run(fn: Any) -> Any:
        x = make(torch.arange(9.0).reshape(3, 3))
        x.requires_grad_(trained)
        seen = []
        for _ in range(3):
            SEEN.clear()
            with mode():
                out = fn(x)
            seen.append(list(SEEN))
        tensors = [each for each in pytree.tree_leaves(out) if isinstance(each, torch.Tensor)]
        facts = [
            (type(each), each is x, each.requires_grad, each.is_leaf, each._is_view()) for each in tensors
        ]
        return seen[1:], facts

    assert run(framelift.compile(program, backend="eager")) == run(program)
