"""Shadows: real containers of the same type that stand for outside ones while a trace runs.

A shadow's elements are pending values with longer sources, or whatever the traced program has put
there since. At the end it is compared with what it was (`original`), and the difference is replayed
on the outside container. `SHADOWED` says, for each builtin container, how its shadow is made;
subclasses of these are shadowed by instances of the same subclass, attributes included.
"""

from __future__ import annotations

import collections
import itertools
import operator
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.guards.hashing import COMMON_KEYS
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending, unchanged
from framelift.trace.views import DELETED, namespace_changes, own_dictionary

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


MAXLEN: Any = vars(collections.deque)["maxlen"]
FACTORY: Any = vars(collections.defaultdict)["default_factory"]
"""What C knows of these containers, whatever a subclass of theirs says."""


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
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    """What was done to a set, which decides its order."""


@dataclass
class Blind:
    """What is added to an outside container without a look at what is in there."""

    source: Source
    outside: Any
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def change(self) -> Change:
        calls = self.calls
        if type(self.outside) is list:
            calls = [("extend", ([value for _, (value,) in calls],))]
        made = Shadow(self.source, self.outside, None, type(self.outside), None)
        return Change(made, calls, [])


def shadow_of(world: TraceWorld, value: Any, source: Source, base: type) -> Any:
    """The shadow of an outside container, guarded as far as any use of it needs."""
    cls = type(value)
    world.guards.add(source, Check.TYPE, cls)
    if cls is not base and world.classes.attribute(cls, "__del__") is not MISSING:
        refuse(breaks.FINALISER, f"{cls.__qualname__}, as what stands for one would be finalised too")
    shadow, original = SHADOWED[base](world, value, source, cls)
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


def items_of(world: TraceWorld, value: Any, source: Source, access: Access) -> list[Pending]:
    return [Pending(world.inputs, source.child(access, n), item) for n, item in enumerate(value)]


def shadow_tuple(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guards.add(source, Check.LEN, tuple.__len__(value))
    items = items_of(world, tuple.__iter__(value), source, Access.ITEM)
    if hasattr(cls, "n_sequence_fields"):
        return record_of(cls, items, unlisted(world, value, source)), None
    return (tuple(items) if cls is tuple else tuple.__new__(cls, items)), None


def record_of(cls: Any, items: list[Any], others: dict[str, Any]) -> Any:
    """An instance of a C class whose fields have names, as `time.struct_time` is one."""
    return cls(items, others) if others else cls(items)


def unlisted(world: TraceWorld, value: Any, source: Source) -> dict[str, Any]:
    """The fields of such a record that are not among its items."""
    others = value.__reduce__()[1][1] if value.n_fields > value.n_sequence_fields else {}
    return {
        name: world.inputs.load(item, source.child(Access.NATIVE_ATTR, name)) for name, item in others.items()
    }


def shadow_list(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guards.add(source, Check.LEN, list.__len__(value))
    items = items_of(world, list.__iter__(value), source, Access.ITEM)
    shadow: list[Any] = list.__new__(cls)
    list.extend(shadow, items)
    return shadow, items


def shadow_deque(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guards.add(source, Check.LEN, collections.deque.__len__(value))
    world.guards.add(source.child(Access.NATIVE_ATTR, "maxlen"), Check.EQUAL, MAXLEN.__get__(value))
    items = items_of(world, collections.deque.__iter__(value), source, Access.DEQUE_ITEM)
    shadow: collections.deque[Any] = collections.deque.__new__(cls)
    collections.deque.__init__(shadow, items, MAXLEN.__get__(value))
    return shadow, items


def shadow_dict(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    shadow: Any = dict.__new__(cls)
    return shadow, fill_mapping(world, dict, shadow, value, source)


def shadow_ordered(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    shadow: Any = collections.OrderedDict.__new__(cls)
    return shadow, fill_mapping(world, collections.OrderedDict, shadow, value, source)


def shadow_default(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    shadow: Any = collections.defaultdict.__new__(cls)
    factory = source.child(Access.NATIVE_ATTR, "default_factory")
    collections.defaultdict.__init__(shadow, world.inputs.load(FACTORY.__get__(value), factory))
    return shadow, fill_mapping(world, dict, shadow, value, source)


def fill_mapping(
    world: TraceWorld, base: Any, shadow: Any, value: Any, source: Source
) -> list[tuple[Any, Any]]:
    keys = tuple(base.__iter__(value))
    if keys:
        world.guards.add(source, Check.KEYS, keys)
    else:
        world.guards.add(source, Check.LEN, 0)
    held = {id(key): item for key, item in dict.items(value)}
    for key in keys:
        world.identity.check_hash(key)
        item = Pending(world.inputs, source.child(Access.KEY, key), held[id(key)])
        if type(key) not in COMMON_KEYS and dict.get(value, key, MISSING) is not item.value:
            refuse(breaks.OPAQUE_OBJECT, f"a key of {source} whose hash is not what it was")
        base.__setitem__(shadow, world.inputs.fixed(key, source), item)
    return items_in_order(base, shadow)


def shadow_set(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    base: Any = frozenset if issubclass(cls, frozenset) else set
    items = list(base.__iter__(value))
    world.guards.add(source, Check.ELEMENTS_IN_ORDER, tuple(items))
    for item in items:
        world.identity.check_hash(item)
        world.inputs.fixed(item, source)
    shadow = base.__new__(cls, set().union(value))  # a copy of the table is most likely to have its order
    if base is set:
        set.update(shadow, value)
    world.set_order.sources[id(shadow)] = source
    if not all(map(operator.is_, base.__iter__(shadow), items)):
        world.set_order.disordered.add(id(shadow))
    return shadow, items


def shadow_bytes(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    held = bytes(memoryview(value))
    world.guards.add(source.child(Access.BYTES), Check.EQUAL, held)
    shadow: Any = bytearray.__new__(cls)
    bytearray.extend(shadow, held)
    return shadow, list(held)


SHADOWED: dict[type, Any] = {
    tuple: shadow_tuple,
    list: shadow_list,
    dict: shadow_dict,
    collections.OrderedDict: shadow_ordered,
    collections.defaultdict: shadow_default,
    collections.deque: shadow_deque,
    set: shadow_set,
    frozenset: shadow_set,
    bytearray: shadow_bytes,
}


def container_base(cls: type) -> type | None:
    """The builtin container that a class is or derives from; its own C state is that and nothing else."""
    for base in cls.__mro__:
        if base in SHADOWED:
            return base
    return None


# ---- what changed


@dataclass
class Change:
    """What brings an outside container to its shadow's state, as calls of the base type's methods on it."""

    shadow: Shadow
    calls: list[tuple[str, tuple[Any, ...]]]
    """Method and arguments, in order."""
    attributes: list[tuple[str, Any]]
    """Names to set; DELETED: to delete."""

    def __bool__(self) -> bool:
        return bool(self.calls or self.attributes)


def change_of(made: Shadow) -> Change:
    compare = COMPARED.get(made.base)
    calls = compare(made) if compare is not None else []
    before = made.attributes
    if before is None:
        return Change(made, calls, [])
    return Change(made, calls, namespace_changes(before.items(), attributes_of(made.shadow).items()))


def sequence_calls(made: Shadow) -> list[tuple[str, tuple[Any, ...]]]:
    base: Any = made.base
    now, before = list(base.__iter__(made.shadow)), made.original
    start = 0
    while start < len(now) and start < len(before) and unchanged(now[start], before[start]):
        start += 1
    if start == len(before):
        return [("extend", (now[start:],))] if start < len(now) else []
    if made.base is collections.deque:
        return deque_calls(now, before)
    end = 0
    while end < min(len(now), len(before)) - start and unchanged(now[-end - 1], before[-end - 1]):
        end += 1
    part = slice(start, len(before) - end)
    if len(now) == start + end:
        return [("__delitem__", (part,))]
    return [("__setitem__", (part, now[start : len(now) - end]))]


def deque_calls(now: list[Any], before: list[Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Iterators notice when anything comes or goes, but not that another thing is in its place."""
    if len(now) != len(before):
        return [("clear", ()), ("extend", (now,))]
    pairs = enumerate(zip(now, before, strict=True))
    return [("__setitem__", (n, item)) for n, (item, held) in pairs if not unchanged(item, held)]


def set_calls(made: Shadow) -> list[tuple[str, tuple[Any, ...]]]:
    """The same again: where an element lands depends on all that was ever done to a set.

    What is hashed by its address lands anywhere: then it is only what differs.
    """
    given = [operand for _, operands in made.calls for operand in operands]
    if all(map(is_constant, itertools.chain(*(each if type(each) in LISTED else (each,) for each in given)))):
        return made.calls
    now, before = list(set.__iter__(made.shadow)), made.original
    held, gone = {id(item) for item in before}, {id(item) for item in now}
    removed = [("discard", (item,)) for item in before if id(item) not in gone]
    return removed + [("add", (item,)) for item in now if id(item) not in held]


LISTED = frozenset({list, dict, set})


def is_constant(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(is_constant, value))
    return type(value) in op_memory.ATOMS or type(value) is bytes


def mapping_calls(made: Shadow) -> list[tuple[str, tuple[Any, ...]]]:
    return [
        ("__delitem__", (key,)) if value is DELETED else ("__setitem__", (key, value))
        for key, value in namespace_changes(made.original, items_in_order(made.base, made.shadow))
    ]


def items_in_order(base: type, mapping: Any) -> list[tuple[Any, Any]]:
    """What a mapping holds, with no key hashed: that may be the program's code."""
    if base is not collections.OrderedDict:
        return list(dict.items(mapping))
    held = {id(key): item for key, item in dict.items(mapping)}
    return [(key, held[id(key)]) for key in collections.OrderedDict.__iter__(mapping)]


COMPARED: dict[type, Any] = {
    list: sequence_calls,
    collections.deque: sequence_calls,
    bytearray: sequence_calls,
    set: set_calls,
    dict: mapping_calls,
    collections.OrderedDict: mapping_calls,
    collections.defaultdict: mapping_calls,
}
