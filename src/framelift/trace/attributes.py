"""Attributes, as CPython looks them up, on values of a trace.

On an outside instance the lookup is done here step by step - class, data descriptor, instance
dictionary, other descriptor, `__getattr__` - so that each step is guarded and reads see what the
trace has written. On inside objects CPython does it, with the class's part guarded.

What an object is is asked of its type (`issubclass(type(obj), ...)`): `isinstance` would ask the object
too, whose `__class__` may be the program's code.
"""

from __future__ import annotations

import builtins
import threading
import types
from collections.abc import Iterable
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from framelift import _guards
from framelift._frame import native
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING, NULL
from framelift.graph.fakes import PLAIN_CLASSES as TENSORS
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC, settled
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.lookups import class_attribute, is_ours, names_module
from framelift.interpreter.pending import Pending, opened
from framelift.trace.classes import SuperOfTensor
from framelift.trace.part import Part
from framelift.trace.shadows import DELETED, GETATTRIBUTE, View, own_dictionary, slots_of
from framelift.trace.type_rules import ABSTRACT, IMMUTABLE_TYPE, rule_of_type

CLASS = vars(object)["__class__"]
"""What says of what class an object is, unless its class has something else to say."""


OF_PARAMETERS = frozenset(
    name for name, found in vars(torch.nn.Parameter).items() if type(found) is FunctionType
)


def is_of_parameter(cls: type, name: str) -> bool:
    """Whether it is a method that parameters have of their own."""
    return name in OF_PARAMETERS and cls is torch.nn.Parameter


STATE_OF_C = (GetSetDescriptorType, MemberDescriptorType)

UNGUARDED_STATE = (*STATE_OF_C, property)
"""What an attribute of an object with state in C is found by when it is part of that state."""

NAMESPACES = (torch._ops._HigherOrderNamespace, torch._ops._OpNamespace, torch._ops.OpOverloadPacket)
"""Modules of operators, and operators with their overloads, which keep what they were ever asked for."""

ALIKE_IN_NUMBERS = frozenset({"imag", "denominator", "__class__", "__doc__"})
"""Attributes that are the same of all ints, and of all floats."""


MODULE_GETATTR = torch.nn.Module.__getattr__
"""As torch has it: a program may put another in its place."""
CALLED_IN = {property: "fget", classmethod: "__func__", staticmethod: "__func__"}
"""What a class may have -> where that has what C calls or gives."""


class Attributes(Part):
    """Reads attributes. What is set and deleted is in `AttributeWrites`."""

    def start(self) -> None:
        self.views: dict[int, View] = {}
        """id of an outside instance, module or class -> its view."""
        self.own_first: dict[tuple[type, str], Any] = {}
        """Class and name -> what the class has, where an instance's own attribute comes before that."""
        self.supers: dict[tuple[type, type, str], Any] = {}
        """Class of an instance, class that `super` begins behind, name -> the function found."""
        self.registries: set[Source] = set()
        """Where modules keep parameters, buffers or modules in a plain dictionary, as guarded."""

    def load(self, obj: Any, name: str) -> Any:
        if type(obj) is Pending:
            obj = obj.open()
        view = self.views.get(id(obj))
        world = self.world
        if view is not None:
            found = self.own_first.get((type(obj), name), DELETED)
            if found is not DELETED and not world.classes.views:
                value = self.own(view, obj, name)
                if value is not DELETED:
                    return value
                absent = found is MISSING
                return self.absent(obj, type(obj), name, True) if absent else MethodType(found, obj)
            if issubclass(type(obj), type):
                return world.classes.load(obj, name)
            if issubclass(type(obj), types.ModuleType):
                return self.of_module(view, obj, name)
            return self.of_instance(view, obj, name)
        cls = type(obj)
        if cls is FakeTensor:
            return world.tensors.attribute(obj, name)
        if cls in ABSTRACT:
            return world.abstract(obj).attribute(obj, name)
        if cls in SYMBOLIC:
            return self.of_number(obj, name)
        if cls is super or cls is SuperOfTensor:
            return self.of_super(obj, name)
        if issubclass(type(obj), type):
            return world.classes.load(obj, name)
        if cls is MethodType and (name == "__doc__" or class_attribute(cls, name) is MISSING):
            return self.load(obj.__func__, name)  # as C does it, which asks the function itself
        if cls is FunctionType and id(obj) not in world.functions.inside:
            return world.functions.attribute(obj, name)
        if not cls.__flags__ & IMMUTABLE_TYPE:
            found = world.classes.attribute(cls, name)
            getattribute = world.classes.special_of_c(cls, "__getattribute__")
            if type(getattribute) is not FunctionType:
                if type(found) is property and self.is_interpreted_getter(cls, found.fget):
                    return world.calls.invoke(found.fget, obj)  # not by C, to which symbols would be numbers
                if type(found) in CALLED_IN:
                    world.classes.accessor(found, CALLED_IN[type(found)], cls)
                if self.is_of_class(obj, cls, name, found):
                    return self.bound(found, obj, cls, name)
            world.classes.special_of_c(cls, "__getattr__")
        if name == "__class__" and (is_ours(cls) or world.classes.attribute(cls, name) is CLASS):
            return world.classes.class_of(obj)
        if world.inputs.is_opaque(obj):
            return self.of_opaque(obj, cls, name)
        if id(obj) in world.errors.operator_errors:
            world.errors.looking_at(obj)
        if id(obj) in world.inputs.known and rule_of_type(cls).by_identity:
            return self.of_identical(obj, name)
        return world.calls.handed_on(getattr, obj, name)

    def of_number(self, symbol: Any, name: str) -> Any:
        """An attribute of a number that is a symbol."""
        cls = PYTHON_TYPES[type(symbol)]
        if name in ("real", "numerator") and cls is not bool and hasattr(cls, name):
            return symbol
        if name in ALIKE_IN_NUMBERS or class_attribute(cls, name) is MISSING:
            return native(getattr, cls(), name)  # as of any other, or it raises
        return native(getattr, settled(symbol), name)

    def load_method(self, obj: Any, name: str) -> tuple[Any, Any]:
        """The pair (function, self.world), or (NULL, attribute)."""
        if type(obj) is Pending:
            if name == "append" and type(obj.value) is list:
                return list.append, obj
            if name == "get" and type(obj.value) is dict:
                return dict.get, obj
            obj = obj.open()
        cls = type(obj)
        classes = self.world.classes
        if cls is FakeTensor:
            of = self.world.recorder.subclasses.class_of(obj)
            found = classes.attribute(
                of if of not in TENSORS or is_of_parameter(of, name) else torch.Tensor, name
            )
            if type(found) is MethodDescriptorType or type(found) is FunctionType:
                return found, obj
            return NULL, self.world.tensors.attribute(obj, name)
        if cls in ABSTRACT:
            return self.world.abstract(obj).method(obj, name)
        if cls in SYMBOLIC:
            found = class_attribute(PYTHON_TYPES[cls], name)
            if type(found) in (MethodDescriptorType, WrapperDescriptorType):
                return found, obj
            return NULL, self.of_number(obj, name)
        if cls is not super and cls is not SuperOfTensor and not issubclass(type(obj), type):
            found = classes.attribute(cls, name)
            builtin = type(found) is MethodDescriptorType
            if type(found) is FunctionType or (builtin and cls.__flags__ & IMMUTABLE_TYPE):
                view = self.views.get(id(obj))
                if view is None:
                    own = own_dictionary(obj) if cls.__dictoffset__ else None
                    plain = own is None or name not in own
                else:
                    plain = self.own(view, obj, name) is DELETED
                if plain and (builtin or classes.attribute(cls, "__getattribute__") is GETATTRIBUTE):
                    return found, obj
        return NULL, self.load(obj, name)

    def of_instance(self, view: View, obj: Any, name: str) -> Any:
        cls = type(obj)
        getattribute = self.world.classes.attribute(cls, "__getattribute__")
        if type(getattribute) is FunctionType:
            return self.by_getattribute(getattribute, obj, name)
        classes = self.world.classes
        found = classes.attribute(cls, name)
        is_own_first = found is MISSING or type(found) is FunctionType
        if is_own_first and not classes.views and cls not in self.world.created.classes:
            self.own_first[cls, name] = found
        return self.generic(view, obj, name, found=found)

    def by_getattribute(self, getattribute: FunctionType, obj: Any, name: str) -> Any:
        """A class's own way of finding attributes; where it finds nothing `__getattr__` is asked."""
        getter = self.world.classes.attribute(type(obj), "__getattr__")
        getters = self.world.plain_getters
        try:
            known = getters.known(obj, name)
            return getters.ask(getattribute, obj, name) if known is MISSING else known
        except AttributeError as error:
            if getter is MISSING or not self.world.errors.catchable(error):
                raise
        return self.world.calls.invoke(getter, obj, name)

    def generic(self, view: View, obj: Any, name: str, hook: bool = True, found: Any = DELETED) -> Any:
        """`object.__getattribute__`, and `__getattr__` where it finds nothing. The class has `found`."""
        cls = type(obj)
        if found is DELETED:
            found = self.world.classes.attribute(cls, name)
        try:
            value = self.without_hook(view, obj, cls, name, found)
        except AttributeError as error:
            # a descriptor may raise it too
            if not hook or self.world.classes.attribute(cls, "__getattr__") is MISSING:
                raise
            if not self.world.errors.catchable(error):
                raise
            value = MISSING
        return self.absent(obj, cls, name, hook) if value is MISSING else value

    def without_hook(self, view: View, obj: Any, cls: type, name: str, found: Any) -> Any:
        """What class and instance have; MISSING if nothing."""
        classes = self.world.classes
        kind = type(found)
        if found is not MISSING and kind is not FunctionType:
            if kind is property:
                if found.fget is None:
                    return native(getattr, obj, name)
                return self.world.calls.invoke(classes.accessor(found, "fget", cls), obj)
            if kind is MemberDescriptorType and name != "__dict__":  # as a SimpleNamespace has it
                return self.slot(view, obj, found, name)
            if kind is MemberDescriptorType or kind is GetSetDescriptorType:
                return self.builtin(view, obj, name)
            stores = classes.describes(kind, "__set__") or classes.describes(kind, "__delete__")
            if stores and classes.describes(kind, "__get__"):
                return self.got(kind.__get__, found, obj, cls)
        own = self.own(view, obj, name)
        if own is not DELETED:
            return own
        return MISSING if found is MISSING else self.bound(found, obj, cls, name)

    def own(self, view: View, obj: Any, name: str) -> Any:
        """What the instance's own dictionary has; DELETED if nothing, which is guarded."""
        world = self.world
        tape = world.recorder.builder.tape
        if tape.watched and view.source in tape.watched:
            tape.spoil(view.source)
        value = view.values.get(name, MISSING)
        if value is not MISSING:
            return value
        if view.complete or name in view.written:
            return DELETED
        own = own_dictionary(obj)
        if own is None:
            return DELETED
        if name not in own and type(obj) in NAMESPACES:
            native(hasattr, obj, name)
        if view.outside is own:  # of a module: its names are the globals of its functions
            return world.scopes.lookup(view, own, name)
        if id(own) in world.inputs.known:
            world.writes.refuse_changed_dictionary(view, own)
        if name not in own:
            world.guards.add(view.source, Check.NO_ATTR, name)
            return DELETED
        value = view.values[name] = world.guards.found(view.source.child(Access.ATTR, name), own[name])
        return value

    def slot(self, view: View, obj: Any, member: Any, name: str) -> Any:
        """What a slot holds; MISSING if nothing."""
        self.world.recorder.builder.tape.spoil(member)
        value = view.get(name)
        if value is MISSING:
            try:
                raw = member.__get__(obj)
            except AttributeError:
                raw = MISSING
            guards = self.world.guards
            if raw is MISSING:
                guards.add(view.source, Check.NO_SLOT, member)
                value = DELETED
            else:
                value = view.values[name] = guards.found(view.source.child(Access.SLOT, member), raw)
        return MISSING if value is DELETED else value

    def builtin(self, view: View, obj: Any, name: str) -> Any:
        if name == "__dict__":
            if view.complete:
                return view.values
            return Pending(self.world.inputs, view.source.child(Access.DICT), own_dictionary(obj))
        if name == "__class__":
            return type(obj)
        refuse(breaks.INTERNALS, f"{name} of an outside {type(obj).__name__}")

    def view_of_dict(self, source: Source) -> View | None:
        """The view of the instance whose `__dict__` a source is; a module's is one of its namespace."""
        views = (view for view in self.views.values() if view.source is source.base)
        return next((view for view in views if id(view.outside) in self.views), None)

    def whole_dict(self, source: Source, held: dict[str, Any]) -> dict[str, Any]:
        """An instance's `__dict__`, asked for as a value: its view becomes that dictionary."""
        view = self.view_of_dict(source)
        assert view is not None
        View.writes += 1  # from here on nobody sees what is written there
        self.world.plain_getters.stop()
        owner = view.outside
        if owner is builtins:  # every namespace that lacks a name looks there
            refuse(breaks.INTERNALS, "the names of builtins as a dictionary")
        if not view.complete:
            if slots_of(type(owner)):  # a view does not tell the one kind of names from the other
                refuse(breaks.INTERNALS, f"__dict__ of a {type(owner).__qualname__}, which has slots too")
            self.world.guards.add(source, Check.KEYS, tuple(held))
            original = {
                name: Pending(self.world.inputs, view.source.child(Access.ATTR, name), value)
                for name, value in held.items()
            }
            for name in original:
                if name not in view.written and name in view.values:
                    original[name] = view.values[name]
            values = dict(original)
            for name, value in view.changes():
                if value is DELETED:
                    values.pop(name, None)
                else:
                    values[name] = value
            view.original = original
            view.values.clear()
            view.values.update(values)
            view.complete = True
            self.world.inputs.know(view.values, view.values, source)
        return view.values

    def bound(self, found: Any, obj: Any, cls: type, name: str) -> Any:
        """What a class's non-data attribute is on an instance (None: on the class itself)."""
        kind = type(found)
        if kind is FunctionType:
            return found if obj is None else MethodType(found, obj)
        if kind is classmethod:
            fn = self.world.classes.accessor(found, "__func__", cls)
            return MethodType(fn, cls) if type(fn) is FunctionType else found.__get__(obj, cls)
        if kind is staticmethod:
            return found.__func__
        world = self.world
        if world.classes.describes(kind, "__get__"):
            return self.got(kind.__get__, found, obj, cls)
        if world.classes.is_made_for(cls, found) or id(found) in world.classes.written:
            return found
        if (kind is int or kind is float) and (
            varying := world.classes.varying(cls, name, found)
        ) is not None:
            return varying
        return Pending(world.inputs, world.inputs.root.constant(found, f"{cls.__qualname__}.{name}"), found)

    def got(self, getter: Any, found: Any, obj: Any, cls: type) -> Any:
        """What a descriptor gives; those that C implements only bind."""
        if type(getter) is FunctionType:
            return self.world.calls.invoke(getter, self.world.classes.descriptor(found, cls), obj, cls)
        given = native(getter, found, obj, cls)
        if given is not found or cls in self.world.created.classes:
            return given
        return self.world.classes.descriptor_input(found, cls)

    @acts_for_program
    def absent(self, obj: Any, cls: type, name: str, hook: bool) -> Any:
        getter = self.world.classes.attribute(cls, "__getattr__") if hook else MISSING
        if getter is MODULE_GETATTR:
            return self.registered(obj, name)
        if getter is not MISSING:
            return self.world.calls.invoke(getter, obj, name)
        is_slot = type(self.world.classes.attribute(cls, name)) is MemberDescriptorType
        told = f"{cls.__module__}.{cls.__qualname__}" if is_slot and names_module(cls) else cls.__name__
        raise AttributeError(f"'{told}' object has no attribute '{name}'", name=name, obj=obj)

    @acts_for_program
    def registered(self, module: Any, name: str) -> Any:
        """`torch.nn.Module.__getattr__`: a parameter, buffer or submodule."""
        view, world = self.views[id(module)], self.world
        guards, known, blind = world.guards, world.inputs.known, world.containers.blind
        for place in ("_parameters", "_buffers", "_modules"):
            held = self.own(view, module, place)
            if type(held) is Pending and held.source in self.registries and held.opened is MISSING:
                raw = held.value
                if id(raw) not in known and id(raw) not in blind:
                    if name in raw:
                        if place != "_modules":
                            world.inputs.note_read(raw[name])
                        return guards.found(held.source.child(Access.KEY, name), raw[name])
                    guards.add(held.source, Check.NO_KEY, name)
                    continue
            value = MISSING if held is DELETED else world.containers.lookup(held, name)
            if type(held) is Pending and type(held.value) is dict and held.source in world.inputs.glanced:
                self.registries.add(held.source)
            if value is not MISSING:
                if place != "_modules" and type(value) is Pending:
                    world.inputs.note_read(value.value)
                return value
        raise AttributeError(f"'{type(module).__name__}' object has no attribute '{name}'")

    def of_module(self, view: View, module: Any, name: str) -> Any:
        cls = type(module)
        if cls is types.ModuleType:
            return self.of_plain_module(view, module, name)
        getattribute = self.world.classes.attribute(cls, "__getattribute__")
        if type(getattribute) is FunctionType:
            return self.by_getattribute(getattribute, module, name)
        getter = self.world.classes.attribute(cls, "__getattr__")
        try:
            return self.by_module(view, module, name)
        except AttributeError:
            if getter is MISSING:
                raise
        return self.world.calls.invoke(getter, module, name)

    def by_module(self, view: View, module: Any, name: str) -> Any:
        """`ModuleType.__getattribute__`; a class derived from there may have descriptors."""
        cls, classes = type(module), self.world.classes
        if cls is not types.ModuleType:
            found = classes.attribute(cls, name)
            kind = type(found)
            if kind is property and found.fget is not None:
                return self.world.calls.invoke(classes.accessor(found, "fget", cls), module)
            stores = classes.describes(kind, "__set__") or classes.describes(kind, "__delete__")
            if kind not in STATE_OF_C and stores and classes.describes(kind, "__get__"):
                return self.got(kind.__get__, found, module, cls)
        return self.of_plain_module(view, module, name)

    @acts_for_program
    def of_plain_module(self, view: View, module: Any, name: str) -> Any:
        value = view.get(name)
        if value is MISSING:
            value = self.own(view, module, name)
        if value is not DELETED:
            return value
        if name == "__dict__":
            refuse(breaks.INTERNALS, "a module's __dict__ as a value")
        if name == "__class__":
            return type(module)
        found = self.world.classes.attribute(type(module), name)
        if type(found) in STATE_OF_C:
            refuse(breaks.INTERNALS, f"{name} of a module")
        if found is not MISSING:
            return self.bound(found, module, type(module), name)
        hook = self.world.scopes.lookup(view, vars(module), "__getattr__")
        if hook is not DELETED:
            return self.world.calls.invoke(hook, name)
        raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'", name=name, obj=module)

    def of_super(self, obj: Any, name: str) -> Any:
        this, start, cls = obj.__self__, obj.__thisclass__, obj.__self_class__
        if cls is None:
            return native(getattr, obj, name)
        classes, created = self.world.classes, self.world.created.classes
        if not classes.views:
            found = self.supers.get((cls, start, name))
            if found is not None:
                return found if this is cls else MethodType(found, this)
        mro = cls.__mro__
        classes.guard_bases(cls)
        if name != "__class__":
            for base in mro[mro.index(start) + 1 :]:
                found = classes.attribute(base, name)
                if classes.is_own(base, name):
                    if type(found) is FunctionType and not (classes.views or cls in created):
                        self.supers[cls, start, name] = found
                    if type(obj) is SuperOfTensor and issubclass(torch.Tensor, base):
                        return self.world.tensors.of_any_tensor(this, cls, name)
                    if type(found) in STATE_OF_C:
                        return native(getattr, obj, name)
                    if type(found) is property and found.fget and this is not cls:
                        return self.world.calls.invoke(classes.accessor(found, "fget", cls), this)
                    return self.bound(found, None if this is cls else this, cls, name)
        if type(obj) is SuperOfTensor:
            obj = super(cls, cls)  # which has no more
        return native(getattr, obj, name)

    def of_identical(self, obj: Any, name: str) -> Any:
        """What such an object says of itself; what else it has may be the program's."""
        own, source = own_dictionary(obj), self.world.inputs.known[id(obj)].source
        if own is not None and name in own:
            return self.world.guards.found(source.child(Access.ATTR, name), own[name])
        if own is not None:
            self.world.guards.add(source, Check.NO_ATTR, name)
        with torch._C.DisableTorchFunction():
            return native(getattr, obj, name)

    def of_opaque(self, obj: Any, cls: type, name: str) -> Any:
        """Methods can be had: calling them is another question."""
        found = self.world.classes.attribute(cls, name)
        if issubclass(type(obj), threading.local) and not hasattr(type(found), "__set__"):
            own = self.of_thread(obj)
            if self.world.containers.contains(own, name):
                return self.world.containers.load(own, name)
            if found is MISSING:
                return self.absent(obj, cls, name, False)
        own, source, guards = own_dictionary(obj), self.world.inputs.known[id(obj)].source, self.world.guards
        if found is MISSING and own is not None and id(obj) not in self.world.runtime_calls.twins:
            if name in own:
                return guards.found(source.child(Access.ATTR, name), own[name])
            guards.add(source, Check.NO_ATTR, name)
        if found is MISSING and self.answers_in_c(obj, name):
            refuse(breaks.OPAQUE_OBJECT, f"{name} of a {cls.__module__}.{cls.__qualname__}")
        of_exception = type(found) in STATE_OF_C and issubclass(type(obj), BaseException)
        guarded = name in rule_of_type(cls).guarded_state
        if of_exception or (guarded and not source.is_drawn):
            with torch._C.DisableTorchFunction(), unset_fake_temporarily():  # saved tensors are unpacked
                value = getattr(obj, name)
            return guards.found(source.child(Access.NATIVE_ATTR, name), value)
        if guarded:  # the same for each that the region makes
            return native(getattr, obj, name)
        if type(found) in UNGUARDED_STATE:
            refuse(breaks.OPAQUE_OBJECT, f"{name} of a {cls.__module__}.{cls.__qualname__}")
        return native(getattr, obj, name)

    def of_thread(self, obj: Any) -> Any:
        """What the thread has of a `threading.local`: each has its own dictionary."""
        known = self.world.inputs.known.get(id(obj))
        made_anew = class_attribute(type(obj), "__init__") is not object.__init__
        if known is None or (made_anew and not _guards.has_begun(obj)):
            refuse(breaks.OPAQUE_OBJECT, "a threading.local that is made in each thread anew")
        source = known.source.child(Access.THREAD_DICT)
        return opened(Pending(self.world.inputs, source, obj.__dict__))

    def answers_in_c(self, obj: Any, name: str) -> bool:
        """Whether code of C's has something for a name that the class does not show."""
        classes, cls = self.world.classes, type(obj)
        getattribute, fallback = (classes.attribute(cls, n) for n in ("__getattribute__", "__getattr__"))
        if type(getattribute) is FunctionType:
            return False
        try:
            native(getattribute, obj, name)
        except AttributeError:
            return fallback is not MISSING and type(fallback) is not FunctionType
        return True

    def is_interpreted_getter(self, cls: type, getter: Any) -> bool:
        """Whether a property is read by just calling a function of the program's."""
        by_c = is_ours(cls) or self.world.classes.attribute(cls, "__getattr__") is not MISSING
        return type(getter) is FunctionType and not by_c and self.world.calls.interprets(getter)

    def is_of_class(self, obj: Any, cls: type, name: str, found: Any) -> bool:
        """Whether what an inside object has under a name is just the class's, which may be from outside."""
        if found is MISSING or self.world.classes.describes(type(found), "__get__"):
            return False
        return not (cls.__dictoffset__ and name in (own_dictionary(obj) or ()))

    def load_inside(self, obj: Any, name: str) -> Any:
        """`object.__getattribute__` of an object that the trace has made."""
        cls = type(obj)
        found = self.world.classes.attribute(cls, name)
        if self.is_of_class(obj, cls, name, found):
            return self.bound(found, obj, cls, name)
        return self.world.calls.handed_on(object.__getattribute__, obj, name)

    @acts_for_program
    def vars_of(self, obj: Any) -> Any:
        try:
            return self.load(obj, "__dict__")
        except AttributeError:
            raise TypeError("vars() argument must have __dict__ attribute") from None

    def names_of(self, obj: Any) -> Iterable[Any]:
        """What `dir` lists, not sorted."""
        if type(obj) is types.ModuleType and id(obj) in self.views:
            method = self.world.scopes.lookup(self.views[id(obj)], vars(obj), "__dir__")
            if method is not DELETED:
                return self.world.containers.elements(self.world.calls.invoke(method))
        method = self.world.classes.attribute(type(obj), "__dir__")
        if type(method) is FunctionType:
            return self.world.containers.elements(self.world.calls.invoke(method, obj))
        if method not in (object.__dir__, type.__dir__):
            refuse(breaks.UNKNOWN_NATIVE, "dir")
        return self.plain_names_of(obj)

    def plain_names_of(self, obj: Any) -> list[Any]:
        """`object.__dir__` and `type.__dir__`: own names, and those of the classes, nearest first."""
        if type(obj) is FakeTensor or self.world.inputs.is_opaque(obj):
            refuse(breaks.UNKNOWN_NATIVE, "dir")
        if isinstance(obj, type):
            return list(self.world.classes.names(obj))
        has_own = type(obj) not in SYMBOLIC and own_dictionary(obj) is not None
        own = opened(self.load(obj, "__dict__")) if has_own else ()
        return list({**dict.fromkeys(own), **self.world.classes.names(self.world.classes.class_of(obj))})
