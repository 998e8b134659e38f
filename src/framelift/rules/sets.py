"""Sets, whose order depends on all that was ever done to them."""

from __future__ import annotations

import ctypes
import itertools
import operator
from collections.abc import Iterator
from typing import Any

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.guards.kinds import Check
from framelift.guards.sources import Source
from framelift.rules.containers import check_hashes, container_rule
from framelift.trace.shadows import Shadow
from framelift.trace.type_rules import Calls, Rebuilder
from framelift.trace.world import TraceWorld


def shadow_set(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    base: Any = frozenset if issubclass(cls, frozenset) else set
    items = list(base.__iter__(value))
    world.guards.add(source, Check.ELEMENTS_IN_ORDER, tuple(items))
    for item in items:
        world.identity.check_hash(item)
        world.inputs.fixed(item, source)
    shadow = base.__new__(cls, set().union(value))  # a copy of the table is most likely to have its order
    if base is set:
        set.update(shadow, value)
    world.set_order.sources[id(shadow)] = source
    if not all(map(operator.is_, base.__iter__(shadow), items)):
        world.set_order.disordered.add(id(shadow))
    return shadow, items


def set_changes(made: Shadow) -> Calls:
    """The same again: where an element lands depends on all that was ever done to a set.

    What is hashed by its address lands anywhere: then it is only what differs.
    """
    given = [operand for _, operands in made.calls for operand in operands]
    if all(map(is_constant, itertools.chain(*(each if type(each) in LISTED else (each,) for each in given)))):
        return made.calls
    now, before = list(set.__iter__(made.shadow)), made.original
    held, gone = {id(item) for item in before}, {id(item) for item in now}
    removed = [("discard", (item,)) for item in before if id(item) not in gone]
    return removed + [("add", (item,)) for item in now if id(item) not in held]


LISTED = frozenset({list, dict, set})


def is_constant(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(is_constant, value))
    return type(value) in op_memory.ATOMS or type(value) is bytes


def rebuild_set(r: Rebuilder, value: set[Any]) -> str:
    check_hashes(value, value)
    if value and all(map(is_constant, value)) and slots(value.copy()) == slots(value):
        return r.variable(f"{r.own(value)}.copy()")
    name = r.variable(f"{r.constant(set)}()", value)
    if slots(value) != slots(set()):
        r.fill(value, lambda: fill_set(r, name, value))
    return name


def rebuild_frozenset(r: Rebuilder, value: frozenset[Any]) -> str:
    if is_constant(value):
        return r.own(value)
    check_hashes(value, value)
    if not all(map(operator.is_, frozenset(list(value)), value)):
        raise Break(breaks.SET_ORDER, "a result of the function", culprit=value)
    return r.variable(f"{r.constant(frozenset)}([{r.listed(value)}])")


def fill_set(r: Rebuilder, name: str, value: set[Any]) -> None:
    """The order of a set depends on how it came about: the new one must have it, and go on having it."""
    items = list(with_gaps(value))
    gaps = [item for item in items if item not in value]
    for parts in ways_to_fill(items):
        made: set[Any] = set()
        for form, part in parts:
            made.update(form(part))
        for gap in gaps:
            made.discard(gap)
        if slots(made) == slots(value):
            for form, part in parts:
                listed = f"[{r.listed(part)}]"
                r.say(f"{name}.update({listed if form is list else f'{r.constant(form)}({listed})'})")
            for gap in gaps:
                r.say(f"{name}.discard({gap})")
            return
    raise Break(breaks.SET_ORDER, "a result of the function", culprit=value)


def ways_to_fill(items: list[Any]) -> Iterator[list[tuple[Any, list[Any]]]]:
    """What to update a set with, and in which form: there is room in advance for what is in a table, even if
    it is there already, as after a union."""
    yield [(list, items)]
    yield [(dict.fromkeys, items)]
    for n in range(1, len(items) + 1):
        yield [(list, items), (set, items[:n])]


def slots(table: set[Any]) -> list[int | None]:
    """What a set has where: addresses of elements, of `REMOVED`, or nothing."""
    _, _, mask, first = (ctypes.c_ssize_t * 4).from_address(id(table) + object.__basicsize__)
    return (ctypes.c_void_p * (2 * mask + 2)).from_address(first)[::2]


def with_gaps(table: set[Any]) -> Iterator[Any]:
    """The elements, and numbers that go where an element has been."""
    found, places = iter(table), slots(table)
    for n, address in enumerate(places):
        if address is not None:
            yield n + (len(places) << 40) if address == REMOVED else next(found)


_once = {1}
_once.discard(1)
REMOVED = slots(_once)[1]

container_rule(set, shadow=shadow_set, changes=set_changes, rebuild=rebuild_set, fillable=True)
container_rule(frozenset, shadow=shadow_set, rebuild=rebuild_frozenset)
