"""Attributes of modules, of classes with properties and hooks, and of names that are globals of functions."""

from __future__ import annotations

import math
import types
from typing import Any

import pytest
import torch

import framelift
from check import compare, run


class WithProperty(types.ModuleType):
    """Has an attribute that is computed, and one that all of its kind share."""

    kind = "shared"

    @property
    def level(self) -> int:
        return self.doubled // 2

    @level.setter
    def level(self, value: int) -> None:
        self.doubled = value * 2

    def raised(self, x: Any) -> Any:
        return x + self.level


class Described:
    """An attribute that is kept elsewhere."""

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return KEPT["value"]

    def __set__(self, obj: Any, value: Any) -> None:
        KEPT["value"] = value


KEPT = {"value": 0}


class WithHooks(types.ModuleType):
    elsewhere = Described()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value + 1 if name.startswith("next_") else value)

    def __getattr__(self, name: str) -> Any:
        if name == "lazy":
            return 7
        raise AttributeError(name)


class WithOwnLookup(types.ModuleType):
    def __getattribute__(self, name: str) -> Any:
        return 5 if name == "always" else super().__getattribute__(name)


FUNCTIONS = """
def set_plain(value):
    global plain
    plain = value

def get_plain():
    return plain
"""
plain, computed, hooked, own = (
    cls("a_module") for cls in (types.ModuleType, WithProperty, WithHooks, WithOwnLookup)
)
MODULES: tuple[Any, ...] = (plain, computed, hooked, own)
for _module in MODULES:
    exec(FUNCTIONS, vars(_module))
exec(
    "def __getattr__(name):\n    if name == 'made': return plain * 10\n    raise AttributeError(name)",
    vars(plain),
)


def reset(value: int) -> None:
    KEPT["value"] = value
    for module in MODULES:
        names = [name for name in vars(module) if name in ("fresh", "kind") or name.startswith("next_")]
        for name in names:
            del vars(module)[name]
        vars(module).update(plain=value, doubled=value * 2, next_a=value)


def state() -> Any:
    kept = [{k: v for k, v in vars(m).items() if type(v) is int or k == "kind"} for m in MODULES]
    return kept, dict(KEPT)


def a_name(x: Any) -> Any:
    return x + plain.plain, computed.plain, hooked.plain, own.plain, computed.kind


def a_property(x: Any) -> Any:
    computed.level = 3
    return x + computed.level, computed.raised(x)


def a_descriptor(x: Any) -> Any:
    before = hooked.elsewhere
    hooked.elsewhere = 8
    return x + hooked.elsewhere, before


def own_setting(x: Any) -> Any:
    hooked.next_a = 4
    return x + hooked.next_a, hooked.lazy


def past_own_setting(x: Any) -> Any:
    object.__setattr__(hooked, "next_b", 1)
    types.ModuleType.__setattr__(hooked, "next_c", 1)
    return x + hooked.next_b + hooked.next_c


def own_lookup(x: Any) -> Any:
    return x + own.always, own.plain, own.__getattribute__("plain"), plain.__getattribute__("plain")


def a_name_that_is_made(x: Any) -> Any:
    return x + plain.made, hasattr(plain, "no"), getattr(hooked, "no", 3), hasattr(hooked, "lazy")


def a_global_of_functions(x: Any) -> Any:
    for module in (plain, computed, hooked, own):
        module.plain = 20
        x = x + module.get_plain()
        module.set_plain(30)
        x = x * module.plain
    return x, plain.made


def hides_what_the_class_has(x: Any) -> Any:
    computed.kind = "its own"
    return x + 1, computed.kind


def a_new_name(x: Any) -> Any:
    for module in (plain, computed, hooked, own):
        setattr(module, "fresh", 4)
        x = x + module.fresh
    return x


def methods_of_modules(x: Any) -> Any:
    return x + 1, math.__repr__(), math.__name__, computed.__class__, type(hooked), plain.__eq__(plain)


def no_such_name(x: Any) -> Any:
    told = []
    for module in (plain, computed, hooked, own, math):
        try:
            module.missing
        except AttributeError as error:
            told.append(str(error))
    return x + 1, told


def decides(x: Any) -> Any:
    return x + 1 if computed.level > 1 and hooked.plain > 1 else x - 1


def deletes(x: Any) -> Any:
    y = x + 1
    del computed.doubled, hooked.next_a
    return y * 2


PROGRAMS = [
    *(a_name, a_property, a_descriptor, own_setting, past_own_setting, own_lookup, a_name_that_is_made),
    *(a_global_of_functions, hides_what_the_class_has, a_new_name, methods_of_modules, no_such_name),
    *(decides, deletes),
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_attributes_of_modules_are_what_they_are_eagerly(fn: Any) -> None:
    compiled = framelift.compile(fn, backend="eager", fullgraph=fn is not deletes)
    for value in (1, 1, 2, 1, 3):
        reset(value)
        expected, after = run(fn, (torch.ones(2),), {}), state()
        reset(value)
        found = run(compiled, (torch.ones(2),), {})
        compare(expected, found)
        assert state() == after
