"""Attributes, as CPython looks them up, through the door.

On an outside instance the lookup is done here step by step - class, data descriptor, instance
dictionary, other descriptor, `__getattr__` - so that each step is guarded and reads see what the
trace has written. On inside objects CPython does it, with the class's part guarded.

What an object is is asked of its type (`issubclass(type(obj), ...)`): `isinstance` would ask the object
too, whose `__class__` may be the program's code.
"""

from __future__ import annotations

import builtins
import sys
import threading
import types
from collections.abc import Iterable
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.sentinels import MISSING, NULL
from framelift.features.collectives.values import IDENTICAL
from framelift.features.numpy.arrays import Array
from framelift.graph import op_memory
from framelift.graph.fakes import PLAIN_CLASSES as TENSORS
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC, settled
from framelift.guards.guard import Check
from framelift.guards.sources import Access
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.world import is_ours
from framelift.trace.door import Door
from framelift.trace.input_wrapping import IMMUTABLE_TYPE, is_ordinary
from framelift.trace.views import DELETED, View, own_dictionary

native = _frame.native

IMPORTER = builtins.__import__
CLASS = vars(object)["__class__"]
"""What says of what class an object is, unless its class has something else to say."""
CONSTANTS = op_memory.ATOMS | {bytes}
CODE_OF_FUNCTIONS = frozenset({"__closure__", "__globals__", "__builtins__"})

STATE_OF_C = (GetSetDescriptorType, MemberDescriptorType)
UNGUARDED_STATE = (*STATE_OF_C, property)
"""What an attribute of an object with state in C is found by when it is part of that state."""
GUARDED_STATE: dict[type, tuple[str, ...]] = {
    torch.Generator: ("device",),
    torch._C._FunctionBase: ("needs_input_grad",),
}
"""Parts of it that a guard may ask for."""

NAMESPACES = (torch._ops._HigherOrderNamespace, torch._ops._OpNamespace)
"""Modules of operators, which keep what they were ever asked for."""


class Attributes(Door):
    # ---- reading

    def load_attr(self, obj: Any, name: str) -> Any:
        if type(obj) is Pending:
            obj = obj.open()
        view = self.views.get(id(obj))
        if view is not None:
            if issubclass(type(obj), type):
                return self.class_attr(obj, name)
            if type(obj) is types.ModuleType:
                return self.module_attr(view, obj, name)
            return self.instance_attr(view, obj, name)
        cls = type(obj)
        if cls is FakeTensor:
            return self.tensor_attr(obj, name)  # type: ignore[attr-defined]
        if cls is Array:
            return self.arrays.attribute(obj, name)
        if cls in SYMBOLIC:
            return getattr(settled(obj), name)
        if cls is super:
            return self.super_attr(obj, name)
        if issubclass(type(obj), type):
            return self.class_attr(obj, name)
        if cls is MethodType and (name == "__doc__" or self.plain_attribute(cls, name) is MISSING):
            return self.load_attr(obj.__func__, name)  # as C does it, which asks the function itself
        if cls is FunctionType and id(obj) not in self.inside_functions:
            return self.function_attr(obj, name)
        if not cls.__flags__ & IMMUTABLE_TYPE:
            found = self.class_attribute(cls, name)
            getattribute = self.special_of_c(cls, "__getattribute__")
            if type(getattribute) is not FunctionType:
                if type(found) is property and self.is_interpreted_getter(cls, found.fget):
                    return self.invoke(found.fget, obj)  # not by C, to which symbols would be numbers
                if self.is_of_class(obj, cls, name, found):
                    return self.bound(found, obj, cls, name)
            self.special_of_c(cls, "__getattr__")
        if name == "__class__" and (is_ours(cls) or self.class_attribute(cls, name) is CLASS):
            return self.class_of(obj)
        if self.is_opaque(obj):
            return self.opaque_attr(obj, cls, name)
        if id(obj) in self.operator_errors:
            self.looking_at(obj)
        if cls in IDENTICAL and id(obj) in self.known:
            return self.identical_attr(obj, name)
        return native(getattr, obj, name)

    def identical_attr(self, obj: Any, name: str) -> Any:
        """What a group or mesh says of itself; what else it has may be the program's."""
        own, source = own_dictionary(obj), self.known[id(obj)].source
        if own is not None and name in own:
            return self.found_at(source.child(Access.ATTR, name), own[name])
        if own is not None:
            self.guard(source, Check.NO_ATTR, name)
        with torch._C.DisableTorchFunction():
            return native(getattr, obj, name)

    def is_interpreted_getter(self, cls: type, getter: Any) -> bool:
        """Whether a property is read by just calling a function of the program's."""
        by_c = is_ours(cls) or self.class_attribute(cls, "__getattr__") is not MISSING
        return type(getter) is FunctionType and not by_c and self.interprets(getter)

    def is_of_class(self, obj: Any, cls: type, name: str, found: Any) -> bool:
        """Whether what an inside object has under a name is just the class's, which may be from outside."""
        if found is MISSING or self.describes(type(found), "__get__"):
            return False
        return not (cls.__dictoffset__ and name in (own_dictionary(obj) or ()))

    def inside_attr(self, obj: Any, name: str) -> Any:
        """`object.__getattribute__` of an object that the trace has made."""
        cls = type(obj)
        found = self.class_attribute(cls, name)
        if self.is_of_class(obj, cls, name, found):
            return self.bound(found, obj, cls, name)
        return native(object.__getattribute__, obj, name)

    def describes(self, kind: type, method: str) -> bool:
        """Whether what a class has is a descriptor: its own class decides, and may change too."""
        return self.class_attribute(kind, method) is not MISSING

    def opaque_attr(self, obj: Any, cls: type, name: str) -> Any:
        """Methods can be had: calling them is another question."""
        found = self.class_attribute(cls, name)
        if found is MISSING and isinstance(obj, threading.local):
            self.refuse(
                breaks.OPAQUE_OBJECT, f"{name} of a threading.local, which each thread has its own of"
            )
        own = own_dictionary(obj)
        if found is MISSING and own is not None and id(obj) not in self.draws.twins:
            source = self.known[id(obj)].source
            if name in own:
                return self.found_at(source.child(Access.ATTR, name), own[name])
            self.guard(source, Check.NO_ATTR, name)
        if found is MISSING and self.answers_in_c(obj, name):
            self.refuse(breaks.OPAQUE_OBJECT, f"{name} of a {cls.__module__}.{cls.__qualname__}")
        if type(found) in STATE_OF_C and isinstance(obj, BaseException):
            source = self.known[id(obj)].source
            return self.found_at(source.child(Access.NATIVE_ATTR, name), getattr(obj, name))
        if any(isinstance(obj, kind) and name in names for kind, names in GUARDED_STATE.items()):
            source = self.known[id(obj)].source
            if source.is_drawn:  # the same for each that the region makes
                return native(getattr, obj, name)
            return self.found_at(source.child(Access.NATIVE_ATTR, name), getattr(obj, name))
        if type(found) in UNGUARDED_STATE:
            self.refuse(breaks.OPAQUE_OBJECT, f"{name} of a {cls.__module__}.{cls.__qualname__}")
        return native(getattr, obj, name)

    def answers_in_c(self, obj: Any, name: str) -> bool:
        """Whether code of C's has something for a name that the class does not show."""
        getattribute, fallback = (
            self.class_attribute(type(obj), n) for n in ("__getattribute__", "__getattr__")
        )
        if type(getattribute) is FunctionType:
            return False
        try:
            native(getattribute, obj, name)
        except AttributeError:
            return fallback is not MISSING and type(fallback) is not FunctionType
        return True

    def load_method(self, obj: Any, name: str) -> tuple[Any, Any]:
        """The pair (function, self), or (NULL, attribute)."""
        if type(obj) is Pending:
            if name == "append" and type(obj.value) is list:
                return list.append, obj
            if name == "get" and type(obj.value) is dict:
                return dict.get, obj
            obj = obj.open()
        cls = type(obj)
        if cls is FakeTensor:
            of = self.recorder.subclasses.class_of(obj)
            found = (
                super().class_attribute(torch.Tensor, name)
                if of in TENSORS
                else self.class_attribute(of, name)
            )
            if type(found) is MethodDescriptorType or type(found) is FunctionType:
                return found, obj
            return NULL, self.tensor_attr(obj, name)  # type: ignore[attr-defined]
        if cls is Array:
            return self.arrays.method(obj, name)
        if cls in SYMBOLIC:
            obj = settled(obj)
            cls = type(obj)
        if cls is not super and not issubclass(type(obj), type):
            found = self.class_attribute(cls, name)
            if type(found) is FunctionType or (
                type(found) is MethodDescriptorType and cls.__flags__ & IMMUTABLE_TYPE
            ):
                view = self.views.get(id(obj))
                if view is None:
                    own = own_dictionary(obj) if cls.__dictoffset__ else None
                    plain = own is None or name not in own
                else:
                    plain = self.own_attr(view, obj, name) is DELETED
                builtin = type(found) is MethodDescriptorType
                if plain and (
                    builtin or self.class_attribute(cls, "__getattribute__") is object.__getattribute__
                ):
                    return found, obj
        return NULL, self.load_attr(obj, name)

    def instance_attr(self, view: View, obj: Any, name: str) -> Any:
        cls = type(obj)
        getattribute = self.class_attribute(cls, "__getattribute__")
        if type(getattribute) is FunctionType:
            return self.by_getattribute(getattribute, obj, name)
        return self.generic_attr(view, obj, name)

    def by_getattribute(self, getattribute: FunctionType, obj: Any, name: str) -> Any:
        """A class's own way of finding attributes; where it finds nothing `__getattr__` is asked."""
        getter = self.class_attribute(type(obj), "__getattr__")
        try:
            return self.invoke(getattribute, obj, name)
        except AttributeError:
            if getter is MISSING:
                raise
        return self.invoke(getter, obj, name)

    def generic_attr(self, view: View, obj: Any, name: str, hook: bool = True) -> Any:
        """`object.__getattribute__`, and `__getattr__` where it finds nothing."""
        cls = type(obj)
        found = self.class_attribute(cls, name)
        kind = type(found)
        if found is not MISSING and kind is not FunctionType:
            if kind is property:
                return self.invoke(found.fget, obj) if found.fget else native(getattr, obj, name)
            if kind is MemberDescriptorType and name != "__dict__":  # as a SimpleNamespace has it
                return self.slot_attr(view, obj, found, name, hook)
            if kind is MemberDescriptorType or kind is GetSetDescriptorType:
                return self.builtin_attr(view, obj, name)
            stores = self.describes(kind, "__set__") or self.describes(kind, "__delete__")
            if stores and self.describes(kind, "__get__"):
                return self.got(kind.__get__, found, obj, cls)
        own = self.own_attr(view, obj, name)
        if own is not DELETED:
            return own
        if found is not MISSING:
            return self.bound(found, obj, cls, name)
        return self.absent_attr(obj, cls, name, hook)

    def own_attr(self, view: View, obj: Any, name: str) -> Any:
        """What the instance's own dictionary has; DELETED if nothing, which is guarded."""
        value = view.get(name)
        if value is not MISSING:
            return value
        own = own_dictionary(obj)
        if own is None:
            return DELETED
        if name not in own and type(obj) in NAMESPACES:
            native(hasattr, obj, name)
        if name not in own:
            self.guard(view.source, Check.NO_ATTR, name)
            return DELETED
        value = view.values[name] = self.found_at(view.source.child(Access.ATTR, name), own[name])
        return value

    def slot_attr(self, view: View, obj: Any, member: Any, name: str, hook: bool) -> Any:
        value = view.get(name)
        if value is MISSING:
            try:
                raw = member.__get__(obj)
            except AttributeError:
                raw = MISSING
            if raw is MISSING:
                self.guard(view.source, Check.NO_SLOT, member)
                value = DELETED
            else:
                value = view.values[name] = self.found_at(view.source.child(Access.SLOT, member), raw)
        if value is DELETED:
            return self.absent_attr(obj, type(obj), name, hook)
        return value

    def builtin_attr(self, view: View, obj: Any, name: str) -> Any:
        if name == "__dict__":
            if view.complete:
                return view.values
            return Pending(self, view.source.child(Access.DICT), own_dictionary(obj))
        if name == "__class__":
            return type(obj)
        return self.refuse(breaks.INTERNAL, f"{name} of an outside {type(obj).__name__}")

    def bound(self, found: Any, obj: Any, cls: type, name: str) -> Any:
        """What a class's non-data attribute is on an instance (None: on the class itself)."""
        kind = type(found)
        if kind is FunctionType:
            return found if obj is None else MethodType(found, obj)
        if kind is classmethod:
            return (
                MethodType(found.__func__, cls)
                if type(found.__func__) is FunctionType
                else found.__get__(obj, cls)
            )
        if kind is staticmethod:
            return found.__func__
        if self.describes(kind, "__get__"):
            return self.got(kind.__get__, found, obj, cls)
        if self.is_made_for(cls, found):
            return found
        return Pending(self, self.root.constant(found, f"{cls.__qualname__}.{name}"), found)

    def got(self, getter: Any, found: Any, obj: Any, cls: type) -> Any:
        """What a descriptor gives; those that C implements only bind."""
        if type(getter) is FunctionType:
            return self.invoke(getter, self.descriptor(found, cls), obj, cls)
        given = native(getter, found, obj, cls)
        if given is not found or cls in self.inside_classes:
            return given
        return self.load(
            found, self.root.constant(found, f"a {type(found).__qualname__} of {cls.__qualname__}")
        )

    def descriptor(self, found: Any, cls: type) -> Any:
        """What a class has found, as its own methods may look at it: through the door."""
        if not is_ordinary(type(found)) or self.is_made_for(cls, found):
            return found
        return self.load(
            found, self.root.constant(found, f"a {type(found).__qualname__} of {cls.__qualname__}")
        )

    def special_of_c(self, cls: type, name: str) -> Any:
        """C may look a special method up, and hand what it finds to that one's own `__get__` or `__call__`:
        this must know it for an object from outside."""
        found = self.class_attribute(cls, name)
        if found is not MISSING and type(found) is not FunctionType:
            self.descriptor(found, cls)
        return found

    def is_made_for(self, cls: type, found: Any) -> bool:
        """Whether the trace has made the class that has what was found: a base of it may be from outside."""
        return cls in self.inside_classes and any(
            found is own for base in cls.__mro__ if base in self.inside_classes for own in vars(base).values()
        )

    def absent_attr(self, obj: Any, cls: type, name: str, hook: bool) -> Any:
        getter = self.class_attribute(cls, "__getattr__") if hook else MISSING
        if getter is torch.nn.Module.__getattr__:
            return self.registered(obj, name)
        if getter is not MISSING:
            return self.invoke(getter, obj, name)
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'", name=name, obj=obj)

    def registered(self, module: Any, name: str) -> Any:
        """`torch.nn.Module.__getattr__`: a parameter, buffer or submodule."""
        view = self.views[id(module)]
        for place in ("_parameters", "_buffers", "_modules"):
            if place in module.__dict__:
                value = self.lookup(self.own_attr(view, module, place), name)  # type: ignore[attr-defined]
                if value is not MISSING:
                    return value
        raise AttributeError(f"'{type(module).__name__}' object has no attribute '{name}'")

    def module_attr(self, view: View, module: Any, name: str) -> Any:
        value = view.get(name)
        if value is MISSING:
            value = self.from_scope(view, vars(module), name)
        if value is not DELETED:
            return value
        if name == "__dict__":
            return self.refuse(breaks.INTERNAL, "a module's __dict__ as a value")
        if name == "__class__":
            return types.ModuleType
        hook = self.from_scope(view, vars(module), "__getattr__")
        if hook is not DELETED:
            return self.invoke(hook, name)
        raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'", name=name, obj=module)

    def class_attr(self, cls: type, name: str) -> Any:
        view = self.views.get(id(cls))
        if view is not None and name in view.values:
            return view.values[name]
        meta = type(cls)
        if not (cls.__flags__ & IMMUTABLE_TYPE or cls in self.inside_classes):
            self.guard(self.root.constant(cls, cls.__qualname__), Check.TYPE, meta)
        getattribute = self.class_attribute(meta, "__getattribute__")
        if type(getattribute) is FunctionType:
            return self.by_getattribute(getattribute, cls, name)
        of_meta = self.class_attribute(meta, name)
        if of_meta is not MISSING and hasattr(type(of_meta), "__set__"):
            if type(of_meta) is property:
                return self.invoke(of_meta.fget, cls)
            return self.for_class_getset(cls, name)
        found = self.class_attribute(cls, name)
        if found is not MISSING:
            return self.bound(found, None, cls, name)
        if of_meta is not MISSING:
            return self.bound(of_meta, cls, meta, name)
        getter = self.class_attribute(meta, "__getattr__")
        if getter is not MISSING:
            return self.invoke(getter, cls, name)
        return native(getattr, cls, name)  # to be told that there is none

    def for_class_getset(self, cls: type, name: str) -> Any:
        """`__name__`, `__mro__`, `__dict__` and so on: facts about the class, which is one object."""
        if cls in self.inside_classes or cls.__flags__ & IMMUTABLE_TYPE:
            return native(getattr, cls, name)
        place = self.root.constant(cls, cls.__qualname__)
        if name == "__dict__":
            self.guard(place.child(Access.DICT), Check.KEYS, tuple(vars(cls)))
            return types.MappingProxyType({own: self.class_item(cls, own) for own in vars(cls)})
        self.class_attribute(cls, name)  # some of these are had from there
        return Pending(self, place.child(Access.NATIVE_ATTR, name), native(getattr, cls, name))

    def class_item(self, cls: type, name: str) -> Any:
        """What a class's own dictionary has: functions and descriptors are opened, since C looks at them."""
        found = self.class_attribute(cls, name)
        place = self.root.constant(found, f"{cls.__qualname__}.{name}")
        if self.describes(type(found), "__get__"):
            return self.load(found, place)
        return Pending(self, place, found)

    def super_attr(self, obj: Any, name: str) -> Any:
        this, start, cls = obj.__self__, obj.__thisclass__, obj.__self_class__
        if cls is None:
            return native(getattr, obj, name)
        mro = cls.__mro__
        self.guard_bases(cls)
        if name != "__class__":
            for base in mro[mro.index(start) + 1 :]:
                found = self.class_attribute(base, name)
                if name in base.__dict__:
                    if type(found) in STATE_OF_C:
                        return native(getattr, obj, name)
                    if type(found) is property and found.fget and this is not cls:
                        return self.invoke(found.fget, this)
                    return self.bound(found, None if this is cls else this, cls, name)
        return native(getattr, obj, name)

    def function_attr(self, fn: FunctionType, name: str) -> Any:
        if self.is_made_anew(fn):
            self.guard(self.known[id(fn)].source, Check.IS, fn)
        if name in CODE_OF_FUNCTIONS:
            return self.refuse(breaks.INTERNAL, f"{name} of an outside function")
        if self.plain_attribute(FunctionType, name) is not MISSING:
            value = getattr(fn, name)
            if name == "__dict__":
                return Pending(self, self.root.constant(value, f"{fn.__qualname__}.__dict__"), value)
            if type(vars(FunctionType).get(name)) in (GetSetDescriptorType, MemberDescriptorType):
                return Pending(
                    self, self.root.constant(fn, fn.__qualname__).child(Access.NATIVE_ATTR, name), value
                )
            return value
        own = self.root.constant(vars(fn), f"{fn.__qualname__}")
        if name in vars(fn):
            return self.found_at(own.child(Access.KEY, name), vars(fn)[name])
        self.guard(own, Check.NO_KEY, name)
        raise AttributeError(f"'function' object has no attribute '{name}'", name=name, obj=fn)

    def fixed_signature(self, fn: FunctionType) -> bool:
        """Whether all that `inspect.signature` reads of a function is constant; if so it is guarded."""
        defaults = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
        if id(fn) in self.inside_functions or not all(type(value) in CONSTANTS for value in defaults):
            return False
        if self.is_made_anew(fn):
            self.guard(self.known[id(fn)].source, Check.IS, fn)
        if "__wrapped__" in vars(fn) or "__signature__" in vars(fn):
            return False
        own = self.root.constant(vars(fn), fn.__qualname__)
        for name in ("__wrapped__", "__signature__"):
            self.guard(own, Check.NO_KEY, name)
        place = self.root.constant(fn, fn.__qualname__)
        for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__code__"):
            self.guard(place.child(Access.NATIVE_ATTR, name), Check.IS, getattr(fn, name))
        return True

    def class_of(self, obj: Any) -> type:
        """`type(obj)` as the program should see it."""
        if type(obj) is FakeTensor:
            return self.recorder.subclasses.class_of(obj)
        if type(obj) is Array:
            return self.arrays.class_of(obj)
        if type(obj) in SYMBOLIC:
            return PYTHON_TYPES[type(obj)]
        return super().class_of(obj)

    def type_of(self, value: Any) -> type:
        """`type(value)`; a constant that is only asked for its type is guarded for that alone."""
        if type(value) is Pending and value.opened is MISSING and type(value.value) in CONSTANTS:
            self.guard(value.source, Check.TYPE, type(value.value))
            return type(value.value)
        return self.class_of(opened(value))

    def special(self, obj: Any, name: str) -> Any:
        return super().special(opened(obj), name)

    def vars_of(self, frame: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs or len(args) != 1:
            return self.call_native(frame, builtins.vars, args, kwargs)
        try:
            return self.load_attr(args[0], "__dict__")
        except AttributeError:
            raise TypeError("vars() argument must have __dict__ attribute") from None

    def names_of(self, frame: Any, obj: Any) -> Iterable[Any]:
        """What `dir` lists, not sorted."""
        if type(obj) is types.ModuleType and id(obj) in self.views:
            method = self.from_scope(self.views[id(obj)], vars(obj), "__dir__")
            if method is not DELETED:
                return self.elements(self.invoke(method))
        method = self.class_attribute(type(obj), "__dir__")
        if type(method) is FunctionType:
            return self.elements(self.invoke(method, obj))
        if method not in (object.__dir__, type.__dir__):
            return self.call_native(frame, builtins.dir, [obj], {})
        return self.plain_names_of(frame, obj)

    def plain_names_of(self, frame: Any, obj: Any) -> list[Any]:
        """`object.__dir__` and `type.__dir__`: own names, and those of the classes, nearest first."""
        if type(obj) is FakeTensor or self.is_opaque(obj):
            return self.call_native(frame, builtins.dir, [obj], {})
        if isinstance(obj, type):
            return list(self.names_of_class(obj))
        own = opened(self.load_attr(obj, "__dict__")) if own_dictionary(obj) is not None else ()
        return list({**dict.fromkeys(own), **self.names_of_class(self.class_of(obj))})

    def names_of_class(self, cls: type) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for base in cls.__mro__:
            if not (base.__flags__ & IMMUTABLE_TYPE or base in self.inside_classes):
                place = self.root.constant(base, base.__qualname__)
                self.guard(place.child(Access.DICT), Check.KEYS, tuple(vars(base)))
            names |= dict.fromkeys(vars(base))
        self.guard_bases(cls)
        return names

    def import_name(self, name: str, scope: Any, namespace: Any, from_list: Any, level: int) -> Any:
        full = name if not level else f"{scope.get('__package__') or ''}.{name}".rstrip(".")
        importer = opened(self.load_global(vars(builtins), "__import__"))
        if level > 1 or full not in sys.modules or importer is not IMPORTER:
            return self.refuse(breaks.NEW_IMPORT, name or "relative import")
        top = full if from_list else full.partition(".")[0]
        if not isinstance(sys.modules[full], types.ModuleType):
            return self.refuse(breaks.OPAQUE_OBJECT, f"what sys.modules has in the place of {full}")
        packaged = hasattr(sys.modules[full], "__path__")  # only of a package other modules are looked for
        for item in from_list or () if packaged else ():
            if item != "*" and not may_have(sys.modules[full], item) and f"{full}.{item}" not in sys.modules:
                self.refuse(breaks.NEW_IMPORT, f"{full}.{item}")
        source = self.root.constant(sys.modules, "sys.modules").child(Access.KEY, top)
        return self.load(sys.modules[top], source)


def may_have(module: types.ModuleType, name: str) -> bool:
    """Whether a module has a name or has code to find it, which is not run here."""
    return name in vars(module) or "__getattr__" in vars(module) or hasattr(type(module), "__getattr__")
