"""The door: how an outside value becomes a real object that the trace may look at.

`load(value, source)` adds the weakest guard that lets the value be used at all, and gives the object
to use: a constant itself, guarded by value; a tensor's fake, now a graph input; a builtin
container's shadow; a function, class or module itself, guarded by identity; any other instance
itself, guarded by type, its attributes being read through a view. The same outside object met twice
is one object, and that it is the same is guarded too.
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import enum
import functools
import operator
import re
import types
from collections.abc import Callable
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break, Place
from framelift.core.sentinels import MISSING
from framelift.tensors.recorder import Recorder
from framelift.world.guard import Check, ClassGuard, Guard
from framelift.world.pending import Pending
from framelift.world.plain import PlainWorld
from framelift.world.shadows import Shadow, container_base, shadow_of
from framelift.world.source import Access, Root, Source
from framelift.world.views import DELETED, View

if TYPE_CHECKING:
    from framelift.interpreter.machine import Machine

IMMUTABLE_TYPE = 1 << 8
HEAP_TYPE = 1 << 9

BUILTINS = (types.BuiltinFunctionType, type(re.compile("").match))
"""Functions of C; those that are told their class have a type of their own that is a subclass of the other."""

Opener = Callable[["Door", Any, Source], Any]
OPENERS: dict[type, Opener] = {}
"""Exact type -> how the door opens its instances; other types are judged once by `opener_for`."""


def opens(*classes: type) -> Callable[[Opener], Opener]:
    def register(opener: Opener) -> Opener:
        for cls in classes:
            OPENERS[cls] = opener
        return opener

    return register


class Known:
    """An outside object that has been opened: what stands for it, and where it was found first."""

    __slots__ = ("opened", "source", "value")

    def __init__(self, value: Any, opened: Any, source: Source) -> None:
        self.value = value
        self.opened = opened
        self.source = source


class Door(PlainWorld):
    """What a trace knows of the outside."""

    runs_finalisers = False

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.machine: Machine | None = None
        self.root = Root()
        self.guards: dict[Any, Guard] = {}
        self.class_guards: dict[tuple[type, str], ClassGuard] = {}
        self.found: dict[tuple[type, str], Any] = {}
        self.sighted: list[Source] = []
        """Names and keys that were found, whether or not what they hold was ever looked at."""
        self.known: dict[int, Known] = {}
        self.shadows: dict[int, Shadow] = {}
        """id of a shadow -> its record."""
        self.views: dict[int, View] = {}
        """id of an outside instance, module or class -> its view."""
        self.scopes: dict[int, View] = {}
        """id of a globals dictionary -> its view."""
        self.shadow_cells: dict[int, tuple[CellType, CellType, Any]] = {}
        """id of an outside cell -> (the cell, its shadow, what that held at first)."""
        self.exposed: set[type] = set()
        """Classes whose special methods C may have looked up: all of these are guarded."""
        self.inside_classes: set[type] = set()
        self.inside_functions: dict[int, FunctionType] = {}
        self.inlined: dict[int, FunctionType] = {}
        """Outside functions whose code the trace has followed."""
        self.kept: list[Any] = []
        self.frame_globals: dict[str, Any] | None = None
        self.frame_function: FunctionType | None = None
        self.broken: Break | None = None

    # ---- guards

    def guard(self, source: Source, check: Check, expected: Any) -> None:
        index = (source, check, expected if check in KEYED else None)
        if index not in self.guards:
            self.guards[index] = Guard(source, check, expected, self.place())

    def found_at(self, source: Source, value: Any) -> Pending:
        """The pending value of a name or key that was looked up."""
        self.sighted.append(source)
        return Pending(self, source, value)

    def guard_sighted(self, inputs: list[Source]) -> None:
        """That a lookup finds something is a fact too; most are implied by what was found there."""
        reached: set[Source | None] = {None}
        for source in [*inputs, *(guard.source for guard in self.guards.values())]:
            above: Source | None = source
            while above not in reached:
                reached.add(above)
                above = above.base  # type: ignore[union-attr]
        for source in self.sighted:
            if source not in reached:
                self.guard(source, Check.IS_NOT, MISSING)

    def place(self) -> Place | None:
        """Where the program stands."""
        frame = self.machine.frame if self.machine else None
        return None if frame is None else frame.place

    def stack(self) -> list[Place]:
        """Where the program stands, with its callers, outermost first."""
        places = []
        frame = self.machine.frame if self.machine else None
        while frame is not None:
            places.append(frame.place)
            frame = frame.back
        return places[::-1]

    def plain_attribute(self, cls: type, name: str) -> Any:
        """What a class says of a name, not guarded: for classes that can't change."""
        return super().class_attribute(cls, name)

    def invoke(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls something as the traced program would; what it gives may be pending."""
        assert self.machine is not None
        return self.machine.invoke(fn, args, kwargs)  # type: ignore[attr-defined]

    def class_attribute(self, cls: type, name: str) -> Any:
        index = (cls, name)
        found = self.found.get(index, DELETED)
        if found is DELETED:
            found = self.found[index] = super().class_attribute(cls, name)
            if not cls.__flags__ & IMMUTABLE_TYPE and cls not in self.inside_classes:
                self.class_guards[index] = ClassGuard(cls, name, found)
        return found

    # ---- opening

    def load(self, value: Any, source: Source) -> Any:
        known = self.known.get(id(value))
        if known is not None:
            if known.source is not source:
                self.guard(source, Check.SAME_AS, known.source)
            return known.opened
        cls = type(value)
        opener = OPENERS.get(cls)
        if opener is None:
            opener = OPENERS[cls] = opener_for(cls)
        return opener(self, value, source)

    def know(self, value: Any, opened: Any, source: Source) -> Any:
        self.known[id(value)] = Known(value, opened, source)
        return opened

    def is_outside(self, value: Any) -> bool:
        """Whether an object stands for, or is, something that existed before the frame."""
        return id(value) in self.shadows or id(value) in self.views or id(value) in self.recorder.input_of

    def is_inside(self, value: Any) -> bool:
        """Whether a function or class was made by the trace."""
        return id(value) in self.inside_functions or (isinstance(value, type) and value in self.inside_classes)

    def is_opaque(self, value: Any) -> bool:
        """An outside object with state that only C sees."""
        return id(value) in self.known and OPENERS.get(type(value)) is open_opaque

    def source_of(self, value: Any) -> Source | None:
        """Where an object that is not pending can be found at run time, if it is from outside."""
        shadow = self.shadows.get(id(value))
        if shadow is not None:
            return shadow.source
        view = self.views.get(id(value))
        if view is not None:
            return view.source
        known = self.known.get(id(value))
        if known is not None:
            return known.source
        if isinstance(value, (type, FunctionType)):
            # found on the way: through a class, say
            return None if self.is_inside(value) else self.root.constant(value, value.__qualname__)
        if OPENERS.get(type(value)) in (open_constant, open_singleton) and type(value) is not slice:
            return self.root.constant(value, type(value).__name__)
        return None

    def fixed(self, value: Any, source: Source) -> Any:
        """A key or set member: its identity or value is fixed by the guard on its container."""
        return self.load(value, self.root.constant(value, f"<key of {source}>"))

    def refuse(self, reason: breaks.Reason, context: str) -> Any:
        raise Break(reason, context)

    def catchable(self, error: BaseException) -> bool:
        if isinstance(error, Break) and self.broken is None:
            self.broken = error
            error.stack = self.stack()
        if self.broken is not None:
            return False
        return not isinstance(error, (KeyboardInterrupt, SystemExit))

    # ---- names

    def scope(self, namespace: dict[str, Any]) -> View:
        view = self.scopes.get(id(namespace))
        if view is None:
            if namespace is self.frame_globals:
                source = self.root.top
            else:
                source = self.root.constant(namespace, namespace.get("__name__") or "globals")
            view = self.scopes[id(namespace)] = View(source, namespace)
        return view

    def names(self, scope: dict[str, Any]) -> dict[str, Any]:
        return self.scope(scope).values

    def load_global(self, scope: dict[str, Any], name: str) -> Any:
        view = self.scope(scope)
        found = view.get(name)
        if found is MISSING:
            found = self.from_scope(view, scope, name)
        if found is not DELETED:
            return found
        builtin = scope.get("__builtins__", builtins)
        namespace = builtin if isinstance(builtin, dict) else vars(builtin)
        if namespace is scope or name not in namespace:
            raise NameError(f"name '{name}' is not defined", name=name)
        found = self.load_global(namespace, name)
        if name not in view.written:
            view.values[name] = found
        return found

    def from_scope(self, view: View, scope: dict[str, Any], name: str) -> Any:
        """A name of a namespace, now in the view; DELETED if it is not there, which is guarded."""
        if name not in scope:
            self.guard(view.source, Check.NO_KEY, name)
            return DELETED
        found = view.values[name] = self.found_at(view.source.child(Access.KEY, name), scope[name])
        return found

    def store_global(self, scope: dict[str, Any], name: str, value: Any) -> None:
        self.scope(scope).write(name, value)

    def delete_global(self, scope: dict[str, Any], name: str) -> None:
        view = self.scope(scope)
        found = view.get(name)
        if found is MISSING:
            found = self.from_scope(view, scope, name)
        if found is DELETED:
            raise NameError(f"name '{name}' is not defined", name=name)
        view.write(name, DELETED)

    def globals_value(self, scope: dict[str, Any]) -> Any:
        return self.refuse(breaks.INTERNAL, "globals() as a value")

    # ---- cells and defaults of functions

    def function_source(self, fn: FunctionType) -> Source | None:
        """Where an outside function is found; None for one made by the trace."""
        if fn is self.frame_function:
            return self.root.function(fn.__name__)
        if id(fn) in self.inside_functions:
            return None
        return self.root.constant(fn, fn.__qualname__)

    def made_function(self, fn: FunctionType) -> None:
        self.inside_functions[id(fn)] = fn

    def entered(self, fn: FunctionType) -> None:
        if id(fn) not in self.inside_functions:
            self.inlined[id(fn)] = fn

    def cells(self, fn: FunctionType) -> tuple[CellType, ...]:
        cells = fn.__closure__ or ()
        source = self.function_source(fn)
        if source is None:
            return cells
        return tuple(self.shadow_cell(fn, source, n, cell) for n, cell in enumerate(cells))

    def shadow_cell(self, fn: FunctionType, source: Source, n: int, cell: CellType) -> CellType:
        made = self.shadow_cells.get(id(cell))
        if made is None:
            try:
                value = Pending(self, source.child(Access.CELL, (n, fn.__code__.co_freevars[n])), cell.cell_contents)
            except ValueError:
                self.refuse(breaks.INTERNAL, "an empty cell of an outside function")
            shadow = CellType(value)
            made = self.shadow_cells[id(cell)] = (cell, shadow, value)
            self.know(shadow, shadow, source.child(Access.CELL_OBJECT, n))
        return made[1]

    def defaults_of(self, fn: FunctionType, bound: list[Any]) -> list[Any]:
        """An argument that is a default of an outside function is pending, with that as its source."""
        defaults, keywords = fn.__defaults__, fn.__kwdefaults__
        if not (defaults or keywords):
            return bound
        source = self.function_source(fn)
        if source is None:
            return bound
        code = fn.__code__
        if defaults:
            first = code.co_argcount - len(defaults)
            for n, default in enumerate(defaults):
                if bound[first + n] is default:
                    bound[first + n] = Pending(self, source.child(Access.DEFAULT, n), default)
        if keywords:
            for n in range(code.co_argcount, code.co_argcount + code.co_kwonlyargcount):
                name = code.co_varnames[n]
                if name in keywords and bound[n] is keywords[name]:
                    bound[n] = Pending(self, source.child(Access.KWDEFAULT, name), keywords[name])
        return bound


KEYED = frozenset({Check.HAS_KEY, Check.NO_KEY, Check.NO_ATTR, Check.NO_SLOT, Check.SAME_AS, Check.NOT_SAME_AS})
"""Checks of which one source may have several."""


# ---- how each kind of value is opened


@opens(int, float, complex, str, bytes, range, slice, torch.device, torch.Size, datetime.timedelta, decimal.Decimal)
@opens(datetime.date, datetime.datetime, datetime.time, datetime.timezone)
def open_constant(world: Door, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guard(source, Check.EQUAL, value)
    return value


@opens(type(None), bool, type(Ellipsis), type(NotImplemented), torch.dtype, torch.layout, torch.memory_format)
@opens(re.Pattern, types.CodeType, torch.finfo, torch.iinfo)
def open_singleton(world: Door, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guard(source, Check.IS, value)
    return value


@opens(types.FunctionType, type, types.MethodDescriptorType, types.WrapperDescriptorType)
@opens(types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType, property)
@opens(classmethod, staticmethod, types.GenericAlias, types.UnionType, re.Match)
@opens(functools._lru_cache_wrapper, operator.attrgetter, operator.itemgetter, operator.methodcaller)
def open_by_identity(world: Door, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guard(source, Check.IS, value)
    return world.know(value, value, world.root.constant(value, str(source)))


@opens(types.ModuleType)
def open_module(world: Door, value: Any, source: Source) -> Any:
    if source.access is not Access.CONST:
        world.guard(source, Check.IS, value)
    fixed = world.root.constant(value, value.__name__)
    world.views[id(value)] = world.scope(vars(value))
    return world.know(value, value, fixed)


@opens(torch.Tensor, torch.nn.Parameter)
def open_tensor(world: Door, value: Any, source: Source) -> Any:
    from framelift import _guards

    with torch._C.DisableTorchFunction():
        world.guard(source, Check.TENSOR, _guards.TensorSpec(value))
    return world.know(value, world.recorder.input(value), source)


@opens(types.MethodType)
def open_method(world: Door, value: Any, source: Source) -> Any:
    world.guard(source, Check.TYPE, types.MethodType)
    fn = world.load(value.__func__, source.child(Access.METHOD_FUNC))
    this = world.load(value.__self__, source.child(Access.SELF))
    return world.know(value, types.MethodType(fn, this), source)


@opens(*BUILTINS, types.MethodWrapperType)
def open_builtin(world: Door, value: Any, source: Source) -> Any:
    """A function of C is itself; a method of C is had again from the object that it is bound to."""
    this = value.__self__
    if isinstance(this, (type, types.ModuleType)) or not hasattr(type(this), value.__name__):
        return open_by_identity(world, value, source)
    world.guard(source, Check.TYPE, type(value))
    world.guard(source.child(Access.NATIVE_ATTR, "__name__"), Check.EQUAL, value.__name__)
    this = world.load(this, source.child(Access.NATIVE_ATTR, "__self__"))
    return world.know(value, getattr(this, value.__name__), source)


@opens(functools.partial)
def open_partial(world: Door, value: Any, source: Source) -> Any:
    world.guard(source, Check.TYPE, functools.partial)
    parts = [
        world.load(getattr(value, name), source.child(Access.NATIVE_ATTR, name)) for name in ("func", "args", "keywords")
    ]
    return world.know(value, functools.partial(parts[0], *parts[1], **parts[2]), source)


def open_container(base: type) -> Opener:
    def opener(world: Door, value: Any, source: Source) -> Any:
        return shadow_of(world, value, source, base)  # type: ignore[arg-type]

    return opener


def open_instance(world: Door, value: Any, source: Source) -> Any:
    """An object whose state is its attributes: itself, seen through a view."""
    world.guard(source, Check.TYPE, type(value))
    world.views[id(value)] = View(source, value)
    return world.know(value, value, source)


def open_fixed_instance(world: Door, value: Any, source: Source) -> Any:
    """A constant with attributes: an enum's member, a number or text of a user's class."""
    if source.access is not Access.CONST:
        world.guard(source, Check.IS, value)
    fixed = world.root.constant(value, str(source))
    world.views[id(value)] = View(fixed, value)
    return world.know(value, value, fixed)


def open_opaque(world: Door, value: Any, source: Source) -> Any:
    """An object with state in C: it may be moved about, but nothing may look at it."""
    world.guard(source, Check.TYPE, type(value))
    return world.know(value, value, source)


def opener_for(cls: type) -> Opener:
    if issubclass(cls, type):
        return open_by_identity
    if issubclass(cls, (enum.Enum, int, float, complex, str, bytes)):
        return open_fixed_instance
    if issubclass(cls, types.ModuleType) and "__getattr__" not in dir(cls):
        return open_module
    if issubclass(cls, torch.Tensor):
        return open_tensor
    base = container_base(cls)
    if base is not None:
        return open_container(base)
    if is_ordinary(cls):
        return open_instance
    return open_opaque


def is_made_in_c(cls: type) -> bool:
    return any(type(v) is types.MethodDescriptorType and v.__objclass__ is cls for v in vars(cls).values())


EXTRA_STATE = frozenset({types.SimpleNamespace, torch.nn.Module, types.ModuleType})
"""Bases that are more than `object` to C but keep their state in `__dict__` all the same."""


def is_ordinary(cls: type) -> bool:
    """Whether everything an instance holds is in its `__dict__` and slots."""
    slots = 0
    for base in cls.__mro__:
        if base is object or base in EXTRA_STATE:
            continue
        if not base.__flags__ & HEAP_TYPE or is_made_in_c(base):
            return False
        names = base.__dict__.get("__slots__", ())
        slots += len([n for n in ((names,) if isinstance(names, str) else names) if n not in ("__dict__", "__weakref__")])
    if any(base in EXTRA_STATE for base in cls.__mro__):
        return True
    # a class made in C has a larger struct than its Python-visible parts account for
    hidden = cls.__basicsize__ - object.__basicsize__ - 8 * slots
    return hidden <= 16


for _base in (tuple, list, dict, set, frozenset):
    OPENERS[_base] = open_container(_base)
