"""What the interpreter asks about values: the protocol of a world.

A handler of an opcode does nothing to a value by itself: it asks a part of its frame's world. Where nothing
is abstract that is `PlainWorld` (`interpreter/plain.py`), which does what CPython does. In a trace it is
`TraceWorld` (`trace/world.py`), which can meet values from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    W = DefaultedTypeVar("W", bound="World", default="World", covariant=True)
else:
    W = TypeVar("W")
"""The world of a frame or machine: any, unless it is said which."""

Scope = dict[str, Any]
Keywords = dict[str, Any]


class Scopes(Protocol):
    """Global names."""

    def names(self, scope: Scope, fn: FunctionType | None = None) -> Scope:
        """Where LOAD_GLOBAL looks first."""

    def load(self, scope: Scope, name: str) -> Any:
        """A name that `names(scope)` does not have."""

    def store(self, scope: Scope, name: str, value: Any) -> None: ...
    def delete(self, scope: Scope, name: str) -> None: ...
    def as_value(self, scope: Scope) -> Any:
        """What `globals()` gives."""

    def import_name(self, name: str, scope: Any, namespace: Any, from_list: Any, level: int) -> Any: ...


class Functions(Protocol):
    """Functions, their cells and defaults."""

    def cells(self, fn: FunctionType) -> tuple[CellType, ...]: ...
    def defaults(self, fn: FunctionType, bound: list[Any]) -> list[Any]:
        """Bound arguments, where a default came from outside told so."""

    def made(self, fn: FunctionType) -> None:
        """The program has made a function."""

    def is_made_inside(self, fn: FunctionType) -> bool:
        """Whether the program has made the function, so that another run has another one."""

    def entered(self, fn: FunctionType) -> None:
        """A function is about to be interpreted."""


class Classes(Protocol):
    """What classes say."""

    def attribute(self, cls: type, name: str) -> Any:
        """What the class itself says of a name, descriptors not bound; MISSING if nothing."""

    def guard_bases(self, cls: type) -> None:
        """What happens now depends on what a class is derived from."""

    def special(self, obj: Any, name: str) -> Any:
        """A special method, bound: looked up on the type, as CPython does; MISSING if there is none."""

    def class_of(self, obj: Any) -> type:
        """`type(obj)` as the program should see it."""

    def super_of(self, start: type, obj: Any) -> Any:
        """`super(start, obj)`."""


class Attributes(Protocol):
    """Attributes read."""

    def load(self, obj: Any, name: str) -> Any: ...
    def load_method(self, obj: Any, name: str) -> tuple[Any, Any]:
        """The pair (function, self), or (NULL, attribute)."""

    def vars_of(self, obj: Any) -> Any:
        """What `vars` gives."""

    def names_of(self, obj: Any) -> Iterable[Any]:
        """What `dir` lists, not sorted."""


class AttributeWrites(Protocol):
    """Attributes set and deleted."""

    def store(self, obj: Any, name: str, value: Any) -> None: ...
    def delete(self, obj: Any, name: str) -> None: ...


class Containers(Protocol):
    """Items and iteration."""

    def load(self, container: Any, key: Any) -> Any: ...
    def store(self, container: Any, key: Any, value: Any) -> None: ...
    def delete(self, container: Any, key: Any) -> None: ...
    def contains(self, container: Any, value: Any) -> Any:
        """The operator `in`."""

    def append(self, target: Any, value: Any) -> None:
        """What a comprehension does to a list."""

    def add(self, target: Any, value: Any) -> None:
        """What a comprehension does to a set."""

    def put(self, target: Any, key: Any, value: Any) -> None:
        """What a comprehension does to a dictionary."""

    def iterate(self, value: Any) -> Any: ...
    def advance(self, iterator: Any) -> Any:
        """The next item; MISSING at the end."""

    def elements(self, iterable: Any) -> list[Any]: ...


class Operators(Protocol):
    """Operators and questions about values."""

    def apply(self, fn: Any, *operands: Any) -> Any:
        """An operation that C implements, on operands that are already open."""

    def apply_unopened(self, fn: Any, *operands: Any) -> Any:
        """The same on operands that may have to be opened."""

    def truth(self, value: Any) -> bool: ...
    def negated(self, value: Any) -> Any:
        """What `not` gives."""

    def is_instance(self, value: Any, cls: Any) -> bool: ...


class Identity(Protocol):
    def same(self, left: Any, right: Any) -> bool:
        """The operator `is`."""

    def key(self, value: Any) -> Any:
        """A value about to be hashed."""


class Materialize(Protocol):
    def for_c(self, value: Any) -> Any:
        """A value about to be seen by C code."""

    def for_caller(self, run: Callable[[], Any]) -> Any:
        """What C code, which has called the program's, is given by it."""


class Calls(Protocol):
    """Calls of what is not interpreted."""

    def interprets(self, fn: FunctionType) -> bool: ...
    def is_controlled(self, instance: Any) -> bool:
        """Whether the user has said what is to be done with calls of an instance."""

    def native(self, frame: Any, fn: Any, args: list[Any], kwargs: Keywords | None) -> Any: ...
    def cached(self, frame: Any, fn: Any, args: list[Any], kwargs: Keywords | None) -> Any:
        """A call of a `functools.lru_cache` wrapper."""

    def parts_of_partial(self, made: Any) -> list[Any] | None:
        """What a partial of a class of the program's calls, and with what; None: let C call it."""

    def creating(self, cls: type) -> None:
        """The program is about to make an instance."""


class Errors(Protocol):
    """Exceptions on their way to the program's handlers."""

    def raising(self, error: BaseException) -> None:
        """The program is about to raise an exception, perhaps not for the first time."""

    def catching(self, error: BaseException) -> None:
        """A handler of the program's is about to see the exception."""

    def catchable(self, error: BaseException) -> bool:
        """Whether the program's own handlers may see the exception."""


class Lifetimes(Protocol):
    """Objects that the program lets go of."""

    @property
    def runs_finalisers(self) -> bool:
        """Whether a suspended generator that dies runs its `finally` blocks."""

    def finalise(self, generator: Any) -> None:
        """A suspended generator dies."""

    def dropping(self, value: Any) -> None:
        """The program lets go of a value from outside, such as the iterator of a loop that it leaves."""

    def overwriting(self, value: Any, frame: Any) -> None:
        """A variable that holds a value from outside gets another one."""

    def leaving(self, frame: Any) -> None:
        """A function that was called returns, and its variables end."""

    def may_be_missed(self, value: Any, stack: list[Any]) -> bool:
        """Whether a variable that is not read again is handed over all the same, for what it holds."""


class World(Protocol):
    """The interpreter's whole view of values, in parts."""

    @property
    def scopes(self) -> Scopes: ...
    @property
    def functions(self) -> Functions: ...
    @property
    def classes(self) -> Classes: ...
    @property
    def attributes(self) -> Attributes: ...
    @property
    def attribute_writes(self) -> AttributeWrites: ...
    @property
    def containers(self) -> Containers: ...
    @property
    def operators(self) -> Operators: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def materialize(self) -> Materialize: ...
    @property
    def calls(self) -> Calls: ...
    @property
    def errors(self) -> Errors: ...
    @property
    def lifetimes(self) -> Lifetimes: ...
