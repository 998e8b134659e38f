"""What a compiled function refers to weakly is gone once the program has let go of it, and not before."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import difference

Program = Callable[[torch.Tensor, list[Any]], Any]
PROGRAMS: dict[str, Program] = {}


def program(fn: Program) -> Program:
    PROGRAMS[fn.__name__] = fn
    return fn


class Thing:
    def __init__(self, held: Any = None) -> None:
        self.held = held


class Tree:
    def __init__(self, parent: Tree | None = None) -> None:
        self.parent = None if parent is None else weakref.ref(parent)
        self.children: list[Tree] = []


@program
def a_callback(x, log):
    thing = Thing(x)
    reference = weakref.ref(thing, lambda gone: log.append((gone is reference, gone() is None)))
    before = reference() is thing
    del thing
    return x + 1, before, reference() is None


@program
def callbacks_in_their_order(x, log):
    thing = Thing(x)
    kept = [weakref.ref(thing, lambda _, n=n: log.append(n)) for n in range(3)]
    thing = None
    return x + len(kept) + len(log)


@program
def a_reference_that_nobody_keeps(x, log):
    thing = Thing(x)
    weakref.ref(thing, log.append)
    del thing
    return x + 1


@program
def a_callback_that_computes(x, log):
    thing = Thing(x)
    reference = weakref.ref(thing, lambda _: log.append(x * 2))
    del thing
    return log[0] + 1, reference() is None


@program
def a_callback_behind_a_break(x, log):
    thing = Thing(x)
    reference = weakref.ref(thing, lambda _: log.append("gone"))
    print(end="")
    before = reference() is thing
    del thing
    return x + 1, before, reference() is None


@program
def a_callback_that_breaks(x, log):
    thing = Thing(x)
    reference = weakref.ref(thing, lambda _: print(log.append("gone") or "", end=""))
    del thing
    return x + 1, reference() is None, list(log)


@program
def of_a_called_function(x, log):
    def make():
        thing = Thing(x)
        return weakref.ref(thing, lambda _: log.append("gone"))

    return x + 1, make()() is None


@program
def in_a_generator(x, log):
    def steps():
        thing = Thing(x)
        reference = weakref.ref(thing, lambda _: log.append("gone"))
        yield reference() is thing
        del thing
        yield reference() is None

    return x + 1, list(steps())


@program
def lives_on(x, log):
    thing = Thing(x)
    return thing, weakref.ref(thing, lambda _: log.append("gone"))


@program
def values_of_a_dictionary(x, log):
    table, things = weakref.WeakValueDictionary(), [Thing(n) for n in range(3)]
    for n, thing in enumerate(things):
        table[n] = thing
    del thing
    things.pop(1)
    keys = sorted(table)
    things.clear()
    return x + 1, keys, len(table)


@program
def keys_of_a_dictionary(x, log):
    table, first, second = weakref.WeakKeyDictionary(), Thing(), Thing()
    table[first], table[second] = x, x * 2
    del first
    return sum(table.values()), len(table)


@program
def members_of_a_set(x, log):
    things = [Thing(n) for n in range(3)]
    members = weakref.WeakSet(things)
    before = len(members)
    del things[0]
    return x + 1, before, sorted(thing.held for thing in members)


@program
def a_finaliser(x, log):
    thing = Thing(x)
    finalise = weakref.finalize(thing, log.append, "gone")
    before = finalise.alive
    del thing
    return x + 1, before, finalise.alive


@program
def a_proxy(x, log):
    thing = Thing(x)
    proxy = weakref.proxy(thing, lambda _: log.append("gone"))
    y = proxy.held + 1
    del thing
    try:
        return proxy.held
    except ReferenceError:
        return y


@program
def parents_in_a_tree(x, log):
    root = Tree()
    child = Tree(root)
    root.children.append(child)
    before = child.parent() is root
    del root
    return x + 1, before, child.parent() is None


@program
def a_tensor_that_is_held(x, log):
    y = x + 1
    reference = weakref.ref(y)
    return reference() * 2, reference() is y


@program
def a_tensor_that_is_gone(x, log):
    y = x + 1
    reference = weakref.ref(y)
    del y
    return x * 2, reference() is None


@program
def a_tensor_in_a_list_that_nobody_reads_again(x, log):
    y = x + 1
    reference = weakref.ref(y)
    kept = [y]  # noqa: F841
    del y
    return x * 2, reference() is None


@program
def a_tensor_from_outside(x, log):
    return weakref.ref(x)() + 1


TABLE: weakref.WeakValueDictionary[str, Thing] = weakref.WeakValueDictionary()


@program
def a_dictionary_from_outside(x, log):
    thing = Thing(x)
    TABLE["thing"] = thing
    before = len(TABLE)
    del thing
    return x + 1, before, len(TABLE), list(TABLE)


@program
def a_cache_from_outside(x, log):
    found = TABLE.get("cached")
    if found is None:
        found = TABLE["cached"] = Thing(3)
    return x + found.held, TABLE["cached"] is found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_gone_when_it_is_eagerly(name: str, backend: str) -> None:
    x, fn = torch.ones(2), PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend)
    for _ in range(3):
        runs = []
        for run in (fn, compiled):
            log: list[Any] = []
            result = run(x, log)
            if name == "lives_on":
                result = result[1]() is result[0]
            runs.append((result, log))
        assert difference(*runs) is None


@pytest.mark.parametrize("name", ["a_callback", "values_of_a_dictionary", "members_of_a_set"])
def test_such_a_function_is_captured_whole(name: str) -> None:
    framelift.compile(PROGRAMS[name], backend="eager", fullgraph=True)(torch.ones(2), [])


def test_an_error_of_a_callback_is_told_as_python_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append((found.exc_type, found.object)))

    def fail(reference):
        raise ValueError("not again")

    def fn(x):
        thing = Thing(x)
        reference = weakref.ref(thing, fail)
        del thing
        return x + 1, reference() is None

    assert framelift.compile(fn, backend="eager")(torch.ones(2))[1]
    assert told == [(ValueError, fail)]
