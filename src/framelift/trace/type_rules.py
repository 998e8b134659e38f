"""What a trace does with the values of a type: one entry per type.

A `TypeRule` says what stands for a value that comes in, what C code is given for it, how a container's shadow
is made and its changes are found, and how a region makes such a value again. `type_rule(list, ...)` is the
entry of exactly that type. Facets that the entry does not name come from the families of the type
(`type_family`). A type that nothing says how to wrap is opaque. A class is judged once. The entries are in
`framelift/rules` and `framelift/features`, the families in `framelift/rules/families.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from framelift.core.weakly import PerCode
from framelift.guards.kinds import Check
from framelift.guards.sources import Source
from framelift.trace.abstract_values import AbstractValues
from framelift.trace.type_facts import is_hashed_oddly

if TYPE_CHECKING:
    from framelift.trace.materialize import Seen
    from framelift.trace.shadows import Shadow
    from framelift.trace.world import TraceWorld


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
