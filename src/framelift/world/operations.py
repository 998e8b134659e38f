"""Operators, truth, identity, items, iteration and native calls on values of a trace."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Iterator
from types import BuiltinFunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.sentinels import MISSING
from framelift.tensors import memory
from framelift.world.attributes import Attributes
from framelift.world.door import IMMUTABLE_TYPE
from framelift.world.guard import Check
from framelift.world.licence import Licence, Looks, Refusal, licence_of
from framelift.world.pending import Pending, opened
from framelift.world.source import Access
from framelift.world.views import DELETED

native = _frame.native

ATOMS = memory.ATOMS | {bytes, range, type(NotImplemented), torch.Size, types.FunctionType, type, types.ModuleType}
SIZED = frozenset({list, tuple, dict, set, frozenset, collections.OrderedDict, collections.deque})
MAPPINGS = frozenset({dict, collections.OrderedDict})
KEYS = frozenset({str, int, bytes, bool, type(None)})
ITERATORS = frozenset(
    {
        *(zip, map, filter, enumerate, reversed, type(iter([])), type(iter(())), type(iter({}))),
        *(type(iter({}.values())), type(iter({}.items())), type(iter(set())), type(iter(reversed([])))),
    }
)
VIEWS = frozenset({type({}.values()), type({}.items())})
TEXTS = frozenset({repr, str, format, ascii})

SPECIAL_NAMES = {
    len: ("__len__",),
    bool: ("__bool__", "__len__"),
    iter: ("__iter__", "__getitem__"),
    next: ("__next__",),
    repr: ("__repr__",),
    ascii: ("__repr__",),
    str: ("__str__", "__repr__"),
    format: ("__format__", "__str__"),
    hash: ("__hash__",),
    operator.contains: ("__contains__", "__iter__"),
    operator.lt: ("__lt__", "__gt__"),
    operator.le: ("__le__", "__ge__"),
    operator.gt: ("__gt__", "__lt__"),
    operator.ge: ("__ge__", "__le__"),
    operator.eq: ("__eq__",),
    operator.ne: ("__ne__", "__eq__"),
}
IN_PLACE = {
    getattr(operator, "i" + name.rstrip("_")): getattr(operator, name)
    for name in "add and_ floordiv lshift matmul mul mod or_ pow rshift sub truediv xor".split()
}
OPERATORS = frozenset(
    {*IN_PLACE, *IN_PLACE.values()}
    | {operator.neg, operator.pos, operator.invert, operator.lt, operator.le, operator.eq, operator.ne}
    | {operator.gt, operator.ge, operator.getitem}
)
"""Operators that a graph can hold as they are."""


def special_names(fn: Any) -> tuple[str, ...]:
    """The special methods that an operation may call."""
    found = SPECIAL_NAMES.get(fn)
    if found is None:
        name = getattr(fn, "__name__", "").strip("_")
        plain = name[1:] if name.startswith("i") and name != "invert" and name != "index" else name
        found = SPECIAL_NAMES[fn] = (f"__{name}__", f"__{plain}__", f"__r{plain}__")
    return found


def opening(world: Operations, iterator: Any) -> Iterator[Any]:
    """Hands an iterator's items to C code, opened one by one."""
    for item in iterator:
        yield world.for_c(item)


class Operations(Attributes):
    # ---- operators

    def operate(self, fn: Any, *operands: Any) -> Any:
        tensors = False
        for operand in operands:
            cls = type(operand)
            if cls is FakeTensor:
                tensors = True
            elif cls not in ATOMS:
                break
        else:
            if tensors and fn in OPERATORS:
                if fn in IN_PLACE and type(operands[0]) is not FakeTensor:
                    fn = IN_PLACE[fn]  # `number += tensor` changes no tensor
                return self.recorder.call(fn, operands, {})
            return fn(*operands) if not tensors else native(fn, *operands)
        prepared = []
        for operand in operands:
            if type(operand) not in ATOMS:
                operand = self.operand(fn, operand)
            prepared.append(operand)
        return native(fn, *prepared)

    def operand(self, fn: Any, value: Any) -> Any:
        value = self.for_c(value)
        cls = type(value)
        if not cls.__flags__ & IMMUTABLE_TYPE:
            if self.is_opaque(value):
                self.refuse(breaks.OPAQUE_OBJECT, f"a {cls.__module__}.{cls.__qualname__} in an operation")
            for name in special_names(fn):
                self.class_attribute(cls, name)
            if fn in TEXTS and self.shows_address(cls, fn):
                self.refuse(breaks.IDENTITY, f"the default text of a {cls.__qualname__}")
        return value

    def shows_address(self, cls: type, fn: Any) -> bool:
        if fn is not repr and fn is not ascii and self.class_attribute(cls, "__str__") is not object.__str__:
            return False
        return self.class_attribute(cls, "__repr__") is object.__repr__

    def truth(self, value: Any) -> bool:
        if type(value) is Pending:
            raw = value.value
            if value.opened is MISSING and type(raw) in SIZED and id(raw) not in self.known:
                if value.source.access is not Access.DICT:
                    self.guard(value.source, Check.TYPE, type(raw))
                    self.guard(value.source, Check.NONEMPTY, bool(raw))
                    return bool(raw)
            value = value.open()
        cls = type(value)
        if cls is FakeTensor:
            return self.recorder.call(torch.Tensor.__bool__, (value,), {})
        if cls in ATOMS or cls in SIZED:
            return bool(value)
        if not cls.__flags__ & IMMUTABLE_TYPE:
            if self.is_opaque(value):
                self.refuse(breaks.OPAQUE_OBJECT, f"truth of a {cls.__qualname__}")
            for name in SPECIAL_NAMES[bool]:
                self.class_attribute(cls, name)
        return native(bool, value)

    def same(self, left: Any, right: Any) -> bool:
        if left is None:
            left, right = right, left
        if right is None and type(left) is Pending and left.opened is MISSING:
            none = left.value is None
            self.guard(left.source, Check.IS if none else Check.IS_NOT, None)
            return none
        left, right = opened(left), opened(right)
        if left is right:
            return True
        mine, other = self.source_of(left), self.source_of(right)
        if mine is not None and other is not None and type(left) is type(right):
            if mine.access is not Access.CONST or other.access is not Access.CONST:
                self.guard(mine, Check.NOT_SAME_AS, other)
        return False

    def is_instance(self, value: Any, cls: Any) -> bool:
        if type(value) is Pending and value.opened is MISSING and type(value.value) in ATOMS and value.value is not None:
            self.guard(value.source, Check.TYPE, type(value.value))
            return native(isinstance, value.value, self.for_c(cls))
        value, cls = opened(value), self.for_c(cls)
        if type(value) is FakeTensor:
            return self.tensor_is_instance(value, cls)
        return native(isinstance, value, cls)

    def tensor_is_instance(self, fake: Any, cls: Any) -> bool:
        if isinstance(cls, tuple):
            return any(self.tensor_is_instance(fake, item) for item in cls)
        if cls is FakeTensor:
            return False
        return issubclass(self.recorder.class_of(fake), cls) or isinstance(fake, cls)

    # ---- items

    def lookup(self, container: Any, key: Any) -> Any:
        """A mapping's value; MISSING if it has none. An unopened dictionary is guarded for this key only."""
        if type(container) is Pending:
            found = self.peek(container, key)
            if found is not DELETED:
                return found
            container = container.open()
        return dict.get(container, key, MISSING)

    def peek(self, container: Pending, key: Any) -> Any:
        """Like lookup, but DELETED where only opening the whole container will do."""
        raw = container.value
        cls = type(raw)
        if container.opened is not MISSING or cls not in MAPPINGS or id(raw) in self.known or type(key) not in KEYS:
            return DELETED
        source = container.source
        if source.access is Access.DICT:
            known = next((v for v in (self.views.get(id(o)) for o in self.owners(source)) if v is not None), None)
            if known is None or known.complete:
                return DELETED
            value = self.own_attr(known, known.outside, key)
            return MISSING if value is DELETED else value
        self.guard(source, Check.TYPE, cls)
        if key in raw:
            return Pending(self, source.child(Access.KEY, key), raw[key])
        self.guard(source, Check.NO_KEY, key)
        return MISSING

    def owners(self, source: Any) -> list[Any]:
        """The instance whose `__dict__` a source is."""
        return [view.outside for view in self.views.values() if view.source is source.base]

    def load_item(self, container: Any, key: Any) -> Any:
        key = opened(key)
        if type(container) is Pending:
            found = self.peek(container, key)
            if found is MISSING:
                raise KeyError(key)
            if found is not DELETED:
                return found
            container = container.open()
        cls = type(container)
        if cls is FakeTensor:
            return self.recorder.call(operator.getitem, (container, self.for_c(key)), {})
        if (cls is list or cls is tuple) and type(key) is int:
            return container[key]
        if cls is dict:
            return native(operator.getitem, container, self.for_c(key))
        if not cls.__flags__ & IMMUTABLE_TYPE:
            self.class_attribute(cls, "__getitem__")
            self.class_attribute(cls, "__missing__")
        if self.is_opaque(container):
            self.refuse(breaks.OPAQUE_OBJECT, f"a subscript of a {cls.__qualname__}")
        return native(operator.getitem, container, self.for_c(key))

    def store_item(self, container: Any, key: Any, value: Any) -> None:
        container = opened(container)
        key = self.for_c(key)
        cls = type(container)
        if cls is FakeTensor:
            self.recorder.call(operator.setitem, (container, key, self.for_c(value)), {})
            return
        if not cls.__flags__ & IMMUTABLE_TYPE:
            self.class_attribute(cls, "__setitem__")
            if self.is_opaque(container):
                self.refuse(breaks.OPAQUE_OBJECT, f"an item set on a {cls.__qualname__}")
        native(operator.setitem, container, key, value)

    def delete_item(self, container: Any, key: Any) -> None:
        container = opened(container)
        if not type(container).__flags__ & IMMUTABLE_TYPE:
            self.class_attribute(type(container), "__delitem__")
            if self.is_opaque(container):
                self.refuse(breaks.OPAQUE_OBJECT, f"an item deleted from a {type(container).__qualname__}")
        native(operator.delitem, container, self.for_c(key))

    def contains(self, container: Any, value: Any) -> bool:
        value = opened(value)
        if type(container) is Pending:
            found = self.peek(container, value)
            if found is not DELETED:
                return found is not MISSING
            container = container.open()
        cls = type(container)
        if cls in MAPPINGS and type(value) in KEYS:
            return value in container
        return self.operate(operator.contains, container, self.for_c(value))

    def key(self, value: Any) -> Any:
        return self.for_c(value)

    # ---- iteration

    def iterate(self, value: Any) -> Any:
        value = opened(value)
        cls = type(value)
        if cls is FakeTensor:
            return iter(self.recorder.call(torch.Tensor.unbind, (value, 0), {}))
        if not cls.__flags__ & IMMUTABLE_TYPE:
            if self.is_opaque(value):
                self.refuse(breaks.OPAQUE_OBJECT, f"iteration over a {cls.__module__}.{cls.__qualname__}")
            for name in SPECIAL_NAMES[iter]:
                self.class_attribute(cls, name)
        return native(iter, value)

    def advance(self, iterator: Any) -> Any:
        iterator = opened(iterator)
        resume = getattr(type(iterator), "resume", None)
        if resume is not None and type(iterator).__module__ == "framelift.interpreter.generators":
            try:
                return resume(iterator)
            except StopIteration:
                return MISSING
        if self.is_opaque(iterator):
            self.refuse(breaks.OPAQUE_OBJECT, f"an outside {type(iterator).__qualname__}")
        return native(next, iterator, MISSING)

    def elements(self, iterable: Any) -> list[Any]:
        iterable = opened(iterable)
        if type(iterable) in (list, tuple):
            return list(iterable)
        items = []
        iterator = self.iterate(iterable)
        while (item := self.advance(iterator)) is not MISSING:
            items.append(item)
        return items

    # ---- native calls

    def for_c(self, value: Any) -> Any:
        """A value that C code may look into, opened all the way down."""
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        if cls in ATOMS or cls is FakeTensor:
            return value
        return self.open_inside(value, cls, set())

    def open_inside(self, value: Any, cls: type, seen: set[int]) -> Any:
        if id(value) in seen:
            return value
        if issubclass(cls, (list, collections.deque)):
            seen.add(id(value))
            base = list if issubclass(cls, list) else collections.deque
            for n, item in enumerate(base.__iter__(value)):
                now = self.deep(item, seen)
                if now is not item:
                    base.__setitem__(value, n, now)  # type: ignore[attr-defined]
        elif issubclass(cls, dict):
            seen.add(id(value))
            for key, item in list(dict.items(value)):
                now = self.deep(item, seen)
                if now is not item:
                    dict.__setitem__(value, key, now)
        elif issubclass(cls, tuple):
            items = [self.deep(item, seen) for item in tuple.__iter__(value)]
            if any(a is not b for a, b in zip(items, tuple.__iter__(value), strict=True)):
                return tuple(items) if cls is tuple else tuple.__new__(cls, items)
        elif cls is slice:
            return slice(*[self.deep(part, seen) for part in (value.start, value.stop, value.step)])
        elif cls in ITERATORS:
            return opening(self, value)
        elif cls in VIEWS:
            return [self.deep(item, seen) for item in value]
        elif cls is types.MethodType:
            return types.MethodType(value.__func__, self.deep(value.__self__, seen))
        return value

    def deep(self, value: Any, seen: set[int]) -> Any:
        cls = type(value)
        if cls is Pending:
            value = value.open()
            cls = type(value)
        return value if cls in ATOMS or cls is FakeTensor else self.open_inside(value, cls, seen)

    def call_native(self, frame: Any, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        if type(fn) is BuiltinFunctionType and not isinstance(fn.__self__, (types.ModuleType, type, type(None))):
            method = super().class_attribute(type(fn.__self__), fn.__name__)
            if method is not MISSING:
                fn, args = method, [fn.__self__, *args]
        licence = licence_of(fn)
        if type(licence) is Refusal:
            return self.refuse(licence.reason, licence.context)
        return self.licensed(fn, licence, args, kwargs or {})  # type: ignore[arg-type]

    def call_cached(self, frame: Any, fn: Any, args: list[Any], kwargs: dict[str, Any] | None) -> Any:
        """A memoising function would keep fakes: what it wraps is called instead."""
        from framelift.interpreter.calls import call

        return call(frame, fn.__wrapped__, args, kwargs)

    def licensed(self, fn: Any, licence: Licence, args: list[Any], kwargs: dict[str, Any]) -> Any:
        looks = licence.looks
        if looks is Looks.MOVES:
            args = [self.for_c(x) if n and n < licence.first else opened(x) if n < licence.first else x
                    for n, x in enumerate(args)]
        elif looks is Looks.SHALLOW:
            args = [opened(x) for x in args]
            kwargs = {k: opened(v) for k, v in kwargs.items()}
        else:
            args = [self.for_c(x) for x in args]
            kwargs = {k: self.for_c(v) for k, v in kwargs.items()}
            if looks is Looks.RECORDED:
                return self.recorder.call(fn, tuple(args), kwargs)
            for value in args:
                if type(value) not in ATOMS:
                    self.operand(fn, value)
        return native(fn, *args, **kwargs)
