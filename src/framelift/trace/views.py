"""Views: partial shadows of outside namespaces - an instance's attributes, a module, globals.

A view holds the names that the trace has read or written so far. Reads fill it with pending values;
writes replace them and are noted, in order, to be replayed. Nothing is written to the namespace
itself while tracing.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

from framelift import _frame
from framelift.core.sentinels import MISSING, Sentinel
from framelift.guards.sources import Source
from framelift.interpreter.pending import unchanged

DELETED = Sentinel("DELETED")
"""A name that the traced program has deleted."""

GETATTRIBUTE: Any = object.__getattribute__
"""How attributes are found, unless a class has its own way."""

own_dictionary = _frame.dict_of
"""What an instance holds by name, past a `__getattribute__` or `__dict__`, which is the program's to call."""


class View:
    __slots__ = ("complete", "original", "outside", "source", "values", "written")

    def __init__(self, source: Source, outside: Any) -> None:
        self.source = source
        self.outside = outside
        self.values: dict[str, Any] = {}
        self.written: dict[str, bool] = {}
        """The names the trace has written; whether it has deleted them at some time."""
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
        if value is DELETED:
            self.values.pop(name, None)
            self.written[name] = True
            return
        if self.written.get(name) and name not in self.values:
            self.written[name] = self.written.pop(name)  # it comes back, as the last of the names
        self.written.setdefault(name, False)
        self.values[name] = value

    def changes(self) -> list[tuple[str, Any]]:
        """The names to set, or to delete (DELETED), afterwards, in order."""
        if self.complete:
            return namespace_changes(self.original.items(), self.values.items())
        changes: list[tuple[str, Any]] = []
        for name, deleted in self.written.items():
            if deleted:
                changes.append((name, DELETED))
            if name in self.values:
                changes.append((name, self.values[name]))
        return changes


Items = Collection[tuple[Any, Any]]


def namespace_changes(before: Items, now: Items) -> list[tuple[Any, Any]]:
    """The keys to delete (DELETED) and to set that lead from one state of a mapping to another, in order.

    No key is hashed: that may be the program's code.
    """
    places = (id(key) for key, _ in before)
    # those that are still where they were: the others have gone, and come back as the last if at all
    kept = {id(key) for key, _ in itertools.takewhile(lambda item: id(item[0]) in places, now)}
    held = {id(key): value for key, value in before}
    deleted = [(key, DELETED) for key, _ in before if id(key) not in kept]
    return deleted + [
        (key, value) for key, value in now if id(key) not in kept or not unchanged(value, held[id(key)])
    ]
