"""Containers: what all kinds share, dictionaries, and sets, whose order depends on what was done to them."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import operator
import types
from collections.abc import Iterable, Iterator
from typing import Any

from framelift.core import breaks
from framelift.core.breaks import Break, refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.guards.hashing import COMMON_KEYS, is_hashed_with_effects
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.regions.rebuild import write_state
from framelift.rules.set_tables import REMOVED, Step, alike, slots, steps_to, ways_to_fill
from framelift.trace.materialize import Seen
from framelift.trace.shadows import DELETED, FACTORY, Shadow, namespace_changes, wrap_container
from framelift.trace.type_rules import Calls, Facets, MaterializeValue, Rebuilder, rule_of_type, type_rule
from framelift.trace.world import TraceWorld

SUBCLASSES: dict[type, Facets] = {}
"""Builtin container -> what holds of the classes derived from it."""


def container_rule(cls: type, shadow: Any, rebuild: Any, changes: Any = None, **facets: Any) -> None:
    """Adds the entry of a builtin container, and what holds of its subclasses. Their shadows are instances of
    the same subclass, with its attributes."""
    shared: Facets = {"shadow": shadow, "changes": changes, "container": cls, "wrap": wrap_container}
    type_rule(cls, rebuild=rebuild, **shared, **facets)
    SUBCLASSES[cls] = {**shared, "rebuild": rebuild_container}
    if "materialize" in facets:
        SUBCLASSES[cls]["materialize"] = with_special_methods(facets["materialize"])


def with_special_methods(materialize: MaterializeValue) -> MaterializeValue:
    """For subclasses of builtin types: what is in them, and their own methods."""

    def guarded(world: TraceWorld, value: Any, seen: Seen) -> Any:
        world.materialize.guard_special_methods(value, type(value))
        return materialize(world, value, seen)

    return guarded


def materialize_referents(world: TraceWorld, value: Any, seen: Seen) -> Any:
    """Of an iterator, or a view: what it goes over, as far as that is there now."""
    world.materialize.guard_special_methods(value, type(value))
    for of in gc.get_referents(value):
        world.materialize.value(of, seen)
    return value


def pending_items(world: TraceWorld, value: Any, source: Source, access: Access) -> list[Pending]:
    return [Pending(world.inputs, source.child(access, n), item) for n, item in enumerate(value)]


def check_hashes(keys: Iterable[Any], table: Any) -> None:
    """A table that is made anew hashes its keys once more, which the program would notice."""
    for key in keys:
        if is_hashed_with_effects(key):
            raise Break(breaks.UNREBUILDABLE, f"a table that {type(key).__qualname__} hashes", culprit=table)


def rebuild_container(r: Rebuilder, value: Any) -> str:
    """A subclass of a builtin container, or one that has no display; made without running `__init__`."""
    cls = type(value)
    base = rule_of_type(cls).container
    assert base is not None
    if hasattr(cls, "n_sequence_fields"):  # torch.return_types and its like
        items, others = value.__reduce__()[1]
        return r.variable(f"{r.constant(cls)}({r.tuple_of(items)}, {r.dict_of(others.items())})")
    parts = [r.constant(cls)]
    if base is tuple:
        parts.append(r.tuple_of(tuple.__iter__(value)))
    elif base is frozenset:
        parts.append(f"[{r.listed(frozenset.__iter__(value))}]")
    name = r.variable(f"{r.constant(base)}.__new__({', '.join(parts)})", value)
    r.fill(value, lambda: fill_container(r, base, name, value))
    return name


def fill_container(r: Rebuilder, base: type, name: str, value: Any) -> None:
    if base is collections.defaultdict:
        r.say(f"{name}.default_factory = {r.expression(value.default_factory)}")
    elif base is collections.deque and value.maxlen is not None:
        r.say(f"{r.constant(base)}.__init__({name}, (), {value.maxlen})")
    if issubclass(base, dict):
        check_hashes(dict.keys(value), value)
        own = base if base is collections.OrderedDict else dict
        for key in own.__iter__(value):
            item = r.expression(dict.__getitem__(value, key))
            r.say(f"{r.constant(own)}.__setitem__({name}, {r.expression(key)}, {item})")
    elif base in FILLERS and (items := list(vars(base)["__iter__"](value))):
        r.say(f"{r.constant(base)}.{FILLERS[base]}({name}, [{r.listed(items)}])")
    write_state(r, name, value)


FILLERS = {list: "extend", collections.deque: "extend", set: "update"}


# ---- dictionaries of all kinds, and their views


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
    if (
        type(value) is types.MappingProxyType
        and type(held) is dict
        and {"__module__", "__doc__"} <= held.keys()
    ):
        raise Break(breaks.UNREBUILDABLE, "the namespace of a class", culprit=value)
    name = r.variable(r.expression(held))
    if type(value) is types.MappingProxyType:
        return r.variable(f"{r.constant(types.MappingProxyType)}({name})", value)
    return r.variable(f"{name}.{DICT_VIEWS[type(value)]}()")


# a class comes before what it derives from
container_rule(collections.OrderedDict, shadow_ordered, rebuild_container, mapping_changes)
container_rule(
    collections.defaultdict,
    shadow_default,
    rebuild_container,
    mapping_changes,
    materialize=materialize_defaulting,
)
container_rule(
    dict, shadow_dict, rebuild_dict, mapping_changes, materialize=materialize_mapping, fillable=True
)
type_rule(*DICT_VIEWS, types.MappingProxyType, rebuild=rebuild_dict_view)
type_rule(*DICT_VIEWS, types.MappingProxyType, wrap=wrap_dict_view, materialize=materialize_referents)


# ---- sets


def shadow_set(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    base: Any = frozenset if issubclass(cls, frozenset) else set
    items = list(base.__iter__(value))
    world.guards.add(source, Check.ELEMENTS_IN_ORDER, tuple(items))
    for item in items:
        world.identity.check_hash(item)
    held = [world.inputs.fixed(item, source) for item in items]
    ways = ways_to_copy(value, base, held)
    shadow, ordered = alike(value, held, functools.partial(set_of, cls, base), ways)
    world.set_order.sources[id(shadow)] = source
    if not ordered:
        world.set_order.disordered.add(id(shadow))
    return shadow, held


def ways_to_copy(value: Any, base: Any, held: list[Any]) -> Iterator[list[Step]]:
    """What a set like another one may be made of. A copy of the table is most likely to have its order."""
    if all(map(operator.is_, base.__iter__(value), held)):
        yield [(lambda _: set().union(value), held)]
    if REMOVED not in (places := slots(value)):
        yield from (way for way in ways_to_fill(held, places) if base is set or len(way) == 1)
    yield [(list, held)]


def set_of(cls: type, base: Any, steps: list[Step]) -> Any:
    (first, part), *others = steps
    made = base.__new__(cls, first(part))
    if base is set:
        set.update(made, first(part))
        for form, part in others:
            set.update(made, form(part))
    return made


def set_changes(made: Shadow) -> Calls:
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


def rebuild_set(r: Rebuilder, value: set[Any]) -> str:
    check_hashes(value, value)
    r.world.set_order.note_order(value)
    if value and all(map(is_constant, value)) and slots(value.copy()) == slots(value):
        return r.variable(f"{r.own(value)}.copy()")
    name = r.variable(f"{r.constant(set)}()", value)
    if slots(value) != slots(set()):
        r.fill(value, lambda: fill_set(r, name, value))
    return name


def rebuild_frozenset(r: Rebuilder, value: frozenset[Any]) -> str:
    r.world.set_order.note_order(value)
    if is_constant(value):
        return r.own(value)
    check_hashes(value, value)
    if not all(map(operator.is_, frozenset(list(value)), value)):
        raise Break(breaks.SET_ORDER, "a result of the function", culprit=value)
    return r.variable(f"{r.constant(frozenset)}([{r.listed(value)}])")


def fill_set(r: Rebuilder, name: str, value: set[Any]) -> None:
    """The order of a set depends on how it came about: the new one must have it, and go on having it."""
    found = steps_to(value)
    if found is None:
        raise Break(breaks.SET_ORDER, "a result of the function", culprit=value)
    steps, gaps = found
    for form, part in steps:
        listed = f"[{r.listed(part)}]"
        r.say(f"{name}.update({listed if form is list else f'{r.constant(form)}({listed})'})")
    for gap in gaps:
        r.say(f"{name}.discard({gap})")


container_rule(set, shadow_set, rebuild_set, set_changes, fillable=True)
container_rule(frozenset, shadow_set, rebuild_frozenset)
