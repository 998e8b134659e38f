"""Tensors of subclasses that a captured function makes, and `__torch_function__` of objects of any class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

Tensor = torch.Tensor


class Plain(Tensor):
    """Nothing of its own."""


class Doubled(Tensor):
    """What torch does is done twice."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        return result * 2 if func is torch.sin else result


class Initialised(Tensor):
    def __new__(cls, data: Any, scale: Any, name: str = "") -> Any:
        return Tensor._make_subclass(cls, data)

    def __init__(self, data: Any, scale: Any, name: str = "") -> None:
        self.scale, self.label = scale, name

    def scaled(self) -> Any:
        return self * self.scale


class Annotated(Tensor):
    @staticmethod
    def __new__(cls: Any, data: Any, extra: Any = 3) -> Any:
        made = super().__new__(cls, data)
        made.extra = extra
        return made


class Cast(Tensor):
    def __new__(cls, data: Any) -> Any:
        return data.as_subclass(cls)


def of_no_arguments(x: Any) -> Any:
    return Plain(x + 1) * 2


def with_a_handler(x: Any) -> Any:
    return Doubled(x).sin() + 1


def with_arguments(x: Any) -> Any:
    made = Initialised(x + 1, x.sum(), name="a")
    return made, made.scaled(), made.label


def with_an_attribute(x: Any) -> Any:
    made = Annotated(x + 1, 4)
    made.more = [made.extra, x]
    return made, made.extra


def by_a_cast(x: Any) -> Any:
    return Cast(x * 2).cos()


def of_sizes(x: Any) -> Any:
    return Plain(2, 3).fill_(1) + x.sum()


def of_numbers(x: Any) -> Any:
    return Plain([1.0, 2.0]) * x.sum()


def local_class(x: Any) -> Any:
    class Local(Tensor):
        factor = 3

        def more(self) -> Any:
            return self * self.factor

    return Local(x).more().as_subclass(Tensor)


def leaf(x: Any) -> Any:
    made = Tensor._make_subclass(Plain, x.detach(), True)
    return made, made.requires_grad, made.is_leaf


MADE = [of_no_arguments, with_a_handler, with_arguments, with_an_attribute, by_a_cast]
MADE += [of_sizes, of_numbers, local_class, leaf]


class Wrapped:
    """An object around a tensor, which torch asks what its functions do."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.stack:
            return cls(sum([one.tensor for one in args[0]]))
        if func is torch.cos:
            return NotImplemented
        inner = [one.tensor if isinstance(one, Wrapped) else one for one in args]
        return cls(func(*inner, **(kwargs or {})))


class Deferring(Wrapped):
    """A subclass, which is asked first."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return [kind.__name__ for kind in types]


OUTSIDE = Wrapped(torch.ones(3))


def stacked(x: Any) -> Any:
    return torch.stack([Wrapped(x), Wrapped(x + 1)]).tensor


def by_keyword(x: Any) -> Any:
    return torch.add(Wrapped(x), 1, alpha=2).tensor


def function_in_python(x: Any) -> Any:
    return torch.nn.functional.softmax(Wrapped(x), dim=0).tensor


def operator_of_the_language(x: Any) -> Any:
    return (x + Wrapped(x)).tensor


def one_from_outside(x: Any) -> Any:
    return torch.mul(OUTSIDE, x).tensor


def subclass_first(x: Any) -> Any:
    return torch.add(Wrapped(x), Deferring(x))


def refused_by_it(x: Any) -> Any:
    try:
        return torch.cos(Wrapped(x))
    except TypeError:
        return x * 2


ASKED = [stacked, by_keyword, function_in_python, operator_of_the_language, one_from_outside, subclass_first]
ASKED += [refused_by_it]


def shown(value: Any) -> Any:
    """A value as what can be compared: a tensor with its class and attributes."""
    if isinstance(value, Tensor):
        with torch._C.DisableTorchFunction():
            attributes = {name: shown(held) for name, held in vars(value).items()}
            return type(value).__name__, value.tolist(), value.requires_grad, attributes
    if isinstance(value, (tuple, list)):
        return [shown(item) for item in value]
    return value


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [*MADE, *ASKED], ids=lambda fn: fn.__name__)
def test_a_function_gives_what_it_gives_eagerly(
    fn: Callable[..., Any], backend: str, requires_grad: bool
) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=fn is not refused_by_it)
    for n in range(2):
        x = torch.arange(3.0) + n
        given = [x.clone().requires_grad_(requires_grad) for _ in range(2)]
        assert shown(compiled(given[0])) == shown(fn(given[1]))


def test_a_handler_that_is_replaced_is_noticed() -> None:
    class Asked:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[1] + 1

    def fn(x: Any) -> Any:
        return torch.add(Asked(), x)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    Asked.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: args[1] * 5)  # type: ignore[assignment,method-assign]
    assert torch.equal(compiled(x), x * 5)
