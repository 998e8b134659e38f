"""What operations do when nothing is abstract: what CPython does.

`PlainWorld` is the interpreter's whole view of values. Every operation that could run Python code
goes through `native`, so that the frames it enters come back to the interpreter. The world of a
trace (`framelift.trace.world`) overrides the operations that can meet something from outside.
"""

from __future__ import annotations

import builtins
import decimal
import operator
from collections.abc import Callable
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from framelift import _frame
from framelift.core.policy import interprets
from framelift.core.sentinels import MISSING, NULL

native = _frame.native
T = TypeVar("T")

STAND_INS: dict[type, type] = {}
"""A class of Framelift's -> the builtin class that its instances are taken for."""


def stands_for(builtin: type) -> Callable[[type[T]], type[T]]:
    """The class gets the builtin's name too: it is in the messages of errors that C raises."""

    def register(cls: type[T]) -> type[T]:
        STAND_INS[cls] = builtin
        cls.__name__ = builtin.__name__
        return cls

    return register


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


class PlainWorld:
    runs_finalisers = True
    """Whether a suspended generator that dies runs its `finally` blocks."""

    def finalise(self, generator: Any) -> None:
        """A suspended generator dies."""
        generator.close()

    # ---- names

    def names(self, scope: dict[str, Any], fn: FunctionType | None = None) -> dict[str, Any]:
        """Where LOAD_GLOBAL looks first."""
        return scope

    def load_global(self, scope: dict[str, Any], name: str) -> Any:
        """A name that `names(scope)` does not have."""
        value = self.builtin(scope, name)
        if value is MISSING:
            raise NameError(f"name '{name}' is not defined", name=name)
        return value

    def builtin(self, scope: dict[str, Any], name: str) -> Any:
        found = scope.get("__builtins__", builtins)
        namespace = found if isinstance(found, dict) else vars(found)
        if type(namespace) is dict:
            return namespace.get(name, MISSING)
        try:
            return native(operator.getitem, namespace, name)
        except KeyError:
            return MISSING

    def store_global(self, scope: dict[str, Any], name: str, value: Any) -> None:
        scope[name] = value

    def delete_global(self, scope: dict[str, Any], name: str) -> None:
        if name not in scope:
            raise NameError(f"name '{name}' is not defined", name=name)
        del scope[name]

    def globals_value(self, scope: dict[str, Any]) -> Any:
        return scope

    def cells(self, fn: FunctionType) -> tuple[CellType, ...]:
        return fn.__closure__ or ()

    # ---- attributes

    def load_attr(self, obj: Any, name: str) -> Any:
        return native(getattr, obj, name)

    def load_method(self, obj: Any, name: str) -> tuple[Any, Any]:
        return NULL, native(getattr, obj, name)

    def store_attr(self, obj: Any, name: str, value: Any) -> None:
        native(setattr, obj, name, value)

    def delete_attr(self, obj: Any, name: str) -> None:
        native(delattr, obj, name)

    def class_attribute(self, cls: type, name: str) -> Any:
        """What the class itself says of a name, descriptors not bound; MISSING if nothing."""
        for base in cls.__mro__:
            namespace = base.__dict__
            if name in namespace:
                return namespace[name]
        return MISSING

    def guard_bases(self, cls: type) -> None:
        """What happens now depends on what a class is derived from."""

    def special(self, obj: Any, name: str) -> Any:
        """A special method, bound: looked up on the type, as CPython does; MISSING if there is none."""
        found = self.class_attribute(type(obj), name)
        if found is MISSING:
            return MISSING
        if type(found) is FunctionType:
            return MethodType(found, obj)
        getter = getattr(type(found), "__get__", None)
        return found if getter is None else self.got(getter, found, obj, type(obj))

    def got(self, getter: Any, found: Any, obj: Any, cls: type) -> Any:
        """What a descriptor's `__get__` gives."""
        return native(getter, found, obj, cls)

    def class_of(self, obj: Any) -> type:
        """`type(obj)` as the program should see it."""
        cls = type(obj)
        return STAND_INS.get(cls, cls) if type(cls) is type else cls  # a metaclass may have an odd hash

    def frame_object(self, frame: Any) -> Any:
        """What the program sees of a frame that is being interpreted."""
        return frame.view()

    def vars_of(self, frame: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self.call_native(frame, builtins.vars, args, kwargs)

    def names_of(self, frame: Any, obj: Any) -> Any:
        return self.call_native(frame, builtins.dir, [obj], {})

    def import_name(self, name: str, scope: Any, namespace: Any, from_list: Any, level: int) -> Any:
        importer = self.builtin(scope, "__import__")
        if importer is MISSING:
            raise ImportError("__import__ not found")
        return native(importer, name, scope, namespace, from_list, level)

    # ---- items

    def load_item(self, container: Any, key: Any) -> Any:
        return native(operator.getitem, container, key)

    def store_item(self, container: Any, key: Any, value: Any) -> None:
        native(operator.setitem, container, key, value)

    def delete_item(self, container: Any, key: Any) -> None:
        native(operator.delitem, container, key)

    def contains(self, container: Any, value: Any) -> bool:
        return native(operator.contains, container, value)

    def append(self, target: Any, value: Any) -> None:
        """What a comprehension does; so are the next two."""
        target.append(value)

    def add(self, target: Any, value: Any) -> None:
        self.operate(set.add, target, self.key(value))

    def put(self, target: Any, key: Any, value: Any) -> None:
        self.store_item(target, key, value)

    def key(self, value: Any) -> Any:
        """A value about to be hashed."""
        return value

    # ---- iteration

    def iterate(self, value: Any) -> Any:
        return native(iter, value)

    def advance(self, iterator: Any) -> Any:
        """The next item; MISSING at the end."""
        return native(next, iterator, MISSING)

    def elements(self, iterable: Any) -> list[Any]:
        return native(list, iterable)

    # ---- operators, truth, identity

    def operate(self, fn: Any, *operands: Any) -> Any:
        """An operation that C implements, on operands that are already open."""
        return native(fn, *operands)

    def truth(self, value: Any) -> bool:
        return native(bool, value)

    def same(self, left: Any, right: Any) -> bool:
        return left is right

    def is_instance(self, value: Any, cls: Any) -> bool:
        return native(isinstance, value, cls)

    # ---- calls

    def interprets(self, fn: FunctionType) -> bool:
        return interprets(fn)

    def call_native(self, frame: Any, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        return native(fn, *args, **kwargs) if kwargs else native(fn, *args)

    def call_cached(self, frame: Any, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        """A call of a `functools.lru_cache` wrapper."""
        return self.call_native(frame, fn, args, kwargs)

    def defaults_of(self, fn: FunctionType, bound: list[Any]) -> list[Any]:
        """Bound arguments, where a default came from outside told so."""
        return bound

    def made_function(self, fn: FunctionType) -> None:
        """The program has made a function."""

    def made_inside(self, fn: FunctionType) -> bool:
        """Whether the program has made the function, so that another run has another one."""
        return False

    def entered(self, fn: FunctionType) -> None:
        """A function is about to be interpreted."""

    def for_c(self, value: Any) -> Any:
        """A value about to be seen by C code."""
        return value

    def creating(self, cls: type) -> None:
        """The program is about to make an instance."""

    def dropping(self, value: Any) -> None:
        """The program lets go of a value from outside, such as the iterator of a loop that it leaves."""

    def raising(self, error: BaseException) -> None:
        """The program is about to raise an exception, perhaps not for the first time."""

    def catching(self, error: BaseException) -> None:
        """A handler of the program's is about to see the exception."""

    def may_be_missed(self, value: Any, stack: list[Any]) -> bool:
        """Whether a variable that is not read again is handed over all the same, for what it holds."""
        return False

    def catchable(self, error: BaseException) -> bool:
        """Whether the program's own handlers may see the exception."""
        return True
