"""Materializes values before C code looks at them.

C sees what it is given, so before it looks at a value that is opened, and so is all it holds, in
place: opening is no change. The special methods that C may find on a class are guarded here too.
"""

from __future__ import annotations

import collections
import ctypes
import decimal
import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.per_code import PerCode
from framelift.core.sentinels import MISSING
from framelift.features.numpy.arrays import Array
from framelift.graph import op_memory
from framelift.graph.symbols import SYMBOLIC, settled
from framelift.guards.kinds import Check
from framelift.interpreter.pending import Pending, opened
from framelift.trace.decimals import context_text
from framelift.trace.input_wrapping import DICT_VIEWS, IMMUTABLE_TYPE
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


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


Seen = dict[int, Any]
"""What one native call is shown, by id."""


class SeenByTorch(dict[int, Any]):
    """What a torch function is shown: it takes symbols for numbers. To other C code they would be objects."""


Shower = Callable[["TraceWorld", Any, Seen], Any]


SHOWERS: dict[type, Shower] = {}
"""Exact type -> how its values are shown; other types are judged once by `shower_for`."""


_judged: PerCode[Shower] = PerCode()


class Materialize(Part):
    """Opens what C code is about to look at, as deep as it looks."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.exposed: set[type] = set()
        """Classes whose special methods C may have looked up: all of these are guarded."""

    def for_c(self, value: Any) -> Any:
        """A value that C code may look into, opened all the way down."""
        return self.value(value, {})

    def for_torch(self, value: Any) -> Any:
        """The same for a torch function, which takes symbols."""
        return self.value(value, SeenByTorch())

    def value(self, value: Any, seen: Seen) -> Any:
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        if cls in ATOMS or id(value) in seen:
            if (
                cls is torch.Size
                and self.world.recorder.builder.symbols is not None
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
        return shower(self.world, value, seen)

    def iterable(self, value: Any, seen: Seen) -> Any:
        """An argument that C goes over: of an iterator each item is opened when C comes to it. C gets another
        iterator then, so it must be one that neither it nor the program gets to see again."""
        value = opened(value)
        if not is_iterator(type(value)):
            return self.value(value, seen)
        self.guard_special_methods(value, type(value))
        return opening(self.world, value)

    def shallow(self, value: Any) -> Any:
        """A value that C goes over without looking at its elements."""
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        if cls in SYMBOLIC:
            return settled(value)
        if cls not in ATOMS and cls is not FakeTensor:
            self.guard_special_methods(value, cls)
        return value

    def guard_special_methods(self, value: Any, cls: type) -> None:
        """C may look the special methods of the value's class up."""
        if cls is Array:
            refuse(breaks.NUMPY, "an array in a native operation")
        if self.world.inputs.is_opaque(value):
            reason = breaks.OUTSIDE_ITERATOR if is_iterator(cls) else breaks.OPAQUE_OBJECT
            refuse(reason, f"a {cls.__module__}.{cls.__qualname__} in a native operation")
        if not cls.__flags__ & IMMUTABLE_TYPE and cls not in self.exposed:
            self.exposed.add(cls)
            for name in SPECIALS:
                self.world.classes.special_of_c(cls, name)


# ---- how each kind of value is materialized


def shows(*classes: type) -> Callable[[Shower], Shower]:
    def register(shower: Shower) -> Shower:
        SHOWERS.update(dict.fromkeys(classes, shower))
        return shower

    return register


def show_list(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(list.__iter__(value)):
        now = world.materialize.value(item, seen)
        if now is not item:
            list.__setitem__(value, n, now)
    return value


def show_deque(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(list(collections.deque.__iter__(value))):
        now = world.materialize.value(item, seen)
        if now is not item:
            collections.deque.__setitem__(value, n, now)
    return value


def show_mapping(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for key, item in list(dict.items(value)):
        now = world.materialize.value(item, seen)
        if now is not item:
            dict.__setitem__(value, key, now)
    return value


def show_defaulting(world: TraceWorld, value: Any, seen: Seen) -> Any:
    world.materialize.value(value.default_factory, seen)
    return show_mapping(world, value, seen)


def show_tuple(world: TraceWorld, value: Any, seen: Seen) -> Any:
    for n, item in enumerate(tuple.__iter__(value)):
        now = world.materialize.value(item, seen)
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
def show_slice(world: TraceWorld, value: slice, seen: Seen) -> Any:
    """A slice of symbols is settled where it is, as the elements of a tuple are opened."""
    for n, part in enumerate((value.start, value.stop, value.step)):
        now = world.materialize.value(part, seen)
        if now is not part:
            place_in(id(value) + object.__basicsize__ + n * ctypes.sizeof(ctypes.c_void_p), now, part)
    return value


def show_iterator(world: TraceWorld, value: Any, seen: Seen) -> Any:
    """What it goes over. What is put there later is not seen to, see `consumed`."""
    world.materialize.guard_special_methods(value, type(value))
    for of in gc.get_referents(value):
        world.materialize.value(of, seen)
    return value


def opening(world: TraceWorld, iterator: Any) -> Iterator[Any]:
    """Hands an iterator's items to C code, opened one by one."""
    while (item := world.containers.advance(iterator)) is not MISSING:
        yield world.materialize.for_c(item)


@shows(*DICT_VIEWS, types.MappingProxyType)
def show_dictionary_view(world: TraceWorld, value: Any, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    for of in gc.get_referents(value):
        world.materialize.value(of, seen)
    return value


@shows(types.FunctionType)
def show_function(world: TraceWorld, value: types.FunctionType, seen: Seen) -> Any:
    return value


@shows(types.MethodType)
def show_method(world: TraceWorld, value: types.MethodType, seen: Seen) -> Any:
    world.materialize.value(value.__self__, seen)
    return value


@shows(classmethod, staticmethod)
def show_wrapped(world: TraceWorld, value: Any, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    world.materialize.value(value.__func__, seen)
    return value


@shows(functools.partial)
def show_partial(world: TraceWorld, value: functools.partial[Any], seen: Seen) -> Any:
    for part in (value.func, value.args, value.keywords):
        world.materialize.value(part, seen)
    return value


@shows(decimal.Decimal)
def show_decimal(world: TraceWorld, value: decimal.Decimal, seen: Seen) -> Any:
    """What C does with one depends on a context of the thread's."""
    world.guards.add(world.inputs.root.decimal_context(), Check.EQUAL, context_text())
    return value


@shows(types.SimpleNamespace)
def show_namespace(world: TraceWorld, value: Any, seen: Seen) -> Any:
    if id(value) in world.attributes.views:
        refuse(breaks.OPAQUE_OBJECT, "an outside SimpleNamespace, which C compares by its attributes")
    show_mapping(world, value.__dict__, seen)
    return value


def show_exception(world: TraceWorld, value: BaseException, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    world.errors.looking_at(value)
    world.materialize.value(value.args, seen)
    return value


def show_instance(world: TraceWorld, value: Any, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    return value


def exposing(shower: Shower) -> Shower:
    """For subclasses of builtin containers: what is in them, and their own methods."""

    def show(world: TraceWorld, value: Any, seen: Seen) -> Any:
        world.materialize.guard_special_methods(value, type(value))
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
