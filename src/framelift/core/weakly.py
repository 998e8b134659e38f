"""Holding on to objects of the program without keeping them alive."""

from __future__ import annotations

import weakref
from types import BuiltinFunctionType
from typing import Any

HEAP_TYPE = 1 << 9


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
    return value if is_lasting(value) else Weak(value)


class Gone:
    """Is found in the place of an object that is no more."""

    __qualname__ = __name__ = "gone"


def there(kept: Any) -> Any:
    """The object that `weakly` was given."""
    if type(kept) is not Weak:
        return kept
    found = kept()
    return Gone if found is None else found
