"""What must be written to the outside once the graph has run.

C notes signals of decimals (Inexact, say) in the thread's context. A trace has the flags of its thread to
itself, so that it can tell which signals the program gives; afterwards they are as they were, and the region
raises those flags each time.
"""

from __future__ import annotations

import collections
import decimal
import re
from dataclasses import dataclass, field
from types import CellType
from typing import Any, NamedTuple

import torch

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import unchanged
from framelift.trace.context_variables import Variable
from framelift.trace.outside_iterators import OutsideIterator
from framelift.trace.part import Part
from framelift.trace.scopes import contents_of
from framelift.trace.shadows import Change, View, change_of, own_dictionary

Signal = type[decimal.DecimalException]


def context_text() -> str:
    """The thread's context without the flags: what results depend on."""
    return re.sub(r"flags=\[.*?\]", "", repr(decimal.getcontext()))


def raise_flags(*signals: Signal) -> None:
    flags = decimal.getcontext().flags
    for signal in signals:
        flags[signal] = True


def raised_in(context: decimal.Context) -> tuple[Signal, ...]:
    return tuple(signal for signal, is_raised in context.flags.items() if is_raised)


class DecimalFlags:
    """Within it no flag is raised but by what happens there; `raised` are those, afterwards."""

    raised: tuple[Signal, ...] = ()

    def __enter__(self) -> None:
        self.context = decimal.getcontext()
        self.before = raised_in(self.context)
        self.context.clear_flags()

    def __exit__(self, *error: object) -> None:
        self.raised = raised_in(self.context)
        self.context.clear_flags()
        for signal in self.before:
            self.context.flags[signal] = True


@dataclass(eq=False)
class LateCall:
    """A call of a method of a tensor from outside that does nothing to its values: the region makes it."""

    tensor: Any
    method: str
    args: tuple[Any, ...]
    result: Any
    """What stands for the result in the trace."""
    before_writes: bool
    """Whether it is another call once the tensor has been written to."""
    then: list[str] = field(default_factory=list)
    """Methods that are called on the result."""


class Report(NamedTuple):
    """A call of a function that only tells something: the region makes it when all else is done."""

    fn: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Writes:
    """What a region replays after its graph has run."""

    containers: list[Change]
    attributes: list[tuple[View, list[tuple[str, Any]]]]
    scopes: list[tuple[View, list[tuple[str, Any]]]]
    cells: list[tuple[CellType, Any]]
    signals: tuple[Signal, ...]
    calls: list[LateCall]
    advances: list[tuple[OutsideIterator, int]]
    """Iterators, and how often to advance them."""
    classes: list[tuple[View, list[tuple[str, Any]]]]
    variables: list[tuple[Variable, Any]]
    """Those of the context, and what they are set to."""
    reports: list[Report]

    def count(self) -> int:
        """How many things are written to, and how often."""
        calls = (
            sum(len(change.calls) for change in self.containers)
            + len(self.calls)
            + len(self.advances)
            + len(self.variables)
            + len(self.reports)
        )
        return calls + sum(len(changes) for _, changes in self.names()) + len(self.cells)

    def names(self) -> list[tuple[View, list[tuple[str, Any]]]]:
        return [*self.attributes, *self.scopes, *self.classes]

    def __bool__(self) -> bool:
        written = self.classes or self.containers or self.attributes or self.scopes or self.cells
        told = self.calls or self.advances or self.variables or self.reports
        return bool(written or self.signals or told)


class WrittenState(Part):
    """Collects the changes that views, shadows and cells have noted."""

    def start(self) -> None:
        self.decimal_flags = DecimalFlags()
        self.calls: list[LateCall] = []
        self.reports: list[Report] = []

    def collect(self) -> Writes:
        world = self.world
        containers = [change for change in map(change_of, list(world.containers.shadows.values())) if change]
        containers += [blind.change() for blind in world.containers.blind.values()]
        modules = {id(scope) for scope in world.scopes.views.values()}
        attributes = [
            (view, changes)
            for view in world.attributes.views.values()
            if id(view) not in modules and (changes := view.changes())
        ]
        scopes = [(view, changes) for view in world.scopes.views.values() if (changes := view.changes())]
        signals = self.decimal_flags.raised
        if signals:  # the context says which of them are errors
            world.guards.add(world.inputs.root.decimal_context(), Check.EQUAL, context_text())
        cells = world.functions.changed_cells()
        advances, variables = world.iterators.advanced(), world.context_variables.changes()
        classes = [(view, view.changes()) for view in world.classes.views.values()]
        written = Writes(
            containers,
            attributes,
            scopes,
            cells,
            signals,
            self.calls,
            advances,
            classes,
            variables,
            self.reports,
        )
        self.refuse_two_faces(written)
        self.world.lifetimes.refuse_finalisers(written)
        self.guard_apart(written)
        return written

    def any_so_far(self) -> bool:
        """Whether the program has changed anything outside so far."""
        views = (*self.world.attributes.views.values(), *self.world.scopes.views.values())
        cells = ((shadow, before) for _, shadow, before in self.world.functions.shadow_cells.values())
        return (
            bool(
                self.calls
                or self.reports
                or self.world.classes.views
                or self.world.iterators.advanced()
                or self.world.context_variables.changes()
            )
            or any(view.changes() for view in views)
            or any(map(change_of, self.world.containers.shadows.values()))
            or any(blind.calls for blind in self.world.containers.blind.values())
            or any(not unchanged(contents_of(shadow), before) for shadow, before in cells)
        )

    def refuse_two_faces(self, written: Writes) -> None:
        """A namespace met as a plain dictionary too has a view and a shadow, and neither knows the other."""
        inputs = self.world.inputs
        if not written:
            return
        met = {id(value) for source, value in inputs.glanced.items() if source.access is not Access.DICT}
        changed = {id(change.shadow.outside) for change in written.containers}
        for view in (*self.world.attributes.views.values(), *self.world.scopes.views.values()):
            own = view.outside if type(view.outside) is dict else own_dictionary(view.outside)
            if own is None:  # it has slots only
                continue
            found = id(own) in met or id(own) in inputs.known
            if id(own) in changed or ((found or self.holds_hooks(own)) and view.changes()):
                refuse(breaks.INTERNALS, f"{view.source} changed, and its __dict__ found elsewhere")

    def holds_hooks(self, own: dict[str, Any]) -> bool:
        """Whether a namespace is the dictionary of hooks of a module that was called."""
        is_one = type(own) is collections.OrderedDict
        return is_one and any([hooks is own for _, hooks in self.world.plain_calls.hooks()])

    def refuse_changed_dictionary(self, view: View, own: dict[str, Any]) -> None:
        """Where a name is looked up in a namespace that was there as a plain dictionary when the trace began,
        and has been changed as that."""
        met = self.world.inputs.known.get(id(own))
        shadow = None if met is None else self.world.containers.shadows.get(id(met.opened))
        if shadow is not None and change_of(shadow):
            refuse(breaks.INTERNALS, f"{view.source} changed by way of its dictionary")

    def guard_apart(self, written: Writes) -> None:
        if not written:
            return
        others: dict[type, list[tuple[Source, Any]]] = {}
        for known in self.world.inputs.known.values():
            others.setdefault(type(known.value), []).append((known.source, known.value))
        for blind in self.world.containers.blind.values():
            others.setdefault(type(blind.outside), []).append((blind.source, blind.outside))
        for source, value in self.world.inputs.glanced.items():
            others.setdefault(type(value), []).append((source, value))
        views = [view for view, _ in written.attributes]
        changed = [(change.shadow.source, change.shadow.outside) for change in written.containers]
        changed += [(v.source, v.outside) for v in views if not issubclass(type(v.outside), torch.Tensor)]
        changed += [(one.source, one.outside) for one, _ in written.advances]
        if any([type(value) is collections.OrderedDict for _, value in changed]):
            others.setdefault(collections.OrderedDict, []).extend(self.world.plain_calls.hooks())
        for source, value in changed:
            if source in self.world.frame.fresh:
                continue
            for other, met in others.get(type(value), ()):
                if other is source or (other.access is Access.CONST and source.access is Access.CONST):
                    continue
                self.world.guards.add(source, Check.SAME_AS if met is value else Check.NOT_SAME_AS, other)

        for cell, _ in written.cells:
            source = self.world.functions.cell_source(cell)
            for another, _, _ in self.world.functions.shadow_cells.values():
                place = self.world.functions.cell_source(another)
                if another is not cell and not source.root.access is place.root.access is Access.CONST:
                    self.world.guards.add(source, Check.NOT_SAME_AS, place)
