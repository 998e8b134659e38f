"""What C code is shown of a trace's values.

C sees what it is given, so before it looks at a value that is opened, and so is all it holds, in
place: opening is no change. What C may find out about instances - their class's special methods,
whether two of them are one object - is guarded here too; what it could read behind the door's back
is not shown at all.
"""

from __future__ import annotations

import collections
import ctypes
import decimal
import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.per_code import PerCode
from framelift.core.sentinels import MISSING
from framelift.features.numpy.arrays import Array
from framelift.graph import op_memory
from framelift.graph.symbols import SYMBOLIC, settled
from framelift.guards.guard import Check
from framelift.guards.hashing import is_hashed_with_effects
from framelift.guards.sources import Access
from framelift.interpreter.pending import Pending, opened
from framelift.trace.attribute_writes import AttributeWrites
from framelift.trace.decimals import context_text
from framelift.trace.door import is_ours
from framelift.trace.input_wrapping import BUILTINS, DICT_VIEWS, IMMUTABLE_TYPE

native = _frame.native

ATOMS = op_memory.ATOMS | {
    bytes,
    range,
    type(NotImplemented),
    torch.Size,
    type,
    types.ModuleType,
}
"""Types whose values hold nothing that could be pending."""

SPECIAL_NAMES_OF_C = """
    eq ne lt le gt ge hash bool len length_hint iter next contains getitem missing reversed call
    index int float complex round trunc floor ceil str repr format add radd iadd sub rsub isub mul
    rmul imul matmul rmatmul imatmul truediv rtruediv itruediv floordiv rfloordiv ifloordiv mod
    rmod imod divmod rdivmod pow rpow ipow lshift rlshift ilshift rshift rrshift irshift and rand
    iand or ror ior xor rxor ixor neg pos abs invert getattr getattribute class bytes fspath
"""
SPECIALS = tuple(f"__{name}__" for name in SPECIAL_NAMES_OF_C.split())
"""The methods that C looks up on a class by itself."""

SHOWING_ADDRESSES = frozenset({types.FunctionType, types.CellType, memoryview, types.MethodWrapperType})
"""Types of which the text is not the default one, and tells the address all the same."""

FEW = 16
"""Up to so many pairs of objects are kept apart pair by pair; of more, each is kept the object it is."""


class Address(int):
    """`id()` of an object of the trace, or of the thread: good for telling them apart, as memo tables do."""

    def leaks(self, *_: Any) -> Any:
        raise Break(breaks.IDENTITY, "the value of id()")

    for _name in set(vars(int)) - {"__new__", "__eq__", "__ne__", "__hash__", "__bool__", "__doc__"}:
        if callable(vars(int)[_name]) and _name not in ("__getattribute__", "__getnewargs__"):
            locals()[_name] = leaks


Seen = dict[int, Any]
"""What one native call is shown, by id."""


class SeenByTorch(dict[int, Any]):
    """What a torch function is shown: it takes symbols for numbers. To other C code they would be objects."""


Shower = Callable[["Exposure", Any, Seen], Any]
SHOWERS: dict[type, Shower] = {}
"""Exact type -> how its values are shown; other types are judged once by `shower_for`."""
_judged: PerCode[Shower] = PerCode()


class Exposure(AttributeWrites):
    def for_c(self, value: Any) -> Any:
        """A value that C code may look into, opened all the way down."""
        return self.shown(value, {})

    def for_torch(self, value: Any) -> Any:
        """The same for a torch function, which takes symbols."""
        return self.shown(value, SeenByTorch())

    def shown(self, value: Any, seen: Seen) -> Any:
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        if cls in ATOMS or id(value) in seen:
            if (
                cls is torch.Size
                and self.recorder.builder.symbols is not None
                and type(seen) is not SeenByTorch
            ):
                return settled(value)
            return value
        if cls in SYMBOLIC:
            return value if type(seen) is SeenByTorch else settled(value)
        seen[id(value)] = value
        if cls is FakeTensor:
            return value
        shower = SHOWERS.get(cls) or _judged.get(cls) or _judged.set(cls, shower_for(cls))
        return shower(self, value, seen)

    def consumed(self, value: Any, seen: Seen) -> Any:
        """An argument that C goes over: of an iterator each item is opened when C comes to it. C gets another
        iterator then, so it must be one that neither it nor the program gets to see again."""
        value = opened(value)
        if not is_iterator(type(value)):
            return self.shown(value, seen)
        self.expose(value, type(value))
        return opening(self, value)

    def glimpsed(self, value: Any) -> Any:
        """A value that C goes over without looking at its elements."""
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        if cls in SYMBOLIC:
            return settled(value)
        if cls not in ATOMS and cls is not FakeTensor:
            self.expose(value, cls)
        return value

    def expose(self, value: Any, cls: type) -> None:
        """C may look the special methods of the value's class up."""
        if cls is Array:
            self.refuse(breaks.NUMPY, "an array in a native operation")
        if self.is_opaque(value):
            reason = breaks.OUTSIDE_ITERATOR if is_iterator(cls) else breaks.OPAQUE_OBJECT
            self.refuse(reason, f"a {cls.__module__}.{cls.__qualname__} in a native operation")
        if not cls.__flags__ & IMMUTABLE_TYPE and cls not in self.exposed:
            self.exposed.add(cls)
            for name in SPECIALS:
                self.special_of_c(cls, name)

    # ---- identity

    def key(self, value: Any) -> Any:
        """A value about to be hashed: objects that are hashed by address are fixed."""
        if type(value) in ATOMS and type(value) is not torch.Size:
            return value
        seen: Seen = {}
        value = self.shown(value, seen)
        self.fix(seen)
        return value

    def check_hash(self, key: Any) -> None:
        """A shadow's keys are hashed while the trace runs, which the program must not notice."""
        if is_hashed_with_effects(key):
            self.refuse(breaks.EFFECT, f"{type(key).__qualname__}.__hash__")

    def fix(self, seen: Seen) -> None:
        for value in self.identities(seen):
            self.guard_identity(value)

    def guard_identity(self, value: Any) -> None:
        known = self.outside_of(value)
        if known is not None and known.source.access is not Access.CONST:
            self.guard(known.source, Check.IS, known.value)

    def outside_of(self, value: Any) -> Any:
        at = self.recorder.inputs.index_of.get(id(value))
        return self.known.get(id(self.recorder.inputs.entries[at][1] if at is not None else value))

    def keep_apart(self, left: Seen, right: Seen) -> None:
        """C compares these: that two outside objects are not one, which decides it, is guarded."""
        pairs = [
            (a, b)
            for a in self.identities(left)
            for b in self.identities(right)
            if a is not b and type(a) is type(b)
        ]
        if len(pairs) > FEW:
            self.fix({**left, **right})
            return
        for a, b in pairs:
            mine, other = self.outside_of(a).source, self.outside_of(b).source
            if mine is not other and not mine.access is other.access is Access.CONST:
                self.guard(mine, Check.NOT_SAME_AS, other)

    def identities(self, seen: Seen) -> list[Any]:
        """The outside objects that equal only themselves."""
        return [
            value for value in seen.values() if self.outside_of(value) is not None and self.is_unique(value)
        ]

    def is_unique(self, value: Any) -> bool:
        cls = type(value)
        if cls is FakeTensor:
            return True
        if cls is types.FunctionType:
            return self.is_made_anew(value)
        return id(value) in self.views and self.class_attribute(cls, "__eq__") is object.__eq__

    def fix_addresses(self, seen: Seen) -> None:
        """Before the program is told a hash that depends on where these are."""
        for value in seen.values():
            cls = type(value)
            if cls is Address:
                value.leaks()
            if cls is FakeTensor or is_hashed_by_address(value):
                if cls is FakeTensor or self.is_made(value):
                    self.refuse(breaks.IDENTITY, f"hash() of a {cls.__name__}")
                self.guard_identity(value)
            if issubclass(cls, frozenset):
                held: Seen = {}
                for item in frozenset.__iter__(value):
                    self.shown(item, held)
                self.fix_addresses(held)

    # ---- text

    def refuse_addresses(self, seen: Seen, fn: Any) -> None:
        """The default text of an object is its address, which is another one at run time."""
        for n, value in enumerate(seen.values()):
            cls = type(value)
            if cls is Address:
                value.leaks()
            if n == 0 and fn is format and self.class_attribute(cls, "__format__") is not object.__format__:
                continue  # what it holds may be shown all the same
            told = cls in SHOWING_ADDRESSES or is_ours(cls) or is_bound_to_instance(value)
            if self.shows_address(cls, fn) or (told and self.is_made(value)):
                self.refuse(breaks.IDENTITY, f"the default text of a {cls.__qualname__}")

    def is_made(self, value: Any) -> bool:
        """Whether the trace has made a function, or what stands for one."""
        known = self.known.get(id(value))
        return known is None or known.value is not value or self.is_made_anew(value)

    def shows_address(self, cls: type, fn: Any) -> bool:
        if fn not in (repr, ascii) and self.class_attribute(cls, "__str__") is not object.__str__:
            return False
        return self.class_attribute(cls, "__repr__") is object.__repr__


def is_hashed_by_address(value: Any) -> bool:
    by_address: Any = object.__hash__
    return type(value).__hash__ is by_address or is_bound_to_instance(value)


def is_bound_to_instance(value: Any) -> bool:
    """Whether it is a C function's bound method: its text has the address of what it is bound to."""
    kinds = (types.ModuleType, type, type(None))
    return type(value) in BUILTINS and not issubclass(type(value.__self__), kinds)


# ---- how each kind of value is shown


def shows(*classes: type) -> Callable[[Shower], Shower]:
    def register(shower: Shower) -> Shower:
        SHOWERS.update(dict.fromkeys(classes, shower))
        return shower

    return register


def show_list(world: Exposure, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(list.__iter__(value)):
        now = world.shown(item, seen)
        if now is not item:
            list.__setitem__(value, n, now)
    return value


def show_deque(world: Exposure, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(list(collections.deque.__iter__(value))):
        now = world.shown(item, seen)
        if now is not item:
            collections.deque.__setitem__(value, n, now)
    return value


def show_mapping(world: Exposure, value: Any, seen: Seen) -> Any:
    for key, item in list(dict.items(value)):
        now = world.shown(item, seen)
        if now is not item:
            dict.__setitem__(value, key, now)
    return value


def show_defaulting(world: Exposure, value: Any, seen: Seen) -> Any:
    world.shown(value.default_factory, seen)
    return show_mapping(world, value, seen)


def show_tuple(world: Exposure, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(tuple.__iter__(value)):
        now = world.shown(item, seen)
        if now is not item:
            replace_item(value, n, now)
    return value


def replace_item(items: tuple[Any, ...], n: int, value: Any) -> None:
    """Opens an element of a tuple where it is: another tuple would be another object to the program.

    Only the trace has a tuple with something pending in it, and nobody has asked for its hash yet.
    """
    before = tuple.__getitem__(items, n)
    place_in(id(items) + tuple.__basicsize__ + n * tuple.__itemsize__, value, before)


def place_in(address: int, value: Any, before: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    ctypes.c_void_p.from_address(address).value = id(value)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(before))


@shows(slice)
def show_slice(world: Exposure, value: slice, seen: Seen) -> Any:
    """A slice of symbols is settled where it is, as the elements of a tuple are opened."""
    for n, part in enumerate((value.start, value.stop, value.step)):
        now = world.shown(part, seen)
        if now is not part:
            place_in(id(value) + object.__basicsize__ + n * ctypes.sizeof(ctypes.c_void_p), now, part)
    return value


def show_iterator(world: Exposure, value: Any, seen: Seen) -> Any:
    """What it goes over. What is put there later is not seen to, see `consumed`."""
    world.expose(value, type(value))
    for of in gc.get_referents(value):
        world.shown(of, seen)
    return value


def opening(world: Exposure, iterator: Any) -> Iterator[Any]:
    """Hands an iterator's items to C code, opened one by one."""
    while (item := world.advance(iterator)) is not MISSING:
        yield world.for_c(item)


@shows(*DICT_VIEWS, types.MappingProxyType)
def show_dictionary_view(world: Exposure, value: Any, seen: Seen) -> Any:
    world.expose(value, type(value))
    for of in gc.get_referents(value):
        world.shown(of, seen)
    return value


@shows(types.FunctionType)
def show_function(world: Exposure, value: types.FunctionType, seen: Seen) -> Any:
    return value


@shows(types.MethodType)
def show_method(world: Exposure, value: types.MethodType, seen: Seen) -> Any:
    world.shown(value.__self__, seen)
    return value


@shows(classmethod, staticmethod)
def show_wrapped(world: Exposure, value: Any, seen: Seen) -> Any:
    world.expose(value, type(value))
    world.shown(value.__func__, seen)
    return value


@shows(functools.partial)
def show_partial(world: Exposure, value: functools.partial[Any], seen: Seen) -> Any:
    for part in (value.func, value.args, value.keywords):
        world.shown(part, seen)
    return value


@shows(decimal.Decimal)
def show_decimal(world: Exposure, value: decimal.Decimal, seen: Seen) -> Any:
    """What C does with one depends on a context of the thread's."""
    world.guard(world.root.decimal_context(), Check.EQUAL, context_text())
    return value


@shows(types.SimpleNamespace)
def show_namespace(world: Exposure, value: Any, seen: Seen) -> Any:
    if id(value) in world.views:
        world.refuse(breaks.OPAQUE_OBJECT, "an outside SimpleNamespace, which C compares by its attributes")
    show_mapping(world, value.__dict__, seen)
    return value


def show_exception(world: Exposure, value: BaseException, seen: Seen) -> Any:
    world.expose(value, type(value))
    world.looking_at(value)
    world.shown(value.args, seen)
    return value


def show_instance(world: Exposure, value: Any, seen: Seen) -> Any:
    world.expose(value, type(value))
    return value


def exposing(shower: Shower) -> Shower:
    """For subclasses of builtin containers: what is in them, and their own methods."""

    def show(world: Exposure, value: Any, seen: Seen) -> Any:
        world.expose(value, type(value))
        return shower(world, value, seen)

    return show


CONTAINERS: dict[type, Shower] = {
    list: show_list,
    tuple: show_tuple,
    collections.defaultdict: show_defaulting,
    dict: show_mapping,
    collections.deque: show_deque,
    BaseException: show_exception,
    types.SimpleNamespace: show_namespace,
}
SHOWERS |= CONTAINERS


def shower_for(cls: type) -> Shower:
    for base, shower in CONTAINERS.items():
        if issubclass(cls, base):
            return exposing(shower)
    return show_iterator if is_iterator(cls) else show_instance


def is_iterator(cls: type) -> bool:
    """Whether it is an iterator that C implements."""
    return hasattr(cls, "__next__") and cls.__module__ in ("builtins", "itertools", "collections")
