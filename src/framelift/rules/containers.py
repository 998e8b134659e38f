"""What all builtin containers share: their entries, and how subclasses of them are made again."""

from __future__ import annotations

import collections
import gc
from collections.abc import Iterable
from typing import Any

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.guards.hashing import is_hashed_with_effects
from framelift.guards.kinds import Access
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.regions.instance_state import write_state
from framelift.trace.materialize import Seen
from framelift.trace.shadows import wrap_container
from framelift.trace.type_rules import Facets, MaterializeValue, Rebuilder, rule_of_type, type_rule
from framelift.trace.world import TraceWorld

SUBCLASSES: dict[type, Facets] = {}
"""Builtin container -> what holds of the classes derived from it."""


def container_rule(cls: type, **facets: Any) -> None:
    """Adds the entry of a builtin container, and what holds of its subclasses. Their shadows are instances of
    the same subclass, with its attributes."""
    shared: Facets = {name: facets.pop(name) for name in ("shadow", "changes") if name in facets}
    shared |= {"container": cls, "wrap": wrap_container}
    type_rule(cls, **shared, **facets)
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
