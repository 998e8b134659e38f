"""Classes: what they say of a name, guarded as such, and of what class an object is."""

from __future__ import annotations

import abc
import types
import typing
from collections import Counter
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _guards
from framelift._frame import native
from framelift.core import breaks, policy
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.core.weakly import weakly
from framelift.graph.front_end import load_symbolic_shapes
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC
from framelift.guards.guard import SPECIAL_METHODS, ClassFact, ClassGuard, SpecialMethods
from framelift.guards.kinds import Access, Check
from framelift.interpreter.lookups import class_attribute, is_ours, stood_for
from framelift.interpreter.pending import Pending, opened
from framelift.trace.part import Part
from framelift.trace.scopes import CONSTANTS
from framelift.trace.shadows import DELETED, View
from framelift.trace.type_rules import ABSTRACT, IMMUTABLE_TYPE, is_ordinary

CONTAINERS = (list, dict, set)
"""What descriptors may be derived from, and hold their own state in."""
DESCRIBING = ("__get__", "__set__", "__delete__", "__set_name__")
CLASS_OF: Any = vars(object)["__class__"]
PROTOCOL_ATTRIBUTES: Any = vars(typing)["_get_protocol_attrs"]
MRO: Any = vars(type)["__mro__"]
PLAIN_METHODS: set[Any] = {
    FunctionType,
    type(_guards.MISSING),
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
}
"""Types of what a class has under the name of a method that say nothing else than what they are."""


@dataclass(frozen=True)
class SuperOfTensor:
    """`super(start, tensor)`: of the tensor's class, which the fake that stands for it is not of."""

    __self__: Any
    __thisclass__: type
    __self_class__: type


class Classes(Part):
    """Lookups in classes from outside. Each is a guard: `(class, name) -> the object found`."""

    def start(self) -> None:
        self.guards: dict[tuple[type, str], ClassFact] = {}
        self.found: dict[tuple[type, str], Any] = {}
        self.asked: Counter[tuple[type, str]] = Counter()
        """How many lookups that found a number may have relied on which one that is."""
        self.varied: set[tuple[type, str]] = set()
        """Those that found a number that is a symbol."""
        self.views: dict[int, View] = {}
        """id of an outside class that the program has set attributes of -> these."""
        self.written: dict[int, Any] = {}
        """What these hold, or held, by id."""
        self.registered: list[tuple[Any, Any, bool]] = []
        """What abstract base classes have said of classes: (the abstract one, the other, whether it is)."""

    def attribute(self, cls: type, name: str) -> Any:
        """What a lookup in the class and its bases finds now; MISSING if nothing."""
        found = self.found.get((cls, name), DELETED)
        if found is DELETED:
            if (view := self.views.get(id(cls))) is not None and name in view.values:
                return view.values[name]
            found = self.attribute_before(cls, name)
        return self.attribute_now(cls, name, found) if self.views else found

    def attribute_now(self, cls: type, name: str, before: Any) -> Any:
        for base in MRO.__get__(cls):
            view = self.views.get(id(base))
            if view is not None and name in view.values:
                return view.values[name]
            if name in base.__dict__:
                break
        return before

    def is_own(self, cls: type, name: str) -> bool:
        """Whether the class has a name itself, and not from a base."""
        view = self.views.get(id(cls))
        return name in cls.__dict__ or (view is not None and name in view.values)

    def write(self, cls: type, name: str, value: Any) -> None:
        """Sets an attribute of an outside class: data, which C has no business with."""
        before = self.attribute(cls, name)
        is_data = not any(hasattr(type(each), method) for each in (value, before) for method in DESCRIBING)
        special = name.startswith("__") or self.attribute(type(cls), name) is not MISSING
        if special or not is_data or not is_looked_up_here(cls):
            refuse(breaks.ATTRIBUTE_WRITE, f"attribute {name!r} set on a class")
        view = self.views.setdefault(
            id(cls), View(self.world.inputs.root.constant(cls, cls.__qualname__), cls)
        )
        self.asked[cls, name] -= 1  # any number would do
        view.write(name, value)
        self.written[id(value)] = value

    def attribute_before(self, cls: type, name: str) -> Any:
        """What a lookup finds in the class as it came in, which is guarded from here on."""
        index = (cls, name)
        found = class_attribute(cls, name)
        if cls in self.world.created.classes:
            self.guard_inherited(cls, name)
            return found  # not kept: the program that made the class may change it
        if type(found) in (int, float) and self.world.inputs.dynamism.may_vary:
            self.asked[index] += 1
        else:
            self.found[index] = found
        if not cls.__flags__ & IMMUTABLE_TYPE and not is_ours(cls):
            self.guards[index] = ClassGuard(cls, name, found)
        return found

    def varying(self, cls: type, name: str, found: Any) -> Pending | None:
        """A number that a lookup has found in the class itself, if it was another one before."""
        if (cls, name) not in self.guards or cls.__dict__.get(name, MISSING) is not found:
            return None
        inputs = self.world.inputs
        place = inputs.root.of_class(cls).child(Access.DICT).child(Access.KEY, name)
        if not inputs.varies(place, found):
            return None
        self.world.guards.add(place, Check.TYPE, type(found))
        self.varied.add((cls, name))
        self.asked[cls, name] -= 1
        return Pending(inputs, place, found)

    def facts(self) -> list[ClassFact]:
        """All guards, but for numbers of which each lookup was of one that varies."""
        return [
            fact for index, fact in self.guards.items() if index not in self.varied or self.asked[index] > 0
        ]

    def guard_inherited(self, cls: type, name: str) -> None:
        """A class that the trace has made may find a name, or not, in its bases from outside."""
        for base in cls.__mro__:
            if base not in self.world.created.classes:
                self.attribute(base, name)
            if name in base.__dict__:
                break

    def guard_bases(self, cls: type) -> None:
        """What a class is derived from, in order: `isinstance` and `super` go by that."""
        if (cls, "mro()") in self.guards:
            return
        if not cls.__flags__ & IMMUTABLE_TYPE and cls not in self.world.created.classes and not is_ours(cls):
            self.guards[cls, "mro()"] = ClassGuard(cls, "mro()", MRO.__get__(cls))

    def describes(self, kind: type, method: str) -> bool:
        """Whether what a class has is a descriptor: its own class decides, and may change too."""
        return self.attribute(kind, method) is not MISSING

    def descriptor(self, found: Any, cls: type) -> Any:
        """What a class has found, as its own methods may look at it: wrapped, if it is from outside."""
        kind = type(found)
        if not (is_ordinary(kind) or issubclass(kind, CONTAINERS)) or self.is_made_for(cls, found):
            return found
        return self.descriptor_input(found, cls)

    def descriptor_input(self, found: Any, cls: type) -> Any:
        place = self.world.inputs.root.constant(found, f"a {type(found).__qualname__} of {cls.__qualname__}")
        return self.world.inputs.load(found, place)

    def found_by_c(self, found: Any, obj: Any, cls: Any = None) -> Any:
        """The descriptor of which C calls a method for an object, or a class: as that one may look at it."""
        world = self.world
        if id(found) in world.inputs.known or id(found) in world.attributes.views:
            return found
        for owner in (type(obj), cls) if issubclass(type(cls), type) else (type(obj),):
            for base in MRO.__get__(owner):
                if base not in world.created.classes and any(found is own for own in vars(base).values()):
                    return self.descriptor(found, owner)
        return found

    def accessor(self, found: Any, name: str, cls: type) -> Any:
        """What a property or the like calls, which may be an object from outside."""
        called = getattr(found, name)
        return called if type(called) is FunctionType else self.descriptor(called, cls)

    def special_of_c(self, cls: type, name: str) -> Any:
        """C may look a special method up, and hand what it finds to that one's own `__get__` or `__call__`:
        this must know it for an object from outside."""
        found = self.attribute(cls, name)
        if found is not MISSING and type(found) is not FunctionType:
            self.descriptor(found, cls)
        return found

    def specials_of_c(self, cls: type) -> None:
        """The same for all of these methods."""
        if is_ours(cls):
            return
        if self.views or cls in self.world.created.classes:
            for name in SPECIAL_METHODS:
                self.special_of_c(cls, name)
            return
        found = _guards.look_up(cls, SPECIAL_METHODS)
        self.guards[cls, "special methods"] = SpecialMethods(cls, found)
        for kind in set(map(type, found)) - PLAIN_METHODS:
            if is_ordinary(kind):
                for method in found:
                    if type(method) is kind:
                        self.descriptor(method, cls)

    def special(self, obj: Any, name: str) -> Any:
        """A special method, bound: looked up on the type, as CPython does; MISSING if there is none."""
        obj = opened(obj)
        found = self.attribute(type(obj), name)
        if found is MISSING:
            return MISSING
        if type(found) is FunctionType:
            return MethodType(found, obj)
        getter = getattr(type(found), "__get__", None)
        return found if getter is None else self.world.attributes.got(getter, found, obj, type(obj))

    def own_method(self, value: Any, cls: type, name: str) -> FunctionType | None:
        """A special method that is Python code: it is interpreted, and looks at things itself."""
        if cls.__flags__ & IMMUTABLE_TYPE:
            return None
        found = self.attribute(cls, name)
        return found if type(found) is FunctionType else None

    def is_made_for(self, cls: type, found: Any) -> bool:
        """Whether the trace has made the class that has what was found: a base of it may be from outside."""
        created = self.world.created
        return cls in created.classes and any(
            found is own for base in cls.__mro__ if base in created.classes for own in vars(base).values()
        )

    def load(self, cls: type, name: str) -> Any:
        view = self.world.attributes.views.get(id(cls))
        if view is not None and name in view.values:
            return view.values[name]
        meta = type(cls)
        if not (cls.__flags__ & IMMUTABLE_TYPE or cls in self.world.created.classes):
            self.world.guards.add(self.world.inputs.root.constant(cls, cls.__qualname__), Check.TYPE, meta)
        getattribute = self.attribute(meta, "__getattribute__")
        if type(getattribute) is FunctionType:
            return self.world.attributes.by_getattribute(getattribute, cls, name)
        of_meta = self.attribute(meta, name)
        if of_meta is not MISSING and hasattr(type(of_meta), "__set__"):
            if type(of_meta) is property:
                return self.world.calls.invoke(self.accessor(of_meta, "fget", meta), cls)
            return self.load_getset(cls, name)
        found = self.attribute(cls, name)
        if found is not MISSING:
            return self.world.attributes.bound(found, None, cls, name)
        if of_meta is not MISSING:
            return self.world.attributes.bound(of_meta, cls, meta, name)
        getter = self.attribute(meta, "__getattr__")
        if getter is not MISSING:
            return self.world.calls.invoke(getter, cls, name)
        return native(getattr, cls, name)  # to be told that there is none

    def load_getset(self, cls: type, name: str) -> Any:
        """`__name__`, `__mro__`, `__dict__` and so on: facts about the class, which is one object."""
        if cls in self.world.created.classes or cls.__flags__ & IMMUTABLE_TYPE:
            return native(getattr, cls, name)
        place = self.world.inputs.root.constant(cls, cls.__qualname__)
        if name == "__dict__":
            self.refuse_written(cls)
            self.world.guards.add(place.child(Access.DICT), Check.KEYS, tuple(vars(cls)))
            return types.MappingProxyType({own: self.item(cls, own) for own in vars(cls)})
        self.attribute(cls, name)  # some of these are had from there
        return Pending(self.world.inputs, place.child(Access.NATIVE_ATTR, name), native(getattr, cls, name))

    def item(self, cls: type, name: str) -> Any:
        """What a class's own dictionary has: functions and descriptors are opened, since C looks at them."""
        found = self.attribute(cls, name)
        place = self.world.inputs.root.constant(found, f"{cls.__qualname__}.{name}")
        if self.describes(type(found), "__get__"):
            return self.world.inputs.load(found, place)
        return Pending(self.world.inputs, place, found)

    def refuse_written(self, *classes: type) -> None:
        if any(id(cls) in self.views for cls in classes):
            refuse(breaks.ATTRIBUTE_WRITE, "the names of a class after one of its attributes was set")

    def names(self, cls: type) -> dict[str, Any]:
        self.refuse_written(*MRO.__get__(cls))
        names: dict[str, Any] = {}
        for base in cls.__mro__:
            if not (base.__flags__ & IMMUTABLE_TYPE or base in self.world.created.classes):
                place = self.world.inputs.root.constant(base, base.__qualname__)
                self.world.guards.add(place.child(Access.DICT), Check.KEYS, tuple(vars(base)))
            names |= dict.fromkeys(vars(base))
        self.guard_bases(cls)
        return names

    def class_of(self, obj: Any) -> type:
        """`type(obj)` as the program should see it."""
        if type(obj) is FakeTensor:
            return self.world.recorder.subclasses.class_of(obj)
        if type(obj) in SYMBOLIC:
            return PYTHON_TYPES[type(obj)]
        if type(obj) in ABSTRACT:
            return self.world.abstract(obj).class_of(obj)
        return stood_for(type(obj))

    @acts_for_program
    def super_of(self, start: Any, obj: Any) -> Any:
        """`super(start, obj)`."""
        if type(obj) is FakeTensor and issubclass(self.class_of(obj), start):
            return SuperOfTensor(obj, start, self.class_of(obj))
        return super(start, obj)

    def type_of(self, value: Any) -> type:
        """`type(value)`; a constant that is only asked for its type is guarded for that alone."""
        if type(value) is Pending and value.opened is MISSING and type(value.value) in CONSTANTS:
            self.world.guards.add(value.source, Check.TYPE, type(value.value))
            return type(value.value)
        return self.class_of(opened(value))

    def guard_check(self, classes: Any, method: str) -> None:
        """That a metaclass has, or has not, an answer of its own to `isinstance` and `issubclass`."""
        if issubclass(type(classes), types.UnionType):
            classes = classes.__args__
        if issubclass(type(classes), tuple):
            for item in classes:
                self.guard_check(item, method)
        elif not type(classes).__flags__ & IMMUTABLE_TYPE:
            self.special_of_c(type(classes), method)

    def note_registered(self, fn: Any, args: list[Any], answer: Any) -> None:
        """Of what an abstract base class has answered, as C does it. A class that is one stays one while the
        process lives; others may be registered. In another process both may be otherwise."""
        if answer is not True:
            load_symbolic_shapes()  # which registers more
            self.world.guards.add(
                self.world.inputs.root.registrations(), Check.EQUAL, _guards.registrations()
            )
        if fn.__name__ == "_abc_subclasscheck":
            self.registered.append((weakly(args[0]), weakly(args[1]), answer))
        elif fn.__name__ == "_abc_instancecheck":
            cls = type(args[1])
            if class_attribute(cls, "__class__") is not CLASS_OF:
                self.world.calls.ran_as_it_is = f"{cls.__qualname__}.__class__"
            self.registered.append((weakly(args[0]), weakly(cls), answer))

    def guard_protocol(self, value: Any, protocol: type) -> None:
        """`typing` goes by what an object has, and asks C for it, past all guards."""
        cls, view = type(value), self.world.attributes.views.get(id(value))
        names = PROTOCOL_ATTRIBUTES(protocol)
        kinds = {type(self.attribute(cls, name)) for name in names}
        if self.attribute(cls, "__getattr__") is not MISSING or not kinds <= PLAIN_MEMBERS:
            refuse(breaks.OPAQUE_OBJECT, f"a {cls.__qualname__} as a {protocol.__qualname__}")
        self.attribute(cls, "__getattribute__")
        for name in names:
            if view is not None:
                self.world.attributes.own(view, value, name)


PLAIN_MEMBERS = {type(MISSING), FunctionType, classmethod, staticmethod, int, str, type(None)}

PLAIN_MEMBERS |= {types.MethodDescriptorType, types.WrapperDescriptorType}
"""What a class may have under a name for `hasattr` to run no code of the program's."""


def is_looked_up_here(cls: type) -> bool:
    """Whether all that asks a class for an attribute is code that a trace interprets."""
    if cls.__module__.partition(".")[0] == "torch":
        return not policy.is_leaf(f"{cls.__module__}.{cls.__qualname__}") and not issubclass(
            cls, torch.Tensor
        )
    return policy.is_user_code(cls.__module__)


def protocols_in(classes: Any) -> list[type]:
    """The protocols among what `isinstance` is asked about."""
    if issubclass(type(classes), types.UnionType):
        classes = classes.__args__
    if issubclass(type(classes), tuple):
        return [protocol for item in classes for protocol in protocols_in(item)]
    is_protocol = issubclass(type(classes), type(typing.Protocol)) and vars(classes).get("_is_protocol")
    return [classes] if is_protocol else []  # not asked for, or a metaclass may answer


CHECKED_BY_CLASS: frozenset[Any] = frozenset(
    {type.__instancecheck__, abc.ABCMeta.__instancecheck__, types.UnionType.__instancecheck__}
)
"""The `__instancecheck__`s that look at nothing but an object's class."""


def is_checked_by_class(classes: Any) -> bool:
    if issubclass(type(classes), tuple):
        return all(map(is_checked_by_class, classes))
    bases = [base for base in type(classes).__mro__ if "__instancecheck__" in vars(base)]
    found: Any = vars(bases[0])["__instancecheck__"] if bases else None  # as it is: a descriptor is not asked
    return any(found is check for check in CHECKED_BY_CLASS)
