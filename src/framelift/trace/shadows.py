"""Shadows and views: what stands for outside containers and namespaces while a trace runs.

A shadow is a real container of the same type. Its elements are pending values with longer sources, or
whatever the traced program has put there since. At the end it is compared with what it was (`original`), and
the difference is replayed on the outside container. The rule of a type says how its shadow is made and
compared.

A view holds the names that the trace has read or written so far in an outside namespace: an instance's
attributes, a module, globals. Reads fill it with pending values; writes replace them and are noted, in order,
to be replayed. Nothing is written to the namespace itself while tracing.
"""

from __future__ import annotations

import collections
import itertools
import types
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch.utils._pytree import SUPPORTED_NODES

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING, Sentinel
from framelift.graph.front_end import load_front_end
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.type_rules import Calls, rule_of_type

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

DELETED = Sentinel("DELETED")
"""A name that the traced program has deleted."""

GETATTRIBUTE: Any = object.__getattribute__
"""How attributes are found, unless a class has its own way."""

own_dictionary = _frame.dict_of
"""What an instance holds by name, past a `__getattribute__` or `__dict__`, which is the program's to call."""


class View:
    writes = 0
    """How often anything was written to any view."""

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
        View.writes += 1
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


FACTORY: Any = vars(collections.defaultdict)["default_factory"]
"""What C knows of such a dictionary, whatever a subclass says."""


@dataclass
class Shadow:
    """One outside container: where it is, what stands for it, and what that held at first."""

    source: Source
    outside: Any
    shadow: Any
    base: type
    original: Any
    attributes: dict[str, Any] | None = None
    """What the shadow had at first beside its elements; None where there can't be anything."""
    calls: Calls = field(default_factory=list)
    """What was done to a set, which decides its order."""


@dataclass
class Blind:
    """What is added to an outside container without a look at what is in there."""

    source: Source
    outside: Any
    calls: Calls = field(default_factory=list)

    def change(self) -> Change:
        calls = self.calls
        if type(self.outside) is list:
            calls = [("extend", ([value for _, (value,) in calls],))]
        made = Shadow(self.source, self.outside, None, type(self.outside), None)
        return Change(made, calls, [])


def wrap_container(world: TraceWorld, value: Any, source: Source) -> Any:
    """The shadow of an outside container, guarded as far as any use of it needs."""
    if value is SUPPORTED_NODES:
        load_front_end()  # which would register more when something else needs it
    cls = type(value)
    rule = rule_of_type(cls)
    base, make_shadow = rule.container, rule.shadow
    assert base is not None and make_shadow is not None
    world.guards.add(source, Check.TYPE, cls)
    if cls is not base and world.classes.attribute(cls, "__del__") is not MISSING:
        refuse(breaks.FINALISER, f"{cls.__qualname__}, as what stands for one would be finalised too")
    shadow, original = make_shadow(world, value, source, cls)
    made = Shadow(source, value, shadow, base, original)
    world.inputs.know(value, shadow, source)
    world.containers.shadows[id(shadow)] = made
    blind = world.containers.blind.pop(id(value), None)
    if blind is not None:
        if blind.source is not source:
            world.guards.add(source, Check.SAME_AS, blind.source)
        for method, (first, *rest) in blind.calls:
            first = first if base is list else world.identity.key(first)
            if base is set:
                made.calls.append((method, (first,)))
                world.set_order.disordered.add(id(shadow))
            getattr(base, method)(shadow, first, *rest)
    if cls is not base or base is collections.OrderedDict:
        shadow_attributes(world, value, source, shadow)
    if cls is not base or base in (collections.defaultdict, collections.OrderedDict):
        made.attributes = attributes_of(shadow)
    return shadow


def shadow_attributes(world: TraceWorld, value: Any, source: Source, shadow: Any) -> None:
    """A subclass's own state, beside what it contains."""
    attributes = own_dictionary(value)
    if attributes is not None:
        place = source.child(Access.DICT)
        if attributes:
            world.guards.add(place, Check.KEYS, tuple(attributes))
        else:
            world.guards.add(place, Check.LEN, 0)
        own: Any = own_dictionary(shadow)
        for name, item in attributes.items():
            own[name] = Pending(world.inputs, source.child(Access.ATTR, name), item)
    for slot in slots_of(type(value)):
        try:
            item = slot.__get__(value)
        except AttributeError:
            world.guards.add(source, Check.NO_SLOT, slot)
        else:
            slot.__set__(shadow, Pending(world.inputs, source.child(Access.SLOT, slot), item))


def attributes_of(value: Any) -> dict[str, Any]:
    """What a container holds in its dictionary and slots."""
    found = dict(own_dictionary(value) or ())
    if issubclass(type(value), collections.defaultdict):
        found["default_factory"] = FACTORY.__get__(value)
    for slot in slots_of(type(value)):
        try:
            found[slot.__name__] = slot.__get__(value)
        except AttributeError:
            pass
    return found


def slots_of(cls: type) -> tuple[Any, ...]:
    """The descriptors of the slots that Python classes in the hierarchy declare."""
    return tuple(
        member
        for base in cls.__mro__
        if "__slots__" in vars(base)
        for member in vars(base).values()
        if type(member) is types.MemberDescriptorType
    )


# ---- what changed


@dataclass
class Change:
    """What brings an outside container to its shadow's state, as calls of the base type's methods on it."""

    shadow: Shadow
    calls: Calls
    """Method and arguments, in order."""
    attributes: list[tuple[str, Any]]
    """Names to set; DELETED: to delete."""

    def __bool__(self) -> bool:
        return bool(self.calls or self.attributes)


def change_of(made: Shadow) -> Change:
    changes = rule_of_type(made.base).changes
    calls = changes(made) if changes is not None else []
    before = made.attributes
    if before is None:
        return Change(made, calls, [])
    return Change(made, calls, namespace_changes(before.items(), attributes_of(made.shadow).items()))
