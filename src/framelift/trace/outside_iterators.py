"""Iterators that existed before the call: what stands for one, and how far the program has advanced it.

An iterator of C's says by `__reduce__` what makes one like it, and where it stands. That is guarded, and one
like it, over what stands for the parts, is what the trace advances; the region then advances the real one as
often. An iterator that was elsewhere in earlier calls is left alone, as is one in the rest of a function
behind a break: its position would be a guard that fails each time.
"""

from __future__ import annotations

import collections
import itertools
import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.part import Part
from framelift.trace.shadows import change_of
from framelift.trace.type_rules import wrap_opaque

EXAMPLES: tuple[Any, ...] = ((), [], "a", "\xe9", b"", bytearray(), range(1), range(1 << 70))
SEQUENCES: tuple[type, ...] = tuple(type(iter(one)) for one in EXAMPLES)
SEQUENCES += (type(reversed([])), reversed)
"""What goes over something by its indices, which changes nothing but the position."""

ENDING: dict[type, Any] = {type(iter(one)): one for one in (*EXAMPLES[:-1], range(1 << 70, (1 << 70) + 1))}
"""Kind of iterator -> what gives one that ends after one item, or at once."""


HANDING_ON: tuple[type, ...] = (zip, map, filter)
"""What has no state but that of the iterators below it."""

CALLING = frozenset({map, filter})

ENDLESS: tuple[type, ...] = (itertools.count, itertools.repeat) if sys.version_info < (3, 12) else ()
"""From 3.12 on these warn when they are asked where they are."""

KNOWN = frozenset((*SEQUENCES, *HANDING_ON, *ENDLESS, enumerate))


def reduced(iterator: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = iterator.__reduce__()
    return found


def advance(iterator: Iterator[Any], count: int) -> None:
    """Takes so many items, or all that there are."""
    collections.deque(itertools.islice(iterator, count), maxlen=0)


def ended(kind: type) -> Any:
    """An iterator over a sequence that has come to its end."""
    made = iter(ENDING[kind]) if kind in ENDING else reversed([] if kind is not reversed else "")
    advance(made, 2)
    return made


@dataclass(eq=False)
class OutsideIterator:
    """One that the trace has opened."""

    source: Source
    outside: Any
    stands_for: Any
    """What the trace advances."""
    before: tuple[Any, ...]
    """Where that stood at first, as it says itself."""
    below: OutsideIterator | None = None
    """What an enumeration goes over: advancing the one advances the other."""

    def steps(self) -> int:
        """How often the program has advanced it itself."""
        kind, now = type(self.stands_for), reduced(self.stands_for)
        if kind in HANDING_ON:
            return 0
        if kind is enumerate:
            return int(now[1][1] - self.before[1][1])
        if kind is itertools.count:
            first, step = self.before[1][0], (self.before[1] + (1,))[1]
            return int((now[1][0] - first) // step) if step else 0
        if kind is itertools.repeat:
            return 0 if len(now[1]) == 1 else int(self.before[1][1] - now[1][1])
        if len(now) == len(self.before) == 2:  # it had ended
            return 0
        taken = operator.length_hint(self.made_before()) - operator.length_hint(self.stands_for)
        return taken + (len(now) == 2)

    def made_before(self) -> Any:
        """One that stands where this one stood at first."""
        maker, args, *state = self.before
        made = maker(*args)
        if state and state[0] is not None:
            made.__setstate__(state[0])
        return made


class OutsideIterators(Part):
    """The iterators from before that the trace has opened."""

    def start(self) -> None:
        self.opened: dict[int, OutsideIterator] = {}
        """id of what stands for one -> its record."""

    def open(self, value: Any, source: Source) -> Any:
        world = self.world
        place = source.child(Access.REDUCED)
        maker, args, *state = reduced(value)
        parts = place.child(Access.ITEM, 1)
        if not self.may_open(value, args, [place.child(Access.ITEM, 2), *self.numbers(parts, args)]):
            return wrap_opaque(world, value, source)
        world.guards.add(source, Check.TYPE, type(value))
        world.guards.add(place, Check.LEN, 2 + len(state))
        world.guards.add(place.child(Access.ITEM, 0), Check.IS, maker)
        world.guards.add(parts, Check.LEN, len(args))
        given = [self.part(arg, parts.child(Access.ITEM, n)) for n, arg in enumerate(args)]
        # what it calls comes back to the interpreter, as where the program makes one
        made = world.calls.by_policy(maker, given, {}) if maker in CALLING else maker(*given)
        if type(made) is not type(value):  # it has ended, and only says so
            made = ended(type(value))
        for n, value_of in enumerate(state):
            world.guards.add(place.child(Access.ITEM, 2 + n), Check.EQUAL, value_of)
            if value_of is not None:
                made.__setstate__(value_of)
        below = self.opened.get(id(given[0])) if type(value) is enumerate else None
        self.opened[id(made)] = OutsideIterator(source, value, made, reduced(made), below)
        return world.inputs.stand_in(value, made, source)

    def part(self, value: Any, source: Source) -> Any:
        """What an iterator is made of; where it stands is a constant."""
        if type(value) is int:
            self.world.guards.add(source, Check.EQUAL, value)
            return value
        return self.world.inputs.load(value, source)

    def numbers(self, parts: Source, args: tuple[Any, ...]) -> list[Source]:
        return [parts.child(Access.ITEM, n) for n, arg in enumerate(args) if type(arg) is int]

    def may_open(self, value: Any, args: tuple[Any, ...], positions: list[Source]) -> bool:
        """Whether it says where it stands, and earlier captures have not found it in several places."""
        inputs = self.world.inputs
        kind = type(value)
        if self.world.frame.may_come_again or any(
            len(set(inputs.dynamism.seen.get(str(at), ()))) > 1 for at in positions
        ):
            return False
        if kind in HANDING_ON or kind is enumerate:
            inner = args if kind is zip else args[:1] if kind is enumerate else args[1:]
            above = frozenset({*SEQUENCES, *ENDLESS}) if kind is enumerate else KNOWN
            return all(type(one) in above for one in inner)
        return kind is not itertools.count or all(type(one) is int for one in args)

    def advanced(self) -> list[tuple[OutsideIterator, int]]:
        """Those that the program has advanced, and how often; what is above others comes first."""
        steps = {id(one): one.steps() for one in self.opened.values()}
        for one in self.opened.values():
            if one.below is not None:
                steps[id(one.below)] -= steps[id(one)]
        found = [(one, steps[id(one)]) for one in reversed(self.opened.values()) if steps[id(one)]]
        for one, _ in found:
            self.refuse_change_below(one)
        return found

    def refuse_change_below(self, one: OutsideIterator) -> None:
        for held in one.before[1]:
            shadow = self.world.containers.shadows.get(id(held))
            if shadow is not None and change_of(shadow):
                refuse(breaks.OUTSIDE_ITERATOR, f"{one.source}, over a {type(held).__name__} that changes")
