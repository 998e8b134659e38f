"""Dictionaries of `collections`: C is not shown the tensors in them, so one graph does for all."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import check, entries


class Doubling(OrderedDict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value * 2)


def copied(x: Any) -> Any:
    made = OrderedDict(a=x, b=x + 1)
    other = made.copy()
    other["a"] = x * 3
    return made, other, type(other)


def popped(x: Any) -> Any:
    made = OrderedDict(a=x, b=x + 1, c=x + 2)
    return made.popitem(), made.popitem(last=False), made


def with_a_factory(x: Any) -> Any:
    made = defaultdict(list, {"a": x})
    other = made.copy()
    other["b"].append(x * 2)
    return made, other, other.default_factory


def of_a_subclass(x: Any) -> Any:
    made = Doubling(a=x)
    return made.copy(), made


@pytest.mark.parametrize("fn", [copied, popped, with_a_factory, of_a_subclass])
def test_copies_and_items_are_the_same(fn: Callable[..., Any]) -> None:
    check(fn, torch.ones(3))


@pytest.mark.parametrize("fn", [copied, popped, with_a_factory])
def test_another_tensor_is_no_other_graph(fn: Callable[..., Any]) -> None:
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in range(3):
        compiled(torch.ones(3) * n)
    assert entries(compiled) == 1 and not framelift.explain(fn)(torch.ones(3)).breaks


def test_a_dictionary_from_outside_loses_its_last_item() -> None:
    def fn(held: Any) -> Any:
        key, value = held.popitem()
        held["first"], other = value * 2, held.copy()
        other["more"] = value
        return key, other

    found, expected = (OrderedDict(a=torch.ones(2), b=torch.zeros(2)) for _ in range(2))
    result, wanted = framelift.compile(fn, backend="eager", fullgraph=True)(found), fn(expected)
    assert str(result) == str(wanted) and str(found) == str(expected)


def test_an_empty_one_has_no_item() -> None:
    def fn(x: Any) -> Any:
        try:
            return OrderedDict().popitem()
        except KeyError as error:
            return x * 2, str(error)

    check(fn, torch.ones(3))


def factory() -> list[int]:
    return [1]


def test_a_factory_that_is_set_later() -> None:
    def program(x):
        found: Any = defaultdict(None, {0: x})
        found.default_factory = factory
        found[3].append(2)
        found.default_factory = list
        found[4].append(x)
        found.default_factory = None
        try:
            found[5]
        except KeyError as error:
            return found, error.args, x + 1
        raise AssertionError

    check(program, torch.ones(2), calls=2)
