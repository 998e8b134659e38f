"""The world of a trace: all that it knows of the outside, and what must be written there at the end."""

from __future__ import annotations

from dataclasses import dataclass
from types import CellType
from typing import Any

from framelift.core.sentinels import MISSING
from framelift.world.guard import Check
from framelift.world.operations import Operations
from framelift.world.pending import Pending
from framelift.world.shadows import Change, change_of
from framelift.world.source import Access
from framelift.world.views import View

__all__ = ["World", "Writes"]


@dataclass
class Writes:
    """What a region replays after its graph has run."""

    containers: list[Change]
    attributes: list[tuple[View, list[tuple[str, Any]]]]
    scopes: list[tuple[View, list[tuple[str, Any]]]]
    cells: list[tuple[CellType, Any]]

    def __bool__(self) -> bool:
        return bool(self.containers or self.attributes or self.scopes or self.cells)


class World(Operations):
    def open_whole_dict(self, pending: Pending) -> dict[str, Any]:
        """An instance's `__dict__`, asked for as a value: its view becomes that dictionary."""
        owner = self.owners(pending.source)[0]
        view = self.views[id(owner)]
        if not view.complete:
            self.guard(pending.source, Check.KEYS, tuple(pending.value))
            original = {
                name: Pending(self, view.source.child(Access.ATTR, name), value)
                for name, value in pending.value.items()
            }
            for name, value in view.values.items():
                if name not in view.written and name in original:
                    original[name] = value
            values = dict(original)
            for name in view.written:
                values[name] = view.values[name]
            view.original = original
            view.values.clear()
            view.values.update({n: v for n, v in values.items() if v is not MISSING})
            view.complete = True
        return view.values

    def load(self, value: Any, source: Any) -> Any:
        if source.access is Access.DICT:
            return self.open_whole_dict(Pending(self, source, value))
        return super().load(value, source)

    def writes(self) -> Writes:
        containers = [c for c in map(change_of, list(self.shadows.values())) if c is not None]
        modules = {id(scope) for scope in self.scopes.values()}
        attributes = [
            (view, changes)
            for view in self.views.values()
            if id(view) not in modules and (changes := view.changes())
        ]
        scopes = [(view, changes) for view in self.scopes.values() if (changes := view.changes())]
        cells = []
        for cell, shadow, before in self.shadow_cells.values():
            try:
                now = shadow.cell_contents
            except ValueError:
                now = MISSING
            if now is not before and not (type(before) is Pending and before.opened is now):
                cells.append((cell, now))
        written = Writes(containers, attributes, scopes, cells)
        self.guard_apart(written)
        return written

    def guard_apart(self, written: Writes) -> None:
        """What was written to must not turn out, another time, to be one of the other objects."""
        changed = [change.shadow.source for change in written.containers]
        changed += [view.source for view, _ in written.attributes]
        for known in list(self.known.values()):
            for source in changed:
                if known.source is source or known.source.access is Access.CONST or source.access is Access.CONST:
                    continue
                if type(known.value) is type(self.value_at(source)):
                    self.guard(source, Check.NOT_SAME_AS, known.source)

    def value_at(self, source: Any) -> Any:
        return next((known.value for known in self.known.values() if known.source is source), None)
