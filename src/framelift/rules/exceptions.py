"""Exceptions: what C sees of one, and how one is made again with its context and traceback."""

from __future__ import annotations

import types
from typing import Any

from framelift.core.weakly import HEAP_TYPE
from framelift.interpreter.frame_objects import traceback_of
from framelift.regions.instance_state import write_state
from framelift.rules.instances import builtin_base
from framelift.trace.materialize import Seen
from framelift.trace.type_rules import Rebuilder, type_rule
from framelift.trace.world import TraceWorld


def materialize_exception(world: TraceWorld, value: BaseException, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    world.errors.looking_at(value)
    world.materialize.value(value.args, seen)
    return value


def rebuild_exception(r: Rebuilder, value: BaseException) -> str:
    r.world.errors.looking_at(value)
    base = builtin_base(type(value))
    args = value.args
    if isinstance(value, BaseExceptionGroup):
        args = (value.message, list(value.exceptions))  # the arguments may have changed since
    name = r.variable(f"{r.constant(base)}.__new__({r.listed((type(value), *args))})", value)
    if args is not value.args or base is MemoryError:  # whose `__new__` does not look at them
        r.fill(value, lambda: r.say(f"{name}.args = {r.tuple_of(value.args)}"))
    r.fill(value, lambda: fill_exception(r, name, value))
    return name


def fill_exception(r: Rebuilder, name: str, value: BaseException) -> None:
    for base in type(value).__mro__:
        if base is object or base.__flags__ & HEAP_TYPE:
            continue
        for attribute, member in vars(base).items():  # such as StopIteration.value
            if type(member) is types.MemberDescriptorType and not attribute.startswith("__"):
                held = member.__get__(value)
                if held is not None and is_writable(member, value):
                    r.say(f"{name}.{attribute} = {r.expression(held)}")
    for attribute in ("__cause__", "__context__"):
        if getattr(value, attribute) is not None:
            r.say(f"{name}.{attribute} = {r.expression(getattr(value, attribute))}")
    if traceback_of(value) is not None:
        # of the interpreter's making, and without the variables of its frames
        r.say(f"{name}.__traceback__ = {r.constant(traceback_of(value))}")
    if value.__suppress_context__ is not (value.__cause__ is not None):
        r.say(f"{name}.__suppress_context__ = {value.__suppress_context__}")
    write_state(r, name, value)


def is_writable(member: Any, value: Any) -> bool:
    try:
        member.__set__(value, member.__get__(value))
    except AttributeError:
        return False
    return True


type_rule(BaseException, materialize=materialize_exception)
