"""Holding on to objects of the program, and what is known of them, without keeping them alive."""

from __future__ import annotations

import weakref
from types import BuiltinFunctionType
from typing import Any, Generic, TypeVar

HEAP_TYPE = 1 << 9


ENDED = id
"""What a reference of a subclass of `weakref.ref` calls in the end. It has to call something: one that is
waiting to be freed itself (CPython puts that off when objects are nested deeply) makes
`PyObject_ClearWeakRefs` drop a callback without looking whether there is one."""


class Weak(weakref.ref[Any]):
    """Stands for an object of the program, which may itself be a weak reference."""

    __slots__ = ()


def is_lasting(value: Any) -> bool:
    """Whether it can only be held itself: it can't be weakly referenced, or need not be. Functions of C are
    often made when they are asked for, types of C stay, and frozensets are compared by value."""
    cls = type(value)
    if cls.__weakrefoffset__ == 0 or cls is BuiltinFunctionType or cls is frozenset:
        return True
    return issubclass(cls, type) and not value.__flags__ & HEAP_TYPE  # `isinstance` could ask the value


def weakly(value: Any) -> Any:
    """What to keep in the place of an object."""
    return value if is_lasting(value) else Weak(value, ENDED)


class Gone:
    """Is found in the place of an object that is no more."""

    __qualname__ = __name__ = "gone"


def there(kept: Any) -> Any:
    """The object that `weakly` was given."""
    if type(kept) is not Weak:
        return kept
    found = kept()
    return Gone if found is None else found


Kept = TypeVar("Kept")


class PerCode(Generic[Kept]):
    """A value for each code object, function or class, for as long as that lives.

    By identity: code objects that are equal may still be of different files, or resume different functions.
    The collector does not look into code objects, so what is kept for one must not lead back to it.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, tuple[weakref.ref[object], Kept]] = {}

    def get(self, code: object) -> Kept | None:
        found = self.by_id.get(id(code))
        return None if found is None or found[0]() is not code else found[1]

    def set(self, code: object, value: Kept) -> Kept:
        place, known = id(code), weakref.ref(self)  # what it keeps must not wait for the collector

        def forget(_: object) -> None:
            table = known()
            if table is not None:
                table.by_id.pop(place, None)

        self.by_id[place] = weakref.ref(code, forget), value
        return value

    def values(self) -> list[Kept]:
        return [value for _, value in list(self.by_id.values())]  # other threads may add and drop meanwhile

    def clear(self) -> None:
        self.by_id.clear()

    def __len__(self) -> int:
        return len(self.by_id)
