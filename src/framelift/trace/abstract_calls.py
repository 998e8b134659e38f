"""Functions of C that are given abstract values, such as NumPy's arrays: the trace does what they do."""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.core.sentinels import MISSING
from framelift.interpreter.generators import Generator
from framelift.interpreter.pending import Pending, opened
from framelift.trace.containers import Containers
from framelift.trace.operators import GRAPH_OPERATORS
from framelift.trace.type_rules import ABSTRACT

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

ITEMS: dict[Any, Callable[..., Any]] = {
    operator.getitem: Containers.load,
    operator.setitem: Containers.store,
    operator.delitem: Containers.delete,
}
OPERATORS = GRAPH_OPERATORS | {operator.abs} | ITEMS.keys()
KEEPING = {list: 0, tuple: 0, collections.deque: 0, list.extend: 1, collections.deque.extend: 1, next: 0}
"""What keeps, or gives, an item of an iterator as it is -> which argument that is."""
PAIRING = KEEPING.keys() - {next} | {zip, filter, enumerate, map}
"""What goes over what it is given: abstract values do that themselves."""
TAKING_ABSTRACT = OPERATORS | PAIRING | {next, sum}
HANDING_ON = frozenset({map, zip, enumerate})
ITERABLES: tuple[Any, ...] = ([], (), {}, {}.values(), {}.items(), set(), range(0), "")
PLAIN_ITERATORS = frozenset(type(iter(one)) for one in ITERABLES)


def call_with_abstract(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a call gives; MISSING if C is to make it, with the arguments as they are then."""
    if fn in PAIRING:
        args[:] = [world.containers.iterate(arg) if is_abstract(arg) else arg for arg in args]
        return MISSING
    if fn is sum:
        return sum_of_abstract(world, args, kwargs)
    if fn is next or kwargs or not any(map(is_abstract, args)):
        return MISSING
    if fn in ITEMS:
        return ITEMS[fn](world.containers, *args)
    return world.operators.apply(fn, *map(opened, args))


def hands_on(iterator: Any) -> bool:
    """Whether an iterator looks at nothing that the program's functions give it."""
    cls = type(iterator)
    if cls in HANDING_ON:
        _, made_of = iterator.__reduce__()[:2]
        return all(map(hands_on, made_of[1:] if cls is map else made_of[:1] if cls is enumerate else made_of))
    return issubclass(cls, Generator) or cls in PLAIN_ITERATORS


def is_abstract(value: Any) -> bool:
    """Whether a value, which is not to be looked at if it is something else, is of an abstract type."""
    if type(value) is Pending and value.opened is MISSING and not hasattr(type(value.value), "__array__"):
        return False
    return type(opened(value)) in ABSTRACT


def sum_of_abstract(world: TraceWorld, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`sum` of a list with abstract values in it, one after the other."""
    items: Any = args[0] if args else None
    if type(items) is Pending:
        items = items.open() if type(items.value) in (list, tuple) else None
    if type(items) not in (list, tuple) or not any(map(is_abstract, items)):
        return MISSING
    start = [*args[1:], *kwargs.values()] or [0]
    add = functools.partial(world.operators.apply, operator.add)
    return functools.reduce(add, map(opened, [*start, *items]))
