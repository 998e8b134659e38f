"""A descriptor that a class has, or what a property calls, may hold state, which is guarded."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Getting:
    def __init__(self, n: int) -> None:
        self.n = n

    def __get__(self, obj: Any, owner: Any) -> int:
        return self.n


class Storing(Getting):
    def __set__(self, obj: Any, value: int) -> None:
        vars(obj)["stored"] = value * self.n

    def __delete__(self, obj: Any) -> None:
        vars(obj)["stored"] = self.n


class ListGetting(list):
    @property
    def n(self) -> int:
        return self[0]

    @n.setter
    def n(self, value: int) -> None:
        self[0] = value

    def __get__(self, obj: Any, owner: Any) -> int:
        return self[0]


class Called:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, obj: Any, *value: int) -> int:
        if not isinstance(obj, type):
            vars(obj)["stored"] = value[0] * self.n if value else self.n
        return self.n


def read(obj: Any) -> int:
    return obj.found


def called(obj: Any) -> int:
    return obj.found()


def set_(obj: Any) -> int:
    obj.found = 5
    return obj.stored


def deleted(obj: Any) -> int:
    del obj.found
    return obj.stored


def by_c(obj: Any) -> int:
    return operator.attrgetter("found")(obj)


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[Any], int], Callable[[Any], Any]]] = {
    "a descriptor": (lambda: Getting(2), read, lambda found: found),
    "a descriptor that C asks": (lambda: Getting(2), by_c, lambda found: found),
    "a data descriptor": (lambda: Storing(2), read, lambda found: found),
    "a data descriptor set": (lambda: Storing(2), set_, lambda found: found),
    "a data descriptor deleted": (lambda: Storing(2), deleted, lambda found: found),
    "a list as a descriptor": (lambda: ListGetting([2]), read, lambda found: found),
    "a property": (lambda: property(Called(2)), read, lambda found: found.fget),
    "a property set": (lambda: property(None, Called(2)), set_, lambda found: found.fset),
    "a property deleted": (lambda: property(None, None, Called(2)), deleted, lambda found: found.fdel),
    "a class method": (lambda: classmethod(Called(2)), called, lambda found: found.__func__),
    "a partial method": (lambda: functools.partialmethod(Called(2)), called, lambda found: found.func),
}
"""(what a class has, what is done with an object of it, where its state is)"""


@pytest.mark.parametrize("is_inside", [True, False], ids=["made while tracing", "from outside"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_state_of_what_a_class_has_found(name: str, is_inside: bool) -> None:
    make, use, state_of = PROGRAMS[name]

    class Holder:
        found = make()

    one = Holder()

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * use(Holder() if is_inside else one)

    compiled, x = framelift.compile(program, backend="eager"), torch.ones(2)
    for n in (2, 3, 4):
        state_of(vars(Holder)["found"]).n = n
        found, stored = compiled(x), vars(one).pop("stored", None)
        assert torch.equal(found, program(x))
        assert stored == vars(one).pop("stored", None)


def test_a_property_of_a_metaclass() -> None:
    class Meta(type):
        found = property(Called(2))

    class Holder(metaclass=Meta):
        pass

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * Holder.found

    compiled, x = framelift.compile(program, backend="eager"), torch.ones(2)
    for n in (2, 3):
        vars(Meta)["found"].fget.n = n
        assert torch.equal(compiled(x), x * n)


def test_another_lookup_in_the_place_of_torchs_for_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, found = torch.nn.Linear(2, 2), torch.nn.Module.__getattr__
    compiled, x = framelift.compile(lambda x: layer(x) * layer.bias, backend="eager"), torch.ones(2, 2)
    assert torch.equal(compiled(x), layer(x) * layer.bias)
    monkeypatch.setattr(
        torch.nn.Module, "__getattr__", lambda self, name: found(self, name) + (name == "bias")
    )
    assert torch.equal(compiled(x), layer(x) * layer.bias)
