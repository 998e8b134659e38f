"""Facts about classes and scopes that are the same in every world."""

from __future__ import annotations

import builtins
import decimal
import operator
import weakref
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, TypeVar

from framelift import _frame
from framelift.core import policy
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
    namespace = vars(found) if isinstance(found, ModuleType) else found
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


def has_finaliser(value: Any) -> bool:
    """Whether code of the program's runs when it dies; of what C runs nobody can tell."""
    return type(class_attribute(type(value), "__del__")) is FunctionType or has_callbacks(value)


def has_callbacks(value: Any) -> bool:
    """Whether a weak reference to an instance calls something of the program's when that dies."""
    if not is_watched(type(value)) or weakref.getweakrefcount(value) == 0:
        return False
    return any(calls_back(reference, value) for reference in weakref.getweakrefs(value))


def calls_back(reference: Any, value: Any) -> bool:
    """Whether a weak reference calls something of the program's when its object dies. A proxy can't be asked;
    of those that call nobody there is one for each object."""
    if not issubclass(type(reference), weakref.ref):
        return weakref.proxy(value) is not reference
    callback = reference.__callback__
    if callback is None or type(callback) is BuiltinFunctionType:
        return False
    # weak dictionaries of libraries only let go of an entry
    return type(callback) is not FunctionType or policy.is_user_code(callback.__module__ or "")


class Empty:
    __slots__ = ("slot",)
    slot: Any


def text_of_empty_slot() -> str:
    try:
        Empty().slot  # noqa: B018
    except AttributeError as error:
        return str(error)
    return ""


SLOTS_NAME_MODULES = Empty.__module__ in text_of_empty_slot()
"""Whether CPython says in which module the class of an object is that has nothing in a slot (since 3.13)."""


def names_module(cls: type) -> bool:
    return SLOTS_NAME_MODULES and cls.__module__ not in ("builtins", "__main__")
