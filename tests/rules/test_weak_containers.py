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


def changed_by(change: Any) -> Any:
    def fn(x: Any, table: Any, members: Any, names: Any, key: Any) -> Any:
        return x * 2, change(x, table, members, names, key)

    return fn


def seen(table: Any, members: Any, names: Any) -> Any:
    return (
        [(key.scale, str(value)) for key, value in table.items()],
        sorted(key.scale for key in members),
        [(name, value.scale) for name, value in names.items()],
    )


CHANGES = {
    "set item": lambda x, t, m, n, key: t.__setitem__(key, x + 1),
    "set item again": lambda x, t, m, n, key: (t.__setitem__(KEYS[0], 3), t.__setitem__(KEYS[0], x)),
    "setdefault": lambda x, t, m, n, key: t.setdefault(key, 4),
    "update": lambda x, t, m, n, key: t.update({key: 1, KEYS[1]: 2}),
    "pop": lambda x, t, m, n, key: t.pop(KEYS[0]),
    "delete": lambda x, t, m, n, key: t.__delitem__(KEYS[0]),
    "add": lambda x, t, m, n, key: m.add(key),
    "discard": lambda x, t, m, n, key: (m.discard(KEYS[0]), m.discard(key)),
    "remove": lambda x, t, m, n, key: m.remove(KEYS[1]),
    "name": lambda x, t, m, n, key: n.__setitem__("new", key),
    "name again": lambda x, t, m, n, key: (n.__setitem__("a", key), n["a"].scale, "a" in n),
    "made inside": lambda x, t, m, n, key: (lambda made: (made.__setitem__(key, 5), made[key], len(made)))(
        weakref.WeakKeyDictionary()
    ),
    "made and kept": lambda x, t, m, n, key: (
        t.__setitem__(key, weakref.WeakSet([key])) or (len(t[key]), t.__setitem__(key, 1))
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_added_and_taken_out(name: str) -> None:
    fn = changed_by(CHANGES[name])
    compiled = capture(fn)
    found = []
    for call in (fn, compiled):
        keys = [Key(1.0), Key(4.0)]
        table: Any = weakref.WeakKeyDictionary({KEYS[0]: 7, KEYS[1]: torch.ones(2)})
        members: Any = weakref.WeakSet(KEYS[:2])
        names: Any = weakref.WeakValueDictionary({"a": KEYS[0]})
        shown = []
        for key in keys:
            try:
                result: Any = str(call(torch.ones(2), table, members, names, key))
            except KeyError as error:
                result = type(error)
            shown += [result, str(seen(table, members, names)).replace("0x", "")]
        del key, keys
        found.append((shown, seen(table, members, names)))  # without what has gone
    assert found[0] == found[1]


def test_a_callback_is_called_when_the_object_has_gone() -> None:
    gone: list[Any] = []

    def fn(x: Any, key: Any) -> Any:
        return x + 1, weakref.ref(key, gone.append), weakref.ref(key)

    for call in (fn, capture(fn)):
        key = Key(1.0)
        gone.clear()
        _, reference, other = call(torch.ones(2), key)
        assert reference() is other() is key and type(reference) is weakref.ref
        del key
        assert gone == [reference]


class Owner:
    def __init__(self) -> None:
        self.held: Any = Key(3.0)
        self.reference = weakref.ref(self.held)
        self.count = 0
        self.chain: Any = [self.held]


def counts_first(x: Any, owner: Any) -> Any:
    owner.count += 1
    return x * owner.reference().scale


def lets_go_first(x: Any, owner: Any) -> Any:
    owner.held = None
    return x if owner.reference() is None else x + 1


def lets_go_of_all(x: Any, owner: Any) -> Any:
    owner.held = None
    owner.chain = None
    return x if owner.reference() is None else x + 1


def lets_go_of_an_item(x: Any, owner: Any) -> Any:
    owner.held = owner.count
    owner.chain.clear()
    return x if owner.reference() is None else x + 1


@pytest.mark.parametrize("fn", [counts_first, lets_go_first, lets_go_of_all, lets_go_of_an_item])
def test_references_behind_changes(fn: Any) -> None:
    compiled = capture(fn, fullgraph=fn is counts_first)
    for _ in range(2):
        assert str(compiled(torch.ones(2), Owner())) == str(fn(torch.ones(2), Owner()))
