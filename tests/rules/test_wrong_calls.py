"""Calls that a served callable does not take: they raise what Python raises, and are captured as any other.

Most programs catch the error, so that all of it is one graph.
"""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import inspect
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import check


class Item:
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.name = "item"
        self.slot = 1

    @functools.cached_property
    def cached(self) -> int:
        return 1


WRONG: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "getattr of nothing": lambda item, x: getattr(),
    "getattr of no name": lambda item, x: getattr(item),
    "getattr of four": lambda item, x: getattr(item, "name", 1, 2),
    "getattr by keyword": lambda item, x: getattr(item, "name", default=1),
    "getattr of a number": lambda item, x: getattr(item, 3),
    "getattr of a number, with a default": lambda item, x: getattr(item, 3, 1),
    "hasattr of one": lambda item, x: hasattr(item),
    "hasattr of a number": lambda item, x: hasattr(item, 3),
    "hasattr by keyword": lambda item, x: hasattr(obj=item, name="name"),
    "setattr of two": lambda item, x: setattr(item, "name"),
    "setattr of a number": lambda item, x: setattr(item, 3, 4),
    "delattr of three": lambda item, x: delattr(item, "name", 3),
    "delattr of a number": lambda item, x: delattr(item, 3),
    "len of nothing": lambda item, x: len(),
    "len of two": lambda item, x: len([item], [x]),
    "len by keyword": lambda item, x: len(obj=[item]),
    "iter of nothing": lambda item, x: iter(),
    "iter of three": lambda item, x: iter(item, x, 3),
    "isinstance of one": lambda item, x: isinstance(item),
    "callable of two": lambda item, x: callable(item, x),
    "callable of nothing": lambda item, x: callable(),
    "hash of two": lambda item, x: hash(item, x),
    "hash of nothing": lambda item, x: hash(),
    "bool of two": lambda item, x: bool(item, x),
    "bool by keyword": lambda item, x: bool(x=1),
    "dir of two": lambda item, x: dir(item, x),
    "locals of one": lambda item, x: locals(item),
    "globals of one": lambda item, x: globals(item),
    "vars of two": lambda item, x: vars(item, x),
    "super of four": lambda item, x: super(Item, item, 1, 2),
    "super by keyword": lambda item, x: super(Item, obj=item),
    "type of nothing": lambda item, x: type(),
    "type of two": lambda item, x: type("A", ()),
    "type.__new__ of one": lambda item, x: type.__new__(type),
    "type.mro of two": lambda item, x: type.mro(Item, 1),
    "type.mro of nothing": lambda item, x: type.mro(),
    "type.__instancecheck__ of one": lambda item, x: type.__instancecheck__(Item),
    "type.__subclasscheck__ of one": lambda item, x: type.__subclasscheck__(Item),
    "type.__setattr__ of one": lambda item, x: type.__setattr__(Item),
    "type.__setattr__ of nothing": lambda item, x: type.__setattr__(),
    "type.__delattr__ of one": lambda item, x: type.__delattr__(Item),
    "object.__setattr__ of two": lambda item, x: object.__setattr__(item, "a"),
    "object.__setattr__ of a number": lambda item, x: object.__setattr__(item, 3, 4),
    "object.__delattr__ of one": lambda item, x: object.__delattr__(item),
    "object.__delattr__ of a number": lambda item, x: object.__delattr__(item, 3),
    "object.__getattribute__ of one": lambda item, x: object.__getattribute__(item),
    "object.__getattribute__ of a number": lambda item, x: object.__getattribute__(item, 3),
    "object.__hash__ of two": lambda item, x: object.__hash__(item, 1),
    "object.__dir__ of two": lambda item, x: object.__dir__(item, 1),
    "object.__reduce_ex__ of one": lambda item, x: object.__reduce_ex__(item),
    "object.__getstate__ of two": lambda item, x: object.__getstate__(item, 1),
    "a slot of another": lambda item, x: Item.slot.__get__(3),
    "a slot set to nothing": lambda item, x: Item.slot.__set__(item),
    "a slot deleted twice": lambda item, x: Item.slot.__delete__(item, 1),
    "list.append of nothing": lambda item, x: [].append(),
    "list.append of two": lambda item, x: [x].append(1, 2),
    "dict.get of nothing": lambda item, x: {}.get(),
    "dict.get of three": lambda item, x: {"a": x}.get("a", 1, 2),
    "dict.get by keyword": lambda item, x: {"a": x}.get(key="a"),
    "frozenset.__hash__ of two": lambda item, x: frozenset.__hash__(frozenset(), 1),
    "a module of nothing": lambda item, x: types.ModuleType(),
    "a function of nothing": lambda item, x: types.FunctionType(),
    "copy.copy of nothing": lambda item, x: copy.copy(),
    "copy.copy of two": lambda item, x: copy.copy(item, x),
    "namedtuple of nothing": lambda item, x: collections.namedtuple(),
    "unwrap of two": lambda item, x: inspect.unwrap(item, x),
    "re.sub of two": lambda item, x: re.sub("a", "b"),
    "re.subn by another name": lambda item, x: re.subn("a", "b", "c", many=1),
    "str.format of nothing": lambda item, x: str.format(),
    "sys._getframe of two": lambda item, x: sys._getframe(1, 2),
    "torch.is_tensor of nothing": lambda item, x: torch.is_tensor(),
    "torch.is_tensor of two": lambda item, x: torch.is_tensor(x, x),
    "is_compiling of one": lambda item, x: torch.compiler.is_compiling(1),
    "is_scripting of one": lambda item, x: torch.jit.is_scripting(1),
    "get_default_device of one": lambda item, x: torch.get_default_device(1),
    "_check of nothing": lambda item, x: torch._check(),
    "_check_index of nothing": lambda item, x: torch._check_index(),
    "Module.__getattr__ of one": lambda item, x: torch.nn.Module.__getattr__(torch.nn.Module()),
}

BREAKING: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "__import__ of nothing": lambda item, x: builtins.__import__(),
    "a slot of nothing": lambda item, x: Item.slot.__get__(),
    "weakref.ref of nothing": lambda item, x: weakref.ref(),
    "_check_is_size of nothing": lambda item, x: torch._check_is_size(),
    "graph_break of two": lambda item, x: framelift.graph_break("a", "b"),
    "is_compiling of ours of one": lambda item, x: framelift.is_compiling(1),
}
"""Wrong calls of what is refused: they are made when the program runs."""


def told(wrong: Callable[..., Any]) -> Callable[..., Any]:
    def program(item: Any, x: torch.Tensor) -> Any:
        try:
            return wrong(item, x)
        except TypeError as error:
            return str(error), x + 1

    return program


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_raises_what_python_raises(name: str) -> None:
    check(told(WRONG[name]), Item(), torch.ones(2))


@pytest.mark.parametrize("name", WRONG | BREAKING)
def test_an_error_that_is_not_caught_is_the_same(name: str) -> None:
    check((WRONG | BREAKING)[name], Item(), torch.ones(2), fullgraph=False)
