"""Values that never change: numbers, texts, singletons, and what is told apart by being that very object."""

from __future__ import annotations

import _locale
import contextvars
import datetime
import decimal
import functools
import re
import sys
import time
import types
import typing
import weakref
from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.addresses import LEAST_ADDRESS
from framelift.trace.materialize import Seen
from framelift.trace.type_rules import Rebuilder, type_rule
from framelift.trace.world import TraceWorld
from framelift.trace.writes import context_text

MARKED_STATIC = "_dynamo_marked_static"
"""What `mark_static` sets on classes of modules, torch's and Framelift's."""

MANY_NUMBERS = 32
"""So many numbers may be symbols: what torch does with them takes long, and more of them are data."""


def wrap_number(world: TraceWorld, value: Any, source: Source) -> Any:
    if value >= LEAST_ADDRESS:
        world.addresses.meet_number()
    few = len(world.inputs.numbers) < MANY_NUMBERS
    is_symbol = value == value and few and world.inputs.varies(source, value)
    if is_symbol and not is_of_static_class(world, source):
        return world.inputs.symbolic_number(value, source)
    return wrap_constant(world, value, source)


def is_of_static_class(world: TraceWorld, source: Source) -> bool:
    """Whether it is an attribute of a module whose class is marked as static."""
    if source.access is not Access.ATTR:
        return False
    owners = [known.value for known in world.inputs.known.values() if known.source == source.base]
    return any(MARKED_STATIC in dir(type(owner)) for owner in owners)


def wrap_constant(world: TraceWorld, value: Any, source: Source) -> Any:
    """Itself, guarded by value."""
    if source.access is not Access.CONST:
        world.guards.add(source, Check.EQUAL, value)
        if value != value:
            world.identity.nans.append((source, value))
    return value


def wrap_size(world: TraceWorld, value: torch.Size, source: Source) -> Any:
    """A constant, or one with symbols for the sizes that have changed."""
    places = [source.child(Access.ITEM, n) for n in range(len(value))]
    varies = world.inputs.varies
    if source.access is Access.CONST or not any(map(varies, places, value)):
        return wrap_constant(world, value, source)
    world.guards.add(source, Check.TYPE, torch.Size)
    world.guards.add(source, Check.LEN, len(value))
    return torch.Size([wrap_number(world, size, place) for size, place in zip(value, places, strict=True)])


def wrap_singleton(world: TraceWorld, value: Any, source: Source) -> Any:
    """Itself, guarded by identity; it is the same wherever it is found."""
    if source.access is not Access.CONST:
        world.guards.add(source, Check.IS, value)
    return value


def wrap_by_identity(world: TraceWorld, value: Any, source: Source) -> Any:
    """Itself, guarded by identity, and known to be from outside."""
    wrap_singleton(world, value, source)
    return world.inputs.know(value, value, world.inputs.root.constant(value, str(source)))


def wrap_proxy(world: TraceWorld, value: Any, source: Source) -> Any:
    """C would look at what it stands for."""
    refuse(breaks.OPAQUE_OBJECT, "a weak proxy")


def wrap_hashed_oddly(world: TraceWorld, value: Any, source: Source) -> Any:
    refuse(breaks.OPAQUE_OBJECT, f"{source}, a class, or of one, whose metaclass hashes it")


def materialize_decimal(world: TraceWorld, value: decimal.Decimal, seen: Seen) -> Any:
    """What C does with one depends on a context of the thread's."""
    world.guards.add(world.inputs.root.decimal_context(), Check.EQUAL, context_text())
    return value


ZONE = ("timezone", "altzone", "daylight", "tzname")


def guard_local_time(world: TraceWorld) -> None:
    """What C does with dates may depend on the time zone, and on the locale that gives days their names."""
    names = world.inputs.root.constant(vars(time), "time")
    for name in ZONE:
        world.guards.add(names.child(Access.KEY, name), Check.EQUAL, vars(time)[name])
    locale = world.inputs.root.asked(
        "locale.setlocale(locale.LC_TIME)", _locale.setlocale, (_locale.LC_TIME,)
    )
    world.guards.add(locale, Check.EQUAL, _locale.setlocale(_locale.LC_TIME))


def materialize_date(world: TraceWorld, value: Any, seen: Seen) -> Any:
    guard_local_time(world)
    return value


def rebuild_constant(r: Rebuilder, value: Any) -> str:
    """The region holds on to it: one is as good as another of the same value."""
    return r.own(value)


type_rule(int, float, wrap=wrap_number)
type_rule(
    *(complex, str, bytes, range, torch.device, datetime.timedelta, datetime.timezone),
    wrap=wrap_constant,
    rebuild=rebuild_constant,
)
type_rule(torch.Size, wrap=wrap_size, rebuild=rebuild_constant)
type_rule(
    *(datetime.date, datetime.datetime, datetime.time),
    wrap=wrap_constant,
    materialize=materialize_date,
    rebuild=rebuild_constant,
)
type_rule(decimal.Decimal, wrap=wrap_constant, materialize=materialize_decimal, rebuild=rebuild_constant)
type_rule(
    *(type(None), bool, type(Ellipsis), type(NotImplemented), re.Pattern, types.CodeType),
    *(torch.dtype, torch.layout, torch.memory_format, torch.qscheme, torch.finfo, torch.iinfo),
    torch._C._SDPBackend,
    wrap=wrap_singleton,
    rebuild=rebuild_constant,
)
type_rule(
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
    wrap=wrap_by_identity,
    rebuild=rebuild_constant,
)
type_rule(
    *(
        type,
        types.UnionType,
        re.Match,
        contextvars.ContextVar,
        functools._lru_cache_wrapper,
        torch.jit.ScriptFunction,
    ),
    wrap=wrap_by_identity,
)
if sys.version_info >= (3, 12):  # until then, instances of classes in Python
    type_rule(
        *(typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple, typing.TypeAliasType), wrap=wrap_by_identity
    )
type_rule(*weakref.ProxyTypes, wrap=wrap_proxy)
