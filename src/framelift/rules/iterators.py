"""Iterators and generators."""

from __future__ import annotations

import collections
import gc
import itertools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from framelift.bytecode.extend import TooLargeError
from framelift.bytecode.resume import Like, closure_of, generator_code
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import UNSET
from framelift.guards.sources import Source
from framelift.interpreter.generators import CREATED, SUSPENDED, Generator
from framelift.interpreter.points import NoPointError, standing_generator
from framelift.trace.outside_iterators import KNOWN
from framelift.trace.type_rules import Rebuilder, type_rule
from framelift.trace.world import TraceWorld

TABLES = (dict, set, frozenset)


def rebuild_iterator_of_hashed(r: Rebuilder, value: Any) -> str:
    """Over a dictionary or set: the reduce protocol would make a list's iterator of it."""
    begin = HASHED[type(value)]
    ended: Any = set() if begin is iterate_set else {}
    held = next((held for held in gc.get_referents(value) if issubclass(type(held), TABLES)), ended)
    passed = len(held) - operator.length_hint(value)
    if not is_alike(value, itertools.islice(begin(held), passed, None)):
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__name__} over what has changed", culprit=value)
    name = r.variable(f"{r.constant(begin)}({r.variable(r.expression(held))})", value)
    if passed:
        r.say(f"{r.constant(next)}({r.constant(itertools.islice)}({name}, {passed - 1}, {passed}))")
    return name


def is_alike(iterator: Any, other: Iterator[Any]) -> bool:
    """Whether two iterators over hash tables have the same before them.

    One that will fail because the table's size is not what it was when it began has not.
    """
    try:
        left = iterator.__reduce__()[1][0]
    except RuntimeError:
        return False
    if type(iterator) is type(iter({}.items())):
        left, other = itertools.chain(*left), itertools.chain(*other)
    return all(one is another for one, another in itertools.zip_longest(left, other, fillvalue=UNSET))


def iterate_set(held: Any) -> Iterator[Any]:
    return (set if isinstance(held, set) else frozenset).__iter__(held)


def iterate_values(held: dict[Any, Any]) -> Iterator[Any]:
    return iter(dict.values(held))


def iterate_items(held: dict[Any, Any]) -> Iterator[Any]:
    return iter(dict.items(held))


HASHED: dict[type, Callable[[Any], Iterator[Any]]] = {
    type(iter({})): dict.__iter__,
    type(iter({}.values())): iterate_values,
    type(iter({}.items())): iterate_items,
    type(iter(set())): iterate_set,
}
"""The iterators over hash tables: how they begin, whatever a subclass says."""


def rebuild_iterator_of_ordered(r: Rebuilder, value: Any) -> str:
    """Over an ordered dictionary: one type goes over keys, values and items, either way."""
    ordered = collections.OrderedDict
    try:
        left = value.__reduce__()[1][0]
    except RuntimeError:
        raise Break(breaks.UNREBUILDABLE, "an odict_iterator over what has changed", culprit=value) from None
    if not left:
        return r.variable(f"{r.constant(iter)}({r.constant(ordered)}())", value)
    held = next(held for held in gc.get_referents(value) if issubclass(type(held), ordered))
    passed = ordered.__len__(held) - len(left)
    ways = ORDERED if len(left) > 1 or passed else ORDERED[:3]  # over one item both ways are the same
    begun = [begin for begin in ways if goes_on_with(itertools.islice(begin(held), passed, None), left)]
    if len(begun) != 1:  # the rest of its keys are its values too, or the same backwards
        raise Break(breaks.UNREBUILDABLE, "an odict_iterator", culprit=value)
    name = r.variable(f"{r.constant(begun[0])}({r.variable(r.expression(held))})", value)
    if passed:
        r.say(f"{r.constant(next)}({r.constant(itertools.islice)}({name}, {passed - 1}, {passed}))")
    return name


def goes_on_with(iterator: Iterator[Any], left: list[Any]) -> bool:
    """Whether it gives these; the pairs of keys and values are made anew each time."""
    one: Any
    other: Any
    for one, other in itertools.zip_longest(iterator, left, fillvalue=UNSET):
        if one is not other and not (is_pair(one) and is_pair(other) and all(map(operator.is_, one, other))):
            return False
    return True


def is_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2


def iterate_ordered_values(held: Any) -> Iterator[Any]:
    return iter(collections.OrderedDict.values(held))


def iterate_ordered_items(held: Any) -> Iterator[Any]:
    return iter(collections.OrderedDict.items(held))


def reverse_ordered_values(held: Any) -> Iterator[Any]:
    return reversed(collections.OrderedDict.values(held))


def reverse_ordered_items(held: Any) -> Iterator[Any]:
    return reversed(collections.OrderedDict.items(held))


ORDERED: tuple[Callable[[Any], Iterator[Any]], ...] = (
    *(collections.OrderedDict.__iter__, iterate_ordered_values, iterate_ordered_items),
    *(collections.OrderedDict.__reversed__, reverse_ordered_values, reverse_ordered_items),
)


def rebuild_generator(r: Rebuilder, value: Generator) -> str:
    """One that stands where this one does; its frame goes on from there."""
    if value.state not in (CREATED, SUSPENDED):
        raise Break(breaks.UNREBUILDABLE, "a generator that has ended", culprit=value)
    started = value.state is SUSPENDED
    frame = value.frame
    try:
        found = standing_generator(frame, started)
        code = generator_code(found.point, started)
    except (NoPointError, TooLargeError) as error:
        raise Break(breaks.UNREBUILDABLE, "a generator", culprit=value) from error
    like = Like(frame.func, closure=not found.point.takes_free)
    made = types.FunctionType(code, frame.globals, value.__name__, None, closure_of(code, like))
    name = r.variable(f"{r.own(made)}({r.listed([*found.slots, *found.stack])})", value)
    if started:
        r.say(f"{r.constant(next)}({name})")
    return name


def wrap_iterator(world: TraceWorld, value: Any, source: Source) -> Any:
    return world.iterators.open(value, source)


type_rule(*KNOWN, wrap=wrap_iterator, opaque=True)  # unless something stands for it
type_rule(*HASHED, rebuild=rebuild_iterator_of_hashed)
type_rule(type(iter(collections.OrderedDict())), rebuild=rebuild_iterator_of_ordered)
# those that notice a change too, but do not say where they are
type_rule(*map(type, (reversed({}), reversed({}.values()), reversed({}.items()))), rebuild=None)
type_rule(Generator, rebuild=rebuild_generator)
