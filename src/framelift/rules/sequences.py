"""Tuples, lists, deques, byte arrays and what is like them: slices, views of memory."""

from __future__ import annotations

import collections
import ctypes
from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.known_data import number_of
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.pending import opened, unchanged
from framelift.regions.rebuild import LITERALS
from framelift.rules.containers import container_rule, pending_items, rebuild_container
from framelift.trace.materialize import Seen
from framelift.trace.shadows import Shadow
from framelift.trace.type_rules import ABSTRACT, Calls, Rebuilder, type_rule
from framelift.trace.world import TraceWorld

MAXLEN: Any = vars(collections.deque)["maxlen"]
"""What C knows of a deque, whatever a subclass says."""


# ---- tuples


def shadow_tuple(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guards.add(source, Check.LEN, tuple.__len__(value))
    items = pending_items(world, tuple.__iter__(value), source, Access.ITEM)
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


def materialize_tuple(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(tuple.__iter__(value)):
        now = world.materialize.value(item, seen)
        if now is not item:
            replace_item(value, n, now)
    return value


def replace_item(items: tuple[Any, ...], n: int, value: Any) -> None:
    """Opens an element of a tuple where it is: another tuple would be another object to the program.

    Only the trace has a tuple with something pending in it, and nobody has asked for its hash yet.
    """
    before = tuple.__getitem__(items, n)
    place_in(id(items) + tuple.__basicsize__ + n * tuple.__itemsize__, value, before)


def place_in(address: int, value: Any, before: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    ctypes.c_void_p.from_address(address).value = id(value)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(before))


def rebuild_tuple(r: Rebuilder, value: tuple[Any, ...]) -> str:
    return r.variable(r.tuple_of(value))


# ---- lists


def shadow_list(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guards.add(source, Check.LEN, list.__len__(value))
    items = pending_items(world, list.__iter__(value), source, Access.ITEM)
    shadow: list[Any] = list.__new__(cls)
    list.extend(shadow, items)
    return shadow, items


def materialize_list(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(list.__iter__(value)):
        now = world.materialize.value(item, seen)
        if now is not item:
            list.__setitem__(value, n, now)
    return value


def rebuild_list(r: Rebuilder, value: list[Any]) -> str:
    if not r.is_late(value):
        return r.variable(f"[{r.listed(value)}]")
    name = r.variable("[]", value)
    r.fill(value, lambda: r.say(f"{name}.extend([{r.listed(value)}])"))
    return name


# ---- deques


def shadow_deque(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    world.guards.add(source, Check.LEN, collections.deque.__len__(value))
    world.guards.add(source.child(Access.NATIVE_ATTR, "maxlen"), Check.EQUAL, MAXLEN.__get__(value))
    items = pending_items(world, collections.deque.__iter__(value), source, Access.DEQUE_ITEM)
    shadow: collections.deque[Any] = collections.deque.__new__(cls)
    collections.deque.__init__(shadow, items, MAXLEN.__get__(value))
    return shadow, items


def materialize_deque(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(list(collections.deque.__iter__(value))):
        now = world.materialize.value(item, seen)
        if now is not item:
            collections.deque.__setitem__(value, n, now)
    return value


# ---- bytes


def shadow_bytes(world: TraceWorld, value: Any, source: Source, cls: type) -> tuple[Any, Any]:
    held = bytes(memoryview(value))
    world.guards.add(source.child(Access.BYTES), Check.EQUAL, held)
    shadow: Any = bytearray.__new__(cls)
    bytearray.extend(shadow, held)
    return shadow, list(held)


def rebuild_bytearray(r: Rebuilder, value: bytearray) -> str:
    return r.variable(f"{r.constant(bytearray)}({r.expression(bytes(value))})")


def rebuild_memoryview(r: Rebuilder, value: memoryview) -> str:
    """One of the whole of what it views: of a part there is no telling which it is."""
    try:
        whole = memoryview(value.obj).cast("B").cast(value.format, value.shape)  # type: ignore[call-overload]
        found = type(value.obj) in (bytes, bytearray) and whole.strides == value.strides
    except (TypeError, ValueError):  # released, say
        found = False
    if not found:
        raise Break(breaks.UNREBUILDABLE, "a view of a part of a memory", culprit=value)
    name = r.variable(f"{r.constant(memoryview)}({r.expression(value.obj)})")
    if (value.format, value.ndim) != ("B", 1):
        name = r.variable(f"{name}.cast({value.format!r}, {value.shape!r})")
    return r.variable(f"{name}.toreadonly()") if value.readonly and not whole.readonly else name


# ---- what changed


def sequence_changes(made: Shadow) -> Calls:
    base: Any = made.base
    now, before = list(base.__iter__(made.shadow)), made.original
    start = 0
    while start < len(now) and start < len(before) and unchanged(now[start], before[start]):
        start += 1
    if start == len(before):
        return [("extend", (now[start:],))] if start < len(now) else []
    if made.base is collections.deque:
        return deque_changes(now, before)
    end = 0
    while end < min(len(now), len(before)) - start and unchanged(now[-end - 1], before[-end - 1]):
        end += 1
    part = slice(start, len(before) - end)
    if len(now) == start + end:
        return [("__delitem__", (part,))]
    return [("__setitem__", (part, now[start : len(now) - end]))]


def deque_changes(now: list[Any], before: list[Any]) -> Calls:
    """Iterators notice when anything comes or goes, but not that another thing is in its place."""
    if len(now) != len(before):
        return [("clear", ()), ("extend", (now,))]
    pairs = enumerate(zip(now, before, strict=True))
    return [("__setitem__", (n, item)) for n, (item, held) in pairs if not unchanged(item, held)]


# ---- slices


def wrap_slice(world: TraceWorld, value: Any, source: Source) -> Any:
    world.guards.add(source, Check.TYPE, slice)
    parts = [
        world.inputs.load(getattr(value, name), source.child(Access.NATIVE_ATTR, name))
        for name in ("start", "stop", "step")
    ]
    return world.inputs.stand_in(value, slice(*parts), source)


def materialize_slice(world: TraceWorld, value: slice, seen: Seen) -> Any:
    """A slice of symbols is settled where it is, as the elements of a tuple are opened. What C would ask for
    a number is one in another slice."""
    parts = [opened(part) for part in (value.start, value.stop, value.step)]
    if any(type(part) in ABSTRACT for part in parts):
        parts = [number_within(world, part) if type(part) in ABSTRACT else part for part in parts]
        return materialize_slice(world, slice(*parts), seen)
    for n, part in enumerate((value.start, value.stop, value.step)):
        now = world.materialize.value(part, seen)
        if now is not part:
            place_in(id(value) + object.__basicsize__ + n * ctypes.sizeof(ctypes.c_void_p), now, part)
    return value


def number_within(world: TraceWorld, value: Any) -> Any:
    """What stands for a number of another library, as a symbol, if that can be one."""
    found = number_of(world.recorder, world.abstract(value).number(value))
    if type(found) not in (int, torch.SymInt):
        world.abstract(value).refuse_in_c(value)
    return found


def rebuild_slice(r: Rebuilder, value: slice) -> str:
    if all(type(part) in LITERALS for part in (value.start, value.stop, value.step)):
        return r.constant(value)
    return r.variable(f"{r.constant(slice)}({r.listed((value.start, value.stop, value.step))})")


container_rule(tuple, shadow_tuple, rebuild_tuple, materialize=materialize_tuple)
container_rule(list, shadow_list, rebuild_list, sequence_changes, materialize=materialize_list, fillable=True)
container_rule(
    collections.deque, shadow_deque, rebuild_container, sequence_changes, materialize=materialize_deque
)
container_rule(bytearray, shadow_bytes, rebuild_bytearray, sequence_changes)
type_rule(memoryview, rebuild=rebuild_memoryview)
type_rule(slice, wrap=wrap_slice, materialize=materialize_slice, rebuild=rebuild_slice)
