"""The facts that a trace relies on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.core.sentinels import MISSING
from framelift.guards.guard import Guard
from framelift.guards.kinds import Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


class Guards(Part):
    """Collects guards as values are looked at. A fact is added once, with the line that needed it first."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.facts: dict[Any, Guard] = {}
        self.sighted: list[Source] = []
        """Names and keys that were found, whether or not what they hold was ever looked at."""

    def add(self, source: Source, check: Check, expected: Any) -> None:
        if source.is_drawn or (type(expected) is Source and expected.is_drawn):
            return
        index = (source, check, expected if check.is_keyed else None)
        if index not in self.facts:
            places = self.world.places
            self.facts[index] = Guard(source, check, expected, places.here(), places.in_user_code())

    def found(self, source: Source, value: Any) -> Pending:
        """The pending value of a name or key that was looked up."""
        self.sighted.append(source)
        return Pending(self.world.inputs, source, value)

    def add_sighted(self, inputs: list[Source]) -> None:
        """That a lookup finds something is a fact too; most are implied by what was found there."""
        reached: set[Source | None] = {None}
        for source in [*inputs, *(guard.source for guard in self.facts.values())]:
            above: Source | None = source
            while above not in reached:
                reached.add(above)
                above = above.base  # type: ignore[union-attr]
        for source in self.sighted:
            if source not in reached:
                self.add(source, Check.IS_NOT, MISSING)
