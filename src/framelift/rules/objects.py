"""Calls about classes and instances that a trace serves: C would look behind the door, or tell that tensors
are fakes."""

from __future__ import annotations

import _thread
import builtins
import contextlib
import copy
import copyreg
import types
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.graph.data_reassignment import DATA
from framelift.graph.symbols import SYMBOLIC
from framelift.interpreter.calls import call, maker_of_class, told_what_is_wrong
from framelift.interpreter.pending import Pending, opened
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.identity import Address
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.type_facts import IMMUTABLE_TYPE
from framelift.trace.views import DELETED

# ---- types


@serve(builtins.type, looks=Looks.SHALLOW, why="tells a class, or makes one")
def serve_type(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs:
        return f.world.classes.type_of(args[0])
    return made_class(f, builtins.type, args, kwargs)


@serve(type.__new__)
def serve_new_class(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return made_class(f, type.__new__, args, kwargs)


def made_class(f: TraceFrame, maker: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args = [f.world.materialize.for_c(x) for x in args]
    options = {name: f.world.materialize.for_c(value) for name, value in kwargs.items()}
    made = _frame.native(maker_of_class(f, maker, args), *args, **options)
    f.world.created.add_class(made)
    return made


@serve(type.mro)
def serve_mro(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(opened(args[0]), type):
        f.world.classes.guard_bases(opened(args[0]))
    return f.world.calls.native(f, type.mro, args, kwargs)


@serve(type.__instancecheck__)
def serve_instance_check(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """By the bases, whatever a metaclass says."""
    if len(args) != 2 or kwargs:
        return told_what_is_wrong(type.__instancecheck__, args, kwargs)
    cls, value = map(opened, args)
    f.world.classes.guard_bases(f.world.classes.class_of(value))
    f.world.classes.attribute(type(value), "__class__")
    if type(value) is FakeTensor:
        return type.__subclasscheck__(cls, f.world.classes.class_of(value))
    return f.world.calls.native(f, type.__instancecheck__, [cls, value], None)


@serve(type.__subclasscheck__)
def serve_subclass_check(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and isinstance(opened(args[1]), type):
        f.world.classes.guard_bases(opened(args[1]))
    return f.world.calls.native(f, type.__subclasscheck__, args, kwargs)


@serve(builtins.__build_class__, looks=Looks.SHALLOW, why="makes a class")
def serve_build_class(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args = [*args[:2], *(f.world.materialize.for_c(base) for base in args[2:])]
    for base in args[2:]:
        if not isinstance(base, type):
            f.world.classes.attribute(type(base), "__mro_entries__")
            continue
        f.world.classes.guard_bases(base)
        f.world.classes.attribute(base, "__init_subclass__")
        for name in ("__new__", "__init__", "__call__", "__prepare__", "mro"):
            f.world.classes.attribute(type(base), name)
    made = f.world.calls.native(f, builtins.__build_class__, args, kwargs)
    if isinstance(made, type):
        f.world.created.add_written_class(made)
        for value in list(vars(made).values()):
            f.world.classes.attribute(type(value), "__set_name__")  # which C has called
    return made


@serve(type.__setattr__, type.__delattr__)
def serve_class_attribute(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    changed = type.__setattr__ if len(args) == 3 else type.__delattr__
    cls = opened(args[0]) if args else None
    fixed = isinstance(cls, type) and bool(cls.__flags__ & IMMUTABLE_TYPE)  # which C says then
    if isinstance(cls, type) and not fixed and not f.world.created.has(cls):
        raise Break(breaks.ATTRIBUTE_WRITE, f"an attribute of the class {cls.__qualname__} is changed")
    return _frame.native(changed, *map(f.world.materialize.for_c, args), **kwargs)


@serve(types.ModuleType)
def serve_module(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.created.keep(f.world.calls.native(f, types.ModuleType, args, kwargs))


@serve(weakref.ref)
def serve_weak_reference(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """That there is one changes nothing; what it would call when the object dies must happen at run time."""
    if len(args) != 1 or kwargs:
        return f.world.calls.native(f, weakref.ref, args, kwargs)
    return f.world.created.keep(weakref.ref(f.world.materialize.shallow(args[0])))


@serve(types.FunctionType)
def serve_function(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    made = f.world.calls.native(f, types.FunctionType, args, kwargs)
    f.world.functions.made(made)
    return made


@serve(builtins.isinstance, looks=Looks.CLASS, orderless=True, why="asks about a class")
def serve_isinstance(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs:
        return f.world.calls.native(f, builtins.isinstance, args, kwargs)
    return f.world.operators.is_instance(args[0], opened(args[1]))


@serve(builtins.callable, looks=Looks.CLASS, why="asks about a class")
def serve_callable(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1:
        f.world.classes.attribute(type(opened(args[0])), "__call__")
    return f.world.calls.native(f, builtins.callable, args, kwargs)


@serve(builtins.id, refused=breaks.IDENTITY, why="id")
def serve_id(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return f.world.calls.native(f, builtins.id, args, kwargs)
    return Address(id(opened(args[0])))


@serve(_thread.get_ident)
def serve_get_ident(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Address(_thread.get_ident())


def serve_hasher(hasher: Any, **facets: Any) -> None:
    @serve(hasher, **facets)
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        seen: dict[int, Any] = {}
        for value in args:
            f.world.materialize.value(value, seen)
        f.world.identity.fix_addresses(seen)
        return f.world.calls.native(f, hasher, args, kwargs)


serve_hasher(builtins.hash, looks=Looks.DEEP, orderless=True, why="a pure builtin")
serve_hasher(tuple.__hash__)
serve_hasher(frozenset.__hash__)


@serve(object.__hash__)
def serve_object_hash(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a `__hash__` of the program's may well use, which is none of its business either."""
    if len(args) != 1 or kwargs:
        return told_what_is_wrong(object.__hash__, args, kwargs)
    return Address(object.__hash__(opened(args[0])))


@serve(builtins.len, looks=Looks.SHALLOW, orderless=True, why="counts elements")
def serve_len(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return told_what_is_wrong(len, args, kwargs)
    value = opened(args[0])
    if type(value) is FakeTensor:
        if f.world.recorder.modes.active:
            return f.world.recorder.call(torch.Tensor.__len__, (value,), {})
        if not value.dim():
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    return f.world.operators.length(value)


@serve(builtins.__import__)
def serve_import(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The function that an import statement calls, called by hand; with no other than absolute names."""
    given = {**dict(zip(("name", "globals", "locals", "fromlist", "level"), args, strict=False)), **kwargs}
    name, names, level = (f.world.materialize.for_c(given.get(key)) for key in ("name", "fromlist", "level"))
    if len(given) != len(args) + len(kwargs) or type(name) is not str or level:
        return f.world.calls.native(f, builtins.__import__, args, kwargs)
    return f.world.scopes.import_name(name, f.globals, None, names, 0)


@serve(
    builtins.bool,
    looks=Looks.DEEP,
    orderless=True,
    on_symbols=lambda number: number != 0,
    why="asks for truth",
)
def serve_bool(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs or type(opened(args[0])) in (FakeTensor, *SYMBOLIC):
        return f.world.calls.native(f, builtins.bool, args, kwargs)
    return f.world.operators.truth(args[0])


@serve(list.append, looks=Looks.MOVES, first=1, why="stores what it is given")
def serve_append(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 2 and not kwargs:
        return f.world.containers.append(args[0], args[1])
    return f.world.calls.native(f, list.append, args, kwargs)


@serve(dict.get, looks=Looks.MOVES, first=2, why="hands on what it holds")
def serve_get(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A dictionary that nobody has looked into yet is asked for this one key."""
    if len(args) in (2, 3) and not kwargs and type(args[0]) is Pending:
        found = f.world.containers.peek(args[0], opened(args[1]))
        if found is not DELETED:
            return found if found is not MISSING else args[2] if len(args) == 3 else None
    return f.world.calls.native(f, dict.get, args, kwargs)


# ---- raw access to instances


@serve(object.__setattr__, types.ModuleType.__setattr__)
def serve_object_setattr(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 3 and not kwargs and isinstance(opened(args[1]), str):
        obj, name = opened(args[0]), opened(args[1])
        view = f.world.attributes.views.get(id(obj))
        if view is not None:
            return f.world.attribute_writes.generic_store(view, obj, name, args[2])
        if type(obj) is FakeTensor or f.world.attribute_writes.is_fixed(obj):
            return f.world.attribute_writes.store(obj, name, args[2])
        refuse_opaque(f, obj, name)
        c_takes_it = type(f.world.classes.attribute(type(obj), name)) is types.GetSetDescriptorType
        value = f.world.materialize.for_c(args[2]) if c_takes_it else args[2]
        return _frame.native(object.__setattr__, obj, name, value)
    return told_what_is_wrong(object.__setattr__, args, kwargs)


@serve(object.__delattr__, types.ModuleType.__delattr__)
def serve_object_delattr(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(object.__delattr__, args, kwargs)
    obj, name = opened(args[0]), opened(args[1])
    view = f.world.attributes.views.get(id(obj))
    if view is not None:
        return f.world.attribute_writes.generic_delete(view, obj, name)
    refuse_opaque(f, obj, name)
    f.world.classes.attribute(type(obj), name)
    return _frame.native(object.__delattr__, obj, name)


def refuse_opaque(f: TraceFrame, obj: Any, name: str) -> None:
    """An outside object that has no view must not be changed while it is traced."""
    if f.world.inputs.is_opaque(obj):
        raise Break(breaks.OPAQUE_OBJECT, f"{name} of a {type(obj).__qualname__} is changed")


@serve(object.__getattribute__)
def serve_object_getattribute(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not isinstance(opened(args[1]), str):
        return told_what_is_wrong(object.__getattribute__, args, kwargs)
    obj, name = opened(args[0]), opened(args[1])
    view = f.world.attributes.views.get(id(obj))
    if view is not None:
        return f.world.attributes.generic(view, obj, name, hook=False)
    if f.world.inputs.is_opaque(obj):
        return f.world.attributes.of_opaque(obj, type(obj), name)
    return f.world.attributes.load_inside(obj, name)


def serve_member(method: Any, changed: Any) -> None:
    @serve(method)
    def served(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A slot, if the instance's class has it by this name."""
        member, obj = opened(args[0]), opened(args[1]) if len(args) > 1 else None
        if f.world.classes.attribute(type(obj), member.__name__) is not member:
            return f.world.calls.native(f, method, args, kwargs)
        return changed(f, [obj, member.__name__, *args[2:]], kwargs)


serve_member(types.MemberDescriptorType.__set__, serve_object_setattr)
serve_member(types.MemberDescriptorType.__delete__, serve_object_delattr)


@serve(object.__dir__, type.__dir__)
def serve_object_dir(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return told_what_is_wrong(object.__dir__, args, kwargs)
    return f.world.attributes.plain_names_of(f, opened(args[0]))


@serve(types.GetSetDescriptorType.__get__, types.MemberDescriptorType.__get__)
def serve_descriptor_get(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The attribute as `object.__getattribute__` finds it, if it would find it by this descriptor."""
    descriptor, obj = (opened(x) for x in args[:2]) if 1 < len(args) < 4 and not kwargs else (None, None)
    name = getattr(descriptor, "__name__", "")
    if descriptor is not None and obj is not None and not isinstance(obj, descriptor.__objclass__):
        return told_what_is_wrong(descriptor.__get__, args[1:], kwargs)
    if descriptor is None or f.world.classes.attribute(type(obj), name) is not descriptor:
        return f.world.calls.native(f, types.GetSetDescriptorType.__get__, args, kwargs)
    if isinstance(obj, type):
        return f.world.classes.load_getset(obj, name)
    return serve_object_getattribute(f, [obj, name], {})


@serve(object.__reduce_ex__)
def serve_reduce_ex(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What `copy` and `pickle` ask for: C would read the instance's attributes behind the door's back."""
    obj = opened(args[0]) if args else None
    world = f.world
    if id(obj) not in world.attributes.views:
        return world.calls.native(f, object.__reduce_ex__, args, kwargs)
    if world.classes.attribute(type(obj), "__reduce__") is not object.__reduce__:
        return call(f, world.attributes.load(obj, "__reduce__"), [], None)
    maker, given = new_arguments(f, obj)
    if world.classes.attribute(type(obj), "__getstate__") is object.__getstate__:
        state = instance_state(f, obj)
    else:
        state = answer(f, obj, "__getstate__")
    return maker, (type(obj), *given), state, None, None


@serve(types.SimpleNamespace.__reduce__)
def serve_reduce_namespace(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    obj = opened(args[0])
    if id(obj) not in f.world.attributes.views:
        return f.world.calls.native(f, types.SimpleNamespace.__reduce__, args, kwargs)
    return type(obj), (), f.world.attributes.load(obj, "__dict__")


NEWOBJ, NEWOBJ_EX = (vars(copyreg)[name] for name in ("__newobj__", "__newobj_ex__"))
SLOTNAMES: Any = vars(copyreg)["_slotnames"]


def new_arguments(f: TraceFrame, obj: Any) -> tuple[Any, tuple[Any, ...]]:
    """What makes another instance, and of what beside the class."""
    if f.world.classes.attribute(type(obj), "__getnewargs_ex__") is not MISSING:
        args, kwargs = answer(f, obj, "__getnewargs_ex__")
        return NEWOBJ_EX, (opened(args), opened(kwargs))
    has_arguments = f.world.classes.attribute(type(obj), "__getnewargs__") is not MISSING
    return NEWOBJ, tuple(answer(f, obj, "__getnewargs__")) if has_arguments else ()


def answer(f: TraceFrame, obj: Any, method: str) -> Any:
    """What a method says that may be one of the class."""
    return opened(f.world.calls.invoke(f.world.attributes.load(obj, method)))


@serve(object.__getstate__)
def serve_getstate(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    obj = opened(args[0]) if args else None
    if id(obj) not in f.world.attributes.views:
        return f.world.calls.native(f, object.__getstate__, args, kwargs)
    return instance_state(f, obj)


def instance_state(f: TraceFrame, obj: Any) -> Any:
    """What the instance has in its dictionary, and in slots, as C would say it."""
    own = dict(opened(f.world.attributes.load(obj, "__dict__"))) if hasattr(obj, "__dict__") else {}
    slots = {}
    for name in SLOTNAMES(type(obj)):
        with contextlib.suppress(AttributeError):
            slots[name] = f.world.attributes.load(obj, name)
    return (own or None, slots) if slots else own or None


@serve(SLOTNAMES)
def serve_slotnames(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Keeps what it finds on the class, which changes nothing for anybody."""
    return SLOTNAMES(opened(args[0]))


# ---- copies


@serve(copy.copy)
def serve_copy(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value: Any = opened(args[0]) if args else MISSING
    if type(value) in (list, dict, set):
        return value.copy()
    if type(value) is FakeTensor and f.world.tensors.is_bare(value):
        return f.world.recorder.call(DATA, (value,), {})
    return interpreted(f, copy.copy, args, kwargs)
