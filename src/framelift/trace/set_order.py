"""Sets from outside: the order of their elements depends on all that was ever done to them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.guards.sources import Source
from framelift.trace.callable_rules import rule_of
from framelift.trace.materialize import Seen
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

native = _frame.native

SINGLE = frozenset({"add", "discard", "remove", "pop", "clear"})
"""Methods of sets that are about one element, or none."""

OPERANDS: dict[type, Any] = {
    **dict.fromkeys((set, frozenset), lambda other: set(list(other))),
    **dict.fromkeys((list, tuple, str, bytes, bytearray, range), list),
    dict: dict.fromkeys,
}
"""What a set's method may be given -> what it looks at: there is room for what is in a table in advance."""


class SetOrder(Part):
    """Replays calls on outside sets, and refuses what would show an order that no guard knows."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.sources: dict[int, Source] = {}
        """id of the shadow of an outside set -> where that is found."""
        self.disordered: set[int] = set()
        """Shadows of sets that may be iterated in another order than what they stand for."""

    def call(self, fn: Any, operands: list[Any]) -> Any:
        """C does it; what that does to an outside set is noted, to be done again."""
        method = rule_of(fn).changes if self.sources and operands else None
        if method is None or id(operands[0]) not in self.sources:
            return native(fn, *operands)
        target, *others = operands
        if getattr(type(target), method) is not vars(set)[method] and fn is not vars(set)[method]:
            return native(fn, *operands)  # the program's own operator, which does it in its own way
        kept = others if method in SINGLE else [self.kept_operand(target, other) for other in others]
        for key in others if method in SINGLE else itertools.chain(*kept):
            self.world.identity.check_hash(key)
        calls, before = self.world.containers.shadows[id(target)].calls, list(set.__iter__(target))
        try:
            result = native(fn, *operands)
        except BaseException:
            calls += half_done(before, target)
            raise
        if result is not NotImplemented:
            calls.append((method, tuple(kept)))
        return result

    def kept_operand(self, target: Any, other: Any) -> Any:
        """A copy of what an outside set's method goes over."""
        if not (hasattr(type(other), "__iter__") or hasattr(type(other), "__getitem__")):
            return ()  # C says so
        copy = OPERANDS.get(type(other)) if other is not target else None
        if copy is None or not all(map(operator.is_, kept := copy(other), other)):
            refuse(breaks.SET_ORDER, f"{self.sources[id(target)]}")
        return kept

    def check(self, fn: Any, operands: Iterable[Any]) -> None:
        """Before an operation on outside sets: what enters one lands in a place that depends on the size of
        its table, which no guard knows, and what is popped depends on what was popped before."""
        rule = rule_of(fn)
        if rule.orderless:
            return
        for n, value in enumerate(operands):
            if id(value) in self.sources:
                if n == 0 and fn is set.pop and len(value) > 1:
                    refuse(breaks.SET_ORDER, f"{self.sources[id(value)]}")
                elif n == 0 and rule.changes is not None:
                    self.disordered.add(id(value))
                else:
                    self.refuse(value)

    def refuse(self, value: Any) -> None:
        """Before an operation whose result depends on the order of a set."""
        if id(value) in self.disordered:
            refuse(breaks.SET_ORDER, f"{self.sources[id(value)]}")

    def refuse_in(self, seen: Seen) -> None:
        """Before what shows the order of the sets in a container too."""
        if self.disordered:
            for value in seen.values():
                self.refuse(value)


def half_done(before: list[Any], target: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """What was done to a set by a method that then failed: `update([1, []])` adds 1."""
    if not set.__len__(target):
        return [("clear", ())] if before else []
    had = set(before)
    gone = [("discard", (item,)) for item in before if not set.__contains__(target, item)]
    came = dict.fromkeys(item for item in set.__iter__(target) if item not in had)
    return gone + [("add", (item,)) for item in came]
