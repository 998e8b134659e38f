"""What a trace does with the values of a type: one entry per type.

A `TypeRule` says what stands for a value that comes in, what C code is given for it, how a container's shadow
is made and its changes are found, and how a region makes such a value again. `type_rule(list, ...)` is the
entry of exactly that type. Facets that the entry does not name come from the families of the type
(`type_family`). A type that nothing says how to wrap is opaque. A class is judged once. The entries are in
`framelift/rules` and `framelift/features`, the families in `framelift/rules/families.py`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import torch

from framelift.core.weakly import HEAP_TYPE, PerCode
from framelift.guards.kinds import Check
from framelift.guards.sources import Source

if TYPE_CHECKING:
    from framelift.trace.materialize import Seen
    from framelift.trace.shadows import Shadow
    from framelift.trace.world import TraceWorld

IMMUTABLE_TYPE = 1 << 8
NOT_INSTANTIABLE = 1 << 7

BUILTINS = (types.BuiltinFunctionType, type(re.compile("").match))
"""The types of C functions: those that are told their class have one of their own."""

METHODS_OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType)

EXTRA_STATE = (types.SimpleNamespace, torch.nn.Module, types.ModuleType)
"""Bases that are more than `object` to C but keep their state in `__dict__` all the same."""


def is_hashed_oddly(meta: type) -> bool:
    """Whether a metaclass says how its classes are hashed: they can't be told apart by looking them up."""
    return any(getattr(meta, name) is not getattr(type, name) for name in ("__hash__", "__eq__"))


MODULES_OF_ITERATORS = ("builtins", "itertools", "collections", "_collections")


def is_iterator(cls: type) -> bool:
    """Whether it is an iterator that C implements."""
    # a metaclass may have a `__getattr__`, which is the program's
    return cls.__module__ in MODULES_OF_ITERATORS and hasattr(cls, "__next__")


def is_made_in_c(cls: type) -> bool:
    """Whether C has given it methods, or slots such as `__next__`, of its own."""
    return any(type(v) in METHODS_OF_C and v.__objclass__ is cls for v in vars(cls).values())


_ordinary: PerCode[bool] = PerCode()


def is_ordinary(cls: type) -> bool:
    """Whether everything an instance holds is in its `__dict__` and slots."""
    found = _ordinary.get(cls)
    return _ordinary.set(cls, looks_ordinary(cls)) if found is None else found


def looks_ordinary(cls: type) -> bool:
    slots = 0
    for base in cls.__mro__:
        if base is object or has_extra_state(base):
            continue
        if not base.__flags__ & HEAP_TYPE or is_made_in_c(base):
            return False
        names = base.__dict__.get("__slots__", ())
        names = (names,) if isinstance(names, str) else names
        slots += sum(name not in ("__dict__", "__weakref__") for name in names)
    if any(map(has_extra_state, cls.__mro__)):
        return True
    # a class made in C has a larger struct than its Python-visible parts account for
    hidden = cls.__basicsize__ - object.__basicsize__ - 8 * slots
    return hidden <= 16


def has_extra_state(base: type) -> bool:
    return any(base is extra for extra in EXTRA_STATE)  # a metaclass may hash or compare the base


class AbstractValues(Protocol):
    """What Python does with the values of a type, in one trace."""

    def __init__(self, world: TraceWorld) -> None: ...
    def class_of(self, value: Any) -> type: ...
    def attribute(self, value: Any, name: str) -> Any: ...
    def method(self, value: Any, name: str) -> tuple[Any, Any]:
        """The pair (function, value), or (NULL, attribute), as `Attributes.load_method` has it."""

    def set_attribute(self, value: Any, name: str, new: Any) -> None: ...
    def delete_attribute(self, value: Any, name: str) -> None: ...
    def operate(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """An operator, of which at least one operand is such a value."""

    def get_item(self, value: Any, key: Any) -> Any: ...
    def set_item(self, value: Any, key: Any, new: Any) -> None: ...
    def items(self, value: Any) -> list[Any]:
        """What iteration gives."""

    def length(self, value: Any) -> int: ...
    def truth(self, value: Any) -> bool: ...
    def as_tensor(self, value: Any) -> Any:
        """The tensor that it is where a tensor is indexed with it."""

    def number(self, value: Any) -> Any:
        """The tensor that it is where a number of Python's is made of it."""

    def refuse_in_c(self, value: Any) -> NoReturn:
        """Ends the trace: C code can't be given it."""


class Rebuilder(Protocol):
    """What writes the source of a region, as `rebuild` functions use it.

    What can be empty at first is named before its contents are asked for (`variable`) and filled after that
    (`fill`), so cycles can be closed.
    """

    world: TraceWorld
    kept: list[Any]
    """What was made on the way, and has to live until all is written."""

    def expression(self, value: Any) -> str: ...
    def listed(self, values: Iterable[Any]) -> str: ...
    def tuple_of(self, values: Iterable[Any]) -> str: ...
    def dict_of(self, items: Iterable[tuple[Any, Any]]) -> str: ...
    def input(self, source: Source) -> str:
        """The name of what a source leads to."""

    def constant(self, value: Any) -> str:
        """A name for an object of the program, which the region does not keep alive."""

    def own(self, value: Any) -> str:
        """A name for an object that the region holds on to."""

    def variable(self, expression: str, value: Any = None) -> str:
        """A statement that names an expression; `value`, which is being made, has that name from now on."""

    def say(self, statement: str) -> None: ...
    def is_late(self, value: Any) -> bool:
        """Whether to make it empty at first."""

    def fill(self, value: Any, filler: Callable[[], None]) -> None:
        """Writes the contents of a value, now or when all else is there."""


Wrap = Callable[["TraceWorld", Any, Source], Any]
MaterializeValue = Callable[["TraceWorld", Any, "Seen"], Any]
Calls = list[tuple[str, tuple[Any, ...]]]
"""Methods and arguments."""


def wrap_opaque(world: TraceWorld, value: Any, source: Source) -> Any:
    """An object with state in C: it may be moved about, but nothing may look at it."""
    world.guards.add(source, Check.TYPE, type(value))
    return world.inputs.know(value, value, source)


def materialize_instance(world: TraceWorld, value: Any, seen: Seen) -> Any:
    """C finds nothing in it but the special methods of its class."""
    world.materialize.guard_special_methods(value, type(value))
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRule:
    """What is known of a type."""

    wrap: Wrap = wrap_opaque
    """(world, value, source) -> what stands for a value that comes in; adds the guards that it needs."""
    opaque: bool
    """Its values have state that only C sees, where nothing else stands for them."""
    materialize: MaterializeValue = materialize_instance
    """(world, value, seen) -> what C is given for a value; opens what it holds."""
    container: type | None = None
    """The builtin container that it is, or derives from."""
    shadow: Callable[[TraceWorld, Any, Source, type], tuple[Any, Any]] | None = None
    """(world, value, source, class) -> the shadow of a container, and what to compare it with later."""
    changes: Callable[[Shadow], Calls] | None = None
    """What brings the container to its shadow's state: methods of `container`, and their arguments."""
    rebuild: Callable[[Rebuilder, Any], str] | None = None
    """(rebuilder, value) -> the name of a value like this one, in a region; None: it can't be made again."""
    fillable: bool = False
    """It is made whole, but can also be made empty and filled later."""
    twin: Callable[[Any], Any] | None = None
    """Of a generator of random numbers: gives another one that will give the same numbers."""
    rewind: Callable[[Any], Callable[[], Any]] | None = None
    """Of such a generator: gives what puts it back where it is now."""
    by_identity: bool = False
    """Each value is that very one, and does not change: what it says of itself is a constant."""
    described_by: frozenset[str] = frozenset()
    """Of tensors around others: the attributes by which they describe themselves, and never change."""
    guarded_state: tuple[str, ...] = ()
    """Of opaque objects: the attributes that a guard may ask for."""
    abstract: type[AbstractValues] | None = None
    """Its values only stand for others: what does with them what Python would do."""


Facets = dict[str, Any]
_entries: dict[type, Facets] = {}
_families: list[tuple[Callable[[type], bool], Facets]] = []
RULES: dict[type, TypeRule] = {}
"""The rules of types with entries, as far as they have been asked for."""
_judged: PerCode[TypeRule] = PerCode()
"""Those of other classes, and of those that have metaclasses."""
ABSTRACT: dict[type, type[AbstractValues]] = {}
"""The types whose values only stand for others."""


def type_rule(*classes: type, **facets: Any) -> None:
    """Adds facets to the entry of each type."""
    for cls in classes:
        entry = _entries.setdefault(cls, {})
        twice = entry.keys() & facets.keys()
        assert not twice, f"{cls.__qualname__} has two entries for {', '.join(twice)}"
        entry |= facets
        if "abstract" in facets:
            ABSTRACT[cls] = facets["abstract"]
    RULES.clear()
    _judged.clear()


def type_family(belongs: Callable[[type], bool], **facets: Any) -> None:
    """Adds what holds of all types that pass a test. Entries and earlier families come before it."""
    _families.append((belongs, facets))
    RULES.clear()
    _judged.clear()


def rule_of_type(cls: type) -> TypeRule:
    if type(cls) is type:  # a metaclass may have its own way to hash a class
        found = RULES.get(cls)
        if found is not None:
            return found
    return _judged.get(cls) or judge(cls)


def judge(cls: type) -> TypeRule:
    facets: Facets = {}
    for belongs, family in reversed(_families):
        if belongs(cls):
            facets |= family
    own = None if is_hashed_oddly(type(cls)) else _entries.get(cls)
    facets |= own or {}
    rule = TypeRule(**{"opaque": "wrap" not in facets, **facets})
    if own is None or type(cls) is not type:
        return _judged.set(cls, rule)
    RULES[cls] = rule
    return rule
