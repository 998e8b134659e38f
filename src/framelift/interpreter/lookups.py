"""Facts about classes and scopes that are the same in every world."""

from __future__ import annotations

import builtins
import decimal
import operator
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any, TypeVar

from framelift import _frame
from framelift.core.sentinels import MISSING, UNSET

T = TypeVar("T")


def class_attribute(cls: type, name: str) -> Any:
    """What a class, or one that it is derived from, has under a name; MISSING if nothing."""
    for base in cls.__mro__:
        namespace = base.__dict__
        if name in namespace:
            return namespace[name]
    return MISSING


def builtin_named(scope: dict[str, Any], name: str) -> Any:
    """What the builtins of a namespace have under a name; MISSING if nothing."""
    found = scope.get("__builtins__", builtins)
    namespace = found if isinstance(found, dict) else vars(found)
    if type(namespace) is dict:
        return namespace.get(name, MISSING)
    try:
        return _frame.native(operator.getitem, namespace, name)
    except KeyError:
        return MISSING


def contents_of(cell: CellType) -> Any:
    """What a cell holds; UNSET if nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNSET


# ---- classes of Framelift's that stand for builtin ones

STAND_INS: dict[type, type] = {}
"""A class of Framelift's -> the builtin class that its instances are taken for."""


def stands_for(builtin: type) -> Callable[[type[T]], type[T]]:
    """The class gets the builtin's name too: it is in the messages of errors that C raises."""

    def register(cls: type[T]) -> type[T]:
        STAND_INS[cls] = builtin
        cls.__name__ = builtin.__name__
        return cls

    return register


def stood_for(cls: type) -> type:
    """The class that instances of a class are taken for."""
    return STAND_INS.get(cls, cls) if type(cls) is type else cls  # a metaclass may have an odd hash


def is_ours(cls: type) -> bool:
    """A class of Framelift's, such as what stands for a generator: no part of the program."""
    module: Any = cls.__module__  # what stands for a frame has none that is text
    return module.partition(".")[0] == "framelift" if isinstance(module, str) else cls in STAND_INS


def is_watched(cls: type) -> bool:
    """Whether programs hold weak references to instances of a class."""
    return cls.__weakrefoffset__ != 0 and not issubclass(cls, UNWATCHED) and not is_ours(cls)


UNWATCHED: tuple[type, ...] = (type, FunctionType, ModuleType)
"""They are weakly referenced anyway; it is seldom a variable that keeps one alive."""


def leave_unwatched(cls: type) -> None:
    global UNWATCHED
    UNWATCHED += (cls,)


RELIED_ON: tuple[type, ...] = (decimal.Context,)
"""Classes of C's that give out parts of their instances which don't keep them alive: `flags`, `traps`."""
