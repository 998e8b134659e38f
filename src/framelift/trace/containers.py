"""Items and iteration on values of a trace."""

from __future__ import annotations

import collections
import gc
import operator
import types
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift._frame import native
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph.arithmetic import NUMBERS
from framelift.guards.kinds import Access, Check
from framelift.interpreter.lookups import is_ours
from framelift.interpreter.pending import Pending, opened
from framelift.trace.callable_rules import CallableRule, Looks
from framelift.trace.part import Part
from framelift.trace.shadows import DELETED, Blind, Shadow
from framelift.trace.type_rules import ABSTRACT, IMMUTABLE_TYPE, is_iterator

SIZED = frozenset({list, tuple, dict, set, frozenset, collections.OrderedDict, collections.deque})

MAPPINGS = frozenset({dict, collections.OrderedDict})
ITERATED: frozenset[type] = MAPPINGS | {type({}.keys()), type(collections.OrderedDict().keys())}
"""Types of which nothing but keys is met where they are iterated."""

KEYS = frozenset({str, int, bytes, bool, type(None)})

NEXT = CallableRule(looks=Looks.SHALLOW, why="hands on what an iterator gives")

COUNTING = (list, tuple, str, bytes, bytearray, range, collections.deque)
"""Containers whose items are numbered."""


class Containers(Part):
    """Reads and writes items, and iterates. An outside container that is only added to is not opened."""

    def start(self) -> None:
        self.shadows: dict[int, Shadow] = {}
        """id of a shadow -> its record."""
        self.blind: dict[int, Blind] = {}
        """id of an outside container -> what was added to it before anybody looked into it."""

    def lookup(self, container: Any, key: Any) -> Any:
        """A mapping's value; MISSING if it has none. An unopened dictionary is guarded for this key only."""
        if type(container) is Pending:
            found = self.peek(container, key)
            if found is not DELETED:
                return found
            container = container.open()
        return native(dict.get, container, key, MISSING)

    def peek(self, container: Pending, key: Any) -> Any:
        """Like lookup, but DELETED where only opening the whole container will do."""
        raw = container.value
        cls = type(raw)
        if (
            container.opened is not MISSING
            or cls not in MAPPINGS
            or id(raw) in self.world.inputs.known
            or id(raw) in self.blind
            or type(key) not in KEYS
        ):
            return DELETED
        source = container.source
        if source.access is Access.DICT:
            view = self.world.attributes.view_of_dict(source)
            if view is None or view.complete:
                return DELETED
            self.world.inputs.glanced[source] = raw
            value = self.world.attributes.own(view, view.outside, key)
            return MISSING if value is DELETED else value
        self.world.inputs.glanced[source] = raw
        self.world.guards.add(source, Check.TYPE, cls)
        if key in raw:
            return self.world.guards.found(source.child(Access.KEY, key), raw[key])
        self.world.guards.add(source, Check.NO_KEY, key)
        return MISSING

    @acts_for_program
    def load(self, container: Any, key: Any) -> Any:
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
            own = self.world.overrides.ask_own(container, "__getitem__", key)
            if own is not MISSING:
                return own
            return self.world.recorder.call(operator.getitem, (container, self.world.tensors.index(key)), {})
        if cls in ABSTRACT:
            return self.world.abstract(container).get_item(container, key)
        if cls is list or cls is tuple:
            return (
                container[key]
                if type(key) is int
                else native(operator.getitem, container, self.world.materialize.for_c(key))
            )
        if cls is dict:
            return native(operator.getitem, container, self.world.identity.key(key))
        method = self.world.classes.own_method(container, cls, "__getitem__")
        if method is not None:
            return self.world.calls.invoke(method, container, key)
        if not cls.__flags__ & IMMUTABLE_TYPE:
            self.world.classes.attribute(cls, "__missing__")
        if issubclass(type(container), type):
            self.world.classes.attribute(container, "__class_getitem__")
        return native(operator.getitem, self.world.materialize.shallow(container), self.index(container, key))

    def index(self, container: Any, key: Any) -> Any:
        """What a container is asked for: one that counts does not hash it."""
        world = self.world
        counts = issubclass(type(container), COUNTING)
        return world.materialize.for_c(key) if counts else world.identity.key(key)

    def store(self, container: Any, key: Any, value: Any) -> None:
        container = opened(container)
        cls = type(container)
        materialize = self.world.materialize
        if cls is FakeTensor:
            if self.world.overrides.ask_own(container, "__setitem__", key, value) is not MISSING:
                return
            self.world.recorder.call(
                operator.setitem, (container, self.world.tensors.index(key), materialize.for_torch(value)), {}
            )
            return
        if cls in ABSTRACT:
            self.world.abstract(container).set_item(container, key, opened(value))
            return
        method = self.world.classes.own_method(container, cls, "__setitem__")
        if method is not None:
            self.world.calls.invoke(method, container, key, value)
            return
        key = self.index(container, key)
        if type(key) is slice:
            value = materialize.shallow(value)
        native(operator.setitem, materialize.shallow(container), key, value)

    def delete(self, container: Any, key: Any) -> None:
        container = opened(container)
        if self.world.overrides.ask_own(container, "__delitem__", key) is not MISSING:
            return
        method = self.world.classes.own_method(container, type(container), "__delitem__")
        if method is not None:
            self.world.calls.invoke(method, container, key)
            return
        native(operator.delitem, self.world.materialize.shallow(container), self.index(container, key))

    def contains(self, container: Any, value: Any) -> Any:
        """The operator `in`. What a tensor holds is a number that only the data decides."""
        value = opened(value)
        if type(container) is Pending:
            found = self.peek(container, value)
            if found is not DELETED:
                return found is not MISSING
            container = container.open()
        cls = type(container)
        if cls is FakeTensor:
            own = self.world.overrides.ask_own(container, "__contains__", value)
            if own is not MISSING:
                return self.world.operators.truth(own)
            if type(value) in NUMBERS or type(value) is FakeTensor:
                equal = self.world.operators.apply(operator.eq, value, container)
                anywhere = self.world.recorder.call(torch.Tensor.any, (equal,), {})
                return self.world.recorder.call(torch.Tensor.item, (anywhere,), {})
        if cls in MAPPINGS and type(value) in KEYS:
            return native(operator.contains, container, value)  # a key's `__eq__` may be the program's
        if cls is types.MappingProxyType:
            (container,) = gc.get_referents(container)  # which keeps its values from C
        if issubclass(type(container), (dict, set, frozenset)) and type(container).__flags__ & IMMUTABLE_TYPE:
            has_symbols = self.world.recorder.builder.symbols is not None
            if has_symbols and self.world.comparisons.is_absent(container, value):
                return False
            return native(operator.contains, container, self.world.identity.key(value))
        return self.world.operators.apply(operator.contains, container, value)

    def blindly(self, target: Any, cls: type) -> Blind | None:
        """What is added to an outside container that nobody has looked into yet."""
        if type(target) is not Pending or target.opened is not MISSING or type(target.value) is not cls:
            return None
        raw, source = target.value, target.source
        if id(raw) in self.world.inputs.known:
            return None
        found = self.blind.get(id(raw))
        if found is None:
            self.world.guards.add(source, Check.TYPE, cls)
            found = self.blind[id(raw)] = Blind(source, raw)
        elif found.source is not source:
            self.world.guards.add(source, Check.SAME_AS, found.source)
        return found

    @acts_for_program
    def append(self, target: Any, value: Any) -> None:
        blind = self.blindly(target, list)
        if blind is None:
            list.append(opened(target), value)
        else:
            blind.calls.append(("append", (value,)))

    def add(self, target: Any, value: Any) -> None:
        blind = self.blindly(target, set)
        if blind is None:
            self.world.operators.apply(set.add, opened(target), self.world.identity.key(value))
        else:
            blind.calls.append(("add", (value,)))

    def put(self, target: Any, key: Any, value: Any) -> None:
        blind = self.blindly(target, dict)
        if blind is None:
            self.store(target, key, value)
        else:
            blind.calls.append(("__setitem__", (key, value)))

    @acts_for_program
    def iterate(self, value: Any) -> Any:
        loops = self.world.loops
        loops.over(value)
        value = opened(value)
        cls = type(value)
        if cls is FakeTensor:
            loops.over(value)
            own = self.world.overrides.ask_own(value, "__iter__")
            if own is not MISSING:
                return own
            return iter(self.world.recorder.call(torch.Tensor.unbind, (value, 0), {}))
        if cls in ABSTRACT:
            return iter(self.world.abstract(value).items(value))
        if cls in SIZED:
            self.world.set_order.refuse(value)
            return iter(value)
        if self.world.inputs.is_opaque(value):
            if is_iterator(cls):
                return value  # as each of these says; it is advanced for real
            refuse(breaks.OPAQUE_OBJECT, f"iteration over a {cls.__module__}.{cls.__qualname__}")
        method = None if is_ours(cls) else self.world.classes.own_method(value, cls, "__iter__")
        if method is not None:
            iterator = opened(self.world.calls.invoke(method, value))
            if not hasattr(type(iterator), "__next__"):
                raise TypeError(f"iter() returned non-iterator of type '{type(iterator).__name__}'")
            return iterator
        if not cls.__flags__ & IMMUTABLE_TYPE:
            for name in ("__iter__", "__getitem__"):
                self.world.classes.attribute(cls, name)
        return native(iter, value)

    def advance(self, iterator: Any) -> Any:
        iterator = opened(iterator)
        resume = getattr(type(iterator), "resume", None)
        if resume is not None and is_ours(type(iterator)):
            try:
                return resume(iterator)
            except StopIteration:
                return MISSING
        if self.world.inputs.is_opaque(iterator):
            refuse(breaks.OUTSIDE_ITERATOR, f"a {type(iterator).__qualname__}")
        self.world.classes.special_of_c(type(iterator), "__next__")
        if self.world.may_have_symbols:
            return self.world.calls.called_with_symbols(next, NEXT, [iterator, MISSING], {})
        return native(next, iterator, MISSING)

    @acts_for_program
    def elements(self, iterable: Any) -> list[Any]:
        iterable = opened(iterable)
        if type(iterable) in (list, tuple):
            return list(iterable)
        items = []
        iterator = self.iterate(iterable)
        while (item := self.advance(iterator)) is not MISSING:
            items.append(item)
        return items
