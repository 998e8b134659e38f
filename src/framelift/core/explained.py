"""Things that are named and explained to users: reasons for breaks, causes of recompilations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    name: str
    """Stable: messages, counters and the docs go by it."""
    explanation: str
    hint: str
    """What to do about it."""


class Registry(dict[str, Explained]):
    """All of one kind, by name; the tables in the docs are made from it."""

    def add(self, name: str, explanation: str, hint: str) -> Explained:
        made = self[name] = Explained(name, explanation, hint)
        return made
