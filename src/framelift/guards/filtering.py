"""`compile(guard_filter_fn=...)`: guards that the user does not want, since they always hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framelift.core.errors import UserError
from framelift.core.weakly import there
from framelift.guards.guard import Guard
from framelift.guards.kinds import Access
from framelift.guards.sources import Source


@dataclass(frozen=True)
class GuardFilterEntry:
    """A guard, as a filter sees it."""

    name: str
    """What it is about: `x`, `self.scale`."""
    guard_type: str
    """The kind of fact: `TENSOR`, `TYPE`, `EQUAL`, `IS`..."""
    value: Any
    """What is expected."""
    is_global: bool
    text: str
    """As messages write it: `n == 2`."""


GuardFilter = Callable[[list[GuardFilterEntry]], Sequence[bool]]


def thinned(guards: list[Guard], keeps: GuardFilter | None, sources: list[Source]) -> list[Guard]:
    """The guards that the filter keeps. A guard also stays if other values are reached through its source."""
    if keeps is None:
        return guards
    entries = [entry(guard) for guard in guards]
    try:
        kept = list(keeps(entries))
    except Exception as error:
        raise UserError(f"guard_filter_fn raised {type(error).__name__}: {error}") from error
    if len(kept) != len(guards):
        raise UserError(f"guard_filter_fn gave {len(kept)} answers for {len(guards)} guards")
    bases = {base for source in (*sources, *(guard.source for guard in guards)) for base in bases_of(source)}
    return [guard for guard, wanted in zip(guards, kept, strict=True) if wanted or guard.source in bases]


def entry(guard: Guard) -> GuardFilterEntry:
    ways = {each.access for each in (guard.source, *bases_of(guard.source))}
    is_global = Access.GLOBALS in ways and not ways & {Access.ARG, Access.FUNC}
    return GuardFilterEntry(str(guard.source), guard.check.name, there(guard.expected), is_global, str(guard))


def bases_of(source: Source) -> list[Source]:
    found = []
    place = source.base
    while place is not None:
        found.append(place)
        place = place.base
    return found
