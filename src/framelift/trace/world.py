"""The world of a trace: all that it knows of the outside, and what must be written there at the end."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType, MethodWrapperType
from typing import Any

import torch
from torch.utils._device import DeviceContext

from framelift.bytecode import slot_names
from framelift.bytecode.resume import INNER, called_by
from framelift.core import breaks
from framelift.core.sentinels import MISSING
from framelift.features.numpy.arrays import Arrays
from framelift.graph.recorder import Recorder
from framelift.guards.guard import Check
from framelift.guards.sources import Access, Source
from framelift.guards.variables import STACK
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.decimals import DecimalFlags, Signal, context_text
from framelift.trace.native_calls import NativeCalls
from framelift.trace.shadows import Change, change_of, slots_of
from framelift.trace.views import DELETED, View, own_dictionary

__all__ = ["World", "Writes"]


@dataclass
class Writes:
    """What a region replays after its graph has run."""

    containers: list[Change]
    attributes: list[tuple[View, list[tuple[str, Any]]]]
    scopes: list[tuple[View, list[tuple[str, Any]]]]
    cells: list[tuple[CellType, Any]]
    signals: tuple[Signal, ...]

    def __bool__(self) -> bool:
        return bool(self.containers or self.attributes or self.scopes or self.cells or self.signals)


def contents_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def is_exit(value: Any) -> bool:
    """Whether a `with` statement has bound this method. Others may be bound to what is no function at all."""
    bound = type(value) is MethodType
    fn = value.__func__ if bound else value
    known = type(fn) is FunctionType if bound else type(fn) is MethodWrapperType
    return (known or type(fn) is BuiltinMethodType) and fn.__name__ == "__exit__"


class World(NativeCalls):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        recorder.ask_program(self.ask_class, self.ask_mode, self.meet_mode)
        self.arrays = Arrays(self)
        self.glanced: dict[Source, Any] = {}
        """What was looked at without being opened."""
        self.decimal_flags = DecimalFlags()
        self.exits: list[Pending] = []

    def ask_class(self, cls: type, func: Any, classes: tuple[type, ...], args: Any, kwargs: Any) -> Any:
        """Calls the `__torch_function__` of a tensor's class."""
        handler = self.load_attr(cls, "__torch_function__")
        return self.for_torch(self.invoke(handler, func, classes, args, kwargs))

    def open_statements(self, code: CodeType, handed: list[Pending]) -> None:
        """Notes what the `with` statements around a resume point call at their end, outermost first."""
        called = called_by(code)
        for name, given in zip(slot_names(code), handed, strict=False):
            value = given.value
            if name == INNER and called is not None:
                places = [given.source.child(Access.ITEM, n) for n in range(len(value))]
                self.open_statements(called.__code__, list(map(Pending, [self] * len(value), places, value)))
            elif name.startswith(STACK) and is_exit(value):
                self.exits.append(given)

    def meet_mode(self, number: int, mode: Any) -> None:
        """A torch function mode from before the call: what it does is traced, what it reads is guarded."""
        if type(mode) is not DeviceContext:  # of which all is known
            self.check_mode(self.load(mode, self.root.mode(number)))

    def check_mode(self, mode: Any) -> Any:
        handler = self.load_attr(mode, "__torch_function__")
        fn = handler.__func__ if type(handler) is MethodType else None
        if type(fn) is not FunctionType or not self.interprets(fn):
            self.refuse(breaks.INTERNAL, f"the torch function mode {type(mode).__qualname__}")
        return handler

    def ask_mode(self, mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """Calls the `__torch_function__` of a mode."""
        handler = self.check_mode(mode)
        classes = tuple(self.recorder.subclasses.overloaded(args, kwargs or {}))
        given = (func, classes, args) if kwargs is None else (func, classes, args, kwargs)
        return self.for_torch(self.invoke(handler, *given))

    def open_whole_dict(self, pending: Pending) -> dict[str, Any]:
        """An instance's `__dict__`, asked for as a value: its view becomes that dictionary."""
        owner = self.owners(pending.source)[0]
        if owner is builtins:  # every namespace that lacks a name looks there
            self.refuse(breaks.INTERNAL, "the names of builtins as a dictionary")
        view = self.views[id(owner)]
        if not view.complete:
            if slots_of(type(owner)):  # a view does not tell the one kind of names from the other
                self.refuse(breaks.INTERNAL, f"__dict__ of a {type(owner).__qualname__}, which has slots too")
            self.guard(pending.source, Check.KEYS, tuple(pending.value))
            original = {
                name: Pending(self, view.source.child(Access.ATTR, name), value)
                for name, value in pending.value.items()
            }
            for name in original:
                if name not in view.written and name in view.values:
                    original[name] = view.values[name]
            values = dict(original)
            for name, value in view.changes():
                if value is DELETED:
                    values.pop(name, None)
                else:
                    values[name] = value
            view.original = original
            view.values.clear()
            view.values.update(values)
            view.complete = True
            self.know(view.values, view.values, pending.source)
        return view.values

    def load(self, value: Any, source: Any) -> Any:
        if source.access is Access.DICT:
            return self.open_whole_dict(Pending(self, source, value))
        return super().load(value, source)

    def writes(self) -> Writes:
        containers = [change for change in map(change_of, list(self.shadows.values())) if change]
        containers += [blind.change() for blind in self.blind.values()]
        modules = {id(scope) for scope in self.scopes.values()}
        attributes = [
            (view, changes)
            for view in self.views.values()
            if id(view) not in modules and (changes := view.changes())
        ]
        scopes = [(view, changes) for view in self.scopes.values() if (changes := view.changes())]
        signals = self.decimal_flags.raised
        if signals:  # the context says which of them are errors
            self.guard(self.root.decimal_context(), Check.EQUAL, context_text())
        written = Writes(containers, attributes, scopes, self.changed_cells(), signals)
        self.refuse_two_faces(written)
        self.guard_apart(written)
        return written

    def changed_cells(self) -> list[tuple[CellType, Any]]:
        cells = []
        for cell, shadow, before in self.shadow_cells.values():
            now = contents_of(shadow)
            # a pending value that nobody has opened holds MISSING too
            emptied = now is MISSING and before is not MISSING
            if emptied or not unchanged(now, before):
                cells.append((cell, now))
        return cells

    def has_written(self) -> bool:
        """Whether the program has changed anything outside so far."""
        views = (*self.views.values(), *self.scopes.values())
        cells = ((shadow, before) for _, shadow, before in self.shadow_cells.values())
        return (
            any(view.changes() for view in views)
            or any(map(change_of, self.shadows.values()))
            or any(not unchanged(contents_of(shadow), before) for shadow, before in cells)
        )

    def refuse_two_faces(self, written: Writes) -> None:
        """A namespace met as a plain dictionary too has a view and a shadow, and neither knows the other."""
        met = {id(value) for source, value in self.glanced.items() if source.access is not Access.DICT}
        changed = {id(change.shadow.outside) for change in written.containers}
        for view in (*self.views.values(), *self.scopes.values()):
            own = view.outside if type(view.outside) is dict else own_dictionary(view.outside)
            if id(own) in changed or ((id(own) in met or id(own) in self.known) and view.changes()):
                self.refuse(breaks.INTERNAL, f"{view.source} changed, and its __dict__ found elsewhere")

    # ---- what was written to must not turn out, another time, to be one of the other objects

    def guard_apart(self, written: Writes) -> None:
        others: dict[type, list[tuple[Source, Any]]] = {}
        for known in self.known.values():
            others.setdefault(type(known.value), []).append((known.source, known.value))
        for blind in self.blind.values():
            others.setdefault(type(blind.outside), []).append((blind.source, blind.outside))
        for source, value in self.glanced.items():
            others.setdefault(type(value), []).append((source, value))
        views = [view for view, _ in written.attributes]
        changed = [(change.shadow.source, change.shadow.outside) for change in written.containers]
        changed += [
            (view.source, view.outside) for view in views if not isinstance(view.outside, torch.Tensor)
        ]
        for source, value in changed:
            if source in self.fresh:
                continue
            for other, met in others.get(type(value), ()):
                if other is source or (other.access is Access.CONST and source.access is Access.CONST):
                    continue
                self.guard(source, Check.SAME_AS if met is value else Check.NOT_SAME_AS, other)

        for cell, _ in written.cells:
            source = self.cell_source(cell)
            for another, _, _ in self.shadow_cells.values():
                place = self.cell_source(another)
                if another is not cell and not source.root.access is place.root.access is Access.CONST:
                    self.guard(source, Check.NOT_SAME_AS, place)

    def cell_source(self, cell: CellType) -> Source:
        return self.known[id(self.shadow_cells[id(cell)][1])].source

    def peek(self, container: Pending, key: Any) -> Any:
        found = super().peek(container, key)
        if found is not DELETED:
            self.glanced[container.source] = container.value
        return found

    def truth(self, value: Any) -> bool:
        if type(value) is Pending and value.opened is MISSING:
            self.glanced[value.source] = value.value
        return super().truth(value)
