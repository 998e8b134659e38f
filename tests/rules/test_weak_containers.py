"""Containers of weak references: looked into with guards."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from check import capture, entries


class Key:
    def __init__(self, scale: float) -> None:
        self.scale = scale


KEYS = [Key(2.0), Key(3.0), Key(5.0)]
TABLE: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary({KEYS[0]: 7, KEYS[1]: torch.ones(2)})
MEMBERS: weakref.WeakSet[Any] = weakref.WeakSet(KEYS[:2])
BY_NAME: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary({"a": KEYS[0]})


PROGRAMS = {
    "item": lambda x, key: x * TABLE[key] if key in TABLE else x - 1,
    "get": lambda x, key: (x * TABLE.get(key, 4), len(TABLE)),
    "member": lambda x, key: (x + (key in MEMBERS), len(MEMBERS)),
    "value": lambda x, key: x * BY_NAME["a"].scale + BY_NAME.get("b", key).scale,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lookups_are_as_eagerly(name: str) -> None:
    fn = PROGRAMS[name]
    compiled = capture(fn)
    for key in (*KEYS, *KEYS):
        assert str(compiled(torch.ones(2), key)) == str(fn(torch.ones(2), key))
    assert entries(compiled) <= len(KEYS)


def test_a_key_that_comes_or_goes_is_noticed() -> None:
    table: Any = weakref.WeakKeyDictionary({KEYS[0]: 7})

    def fn(x, key):
        return x * table.get(key, 4), len(table)

    compiled, x = capture(fn), torch.ones(2)
    late = Key(1.0)
    for change in (lambda: None, lambda: table.update({late: 9}), lambda: table.pop(late)):
        change()
        assert str(compiled(x, late)) == str(fn(x, late))
    table[KEYS[2]] = 1
    assert str(compiled(x, late)) == str(fn(x, late))
