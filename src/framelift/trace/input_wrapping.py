"""How each kind of outside value is opened: what is guarded, and what stands for it in the trace.

`OPENERS` has an entry for each builtin type; classes are judged once, by `opener_for`: constants with
attributes, containers' subclasses, instances whose state is all in Python's hands, and the rest, opaque.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import gc
import operator
import re
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.per_code import PerCode
from framelift.graph import op_memory
from framelift.graph.symbols import SYMBOLIC, settled
from framelift.graph.wrappers import is_wrapper_class
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.trace.shadows import container_base, shadow_of
from framelift.trace.views import View

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


IMMUTABLE_TYPE = 1 << 8
HEAP_TYPE = 1 << 9
NOT_INSTANTIABLE = 1 << 7

BUILTINS = (types.BuiltinFunctionType, type(re.compile("").match))
"""The types of C functions: those that are told their class have one of their own."""

DICT_VIEWS: dict[type, str] = {
    type(getattr(cls(), name)()): name
    for cls in (dict, collections.OrderedDict)
    for name in ("keys", "values", "items")
}
"""What a dictionary gives of itself -> by which method."""

Opener = Callable[["TraceWorld", Any, Source], Any]
OPENERS: dict[type, Opener] = {}
"""Exact type -> how the door opens its instances; other types are judged once by `opener_for`."""


def opens(*classes: type) -> Callable[[Opener], Opener]:
    def register(opener: Opener) -> Opener:
        for cls in classes:
            OPENERS[cls] = opener
        return opener

    return register


MANY_NUMBERS = 32
"""So many numbers may be symbols: what torch does with them takes long, and more of them are data."""


@opens(int, float)
def open_number(world: TraceWorld, value: Any, source: Source) -> Any:
    if len(world.inputs.numbers) < MANY_NUMBERS and world.inputs.dynamism.number(source, value):
        return world.inputs.symbolic_number(value, source)
    return open_constant(world, value, source)


@opens(complex, str, bytes, range, torch.device, torch.Size)
@opens(datetime.timedelta, decimal.Decimal)
@opens(datetime.date, datetime.datetime, datetime.time, datetime.timezone)
def open_constant(world: TraceWorld, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guards.add(source, Check.EQUAL, value)
    return value


@opens(slice)
def open_slice(world: TraceWorld, value: Any, source: Source) -> Any:
    world.guards.add(source, Check.TYPE, slice)
    parts = [
        world.inputs.load(getattr(value, name), source.child(Access.NATIVE_ATTR, name))
        for name in ("start", "stop", "step")
    ]
    return world.inputs.stand_in(value, slice(*parts), source)


@opens(*weakref.ProxyTypes)
def open_proxy(world: TraceWorld, value: Any, source: Source) -> Any:
    """C would look at what it stands for."""
    refuse(breaks.OPAQUE_OBJECT, "a weak proxy")


@opens(type(None), bool, type(Ellipsis), type(NotImplemented), torch.dtype, torch.layout, torch.memory_format)
@opens(re.Pattern, types.CodeType, torch.finfo, torch.iinfo, torch._C._SDPBackend)
def open_singleton(world: TraceWorld, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guards.add(source, Check.IS, value)
    return value


PARAMETERS_OF_TYPES: tuple[type, ...] = ()
if sys.version_info >= (3, 12):  # until then, instances of classes in Python
    PARAMETERS_OF_TYPES = (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple, typing.TypeAliasType)


@opens(type, types.MethodDescriptorType, types.WrapperDescriptorType)
@opens(types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType, property)
@opens(classmethod, staticmethod, types.GenericAlias, types.UnionType, re.Match)
@opens(functools._lru_cache_wrapper, operator.attrgetter, operator.itemgetter, operator.methodcaller)
@opens(torch.jit.ScriptFunction, *PARAMETERS_OF_TYPES)
def open_by_identity(world: TraceWorld, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guards.add(source, Check.IS, value)
    return world.inputs.know(value, value, world.inputs.root.constant(value, str(source)))


@opens(types.FunctionType)
def open_function(world: TraceWorld, value: Any, source: Source) -> Any:
    """One that was made by a function, and is had from there, is made anew for each call."""
    if "<locals>" not in value.__qualname__ or source.root.access is not Access.ARG or vars(value):
        return open_by_identity(world, value, source)
    world.guards.add(source, Check.CODE, value.__code__)
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


@opens(types.CellType)
def open_cell(world: TraceWorld, value: Any, source: Source) -> Any:
    return world.functions.outside_cell(value, source, source.child(Access.CONTENTS))


@opens(types.ModuleType)
def open_module(world: TraceWorld, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guards.add(source, Check.IS, value)
    fixed = world.inputs.root.constant(value, value.__name__)
    world.guards.add(fixed, Check.TYPE, type(value))
    world.attributes.views[id(value)] = world.scopes.view(vars(value))
    return world.inputs.know(value, value, fixed)


@opens(torch.Tensor, torch.nn.Parameter)
def open_tensor(world: TraceWorld, value: Any, source: Source) -> Any:
    if is_wrapper_class(type(value)):
        return open_wrapper(world, value, source)
    with torch._C.DisableTorchFunction():
        if value.is_nested:
            refuse(breaks.TENSOR_KIND, "a nested tensor of strided layout")
        if value.__dict__.get("_dynamo_static_input_type") == "guarded":
            world.guards.add(source, Check.IS, value)
        dims = world.inputs.dims_of(source, value)
        if not dims:
            world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
            return world.inputs.know(value, world.recorder.add_input(value), source)
        fake = world.recorder.add_input(value, dims)
        free = [n for n, size in enumerate(fake.shape) if type(size) in SYMBOLIC]
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value, free))
    return world.inputs.know(value, fake, source)


def open_wrapper(world: TraceWorld, value: Any, source: Source) -> Any:
    """A tensor around others: these are guarded like any, and all else that it says of itself."""
    with torch._C.DisableTorchFunction():
        world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
        face = world.inputs.know(value, world.recorder.add_input(value), source)
    flatten = world.classes.attribute(type(value), "__tensor_flatten__")
    parts, context = world.materialize.for_c(world.calls.invoke(flatten, face))
    with torch._C.DisableTorchFunction():
        for name in parts:
            inner, place = getattr(value, name), source.child(Access.ATTR, name)
            if is_wrapper_class(type(inner)):
                world.inputs.load(inner, place)
            else:
                world.guards.add(place, Check.TENSOR, _guards.TensorSpec(inner))
    fix_context(world, context)
    return face


def fix_context(world: TraceWorld, context: Any) -> None:
    """What a wrapper says beside its tensors must be as it was: numbers by value, other objects the same."""
    if type(context) in (tuple, list):
        for item in context:
            fix_context(world, item)
    elif type(context) is dict:
        fix_context(world, [*context.keys(), *context.values()])
    elif type(context) not in op_memory.ATOMS:
        place = world.inputs.source_of(context)
        if place is not None:
            world.guards.add(place, Check.IS, context)


@opens(types.MethodType)
def open_method(world: TraceWorld, value: Any, source: Source) -> Any:
    world.guards.add(source, Check.TYPE, types.MethodType)
    fn = world.inputs.load(value.__func__, source.child(Access.METHOD_FUNC))
    this = world.inputs.load(value.__self__, source.child(Access.SELF))
    return world.inputs.stand_in(value, types.MethodType(fn, this), source)


@opens(*BUILTINS, types.MethodWrapperType)
def open_builtin(world: TraceWorld, value: Any, source: Source) -> Any:
    """A function of C is itself; a method of C is had again from the object that it is bound to."""
    this = value.__self__
    if issubclass(type(this), (type, types.ModuleType)) or not hasattr(type(this), value.__name__):
        return open_by_identity(world, value, source)
    world.guards.add(source, Check.TYPE, type(value))
    world.guards.add(source.child(Access.NATIVE_ATTR, "__name__"), Check.EQUAL, value.__name__)
    this = settled(world.inputs.load(this, source.child(Access.NATIVE_ATTR, "__self__")))
    return world.inputs.stand_in(value, getattr(this, value.__name__), source)


@opens(*DICT_VIEWS, types.MappingProxyType)
def open_dict_view(world: TraceWorld, value: Any, source: Source) -> Any:
    """The same view of what stands for the mapping."""
    (held,) = gc.get_referents(value)
    if container_base(type(held)) is None:  # C would ask that itself
        refuse(breaks.OPAQUE_OBJECT, f"a proxy of a {type(held).__qualname__}")
    world.guards.add(source, Check.TYPE, type(value))
    shadow = world.inputs.load(held, source.child(Access.VIEWED))
    method = DICT_VIEWS.get(type(value))
    base = collections.OrderedDict if isinstance(held, collections.OrderedDict) else dict
    made = types.MappingProxyType(shadow) if method is None else getattr(base, method)(shadow)
    return world.inputs.stand_in(value, made, source)


@opens(functools.partial)
def open_partial(world: TraceWorld, value: Any, source: Source) -> Any:
    """With the very keywords of the outside one, or what stands for them: these may change."""
    world.guards.add(source, Check.TYPE, functools.partial)
    parts = [
        world.inputs.load(getattr(value, name), source.child(Access.NATIVE_ATTR, name))
        for name in ("func", "args", "keywords")
    ]
    made: Any = functools.partial(parts[0])
    made.__setstate__((*parts, None))
    return world.inputs.stand_in(value, made, source)


def open_container(base: type) -> Opener:
    def opener(world: TraceWorld, value: Any, source: Source) -> Any:
        return shadow_of(world, value, source, base)

    return opener


def open_instance(world: TraceWorld, value: Any, source: Source) -> Any:
    """An object whose state is its attributes: itself, seen through a view."""
    world.guards.add(source, Check.TYPE, type(value))
    world.attributes.views[id(value)] = View(source, value)
    return world.inputs.know(value, value, source)


def open_fixed_instance(world: TraceWorld, value: Any, source: Source) -> Any:
    """A constant with attributes: an enum's member, a number or text of a user's class, an operator."""
    if source.access is not Access.CONST:
        world.guards.add(source, Check.IS, value)
    fixed = world.inputs.root.constant(value, str(source))
    world.attributes.views[id(value)] = View(fixed, value)
    return world.inputs.know(value, value, fixed)


def open_opaque(world: TraceWorld, value: Any, source: Source) -> Any:
    """An object with state in C: it may be moved about, but nothing may look at it."""
    world.guards.add(source, Check.TYPE, type(value))
    return world.inputs.know(value, value, source)


OPERATORS = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)
"""What a graph calls as it is."""


def is_plain_module(cls: type) -> bool:
    """Whether what its instances say of a name is what they have."""
    hooks = ("__getattribute__", "__setattr__", "__delattr__")
    return not hasattr(cls, "__getattr__") and all(
        getattr(cls, hook) is getattr(types.ModuleType, hook) for hook in hooks
    )


def is_hashed_oddly(meta: type) -> bool:
    """Whether a metaclass says how its classes are hashed: they can't be told apart by looking them up."""
    return any(getattr(meta, name) is not getattr(type, name) for name in ("__hash__", "__eq__"))


def open_hashed_oddly(world: TraceWorld, value: Any, source: Source) -> Any:
    refuse(breaks.OPAQUE_OBJECT, f"{source}, a class, or of one, whose metaclass hashes it")


def opener_for(cls: type) -> Opener:
    if issubclass(cls, type):
        return open_hashed_oddly if is_hashed_oddly(cls) else open_by_identity
    if issubclass(cls, (enum.Enum, int, float, complex, str, bytes, *OPERATORS)):
        return open_fixed_instance
    if issubclass(cls, types.ModuleType) and is_plain_module(cls):
        return open_module
    if issubclass(cls, torch.Tensor):
        return open_tensor
    base = container_base(cls)
    if base is tuple and is_sealed(cls):
        return open_by_identity
    if base is not None:
        return open_container(base)
    if is_ordinary(cls):
        return open_instance
    return open_opaque


def is_sealed(cls: Any) -> bool:
    """A tuple of C's that can't be made of its elements, so nothing can stand for it: `sys.version_info`."""
    if not hasattr(cls, "n_sequence_fields"):
        return False
    return bool(cls.__flags__ & NOT_INSTANTIABLE) or cls.n_fields != cls.n_sequence_fields


_judged: PerCode[Opener] = PerCode()


def opener_of(cls: type) -> Opener:
    if type(cls) is not type and is_hashed_oddly(type(cls)):
        return open_hashed_oddly
    return OPENERS.get(cls) or _judged.get(cls) or _judged.set(cls, opener_for(cls))


def is_made_in_c(cls: type) -> bool:
    """Whether C has given it methods, or slots such as `__next__`, of its own."""
    return any(type(v) in OF_C and v.__objclass__ is cls for v in vars(cls).values())


OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType)


EXTRA_STATE = frozenset({types.SimpleNamespace, torch.nn.Module, types.ModuleType})
"""Bases that are more than `object` to C but keep their state in `__dict__` all the same."""


def is_ordinary(cls: type) -> bool:
    """Whether everything an instance holds is in its `__dict__` and slots."""
    found = _ordinary.get(cls)
    return _ordinary.set(cls, looks_ordinary(cls)) if found is None else found


_ordinary: PerCode[bool] = PerCode()


def looks_ordinary(cls: type) -> bool:
    slots = 0
    for base in cls.__mro__:
        if base is object or base in EXTRA_STATE:
            continue
        if not base.__flags__ & HEAP_TYPE or is_made_in_c(base):
            return False
        names = base.__dict__.get("__slots__", ())
        slots += len(
            [
                n
                for n in ((names,) if isinstance(names, str) else names)
                if n not in ("__dict__", "__weakref__")
            ]
        )
    if any(base in EXTRA_STATE for base in cls.__mro__):
        return True
    # a class made in C has a larger struct than its Python-visible parts account for
    hidden = cls.__basicsize__ - object.__basicsize__ - 8 * slots
    return hidden <= 16


for _base in (tuple, list, dict, set, frozenset, bytearray):
    OPENERS[_base] = open_container(_base)
