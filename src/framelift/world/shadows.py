"""Shadows: real containers of the same type that stand for outside ones while a trace runs.

A shadow's elements are pending values with longer sources, or whatever the traced program has put
there since. At the end it is compared with what it was (`original`), and the difference is replayed
on the outside container. `SHADOWED` says, for each builtin container, how its shadow is made;
subclasses of these are shadowed by instances of the same subclass, attributes included.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.world.guard import Check
from framelift.world.pending import Pending, unchanged
from framelift.world.source import Access, Source

if TYPE_CHECKING:
    from framelift.world.world import World


@dataclass
class Shadow:
    """One outside container: where it is, what stands for it, and what that held at first."""

    source: Source
    outside: Any
    shadow: Any
    base: type
    original: Any
    attributes: dict[str, Any] | None = None
    """The instance attributes that a subclass's shadow had at first."""


def shadow_of(world: World, value: Any, source: Source, base: type) -> Any:
    """The shadow of an outside container, guarded as far as any use of it needs."""
    cls = type(value)
    world.guard(source, Check.TYPE, cls)
    shadow, original = SHADOWED[base](world, value, source, cls)
    made = Shadow(source, value, shadow, base, original)
    world.know(value, shadow, source)
    world.shadows[id(shadow)] = made
    if cls is not base and hasattr(value, "__dict__"):
        attributes = value.__dict__
        place = source.child(Access.DICT)
        if attributes:
            world.guard(place, Check.KEYS, tuple(attributes))
            for name, item in attributes.items():
                shadow.__dict__[name] = Pending(world, source.child(Access.ATTR, name), item)
        else:
            world.guard(place, Check.LEN, 0)
        made.attributes = dict(shadow.__dict__)
    return shadow


def items_of(world: World, value: Any, source: Source, access: Access) -> list[Pending]:
    return [Pending(world, source.child(access, n), item) for n, item in enumerate(value)]


def shadow_tuple(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guard(source, Check.LEN, len(value))
    items = items_of(world, tuple.__iter__(value), source, Access.ITEM)
    return (tuple(items) if cls is tuple else tuple.__new__(cls, items)), None


def shadow_list(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guard(source, Check.LEN, list.__len__(value))
    items = items_of(world, list.__iter__(value), source, Access.ITEM)
    shadow = items if cls is list else list.__new__(cls)
    if cls is not list:
        list.extend(shadow, items)
    return shadow, list(items)


def shadow_deque(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guard(source, Check.LEN, len(value))
    world.guard(source.child(Access.NATIVE_ATTR, "maxlen"), Check.EQUAL, value.maxlen)
    items = items_of(world, collections.deque.__iter__(value), source, Access.DEQUE_ITEM)
    shadow = collections.deque.__new__(cls)
    collections.deque.__init__(shadow, items, value.maxlen)
    return shadow, list(items)


def shadow_dict(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    shadow = {} if cls is dict else dict.__new__(cls)
    return shadow, fill_mapping(world, dict, shadow, value, source)


def shadow_ordered(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    shadow = collections.OrderedDict.__new__(cls)
    return shadow, fill_mapping(world, collections.OrderedDict, shadow, value, source)


def shadow_default(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    shadow = collections.defaultdict.__new__(cls)
    factory = source.child(Access.NATIVE_ATTR, "default_factory")
    collections.defaultdict.__init__(shadow, world.load(value.default_factory, factory))
    return shadow, fill_mapping(world, dict, shadow, value, source)


def fill_mapping(world: World, base: type, shadow: Any, value: Any, source: Source) -> dict[Any, Any]:
    keys = tuple(base.__iter__(value))
    if keys:
        world.guard(source, Check.KEYS, keys)
    else:
        world.guard(source, Check.LEN, 0)
    for key in keys:
        item = Pending(world, source.child(Access.KEY, key), dict.__getitem__(value, key))
        base.__setitem__(shadow, world.fixed(key, source), item)  # type: ignore[attr-defined]
    return dict(shadow.items()) if base is dict else {k: dict.__getitem__(shadow, k) for k in base.__iter__(shadow)}


def shadow_set(world: World, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    base = frozenset if issubclass(cls, frozenset) else set
    world.guard(source, Check.ELEMENTS, frozenset(base.__iter__(value)))
    for item in base.__iter__(value):
        world.fixed(item, source)
    shadow = base.copy(value) if cls is base else base.__new__(cls, base.__iter__(value))
    if cls is not base and base is set:
        set.update(shadow, base.__iter__(value))
    return shadow, (set(value) if base is set else None)


SHADOWED: dict[type, Any] = {
    tuple: shadow_tuple,
    list: shadow_list,
    dict: shadow_dict,
    collections.OrderedDict: shadow_ordered,
    collections.defaultdict: shadow_default,
    collections.deque: shadow_deque,
    set: shadow_set,
    frozenset: shadow_set,
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
    """How an outside container must be brought to its shadow's state, as statements on `target`."""

    shadow: Shadow
    replaced: list[Any] | None = None
    """All elements anew (sequences, sets)."""
    deleted: list[Any] | None = None
    assigned: list[tuple[Any, Any]] | None = None
    """Keys to delete and to set, in this order (mappings)."""
    attributes: list[tuple[str, Any]] | None = None


def change_of(made: Shadow) -> Change | None:
    change = Change(made)
    changed = False
    if made.attributes is not None:
        change.attributes = attribute_changes(made)
        changed = bool(change.attributes)
    if made.base is list or made.base is collections.deque:
        now = list(made.base.__iter__(made.shadow))
        if len(now) != len(made.original) or not all(map(unchanged, now, made.original)):
            change.replaced = now
            changed = True
    elif made.base is set:
        if set(set.__iter__(made.shadow)) != made.original:
            change.replaced = list(set.__iter__(made.shadow))
            changed = True
    elif issubclass(made.base, dict):
        changed = mapping_change(made, change) or changed
    return change if changed else None


def attribute_changes(made: Shadow) -> list[tuple[str, Any]]:
    before, now = made.attributes or {}, made.shadow.__dict__
    if any(name not in now for name in before):
        raise Break(breaks.INTERNAL, f"an attribute of a {type(made.outside).__name__} was deleted")
    return [(name, value) for name, value in now.items() if not unchanged(value, before.get(name, MISSING))]


def mapping_change(made: Shadow, change: Change) -> bool:
    before = made.original
    now = {key: dict.__getitem__(made.shadow, key) for key in made.base.__iter__(made.shadow)}
    kept = [key for key in before if key in now]
    added = [key for key in now if key not in before]
    if [*kept, *added] != list(now):
        # the order can't be had by setting keys: start from nothing
        change.deleted, change.assigned = list(before), list(now.items())
        return True
    change.deleted = [key for key in before if key not in now]
    change.assigned = [(key, value) for key, value in now.items() if not unchanged(value, before.get(key, MISSING))]
    return bool(change.deleted or change.assigned)
