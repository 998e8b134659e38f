"""Instances of classes, modules, exceptions, and objects that C makes again by the reduce protocol."""

from __future__ import annotations

import contextlib
import io
import operator
import sys
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break, refuse
from framelift.core.weakly import HEAP_TYPE
from framelift.guards.hashing import may_be_called_again
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.frame_objects import traceback_of
from framelift.regions.rebuild import write_state
from framelift.rules.constants import rebuild_constant, wrap_by_identity, wrap_singleton
from framelift.trace.materialize import Seen
from framelift.trace.part import Part
from framelift.trace.shadows import View
from framelift.trace.type_rules import Rebuilder, type_rule
from framelift.trace.world import TraceWorld

ATOMIC_BASES = (int, float, complex, str, bytes)


# ---- what comes in


def wrap_instance(world: TraceWorld, value: Any, source: Source) -> Any:
    """An object whose state is its attributes: itself, seen through a view."""
    world.guards.add(source, Check.TYPE, type(value))
    world.attributes.views[id(value)] = View(source, value)
    if issubclass(type(value), torch.nn.Module):
        world.inputs.modules.add(source)
    return world.inputs.know(value, value, source)


def wrap_fixed_instance(world: TraceWorld, value: Any, source: Source) -> Any:
    """A constant with attributes: an enum's member, a number or text of a user's class, an operator."""
    wrap_singleton(world, value, source)
    fixed = world.inputs.root.constant(value, str(source))
    world.attributes.views[id(value)] = View(fixed, value)
    return world.inputs.know(value, value, fixed)


def wrap_module(world: TraceWorld, value: Any, source: Source) -> Any:
    wrap_singleton(world, value, source)
    fixed = world.inputs.root.constant(value, value.__name__)
    world.guards.add(fixed, Check.TYPE, type(value))
    world.attributes.views[id(value)] = world.scopes.view(vars(value))
    return world.inputs.know(value, value, fixed)


def materialize_namespace(world: TraceWorld, value: Any, seen: Seen) -> Any:
    if id(value) in world.attributes.views:
        refuse(breaks.OPAQUE_OBJECT, "an outside SimpleNamespace, which C compares by its attributes")
    world.materialize.mapping(value.__dict__, seen)
    return value


# ---- what is made again


def builtin_base(cls: type) -> type:
    """The class whose `__new__` allocates an instance, past those that Python code may define."""
    return next(base for base in cls.__mro__ if not base.__flags__ & HEAP_TYPE)


def rebuild_instance(r: Rebuilder, value: Any) -> str:
    try:
        allocate: Any = builtin_base(type(value)).__new__
        allocate(type(value))
    except TypeError:
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__}", culprit=value) from None
    name = r.variable(f"{r.constant(builtin_base(type(value)))}.__new__({r.constant(type(value))})", value)
    r.fill(value, lambda: write_state(r, name, value))
    return name


def rebuild_atom(r: Rebuilder, value: Any) -> str:
    """An instance of a subclass of a number or text."""
    base = next(base for base in type(value).__mro__ if base in ATOMIC_BASES)
    plain = base(*vars(base)["__getnewargs__"](value))
    name = r.variable(f"{r.constant(base)}.__new__({r.constant(type(value))}, {r.expression(plain)})", value)
    r.fill(value, lambda: write_state(r, name, value))
    return name


@contextlib.contextmanager
def without_deprecations() -> Iterator[None]:
    """From Python 3.12 on itertools warn that they lose `__reduce__` and `__setstate__` in 3.14."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def set_state(iterator: Any, state: Any) -> None:
    with without_deprecations():
        iterator.__setstate__(state)


WARNING = "itertools" if sys.version_info >= (3, 12) else None
"""The module whose iterators do."""

ASKED = ("__iter__", "__len__")
"""What an iterator asks those that it goes over as it is made."""


def rebuild_reduced(r: Rebuilder, value: Any) -> str:
    """Through `__reduce__`: callable, arguments, state."""
    with without_deprecations():
        reduced = value.__reduce__()
    if not isinstance(reduced, tuple) or len(reduced) > 3:
        raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__}", culprit=value)
    r.kept.append(reduced)
    maker, args, *state = reduced
    for name in ASKED:
        if not all(may_be_called_again(getattr(type(arg), name, None)) for arg in args):
            raise Break(breaks.UNREBUILDABLE, f"a {type(value).__qualname__} that asks {name}", culprit=value)
    name = r.variable(f"{r.constant(maker)}({r.listed(args)})", value)
    if state and state[0] is not None:
        warns = type(value).__module__ == WARNING
        setter = f"{r.constant(set_state)}({name}, " if warns else f"{name}.__setstate__("
        r.fill(value, lambda: r.say(f"{setter}{r.expression(state[0])})"))
    return name


def rebuild_stream(r: Rebuilder, value: Any) -> str:
    if value.closed:
        raise Break(breaks.UNREBUILDABLE, "a stream that is closed", culprit=value)
    name = r.variable(f"{r.constant(type(value))}()", value)
    r.fill(value, lambda: r.say(f"{name}.__setstate__({r.expression(value.__getstate__())})"))
    return name


def materialize_reference(world: TraceWorld, value: weakref.ref[Any], seen: Seen) -> Any:
    """C hashes and compares one by what it refers to, as where it is a key of a `WeakKeyDictionary`."""
    source, held = world.inputs.source_of(value), value()
    if source is None:
        if world.addresses.real(held) is not held:  # C would compare what stands for it
            refuse(breaks.OPAQUE_OBJECT, f"a weak reference to an outside {type(held).__qualname__}")
        world.materialize.value(held, seen)  # so that it is told apart from others
        return value
    methods: Any = type(held)
    if held is None or methods.__hash__ is not object.__hash__ or methods.__eq__ is not object.__eq__:
        refuse(breaks.OPAQUE_OBJECT, f"a weak reference to a {methods.__qualname__} in a native operation")
    world.guards.add(source.child(Access.REFERENT), Check.IS, held)
    return value


class Callbacks(Part):
    """What is called when that is gone to which a reference of the trace's refers: while the program runs, as
    a part of it. What lives on is called by the reference that the region makes."""

    def start(self) -> None:
        self.of: dict[int, Any] = {}

        def gone(reference: Any) -> None:
            references = sys.getrefcount(reference)
            self.call(reference, references > HELD_BY_TRACE)

        self.gone = gone
        """What stands in the trace for all of them."""

    def keep(self, reference: Any, callback: Any) -> Any:
        self.of[id(reference)] = callback
        return self.world.created.keep(reference)

    def call(self, reference: Any, is_held: bool) -> None:
        """A reference that the program has let go of calls nobody."""
        world = self.__dict__.get("world")  # which a released trace has no more
        if world is None or not world.lifetimes.runs_finalisers:
            return
        callback = self.of.pop(id(reference), None)
        if is_held and callback is not None:
            world.lifetimes.run_finaliser(lambda: world.calls.invoke(callback, reference), "a callback")


def held_by_trace() -> int:
    """How many references there are to a weak reference, in what it calls, if only a trace keeps it."""
    counts = []

    def gone(reference: Any) -> None:
        references = sys.getrefcount(reference)
        counts.append(references)

    referent = Callbacks.__new__(Callbacks)
    kept = {0: weakref.ref(referent, gone)}
    del referent
    return counts[0] if kept else 0


HELD_BY_TRACE = held_by_trace()


def rebuild_weak_reference(r: Rebuilder, value: weakref.ref[Any]) -> str:
    held = value()
    if held is None:
        raise Break(breaks.UNREBUILDABLE, "a weak reference to what is gone", culprit=value)
    callback = r.world.feature(Callbacks).of.get(id(value))
    given = "" if callback is None else f", {r.expression(callback)}"
    if type(value) is weakref.KeyedRef:
        given += f", {r.expression(value.key)}"
    return r.variable(f"{r.constant(type(value))}({r.variable(r.expression(held))}{given})")


type_rule(types.ModuleType, wrap=wrap_module, rebuild=rebuild_constant)
type_rule(types.SimpleNamespace, materialize=materialize_namespace)
GETTERS = operator.attrgetter, operator.itemgetter, operator.methodcaller
type_rule(*GETTERS, wrap=wrap_by_identity, rebuild=rebuild_reduced)
type_rule(io.StringIO, io.BytesIO, rebuild=rebuild_stream)
type_rule(weakref.ref, weakref.KeyedRef, rebuild=rebuild_weak_reference, materialize=materialize_reference)


# ---- exceptions


def materialize_exception(world: TraceWorld, value: BaseException, seen: Seen) -> Any:
    world.materialize.guard_special_methods(value, type(value))
    world.errors.looking_at(value)
    world.materialize.value(value.args, seen)
    return value


def rebuild_exception(r: Rebuilder, value: BaseException) -> str:
    r.world.errors.looking_at(value)
    base = builtin_base(type(value))
    args = value.args
    if isinstance(value, BaseExceptionGroup):
        args = (value.message, list(value.exceptions))  # the arguments may have changed since
    name = r.variable(f"{r.constant(base)}.__new__({r.listed((type(value), *args))})", value)
    if args is not value.args or base is MemoryError:  # whose `__new__` does not look at them
        r.fill(value, lambda: r.say(f"{name}.args = {r.tuple_of(value.args)}"))
    r.fill(value, lambda: fill_exception(r, name, value))
    return name


def fill_exception(r: Rebuilder, name: str, value: BaseException) -> None:
    for base in type(value).__mro__:
        if base is object or base.__flags__ & HEAP_TYPE:
            continue
        for attribute, member in vars(base).items():  # such as StopIteration.value
            if type(member) is types.MemberDescriptorType and not attribute.startswith("__"):
                held = member.__get__(value)
                if held is not None and is_writable(member, value):
                    r.say(f"{name}.{attribute} = {r.expression(held)}")
    for attribute in ("__cause__", "__context__"):
        if getattr(value, attribute) is not None:
            r.say(f"{name}.{attribute} = {r.expression(getattr(value, attribute))}")
    if traceback_of(value) is not None:
        # of the interpreter's making, and without the variables of its frames
        r.say(f"{name}.__traceback__ = {r.constant(traceback_of(value))}")
    if value.__suppress_context__ is not (value.__cause__ is not None):
        r.say(f"{name}.__suppress_context__ = {value.__suppress_context__}")
    write_state(r, name, value)


def is_writable(member: Any, value: Any) -> bool:
    try:
        member.__set__(value, member.__get__(value))
    except AttributeError:
        return False
    return True


type_rule(BaseException, materialize=materialize_exception)
