"""How containers are made again: those with a display, sets in their order, views, subclasses."""

from __future__ import annotations

import collections
import ctypes
import gc
import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.guards.hashing import is_hashed_with_effects
from framelift.regions.building import LITERALS, builds, write_state
from framelift.trace.input_wrapping import DICT_VIEWS
from framelift.trace.shadows import container_base, is_constant

if TYPE_CHECKING:
    from framelift.regions.rebuild import Rebuild

FILLABLE = frozenset({list, dict, set})
"""Containers written as displays that can also be made empty and filled later."""


@builds(list)
def build_list(r: Rebuild, value: list[Any]) -> str:
    if not r.is_late(value):
        return r.variable(f"[{r.listed(value)}]")
    name = r.variable("[]", value)
    r.fill(value, lambda: r.say(f"{name}.extend([{r.listed(value)}])"))
    return name


@builds(tuple)
def build_tuple(r: Rebuild, value: tuple[Any, ...]) -> str:
    return r.variable(r.tuple_of(value))


@builds(dict)
def build_dict(r: Rebuild, value: dict[Any, Any]) -> str:
    check_hashes(value, value)
    if not r.is_late(value):
        return r.variable(r.dict_of(value.items()))
    name = r.variable("{}", value)
    r.fill(value, lambda: r.say(f"{name}.update({r.dict_of(value.items())})"))
    return name


def check_hashes(keys: Iterable[Any], table: Any) -> None:
    """A table that is made anew hashes its keys once more, which the program would notice."""
    for key in keys:
        if is_hashed_with_effects(key):
            raise Break(breaks.UNREBUILDABLE, f"a table that {type(key).__qualname__} hashes", culprit=table)


@builds(set)
def build_set(r: Rebuild, value: set[Any]) -> str:
    check_hashes(value, value)
    if value and all(map(is_constant, value)) and slots(value.copy()) == slots(value):
        return r.variable(f"{r.own(value)}.copy()")
    name = r.variable(f"{r.constant(set)}()", value)
    if slots(value) != slots(set()):
        r.fill(value, lambda: fill_set(r, name, value))
    return name


@builds(frozenset)
def build_frozenset(r: Rebuild, value: frozenset[Any]) -> str:
    if is_constant(value):
        return r.own(value)
    check_hashes(value, value)
    if not all(map(operator.is_, frozenset(list(value)), value)):
        raise Break(breaks.SET_ORDER, "a result of the function", culprit=value)
    return r.variable(f"{r.constant(frozenset)}([{r.listed(value)}])")


def fill_set(r: Rebuild, name: str, value: set[Any]) -> None:
    """The order of a set depends on how it came about: the new one must have it, and go on having it."""
    items = list(with_gaps(value))
    gaps = [item for item in items if item not in value]
    for parts in ways_to_fill(items):
        made: set[Any] = set()
        for form, part in parts:
            made.update(form(part))
        for gap in gaps:
            made.discard(gap)
        if slots(made) == slots(value):
            for form, part in parts:
                listed = f"[{r.listed(part)}]"
                r.say(f"{name}.update({listed if form is list else f'{r.constant(form)}({listed})'})")
            for gap in gaps:
                r.say(f"{name}.discard({gap})")
            return
    raise Break(breaks.SET_ORDER, "a result of the function", culprit=value)


def ways_to_fill(items: list[Any]) -> Iterator[list[tuple[Any, list[Any]]]]:
    """What to update a set with, and in which form: there is room in advance for what is in a table, even if
    it is there already, as after a union."""
    yield [(list, items)]
    yield [(dict.fromkeys, items)]
    for n in range(1, len(items) + 1):
        yield [(list, items), (set, items[:n])]


def slots(table: set[Any]) -> list[int | None]:
    """What a set has where: addresses of elements, of `REMOVED`, or nothing."""
    _, _, mask, first = (ctypes.c_ssize_t * 4).from_address(id(table) + object.__basicsize__)
    return (ctypes.c_void_p * (2 * mask + 2)).from_address(first)[::2]


def with_gaps(table: set[Any]) -> Iterator[Any]:
    """The elements, and numbers that go where an element has been."""
    found, places = iter(table), slots(table)
    for n, address in enumerate(places):
        if address is not None:
            yield n + (len(places) << 40) if address == REMOVED else next(found)


_once = {1}
_once.discard(1)
REMOVED = slots(_once)[1]


@builds(bytearray)
def build_bytearray(r: Rebuild, value: bytearray) -> str:
    return r.variable(f"{r.constant(bytearray)}({r.expression(bytes(value))})")


@builds(memoryview)
def build_memoryview(r: Rebuild, value: memoryview) -> str:
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


@builds(*DICT_VIEWS)
def build_dict_view(r: Rebuild, value: Any) -> str:
    (held,) = gc.get_referents(value)
    return r.variable(f"{r.variable(r.expression(held))}.{DICT_VIEWS[type(value)]}()")


@builds(slice)
def build_slice(r: Rebuild, value: slice) -> str:
    if all(type(part) in LITERALS for part in (value.start, value.stop, value.step)):
        return r.constant(value)
    return r.variable(f"{r.constant(slice)}({r.listed((value.start, value.stop, value.step))})")


def build_container(r: Rebuild, value: Any) -> str:
    """A subclass of a builtin container, or one that has no display; made without running `__init__`."""
    cls = type(value)
    base = container_base(cls)
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


def fill_container(r: Rebuild, base: type, name: str, value: Any) -> None:
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
