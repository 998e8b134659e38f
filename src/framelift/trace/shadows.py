"""Shadows: real containers of the same type that stand for outside ones while a trace runs.

A shadow's elements are pending values with longer sources, or whatever the traced program has put
there since. At the end it is compared with what it was (`original`), and the difference is replayed
on the outside container. The rule of a type says how its shadow is made and compared.
"""

from __future__ import annotations

import collections
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.trace.type_rules import Calls, rule_of_type
from framelift.trace.views import namespace_changes, own_dictionary

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

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
    if id(value) in world.containers.blind:
        for method, (first, *rest) in world.containers.blind.pop(id(value)).calls:
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
