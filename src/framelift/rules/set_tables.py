"""The tables of sets. A set is iterated in the order in which its elements lie in its table; where one lies
depends on the size of the table, and on what was there when it came. Here is how to make a set whose table
is like another one's.
"""

from __future__ import annotations

import ctypes
import graphlib
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Step = tuple[Callable[[Any], Any], list[Any]]
"""What a set is updated with: elements, and the form in which they come."""

NEIGHBOURS = 9
"""So many places behind the first one are tried before others are."""
MANY = 64
"""Of larger sets not every way is tried."""


def slots(table: Any) -> list[int | None]:
    """What a set has where: addresses of elements, of `REMOVED`, or nothing."""
    _, _, mask, first = (ctypes.c_ssize_t * 4).from_address(id(table) + object.__basicsize__)
    return (ctypes.c_void_p * (2 * mask + 2)).from_address(first)[::2]


_once = {1}
_once.discard(1)
REMOVED = slots(_once)[1]


def with_gaps(table: Any) -> Iterator[Any]:
    """The elements, and numbers that go where an element has been."""
    found, places = iter(table), slots(table)
    for n, address in enumerate(places):
        if address is not None:
            yield n + (len(places) << 40) if address == REMOVED else next(found)


def steps_to(table: set[Any]) -> tuple[list[Step], list[Any]] | None:
    """How to fill an empty set so that it has the same table: what it is updated with, and what is discarded
    then. None: no way was found."""
    places, items = slots(table), list(with_gaps(table))
    gaps = [item for item in items if item not in table]
    for steps in ways_to_fill(items, places):
        made: set[Any] = set()
        for form, part in steps:
            made.update(form(part))
        for gap in gaps:
            made.discard(gap)
        if slots(made) == places:
            return steps, gaps
    return None


def ways_to_fill(items: list[Any], places: list[int | None]) -> Iterator[list[Step]]:
    """What to update a set with, and in which form. One element after the other, as a table grows; or with
    room for all in advance, as for a dictionary, and for another set, even if that is there already."""
    turns = in_turn(items, places)
    orders = [items] if turns is None or all(map(operator.is_, turns, items)) else [items, turns]
    for order in orders:
        yield [(list, order)]
        yield [(dict.fromkeys, order)]
    for n in range(1, len(items) + 1 if len(items) <= MANY else 1):
        for order in orders:
            yield [(list, order), (set, order[:n])]
            yield [(dict.fromkeys, order), (set, order[:n])]


def in_turn(items: list[Any], places: list[int | None]) -> list[Any] | None:
    """The elements in an order in which each comes after those that lie where it would have gone first."""
    taken = [n for n, address in enumerate(places) if address is not None]
    held = dict(zip(taken, items, strict=True))
    before: dict[int, list[int]] = {}
    for place, item in held.items():
        tried = tried_before(hash(item), place, len(places) - 1)
        if tried is None or not held.keys() >= set(tried):
            return None
        before[place] = tried
    try:
        return [held[place] for place in graphlib.TopologicalSorter(before).static_order()]
    except graphlib.CycleError:
        return None


def tried_before(number: int, place: int, mask: int) -> list[int] | None:
    """Which places CPython tries for a hash before it comes to a certain one."""
    at, rest, tried = number & mask, number & (1 << 64) - 1, list[int]()
    for _ in range(MANY):
        last = at + NEIGHBOURS if at + NEIGHBOURS <= mask else at
        for n in range(at, last + 1):
            if n == place:
                return tried
            tried.append(n)
        rest >>= 5
        at = (at * 5 + 1 + rest) & mask
    return None


def alike(value: Any, held: list[Any], make: Callable[[list[Step]], Any], steps: Iterable[list[Step]]) -> Any:
    """(a set that is iterated as `held` is, whether there was one). The first with the table of `value` is
    taken, or else any that has the order."""
    shape = [address is None for address in slots(value)]
    found, ordered = None, False
    for way in steps:
        made = make(way)
        own: Any = frozenset if isinstance(made, frozenset) else set
        in_order = all(map(operator.is_, own.__iter__(made), held))
        if in_order and [address is None for address in slots(made)] == shape:
            return made, True
        if found is None or (in_order and not ordered):
            found, ordered = made, in_order
    return found, ordered
