"""Iterators that existed before the call: advanced as eagerly, guarded by where they stand."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from check import capture, captures, entries, reasons
from framelift.core import breaks

Make = Callable[[], Iterator[Any]]


def after(count: int, make: Make) -> Make:
    """One that has been advanced before."""

    def made() -> Iterator[Any]:
        iterator = make()
        for _ in range(count):
            next(iterator, None)
        return iterator

    return made


KINDS: dict[str, Make] = {
    "list": lambda: iter([1, 2, 3, 4]),
    "tuple": lambda: iter((1, 2, 3, 4)),
    "str": lambda: map(ord, iter("abcd")),
    "bytes": lambda: iter(b"abcd"),
    "bytearray": lambda: iter(bytearray(b"abcd")),
    "range": lambda: iter(range(3, 11, 2)),
    "long range": lambda: map((1 << 70).__rsub__, iter(range(1 << 70, (1 << 70) + 4))),
    "reversed list": lambda: reversed([1, 2, 3, 4]),
    "reversed tuple": lambda: reversed((1, 2, 3, 4)),
    "reversed range": lambda: reversed(range(4)),
    "zip": lambda: map(sum, zip([1, 2, 3], (4, 5, 6, 7), strict=False)),
    "zip of iterators": lambda: map(operator.mul, iter([1, 2, 3]), iter(range(4))),
    "map": lambda: map(lambda n: n + 1, [1, 2, 3]),
    "filter": lambda: filter(lambda n: n % 2, [1, 2, 3, 5]),
    "enumerate": lambda: map(sum, enumerate([5, 6, 7])),
    "enumerate from": lambda: map(sum, enumerate((5, 6, 7), 3)),
    "count": lambda: itertools.count(3),
    "count by": lambda: itertools.count(3, -2),
    "repeat": lambda: itertools.repeat(3),
    "repeat often": lambda: itertools.repeat(3, 4),
    "nothing": lambda: iter([]),
}

STARTS = {f"{name}, {n} on": after(n, make) for name, make in KINDS.items() for n in (0, 1, 5)}


def takes_one(x: Any, it: Any) -> Any:
    return x * next(it, 9)


def takes_three(x: Any, it: Any) -> Any:
    return x + next(it, 9), next(it, 8), x * next(it, 7)


def takes_some(x: Any, it: Any) -> Any:
    for n in itertools.islice(it, 2):
        x = x + n
    return x


def pairs_up(x: Any, it: Any) -> Any:
    return [x * n for _, n in zip(range(3), it, strict=False)]


def stops_early(x: Any, it: Any) -> Any:
    for n in it:
        x = x + n
        if n != 3:
            break
    return x


def enumerates(x: Any, it: Any) -> Any:
    for n, m in enumerate(it):
        x = x * n + m
        if n == 2:
            return x
    return x - 1


USES = (takes_one, takes_three, takes_some, pairs_up, stops_early, enumerates)


def rest(iterator: Iterator[Any]) -> list[Any]:
    return list(itertools.islice(iterator, 20))


def same(expected: Any, found: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        return torch.equal(expected, found)
    if isinstance(expected, (list, tuple)):
        return len(expected) == len(found) and all(map(same, expected, found))
    return bool(expected == found)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_iterators_are_advanced_as_eagerly(use: Callable[..., Any]) -> None:
    x = torch.arange(3.0)
    for name, make in STARTS.items():
        endless = name.startswith(("repeat", "count"))
        if endless and use is stops_early:
            continue  # which would not end
        # those of itertools warn from Python 3.12 on when they are asked where they stand
        tells = not endless or sys.version_info < (3, 12)
        compiled = capture(use, fullgraph=tells)
        for _ in range(2):  # in the second call a new one stands where the first did
            plain, real = make(), make()
            expected = use(x, plain)
            assert same(expected, compiled(x, real)), name
            assert rest(real) == rest(plain), name
        if tells:
            assert entries(compiled) <= 1, name  # none where nothing is computed
        else:
            assert set(reasons(compiled)) == {breaks.OUTSIDE_ITERATOR.name}, name


def test_the_items_may_be_tensors() -> None:
    compiled = capture(takes_one)
    for n in range(3):
        held = [torch.full((3,), float(n)), torch.ones(3)]
        it = iter(held)
        assert torch.equal(compiled(torch.ones(3), it), held[0])
        assert next(it) is held[1]
    assert entries(compiled) == 1


def test_another_position_is_noticed() -> None:
    compiled = capture(takes_one, fullgraph=False)
    it, x = iter([1, 2, 3, 4, 5, 6]), torch.ones(3)
    assert [compiled(x, it)[0].item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert breaks.OUTSIDE_ITERATOR.name in reasons(compiled)
    assert captures(compiled) <= 5  # it does not go on with a capture for each position


def test_another_length_and_another_type_are_noticed() -> None:
    compiled = capture(takes_three)
    x = torch.ones(3)
    for make in (
        lambda: iter([1, 2, 3]),
        lambda: iter([1, 2]),
        lambda: iter((1, 2)),
        lambda: iter(range(1, 3)),
    ):
        assert same(takes_three(x, make()), compiled(x, make()))


def test_one_iterator_passed_twice() -> None:
    def fn(x: Any, a: Any, b: Any) -> Any:
        return x * next(a), x + next(b)

    x = torch.ones(3)
    compiled = capture(fn)
    for shared in (False, True, False):
        plain, real = ([iter([1, 2, 3]), iter([1, 2, 3])] for _ in range(2))
        expected = fn(x, plain[0], plain[0] if shared else plain[1])
        assert same(expected, compiled(x, real[0], real[0] if shared else real[1]))
        assert [rest(it) for it in real] == [rest(it) for it in plain]


def test_the_iterator_below_an_enumeration_is_advanced_too() -> None:
    def fn(x: Any, below: Any, above: Any) -> Any:
        return x * next(above)[1], x + next(below), x - next(above)[0]

    def made() -> tuple[Any, Any]:
        below = iter([1, 2, 3, 4, 5])
        return below, enumerate(below)

    x = torch.ones(3)
    plain, real = made(), made()
    assert same(fn(x, *plain), capture(fn)(x, *real))
    assert next(real[1]) == next(plain[1]) and rest(real[0]) == rest(plain[0])


def test_a_list_that_changes_under_its_iterator_is_left_to_python() -> None:
    def fn(x: Any, held: Any, it: Any) -> Any:
        x = x * next(it)
        held.insert(0, 7)
        return x + next(it)

    compiled = capture(fn, fullgraph=False)
    plain, real = [1, 2, 3], [1, 2, 3]
    its = iter(plain), iter(real)
    x = torch.ones(3)
    assert same(fn(x, plain, its[0]), compiled(x, real, its[1]))
    assert plain == real and rest(its[1]) == rest(its[0])


def test_an_iterator_is_given_back() -> None:
    def fn(x: Any, it: Any) -> Any:
        first = next(it)
        return x * first, it, [it]

    it = iter([2, 3])
    _, one, (two,) = capture(fn)(torch.ones(3), it)
    assert one is it and two is it and rest(it) == [3]


def test_an_aborted_trace_leaves_iterators_alone() -> None:
    def fn(x: Any, it: Any) -> Any:
        y = x * next(it)
        if y.sum() > 0:
            return y + next(it)
        return y - next(it)

    it = iter([2, 3, 4])
    assert capture(fn, fullgraph=False)(torch.ones(3), it).tolist() == [5.0] * 3
    assert rest(it) == [4]


@pytest.mark.parametrize(
    "make", [lambda: iter({1, 2}), lambda: iter({1: 2}), lambda: itertools.chain([1], [2])]
)
def test_others_break(make: Make) -> None:
    compiled = capture(takes_one, fullgraph=False)
    plain, real = make(), make()
    assert same(takes_one(torch.ones(3), plain), compiled(torch.ones(3), real))
    assert rest(real) == rest(plain)
    assert breaks.OUTSIDE_ITERATOR.name in reasons(compiled)


@pytest.mark.parametrize("make", KINDS.values(), ids=list(KINDS))
def test_one_that_is_made_inside_is_advanced_behind_a_break(make: Make) -> None:
    """Behind a break it is one from before; where the program does not come by again, it says where it is."""

    def fn(x):
        it = make()
        x = x + next(it, 7)
        framelift.graph_break()
        x = x * next(it, 8) + next(it, 9)
        return x, list(itertools.islice(it, 3))

    compiled = framelift.compile(fn, backend="eager")
    for n in range(3):
        x = torch.arange(3.0) + n
        assert repr(fn(x)) == repr(compiled(x))


def test_behind_a_break_it_takes_one_graph() -> None:
    graphs = []

    def fn(x):
        it = iter((1, 2, 3, 4))
        x = x + next(it)
        framelift.graph_break()
        return x + next(it) + next(it), it

    compiled = framelift.compile(fn, backend=lambda graph, inputs: graphs.append(graph) or graph)
    for _ in range(3):
        (want, left), (got, ours) = fn(torch.ones(2)), compiled(torch.ones(2))
        assert torch.equal(want, got) and list(left) == list(ours)
    assert len(graphs) == 2


def test_in_a_loop_its_position_is_not_compiled_in() -> None:
    graphs = []

    def fn(x):
        it = iter(range(20))
        for _ in range(10):
            x = x + 1
            framelift.graph_break()
            x = x * next(it)
        return x

    compiled = framelift.compile(fn, backend=lambda graph, inputs: graphs.append(graph) or graph)
    assert torch.equal(fn(torch.ones(2)), compiled(torch.ones(2)))
    assert len(graphs) <= 4
