"""Attributes set and deleted: on outside objects that is noted in their views, never done while tracing."""

from __future__ import annotations

import builtins
import threading
import types
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

from framelift._frame import native
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import opened
from framelift.trace.part import Part
from framelift.trace.shadows import DELETED, View, own_dictionary
from framelift.trace.type_rules import ABSTRACT, IMMUTABLE_TYPE

SETTER = object.__setattr__


class AttributeWrites(Part):
    def store(self, obj: Any, name: str, value: Any) -> None:
        obj = opened(obj)
        view = self.world.attributes.views.get(id(obj))
        if view is None and not self.is_fixed(obj):
            cls = type(obj)
            if cls is FakeTensor:
                return self.world.tensors.store(obj, name, value)
            if cls in ABSTRACT:
                return self.world.abstract(obj).set_attribute(obj, name, value)
            self.world.classes.attribute(cls, "__setattr__")
            found = self.world.classes.attribute(cls, name)
            if issubclass(cls, type) or type(found) is GetSetDescriptorType:
                value = self.world.materialize.for_c(value)  # C takes it: a function's name must be a string
            elif type(found) is MemberDescriptorType and found.__objclass__.__flags__ & IMMUTABLE_TYPE:
                value = opened(value)  # C uses what its own types hold: a factory, a cause
            elif type(found) is property:
                self.world.classes.accessor(found, "fset", cls)
            return native(setattr, obj, name, value)
        if view is None and issubclass(type(obj), threading.local):
            return self.world.containers.store(self.world.attributes.of_thread(obj), name, value)
        if view is None:
            return self.store_fixed(obj, name, value)
        if issubclass(type(obj), (type, types.ModuleType)):
            if issubclass(type(obj), type):
                refuse(breaks.ATTRIBUTE_WRITE, f"attribute {name!r} set on a class")
            if obj is builtins:  # every namespace that lacks a name looks there
                refuse(breaks.EFFECT, f"{name!r} set in builtins")
            if type(obj) is types.ModuleType:
                return view.write(name, value)
        setter = self.world.classes.attribute(type(obj), "__setattr__")
        if type(setter) is FunctionType:
            return self.world.calls.invoke(setter, obj, name, value)
        return self.generic_store(view, obj, name, value)

    def store_fixed(self, obj: Any, name: str, value: Any) -> None:
        """An attribute of an outside function, class or descriptor: a metaclass may have its own way to set
        one, and what it is anyway may be set."""
        setter = self.world.classes.attribute(type(obj), "__setattr__")
        if type(setter) is FunctionType:
            return self.world.calls.invoke(setter, obj, name, value)
        value = opened(value)
        if self.takes_no_attribute(obj, name):
            native(setattr, obj, name, self.world.materialize.for_c(value))  # to be told so
        if issubclass(type(obj), type) and setter is type.__setattr__:
            return self.world.classes.write(obj, name, value)
        texts = type(obj) is FunctionType and type(value) is str and hasattr(obj, name)
        if texts and opened(self.world.functions.attribute(obj, name)) == value:
            return None
        refuse(breaks.ATTRIBUTE_WRITE, f"attribute {name!r} set on a {type(obj).__name__}")

    @acts_for_program
    def generic_store(self, view: View, obj: Any, name: str, value: Any) -> None:
        """`object.__setattr__` on an outside instance."""
        classes = self.world.classes
        found = classes.attribute(type(obj), name)
        kind = type(found)
        if kind is property:
            if found.fset is None:
                native(setattr, obj, name, value)
            self.world.calls.invoke(classes.accessor(found, "fset", type(obj)), obj, value)
        elif kind is GetSetDescriptorType:
            refuse(breaks.ATTRIBUTE_WRITE, f"{name} set on an outside {type(obj).__name__}")
        elif found is not MISSING and kind is not MemberDescriptorType and classes.describes(kind, "__set__"):
            self.world.calls.invoke(kind.__set__, classes.descriptor(found, type(obj)), obj, value)
        elif kind is MemberDescriptorType or own_dictionary(obj) is not None:
            view.write(name, value)
        else:
            native(object.__setattr__, obj, name, value)  # to be told that there is no place for it

    def delete(self, obj: Any, name: str) -> None:
        obj = opened(obj)
        world = self.world
        view = world.attributes.views.get(id(obj))
        if type(obj) in ABSTRACT:
            return world.abstract(obj).delete_attribute(obj, name)
        if type(obj) is FakeTensor:
            return world.tensors.delete(obj, name)
        if view is None and not self.is_fixed(obj):
            found = world.classes.attribute(type(obj), name)
            if type(found) is property:
                world.classes.accessor(found, "fdel", type(obj))
            native(delattr, obj, name)
            return
        deleter = world.classes.attribute(type(obj), "__delattr__") if issubclass(type(obj), type) else None
        if type(deleter) is FunctionType:
            world.calls.invoke(deleter, obj, name)
            return
        if view is None and issubclass(type(obj), threading.local):
            own = world.attributes.of_thread(obj)
            if not world.containers.contains(own, name):
                raise AttributeError(name)  # which is all that C says
            world.containers.delete(own, name)
            return
        if view is None or issubclass(type(obj), (type, types.ModuleType)):
            if self.takes_no_attribute(obj, name):
                native(delattr, obj, name)  # to be told so
            refuse(breaks.ATTRIBUTE_WRITE, f"attribute {name!r} deleted from a {type(obj).__name__}")
        deleter = world.classes.attribute(type(obj), "__delattr__")
        if type(deleter) is FunctionType:
            world.calls.invoke(deleter, obj, name)
        else:
            self.generic_delete(view, obj, name)

    @acts_for_program
    def generic_delete(self, view: View, obj: Any, name: str) -> None:
        found = self.world.classes.attribute(type(obj), name)
        kind = type(found)
        if kind is MemberDescriptorType:
            if self.world.attributes.slot(view, obj, found, name) is MISSING:
                raise AttributeError(name)  # which is all that C says
        elif kind is property and found.fdel is not None:
            self.world.calls.invoke(self.world.classes.accessor(found, "fdel", type(obj)), obj)
            return
        elif found is not MISSING and self.world.classes.describes(kind, "__delete__"):
            self.world.calls.invoke(kind.__delete__, self.world.classes.descriptor(found, type(obj)), obj)
            return
        elif own_dictionary(obj) is None:
            native(object.__delattr__, obj, name)  # to be told that there is no such thing
        elif self.world.attributes.own(view, obj, name) is DELETED:
            raise AttributeError(
                f"'{type(obj).__name__}' object has no attribute '{name}'", name=name, obj=obj
            )
        view.write(name, DELETED)

    def takes_no_attribute(self, obj: Any, name: str) -> bool:
        """Whether an object of a builtin type has no place for an attribute."""
        cls = type(obj)
        if isinstance(obj, type):
            return bool(obj.__flags__ & IMMUTABLE_TYPE)
        if not cls.__flags__ & IMMUTABLE_TYPE or class_attribute(cls, "__setattr__") is not SETTER:
            return False
        stores = hasattr(type(class_attribute(cls, name)), "__set__")
        return name == "__class__" or not (cls.__dictoffset__ or stores)

    def is_fixed(self, obj: Any) -> bool:
        """An outside object that is guarded by identity and has no view: functions, classes, descriptors."""
        if issubclass(type(obj), (type, FunctionType, types.ModuleType)):
            # even if it was not wrapped, but found on a class, say
            return not self.world.created.has(obj)
        known = self.world.inputs.known.get(id(obj))
        return known is not None and known.value is obj and id(obj) not in self.world.containers.shadows
