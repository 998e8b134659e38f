"""The world in which nothing is abstract: operations do what CPython does.

Every operation that could run Python code goes through `native`, so that the frames it enters come back to
the interpreter.

>>> interpret(sorted, [3, 1, 2], key=lambda n: -n)
[3, 2, 1]
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from types import CellType, FunctionType, MethodType
from typing import Any

from framelift._frame import native
from framelift.core import policy
from framelift.core.sentinels import MISSING, NULL
from framelift.interpreter.lookups import builtin_named, class_attribute, stood_for
from framelift.interpreter.machine import Machine
from framelift.interpreter.pending import opened
from framelift.interpreter.world import Keywords, Scope


def interpret(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The result of `fn(*args, **kwargs)`, run by the interpreter on plain Python objects."""
    return Machine(PlainWorld()).call(fn, *args, **kwargs)


class PlainScopes:
    def names(self, scope: Scope, fn: FunctionType | None = None) -> Scope:
        return scope

    def load(self, scope: Scope, name: str) -> Any:
        value = builtin_named(scope, name)
        if value is MISSING:
            raise NameError(f"name '{name}' is not defined", name=name)
        return value

    def store(self, scope: Scope, name: str, value: Any) -> None:
        scope[name] = value

    def delete(self, scope: Scope, name: str) -> None:
        if name not in scope:
            raise NameError(f"name '{name}' is not defined", name=name)
        del scope[name]

    def as_value(self, scope: Scope) -> Any:
        return scope

    def import_name(self, name: str, scope: Any, namespace: Any, from_list: Any, level: int) -> Any:
        importer = builtin_named(scope, "__import__")
        if importer is MISSING:
            raise ImportError("__import__ not found")
        return native(importer, name, scope, namespace, from_list, level)


class PlainFunctions:
    def cells(self, fn: FunctionType) -> tuple[CellType, ...]:
        return fn.__closure__ or ()

    def defaults(self, fn: FunctionType, bound: list[Any]) -> list[Any]:
        return bound

    def made(self, fn: FunctionType) -> None: ...

    def is_made_inside(self, fn: FunctionType) -> bool:
        return False

    def entered(self, fn: FunctionType) -> None: ...


class PlainClasses:
    def attribute(self, cls: type, name: str) -> Any:
        return class_attribute(cls, name)

    def guard_bases(self, cls: type) -> None: ...

    def special(self, obj: Any, name: str) -> Any:
        found = class_attribute(type(obj), name)
        if found is MISSING:
            return MISSING
        if type(found) is FunctionType:
            return MethodType(found, obj)
        getter = getattr(type(found), "__get__", None)
        return found if getter is None else native(getter, found, obj, type(obj))

    def class_of(self, obj: Any) -> type:
        return stood_for(type(obj))

    def super_of(self, start: type, obj: Any) -> Any:
        return super(start, obj)


class PlainAttributes:
    def load(self, obj: Any, name: str) -> Any:
        return native(getattr, obj, name)

    def load_method(self, obj: Any, name: str) -> tuple[Any, Any]:
        return NULL, native(getattr, obj, name)

    def vars_of(self, obj: Any) -> Any:
        return native(builtins.vars, obj)

    def names_of(self, obj: Any) -> Any:
        return native(builtins.dir, obj)


class PlainAttributeWrites:
    def store(self, obj: Any, name: str, value: Any) -> None:
        native(setattr, obj, name, value)

    def delete(self, obj: Any, name: str) -> None:
        native(delattr, obj, name)


class PlainContainers:
    def load(self, container: Any, key: Any) -> Any:
        return native(operator.getitem, container, key)

    def store(self, container: Any, key: Any, value: Any) -> None:
        native(operator.setitem, container, key, value)

    def delete(self, container: Any, key: Any) -> None:
        native(operator.delitem, container, key)

    def contains(self, container: Any, value: Any) -> bool:
        return native(operator.contains, container, value)

    def append(self, target: Any, value: Any) -> None:
        target.append(value)

    def add(self, target: Any, value: Any) -> None:
        native(set.add, target, value)

    def put(self, target: Any, key: Any, value: Any) -> None:
        self.store(target, key, value)

    def iterate(self, value: Any) -> Any:
        return native(iter, value)

    def advance(self, iterator: Any) -> Any:
        return native(next, iterator, MISSING)

    def elements(self, iterable: Any) -> list[Any]:
        return native(list, iterable)


class PlainOperators:
    def apply(self, fn: Any, *operands: Any) -> Any:
        return native(fn, *operands)

    def apply_unopened(self, fn: Any, *operands: Any) -> Any:
        return native(fn, *map(opened, operands))

    def truth(self, value: Any) -> bool:
        return native(bool, value)

    def negated(self, value: Any) -> bool:
        return not self.truth(value)

    def is_instance(self, value: Any, cls: Any) -> bool:
        return native(isinstance, value, cls)


class PlainIdentity:
    def same(self, left: Any, right: Any) -> bool:
        return left is right

    def key(self, value: Any) -> Any:
        return value


class PlainMaterialize:
    def for_c(self, value: Any) -> Any:
        return value

    def for_caller(self, run: Callable[[], Any]) -> Any:
        return run()


class PlainCalls:
    def interprets(self, fn: FunctionType) -> bool:
        return policy.interprets(fn)

    def is_controlled(self, instance: Any) -> bool:
        return False

    def parts_of_partial(self, made: Any) -> list[Any] | None:
        return None

    def native(self, frame: Any, fn: Any, args: list[Any], kwargs: Keywords | None) -> Any:
        return native(fn, *args, **kwargs) if kwargs else native(fn, *args)

    def cached(self, frame: Any, fn: Any, args: list[Any], kwargs: Keywords | None) -> Any:
        return self.native(frame, fn, args, kwargs)

    def creating(self, cls: type) -> None: ...


class PlainErrors:
    def raising(self, error: BaseException) -> None: ...

    def catching(self, error: BaseException) -> None: ...

    def catchable(self, error: BaseException) -> bool:
        return True


class PlainLifetimes:
    runs_finalisers = True

    def finalise(self, generator: Any) -> None:
        generator.close()

    def dropping(self, value: Any) -> None: ...

    def overwriting(self, value: Any, frame: Any) -> None: ...

    def leaving(self, frame: Any) -> None: ...

    def may_be_missed(self, value: Any, stack: list[Any]) -> bool:
        return False


class PlainWorld:
    """A world without anything outside; it has no state."""

    scopes = PlainScopes()
    functions = PlainFunctions()
    classes = PlainClasses()
    attributes = PlainAttributes()
    attribute_writes = PlainAttributeWrites()
    containers = PlainContainers()
    operators = PlainOperators()
    identity = PlainIdentity()
    materialize = PlainMaterialize()
    calls = PlainCalls()
    errors = PlainErrors()
    lifetimes = PlainLifetimes()
