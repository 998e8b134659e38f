"""Builtin functions, and methods of builtin types, that a trace does itself."""

from __future__ import annotations

import builtins
import copy
import types
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break, refuse
from framelift.core.sentinels import MISSING
from framelift.graph import arithmetic
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC
from framelift.interpreter import served
from framelift.interpreter.pending import Pending, opened
from framelift.rules import numbers
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.machine import TraceFrame
from framelift.trace.shadows import DELETED


@serve(builtins.isinstance, looks=Looks.CLASS, orderless=True, why="asks about a class")
def serve_isinstance(f: TraceFrame, obj: Any, class_or_tuple: Any, /) -> Any:
    return f.world.operators.is_instance(obj, opened(class_or_tuple))


VALUES = frozenset({str, bytes, int, float, complex, bool})
"""Types of constants whose attributes are those of their type."""


@serve(builtins.callable, looks=Looks.CLASS, why="asks about a class")
def serve_callable(f: TraceFrame, obj: Any, /) -> Any:
    if f.world.operators.is_constant(obj, VALUES):
        return False
    f.world.classes.attribute(type(opened(obj)), "__call__")
    return f.world.calls.native(f, builtins.callable, [obj], None)


@serve(builtins.hasattr)
def serve_hasattr(f: TraceFrame, obj: Any, name: Any, /) -> Any:
    name = opened(name)
    if type(name) is str and f.world.operators.is_constant(obj, VALUES):
        return hasattr(obj.value, name)
    if type(name) is str and type(value := opened(obj)) in SYMBOLIC:
        return hasattr(PYTHON_TYPES[type(value)], name)
    return served.serve_hasattr(f, obj, name)


@serve(builtins.id, refused=breaks.IDENTITY, why="id")
def serve_id(f: TraceFrame, obj: Any, /) -> Any:
    return f.world.addresses.of_object(obj, of_memo=f.code.code is copy.deepcopy.__code__)


def serve_hasher(hasher: Any, **facets: Any) -> None:
    """Serves a function that hashes what its argument is made of."""

    @serve(hasher, **facets)
    def served(f: TraceFrame, obj: Any, /) -> Any:
        seen: dict[int, Any] = {}
        shown = f.world.materialize.value(obj, seen)
        if type(shown) is FakeTensor and f.world.recorder.subclasses.class_of(shown) in PLAIN_CLASSES:
            return f.world.addresses.of_object(obj)  # tensors are hashed by where they are
        f.world.identity.fix_addresses(seen)
        return f.world.calls.native(f, hasher, [obj], None)


serve_hasher(builtins.hash, looks=Looks.DEEP, orderless=True, why="a pure builtin")
serve_hasher(tuple.__hash__)
serve_hasher(frozenset.__hash__)


@serve(builtins.len, looks=Looks.SHALLOW, orderless=True, why="counts elements")
def serve_len(f: TraceFrame, obj: Any, /) -> Any:
    value = opened(obj)
    if type(value) is FakeTensor:
        own = f.world.overrides.ask_own(value, "__len__")
        if own is not MISSING:
            return len(range(own))
        if f.world.recorder.modes.active or f.world.recorder.subclasses.are_there:
            return f.world.recorder.call(torch.Tensor.__len__, (value,), {})
        if not value.dim():
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    return f.world.operators.length(value)


@serve(builtins.bool, looks=Looks.DEEP, orderless=True, on_symbols=arithmetic.as_bool, why="asks for truth")
def serve_bool(f: TraceFrame, x: Any = False, /) -> Any:
    if type(opened(x)) in (FakeTensor, *SYMBOLIC):
        expected = f.world.raising_branches.truth_of_result(f, builtins.bool, lambda: opened(x))
        return f.world.calls.native(f, builtins.bool, [x], None) if expected is None else expected
    return f.world.operators.truth(x)


@serve(builtins.__import__)
def serve_import(
    f: TraceFrame, /, name: Any, globals: Any = None, locals: Any = None, fromlist: Any = (), level: Any = 0
) -> Any:
    """The function that an import statement calls, called by hand. Only absolute names are served."""
    module, names = f.world.materialize.for_c(name), f.world.materialize.for_c(fromlist)
    if type(module) is not str or f.world.materialize.for_c(level):
        return f.world.calls.native(f, builtins.__import__, [name, globals, locals, fromlist, level], None)
    return f.world.scopes.import_name(module, f.globals, None, names, 0)


@serve(list.append, looks=Looks.MOVES, first=1, why="stores what it is given")
def serve_append(f: TraceFrame, array: Any, value: Any, /) -> Any:
    return f.world.containers.append(array, value)


@serve(dict.get, looks=Looks.MOVES, first=2, with_symbols=numbers.looks_up, why="hands on what it holds")
def serve_get(f: TraceFrame, mapping: Any, key: Any, default: Any = None, /) -> Any:
    """A dictionary that nobody has looked into yet is asked for this one key."""
    if type(mapping) is Pending:
        found = f.world.containers.peek(mapping, opened(key))
        if found is not DELETED:
            return default if found is MISSING else found
    return f.world.calls.native(f, dict.get, [mapping, key, default], None)


# ---- methods of `object` and of descriptors: C would read and write attributes without the trace's knowing


@serve(object.__setattr__, types.ModuleType.__setattr__)
def serve_object_setattr(f: TraceFrame, obj: Any, name: Any, value: Any, /) -> Any:
    obj, name = opened(obj), opened(name)
    if not isinstance(name, str):
        return _frame.native(object.__setattr__, obj, name, value)  # which raises
    view = f.world.attributes.views.get(id(obj))
    if view is not None:
        return f.world.attribute_writes.generic_store(view, obj, name, value)
    if type(obj) is FakeTensor or f.world.attribute_writes.is_fixed(obj):
        return f.world.attribute_writes.store(obj, name, value)
    refuse_opaque(f, obj, name)
    if type(f.world.classes.attribute(type(obj), name)) is types.GetSetDescriptorType:
        value = f.world.materialize.for_c(value)  # C takes it
    return _frame.native(object.__setattr__, obj, name, value)


@serve(object.__delattr__, types.ModuleType.__delattr__)
def serve_object_delattr(f: TraceFrame, obj: Any, name: Any, /) -> Any:
    obj, name = opened(obj), opened(name)
    if isinstance(name, str):
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
def serve_object_getattribute(f: TraceFrame, obj: Any, name: Any, /) -> Any:
    obj, name = opened(obj), opened(name)
    if not isinstance(name, str):
        return _frame.native(object.__getattribute__, obj, name)  # which raises
    view = f.world.attributes.views.get(id(obj))
    if view is not None:
        return f.world.plain_getters.noted(view, obj, name)
    if f.world.inputs.is_opaque(obj):
        return f.world.attributes.of_opaque(obj, type(obj), name)
    return f.world.attributes.load_inside(obj, name)


@serve(types.ModuleType.__getattribute__)
def serve_module_getattribute(f: TraceFrame, module: Any, name: Any, /) -> Any:
    module, name = opened(module), opened(name)
    view = f.world.attributes.views.get(id(module))
    if view is not None and isinstance(name, str):
        return f.world.attributes.by_module(view, module, name)
    return _frame.native(types.ModuleType.__getattribute__, module, name)


@serve(object.__hash__)
def serve_object_hash(f: TraceFrame, obj: Any, /) -> Any:
    """The address, which the program may hash by, but must not see."""
    return f.world.addresses.hash_of(obj)


@serve(object.__dir__, type.__dir__)
def serve_object_dir(f: TraceFrame, obj: Any, /) -> Any:
    return f.world.attributes.plain_names_of(opened(obj))


# ---- slots and other attributes that a class has descriptors of C for

WRITES_SLOT = "writes a slot, if the class of the instance has it by this name"


@serve(types.MemberDescriptorType.__set__, looks=Looks.CLASS, why=WRITES_SLOT)
def serve_slot_set(f: TraceFrame, member: Any, obj: Any, value: Any, /) -> Any:
    return serve_object_setattr(f, obj, name_of_slot(f, opened(member), opened(obj)), value)


@serve(types.MemberDescriptorType.__delete__, looks=Looks.CLASS, why=WRITES_SLOT)
def serve_slot_delete(f: TraceFrame, member: Any, obj: Any, /) -> Any:
    return serve_object_delattr(f, obj, name_of_slot(f, opened(member), opened(obj)))


def name_of_slot(f: TraceFrame, member: Any, obj: Any) -> str:
    if f.world.classes.attribute(type(obj), member.__name__) is not member:
        refuse(breaks.UNKNOWN_NATIVE, f"slot {member.__name__}, which a {type(obj).__qualname__} has not")
    return member.__name__


@serve(types.GetSetDescriptorType.__set__)
def serve_getset_set(f: TraceFrame, descriptor: Any, instance: Any, value: Any, /) -> Any:
    descriptor, obj = opened(descriptor), opened(instance)
    if type(obj) is FakeTensor and descriptor.__objclass__ is torch._C.TensorBase:
        f.world.tensors.store(obj, descriptor.__name__, value)
        return None
    return f.world.calls.native(f, type(descriptor).__set__, [descriptor, obj, value], None)


@serve(types.GetSetDescriptorType.__get__, types.MemberDescriptorType.__get__)
def serve_descriptor_get(f: TraceFrame, descriptor: Any, instance: Any, owner: Any = None, /) -> Any:
    """The attribute as `object.__getattribute__` finds it, if it would find it by this descriptor."""
    descriptor, obj = opened(descriptor), opened(instance)
    if obj is not None and not isinstance(obj, descriptor.__objclass__):
        return _frame.native(descriptor.__get__, obj)  # which raises
    if type(obj) is FakeTensor and descriptor.__objclass__ is torch._C.TensorBase:
        cls = f.world.recorder.subclasses.class_of(obj)
        own = f.world.classes.attribute(cls, descriptor.__name__)
        if own is not descriptor and type(own) is property:
            return f.world.tensors.of_any_tensor(obj, cls, descriptor.__name__)
        return f.world.attributes.load(obj, descriptor.__name__)
    if f.world.classes.attribute(type(obj), descriptor.__name__) is not descriptor:
        return f.world.calls.native(f, type(descriptor).__get__, [descriptor, obj, owner], None)
    if isinstance(obj, type):
        return f.world.classes.load_getset(obj, descriptor.__name__)
    return serve_object_getattribute(f, obj, descriptor.__name__)
