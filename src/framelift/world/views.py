"""Views: partial shadows of outside namespaces - an instance's attributes, a module, globals.

A view holds the names that the trace has read or written so far. Reads fill it with pending values;
writes replace them and are noted, in order, to be replayed. Nothing is written to the namespace
itself while tracing.
"""

from __future__ import annotations

from typing import Any

from framelift.core.sentinels import MISSING, Sentinel
from framelift.world.pending import unchanged
from framelift.world.source import Source

DELETED = Sentinel("DELETED")
"""A name that the traced program has deleted."""


class View:
    __slots__ = ("complete", "original", "outside", "source", "values", "written")

    def __init__(self, source: Source, outside: Any) -> None:
        self.source = source
        self.outside = outside
        self.values: dict[str, Any] = {}
        self.written: dict[str, None] = {}
        self.complete = False
        """`values` holds every name there is: it was asked for as a whole (`obj.__dict__`)."""
        self.original: dict[str, Any] = {}
        """What a complete view held when it became so."""

    def get(self, name: str) -> Any:
        """What the trace has for a name: a value, DELETED, or MISSING when it has not been asked for."""
        value = self.values.get(name, MISSING)
        if value is MISSING and (self.complete or name in self.written):
            return DELETED
        return value

    def write(self, name: str, value: Any) -> None:
        self.written.pop(name, None)
        self.written[name] = None
        if value is DELETED:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def changes(self) -> list[tuple[str, Any]]:
        """The names to set (or delete) afterwards, in order."""
        if not self.complete:
            return [(name, self.values.get(name, DELETED)) for name in self.written]
        gone = [(name, DELETED) for name in self.original if name not in self.values]
        return gone + [(n, v) for n, v in self.values.items() if not unchanged(v, self.original.get(n, DELETED))]
