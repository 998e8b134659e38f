"""Functions, methods, cells, and what is made of functions: properties, partials."""

from __future__ import annotations

import functools
import types
from typing import Any

from framelift.core import breaks, policy
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING, UNSET
from framelift.graph.symbols import settled
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.calls import builtin_method
from framelift.interpreter.generators import Suspended
from framelift.interpreter.lookups import contents_of
from framelift.regions.rebuild import write_state
from framelift.rules.constants import wrap_by_identity
from framelift.trace.callable_rules import control_of
from framelift.trace.inputs import Known
from framelift.trace.materialize import Seen
from framelift.trace.shadows import Shadow, attributes_of, own_dictionary, shadow_attributes
from framelift.trace.type_rules import BUILTINS, Rebuilder, type_rule
from framelift.trace.world import TraceWorld


def wrap_function(world: TraceWorld, value: Any, source: Source) -> Any:
    """One that was made by a function, and is had from there, is made anew for each call. So is a hook."""
    is_had_from_caller = source.root.access is Access.ARG or source.access is Access.VALUE_AT
    if not is_had_from_caller or not is_made_anew(value):
        return wrap_by_identity(world, value, source)
    world.guards.add(source, Check.CODE, value.__code__)
    if not policy.is_compiled(value):
        guard_marks(world, value, source)
    scope = source.child(Access.NATIVE_ATTR, "__globals__")
    if value.__globals__ is world.frame.globals:
        world.guards.add(scope, Check.SAME_AS, world.inputs.root.top)
    else:
        world.guards.add(scope, Check.IS, value.__globals__)
    for name, facts in (("__defaults__", Check.LEN), ("__kwdefaults__", Check.KEYS)):
        held, place = getattr(value, name), source.child(Access.NATIVE_ATTR, name)
        if held is None:
            world.guards.add(place, Check.IS, None)
        else:
            world.guards.add(place, Check.TYPE, type(held))
            world.guards.add(place, facts, len(held) if facts is Check.LEN else tuple(held))
    return world.inputs.know(value, value, source)


def is_made_anew(fn: types.FunctionType) -> bool:
    """Whether a function made it, so that the next call may have another one: what it is called now, and its
    attributes, may be those of a function that it wraps."""
    return policy.is_compiled(fn) or ("<locals>" in fn.__code__.co_qualname and control_of(fn) is None)


def guard_marks(world: TraceWorld, fn: types.FunctionType, source: Source) -> None:
    held = vars(fn)
    for name in policy.MARKS:
        if name not in held:
            world.guards.add(source, Check.NO_ATTR, name)
        elif name == "_framelift_disable":  # it says why
            world.guards.add(source.child(Access.ATTR, name), Check.IS_NOT, MISSING)
        elif name == "_torchdynamo_orig_callable" and "_framelift_disable" in held:
            continue  # whatever it was made of, it is disabled
        else:
            world.guards.add(source.child(Access.ATTR, name), Check.IS, held[name])


def materialize_function(world: TraceWorld, value: types.FunctionType, seen: Seen) -> Any:
    return value


def rebuild_function(r: Rebuilder, fn: types.FunctionType) -> str:
    scope = fn.__globals__
    where = r.input(r.world.inputs.root.top) if scope is r.world.frame.globals else r.constant(scope)
    closure = "None" if fn.__closure__ is None else r.tuple_of(fn.__closure__)
    parts = [r.constant(fn.__code__), where, repr(fn.__name__), "None", closure]
    name = r.variable(f"{r.constant(types.FunctionType)}({', '.join(parts)})", fn)
    r.fill(fn, lambda: fill_function(r, name, fn))
    return name


def fill_function(r: Rebuilder, name: str, fn: types.FunctionType) -> None:
    new = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, fn.__closure__)
    for attribute in ("__defaults__", "__kwdefaults__", "__doc__", "__qualname__", "__module__"):
        value = getattr(fn, attribute)
        if value is not getattr(new, attribute) and value != getattr(new, attribute):
            r.say(f"{name}.{attribute} = {r.expression(value)}")
    if fn.__annotations__:
        r.say(f"{name}.__annotations__ = {r.expression(fn.__annotations__)}")
    if fn.__dict__:
        r.say(f"{name}.__dict__.update({r.dict_of(fn.__dict__.items())})")


def wrap_cell(world: TraceWorld, value: Any, source: Source) -> Any:
    return world.functions.outside_cell(value, source, source.child(Access.CONTENTS))


def rebuild_cell(r: Rebuilder, value: types.CellType) -> str:
    name = r.variable(f"{r.constant(types.CellType)}()", value)
    contents = contents_of(value)
    if contents is not UNSET:
        r.fill(value, lambda: r.say(f"{name}.cell_contents = {r.expression(contents)}"))
    return name


def wrap_method(world: TraceWorld, value: Any, source: Source) -> Any:
    world.guards.add(source, Check.TYPE, types.MethodType)
    fn = world.inputs.load(value.__func__, source.child(Access.METHOD_FUNC))
    this = world.inputs.load(value.__self__, source.child(Access.SELF))
    return world.inputs.stand_in(value, types.MethodType(fn, this), source)


def materialize_method(world: TraceWorld, value: types.MethodType, seen: Seen) -> Any:
    world.materialize.value(value.__self__, seen)
    return value


def rebuild_method(r: Rebuilder, value: types.MethodType) -> str:
    if issubclass(type(value.__self__), Suspended):
        return r.variable(f"{r.variable(r.expression(value.__self__))}.{value.__name__}")
    if not callable(value.__func__):
        raise Break(breaks.UNREBUILDABLE, "a method of what can't be called", culprit=value)
    return r.variable(f"{r.constant(types.MethodType)}({r.listed((value.__func__, value.__self__))})")


def materialize_builtin(world: TraceWorld, value: Any, seen: Seen) -> Any:
    """It is hashed and compared by what it is bound to."""
    world.materialize.value(value.__self__, seen)
    return value


def wrap_builtin(world: TraceWorld, value: Any, source: Source) -> Any:
    """A function of C is itself; a method of C is had again from the object that it is bound to."""
    this = value.__self__
    if issubclass(type(this), (type, types.ModuleType)) or not hasattr(type(this), value.__name__):
        return wrap_by_identity(world, value, source)
    world.guards.add(source, Check.TYPE, type(value))
    world.guards.add(source.child(Access.NATIVE_ATTR, "__name__"), Check.EQUAL, value.__name__)
    this = settled(world.inputs.load(this, source.child(Access.NATIVE_ATTR, "__self__")))
    return world.inputs.stand_in(value, getattr(this, value.__name__), source)


def rebuild_builtin_method(r: Rebuilder, value: Any) -> str:
    if issubclass(type(value.__self__), types.ModuleType) or value.__self__ is None:
        return r.constant(value)
    this = r.variable(r.expression(value.__self__))
    if isinstance(value, types.MethodWrapperType):
        found = value.__objclass__.__dict__[value.__name__]
    else:
        found = builtin_method(value)
    if found is getattr(type(value.__self__), value.__name__, None):
        return r.variable(f"{this}.{value.__name__}")
    if type(found) in (types.MethodDescriptorType, types.WrapperDescriptorType):
        # had past a class that overrides it, by `super()` say
        return r.variable(f"{r.constant(found)}.__get__({this})")
    return r.variable(f"{this}.{value.__name__}")


def rebuild_property(r: Rebuilder, value: property) -> str:
    parts: list[Any] = [value.fget, value.fset, value.fdel]
    if value.__doc__ != getattr(value.fget, "__doc__", None):
        parts.append(value.__doc__)
    return r.variable(f"{r.constant(property)}({r.listed(parts)})")


def materialize_wrapped(world: TraceWorld, value: Any, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    world.materialize.value(value.__func__, seen)
    return value


def rebuild_wrapped(r: Rebuilder, value: Any) -> str:
    cls = type(value)
    name = r.variable(f"{r.constant(cls)}({r.expression(value.__func__)})", value)
    new = vars(cls(value.__func__))
    for attribute, held in vars(value).items():  # it takes some from what it wraps
        if attribute not in new or new[attribute] is not held:
            r.say(f"{name}.{attribute} = {r.expression(held)}")
    return name


def wrap_partial(world: TraceWorld, value: Any, source: Source) -> Any:
    """With the very keywords of the outside one, or what stands for them: these may change."""
    world.guards.add(source, Check.TYPE, functools.partial)
    parts = [
        world.inputs.load(getattr(value, name), source.child(Access.NATIVE_ATTR, name))
        for name in ("func", "args", "keywords")
    ]
    made: Any = functools.partial(parts[0])
    made.__setstate__((*parts, None))
    shadow_attributes(world, value, source, made)
    place, own = source.child(Access.DICT), own_dictionary(made)
    world.inputs.stand_ins[id(own)] = Known(own_dictionary(value), own, place)  # which copies share
    shadow = Shadow(source, value, made, functools.partial, None, attributes_of(made))
    world.containers.shadows[id(made)] = shadow
    return world.inputs.know(value, made, source)


def materialize_partial(world: TraceWorld, value: functools.partial[Any], seen: Seen) -> Any:
    for part in (value.func, value.args, value.keywords):
        world.materialize.value(part, seen)
    if vars(value):
        world.materialize.mapping(vars(value), seen)
    return value


def rebuild_partial(r: Rebuilder, value: functools.partial[Any]) -> str:
    """With these very keywords, which a copy shares with what it is a copy of."""
    name = r.variable(f"{r.constant(functools.partial)}({r.expression(value.func)})", value)
    r.fill(value, lambda: fill_partial(r, name, value))
    return name


def fill_partial(r: Rebuilder, name: str, value: functools.partial[Any]) -> None:
    r.say(f"{name}.__setstate__(({r.listed((value.func, value.args, value.keywords))}, None))")
    write_state(r, name, value)


def rebuild_generic_alias(r: Rebuilder, value: types.GenericAlias) -> str:
    made = f"{r.constant(types.GenericAlias)}({r.expression(value.__origin__)}, {r.tuple_of(value.__args__)})"
    return r.variable(f"next(iter({made}))" if value.__unpacked__ else made)


type_rule(types.FunctionType, wrap=wrap_function, materialize=materialize_function, rebuild=rebuild_function)
type_rule(types.CellType, wrap=wrap_cell, rebuild=rebuild_cell)
type_rule(types.MethodType, wrap=wrap_method, materialize=materialize_method, rebuild=rebuild_method)
type_rule(*BUILTINS, types.MethodWrapperType, wrap=wrap_builtin, materialize=materialize_builtin)
type_rule(types.BuiltinFunctionType, types.MethodWrapperType, rebuild=rebuild_builtin_method)
type_rule(property, wrap=wrap_by_identity, rebuild=rebuild_property)
type_rule(classmethod, staticmethod, wrap=wrap_by_identity)
type_rule(classmethod, staticmethod, materialize=materialize_wrapped, rebuild=rebuild_wrapped)
type_rule(functools.partial, wrap=wrap_partial, materialize=materialize_partial, rebuild=rebuild_partial)
type_rule(types.GenericAlias, wrap=wrap_by_identity, rebuild=rebuild_generic_alias)
