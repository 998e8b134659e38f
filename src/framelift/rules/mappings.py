"""Dictionaries of all kinds, and their views."""

from __future__ import annotations

import collections
import gc
import types
from typing import Any

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.guards.hashing import COMMON_KEYS
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.rules.containers import check_hashes, container_rule, materialize_referents, rebuild_container
from framelift.trace.materialize import Seen
from framelift.trace.shadows import FACTORY, Shadow
from framelift.trace.type_rules import Calls, Rebuilder, rule_of_type, type_rule
from framelift.trace.views import DELETED, namespace_changes
from framelift.trace.world import TraceWorld

DICT_VIEWS: dict[type, str] = {
    type(getattr(cls(), name)()): name
    for cls in (dict, collections.OrderedDict)
    for name in ("keys", "values", "items")
}
"""What a dictionary gives of itself -> by which method."""


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


def items_in_order(base: type, mapping: Any) -> list[tuple[Any, Any]]:
    """What a mapping holds, with no key hashed: that may be the program's code."""
    if base is not collections.OrderedDict:
        return list(dict.items(mapping))
    held = {id(key): item for key, item in dict.items(mapping)}
    return [(key, held[id(key)]) for key in collections.OrderedDict.__iter__(mapping)]


def mapping_changes(made: Shadow) -> Calls:
    return [
        ("__delitem__", (key,)) if value is DELETED else ("__setitem__", (key, value))
        for key, value in namespace_changes(made.original, items_in_order(made.base, made.shadow))
    ]


def materialize_mapping(world: TraceWorld, value: Any, seen: Seen) -> Any:
    return world.materialize.mapping(value, seen)


def materialize_defaulting(world: TraceWorld, value: Any, seen: Seen) -> Any:
    world.materialize.value(value.default_factory, seen)
    return materialize_mapping(world, value, seen)


def rebuild_dict(r: Rebuilder, value: dict[Any, Any]) -> str:
    check_hashes(value, value)
    if not r.is_late(value):
        return r.variable(r.dict_of(value.items()))
    name = r.variable("{}", value)
    r.fill(value, lambda: r.say(f"{name}.update({r.dict_of(value.items())})"))
    return name


# ---- views


def wrap_dict_view(world: TraceWorld, value: Any, source: Source) -> Any:
    """The same view of what stands for the mapping."""
    (held,) = gc.get_referents(value)
    if rule_of_type(type(held)).container is None:  # C would ask that itself
        refuse(breaks.OPAQUE_OBJECT, f"a proxy of a {type(held).__qualname__}")
    world.guards.add(source, Check.TYPE, type(value))
    shadow = world.inputs.load(held, source.child(Access.VIEWED))
    method = DICT_VIEWS.get(type(value))
    base = collections.OrderedDict if isinstance(held, collections.OrderedDict) else dict
    made = types.MappingProxyType(shadow) if method is None else getattr(base, method)(shadow)
    return world.inputs.stand_in(value, made, source)


def rebuild_dict_view(r: Rebuilder, value: Any) -> str:
    (held,) = gc.get_referents(value)
    return r.variable(f"{r.variable(r.expression(held))}.{DICT_VIEWS[type(value)]}()")


# a class comes before what it derives from
container_rule(
    collections.OrderedDict, shadow=shadow_ordered, changes=mapping_changes, rebuild=rebuild_container
)
container_rule(
    collections.defaultdict,
    shadow=shadow_default,
    changes=mapping_changes,
    materialize=materialize_defaulting,
    rebuild=rebuild_container,
)
container_rule(
    dict,
    shadow=shadow_dict,
    changes=mapping_changes,
    materialize=materialize_mapping,
    rebuild=rebuild_dict,
    fillable=True,
)
type_rule(*DICT_VIEWS, rebuild=rebuild_dict_view)
type_rule(*DICT_VIEWS, types.MappingProxyType, wrap=wrap_dict_view, materialize=materialize_referents)
