"""Operators, truth, identity, items and iteration on values of a trace."""

from __future__ import annotations

import abc
import collections
import contextlib
import gc
import itertools
import operator
import re
import types
import typing
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.sentinels import MISSING
from framelift.features.numpy.arrays import is_array
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC, data_dependence, settled, simplest
from framelift.guards.guard import Check
from framelift.guards.sources import Access, Source
from framelift.interpreter.pending import Pending, opened
from framelift.interpreter.world import is_ours
from framelift.trace.arithmetic import ARITHMETIC, IN_PLACE, NUMBERS, OF_SIZES, OPERATORS, is_delicate
from framelift.trace.input_wrapping import IMMUTABLE_TYPE
from framelift.trace.materialize import ATOMS, Exposure, Seen, is_iterator
from framelift.trace.shadows import Blind
from framelift.trace.views import DELETED

native = _frame.native

SIZED = frozenset({list, tuple, dict, set, frozenset, collections.OrderedDict, collections.deque})
MAPPINGS = frozenset({dict, collections.OrderedDict})
KEYS = frozenset({str, int, bytes, bool, type(None)})
TEXTS = frozenset({repr, str, format, ascii})
TEXT_FIELD = re.compile(r"%(\([^)]*\))?[^%a-zA-Z]*[sra]")
"""What shows a value's text, rather than its number, where `%` formats it."""
SEQUENCES = (list, tuple)

COUNTING = (list, tuple, str, bytes, bytearray, range, collections.deque)
"""Containers whose items are numbered."""

JOINING = frozenset({operator.add, operator.iadd, operator.mul, operator.imul})
"""Operators that move the elements of lists and tuples without looking at them."""

COMPARING = frozenset(
    {operator.eq, operator.ne, operator.contains}
    | {
        vars(cls)[name]
        for cls in (list, tuple)
        for name in ("index", "count", "__contains__", "__eq__", "__ne__")
    }
    | {list.remove, collections.deque.index, collections.deque.count, collections.deque.remove}
)
"""What gives another answer when two objects are one."""

CHECKED_BY_CLASS: frozenset[Any] = frozenset(
    {type.__instancecheck__, abc.ABCMeta.__instancecheck__, types.UnionType.__instancecheck__}
)
"""The `__instancecheck__`s that look at nothing but an object's class."""


ORDERLESS = frozenset(
    {
        operator.contains,
        operator.eq,
        operator.ne,
        operator.le,
        operator.lt,
        operator.ge,
        operator.gt,
        len,
        bool,
    }
    | {
        set.discard,
        set.remove,
        set.clear,
        set.issubset,
        set.issuperset,
        set.isdisjoint,
        sorted,
        hash,
    }
    | {frozenset.issubset, frozenset.issuperset, frozenset.isdisjoint, isinstance}
)
"""What can be done with a set without its order showing."""
SINGLE = {vars(set)[name]: name for name in ("add", "discard", "remove", "pop", "clear")}
METHODS = "__init__ __ior__ __iand__ __isub__ __ixor__ update intersection_update difference_update"
CHANGING: dict[Any, str] = {
    **SINGLE,
    **{vars(set)[name]: name for name in (*METHODS.split(), "symmetric_difference_update")},
    **{getattr(operator, name): f"__{name}__" for name in ("ior", "iand", "isub", "ixor")},
}
"""What changes the set that it is given first -> by which of its methods."""

OPERANDS: dict[type, Any] = {
    **dict.fromkeys((set, frozenset), lambda other: set(list(other))),
    **dict.fromkeys((list, tuple, str, bytes, bytearray, range), list),
    dict: dict.fromkeys,
}
"""What a set's method may be given -> what it looks at: there is room for what is in a table in advance."""


class Operations(Exposure):
    # ---- operators

    def operate(self, fn: Any, *operands: Any) -> Any:
        tensors = symbols = False
        for operand in operands:
            cls = type(operand)
            if cls is FakeTensor:
                tensors = True
            elif cls in SYMBOLIC or (cls is torch.Size and self.recorder.builder.symbols is not None):
                symbols = True
            elif cls not in ATOMS:
                break
        else:
            if symbols and not tensors:
                return self.compute(fn, operands)
            if tensors and fn in OPERATORS:
                if fn in IN_PLACE and type(operands[0]) is not FakeTensor:
                    fn = IN_PLACE[fn]  # `number += tensor` changes no tensor
                return self.recorder.call(fn, operands, {})
            # what is called with nothing may be the program's: a class, a bound method
            return fn(*operands) if operands and not tensors else native(fn, *operands)
        if any(map(is_array, operands)):
            return self.arrays.operate(fn, operands)
        if fn in JOINING and type(operands[0]) in SEQUENCES and type(operands[1]) in (*SEQUENCES, int):
            return fn(*operands)
        if fn in JOINING and all(type(operand) in (*SEQUENCES, torch.Size) for operand in operands):
            return fn(*map(self.for_torch, operands))  # a size takes numbers, and symbols, only
        return self.operate_shown(fn, operands)

    def compute(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """An operator on numbers, or sizes, some of which are symbols."""
        if self.draws.computes(fn, operands):
            return self.draws.compute(fn, operands)
        numbers = all(type(operand) in NUMBERS for operand in operands)
        if fn in (ARITHMETIC if numbers else OF_SIZES) and not (numbers and is_delicate(fn, operands)):
            # an operator that symbols do not have is one that numbers may have all the same
            missing = contextlib.suppress(TypeError, NotImplementedError)
            with missing, torch._C.DisableTorchFunction(), data_dependence():
                return simplest(fn(*operands))
        return fn(*map(settled, operands))

    def operate_shown(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """C does it: it is shown what it looks at."""
        shown: list[Seen] = [{} for _ in operands]
        prepared = [self.shown(operand, seen) for operand, seen in zip(operands, shown, strict=True)]
        if self.outside_sets:
            self.keep_order(fn, prepared)
        if fn in COMPARING:
            self.keep_apart(shown[0], shown[1])
        elif fn in TEXTS or (
            fn is operator.mod and type(prepared[0]) is str and TEXT_FIELD.search(prepared[0])
        ):
            for seen in shown:
                self.refuse_addresses(seen, fn)
                self.refuse_disorder_in(seen)
        return self.changing(fn, prepared)

    def changing(self, fn: Any, operands: list[Any]) -> Any:
        """C does it; what that does to an outside set is noted, to be done again."""
        method = CHANGING.get(fn) if self.outside_sets and operands else None
        if method is None or id(operands[0]) not in self.outside_sets:
            return native(fn, *operands)
        target, *others = operands
        if getattr(type(target), method) is not vars(set)[method] and fn is not vars(set)[method]:
            return native(fn, *operands)  # the program's own operator, which does it in its own way
        kept = others if fn in SINGLE else [self.kept_operand(target, other) for other in others]
        for key in others if fn in SINGLE else itertools.chain(*kept):
            self.check_hash(key)
        calls, before = self.shadows[id(target)].calls, list(set.__iter__(target))
        try:
            result = native(fn, *operands)
        except BaseException:
            calls += half_done(before, target)
            raise
        if result is not NotImplemented:
            calls.append((method, tuple(kept)))
        return result

    def kept_operand(self, target: Any, other: Any) -> Any:
        """A copy of what an outside set's method goes over."""
        if not (hasattr(type(other), "__iter__") or hasattr(type(other), "__getitem__")):
            return ()  # C says so
        copy = OPERANDS.get(type(other)) if other is not target else None
        if copy is None or not all(map(operator.is_, kept := copy(other), other)):
            return self.refuse(breaks.SET_ORDER, f"{self.outside_sets[id(target)]}")
        return kept

    def keep_order(self, fn: Any, operands: Iterable[Any]) -> None:
        """Before an operation on outside sets: what enters one lands in a place that depends on the size of
        its table, which no guard knows, and what is popped depends on what was popped before."""
        if fn in ORDERLESS:
            return
        for n, value in enumerate(operands):
            if id(value) in self.outside_sets:
                if n == 0 and fn is set.pop and len(value) > 1:
                    self.refuse(breaks.SET_ORDER, f"{self.outside_sets[id(value)]}")
                elif n == 0 and fn in CHANGING:
                    self.disordered.add(id(value))
                else:
                    self.refuse_disorder(value)

    def refuse_disorder_in(self, seen: Seen) -> None:
        """Before what shows the order of the sets in a container too."""
        if self.disordered:
            for value in seen.values():
                self.refuse_disorder(value)

    def length(self, value: Any) -> int:
        if type(value) in SIZED or (is_array(value) and value.ndim):
            return len(value)
        return native(len, self.glimpsed(value))

    def truth(self, value: Any) -> bool:
        if type(value) is Pending:
            raw = value.value
            unknown = value.opened is MISSING and not (id(raw) in self.known or id(raw) in self.blind)
            if unknown and type(raw) in SIZED and value.source.access is not Access.DICT:
                self.guard(value.source, Check.TYPE, type(raw))
                self.guard(value.source, Check.NONEMPTY, bool(raw))
                return bool(raw)
            value = value.open()
        cls = type(value)
        if cls is FakeTensor:
            return self.recorder.call(torch.Tensor.__bool__, (value,), {})
        if cls in SYMBOLIC:
            return bool(settled(value != 0 if cls is not torch.SymBool else value))
        if cls in ATOMS or cls in SIZED:
            return bool(value)
        if is_array(value):
            self.refuse(breaks.DATA_DEPENDENT_BRANCH, "the truth of an array")
        if all(self.class_attribute(cls, name) is MISSING for name in ("__bool__", "__len__")):
            return True
        return native(bool, self.glimpsed(value))

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
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return settled(left) is settled(right)
        if type(left) is type(right):
            mine, other = self.place_of(left), self.place_of(right)
            if mine is not None and other is not None and not mine.access is other.access is Access.CONST:
                self.guard(mine, Check.NOT_SAME_AS, other)
        return False

    def place_of(self, value: Any) -> Source | None:
        """Like `source_of`, for tensors too."""
        if type(value) is not FakeTensor:
            return self.source_of(value)
        known = self.outside_of(value)
        return None if known is None else known.source

    def is_instance(self, value: Any, cls: Any) -> bool:
        cls = self.for_c(cls)
        unopened = type(value) is Pending and value.opened is MISSING and type(value.value) in ATOMS
        if unopened and value.value is not None and is_checked_by_class(cls):
            self.guard(value.source, Check.TYPE, type(value.value))
            self.guard_check(cls, "__instancecheck__")
            return native(isinstance, value.value, cls)
        value = opened(value)
        if type(value) in SYMBOLIC:
            value = PYTHON_TYPES[type(value)]()
        if type(value) is cls:
            return True  # nobody is asked
        self.guard_check(cls, "__instancecheck__")
        if type(value) is FakeTensor:
            return self.tensor_is_instance(value, cls)
        if is_array(value):
            return native(issubclass, self.arrays.class_of(value), cls)
        if not type(value).__flags__ & IMMUTABLE_TYPE:
            self.guard_bases(type(value))
            self.class_attribute(type(value), "__class__")
        for protocol in protocols_in(cls):
            self.guard_protocol(value, protocol)
        return native(isinstance, value, cls)

    def guard_protocol(self, value: Any, protocol: type) -> None:
        """`typing` goes by what an object has, and asks for it behind the door's back."""
        cls, view = type(value), self.views.get(id(value))
        names = typing._get_protocol_attrs(protocol)  # type: ignore[attr-defined]
        kinds = {type(self.class_attribute(cls, name)) for name in names}
        if self.class_attribute(cls, "__getattr__") is not MISSING or not kinds <= PLAIN_MEMBERS:
            self.refuse(breaks.OPAQUE_OBJECT, f"a {cls.__qualname__} as a {protocol.__qualname__}")
        self.class_attribute(cls, "__getattribute__")
        for name in names:
            if view is not None:
                self.own_attr(view, value, name)

    def guard_check(self, classes: Any, method: str) -> None:
        """That a metaclass has, or has not, an answer of its own to `isinstance` and `issubclass`."""
        if issubclass(type(classes), types.UnionType):
            classes = classes.__args__
        if issubclass(type(classes), tuple):
            for item in classes:
                self.guard_check(item, method)
        elif not type(classes).__flags__ & IMMUTABLE_TYPE:
            self.special_of_c(type(classes), method)

    def tensor_is_instance(self, fake: Any, cls: Any) -> bool:
        if isinstance(cls, tuple):
            return any(self.tensor_is_instance(fake, item) for item in cls)
        if cls is FakeTensor:
            return False
        return issubclass(self.recorder.subclasses.class_of(fake), cls) or isinstance(fake, cls)

    # ---- items

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
            or id(raw) in self.known
            or id(raw) in self.blind
            or type(key) not in KEYS
        ):
            return DELETED
        source = container.source
        if source.access is Access.DICT:
            known = next(
                (v for v in (self.views.get(id(o)) for o in self.owners(source)) if v is not None), None
            )
            if known is None or known.complete:
                return DELETED
            value = self.own_attr(known, known.outside, key)
            return MISSING if value is DELETED else value
        self.guard(source, Check.TYPE, cls)
        if key in raw:
            return self.found_at(source.child(Access.KEY, key), raw[key])
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
            if type(key) is torch.SymInt:  # which as an index would be settled
                return self.recorder.call(torch.select, (container, 0, key), {})
            return self.recorder.call(operator.getitem, (container, self.tensor_index(key)), {})
        if is_array(container):
            return self.arrays.get_item(container, key)
        if cls is list or cls is tuple:
            return (
                container[key] if type(key) is int else native(operator.getitem, container, self.for_c(key))
            )
        if cls is dict:
            return native(operator.getitem, container, self.key(key))
        method = self.own_method(container, cls, "__getitem__")
        if method is not None:
            return self.invoke(method, container, key)
        if not cls.__flags__ & IMMUTABLE_TYPE:
            self.class_attribute(cls, "__missing__")
        if issubclass(type(container), type):
            self.class_attribute(container, "__class_getitem__")
        return native(operator.getitem, self.glimpsed(container), self.index(container, key))

    def index(self, container: Any, key: Any) -> Any:
        """What a container is asked for: one that counts does not hash it."""
        return self.for_c(key) if issubclass(type(container), COUNTING) else self.key(key)

    def tensor_index(self, key: Any) -> Any:
        """What a tensor is indexed with; objects of the program say themselves which number they are."""
        key = opened(key)
        if type(key) is tuple:
            return tuple(map(self.tensor_index, key))
        if is_array(key):
            return self.arrays.as_tensor(key)
        abstract = type(key) is FakeTensor or type(key) in SYMBOLIC
        method = None if abstract else self.own_method(key, type(key), "__index__")
        return self.for_torch(key if method is None else native(operator.index, key))

    def own_method(self, value: Any, cls: type, name: str) -> FunctionType | None:
        """A special method that is Python code: it is interpreted, and looks at things itself."""
        if cls.__flags__ & IMMUTABLE_TYPE:
            return None
        found = self.class_attribute(cls, name)
        return found if type(found) is FunctionType else None

    def store_item(self, container: Any, key: Any, value: Any) -> None:
        container = opened(container)
        cls = type(container)
        if cls is FakeTensor:
            self.recorder.call(
                operator.setitem, (container, self.tensor_index(key), self.for_torch(value)), {}
            )
            return
        if is_array(container):
            self.arrays.set_item(container, key, opened(value))
            return
        method = self.own_method(container, cls, "__setitem__")
        if method is not None:
            self.invoke(method, container, key, value)
            return
        key = self.index(container, key)
        if type(key) is slice:
            value = self.glimpsed(value)
        native(operator.setitem, self.glimpsed(container), key, value)

    def delete_item(self, container: Any, key: Any) -> None:
        container = opened(container)
        method = self.own_method(container, type(container), "__delitem__")
        if method is not None:
            self.invoke(method, container, key)
            return
        native(operator.delitem, self.glimpsed(container), self.index(container, key))

    def contains(self, container: Any, value: Any) -> bool:
        value = opened(value)
        if type(container) is Pending:
            found = self.peek(container, value)
            if found is not DELETED:
                return found is not MISSING
            container = container.open()
        cls = type(container)
        if cls in MAPPINGS and type(value) in KEYS:
            return native(operator.contains, container, value)  # a key's `__eq__` may be the program's
        if cls is types.MappingProxyType:
            (container,) = gc.get_referents(container)  # which keeps its values from C
        if issubclass(type(container), (dict, set, frozenset)) and type(container).__flags__ & IMMUTABLE_TYPE:
            return native(operator.contains, container, self.key(value))
        return self.operate(operator.contains, container, value)

    # ---- containers that are added to without being looked at

    def blindly(self, target: Any, cls: type) -> Blind | None:
        """What is added to an outside container that nobody has looked into yet."""
        if type(target) is not Pending or target.opened is not MISSING or type(target.value) is not cls:
            return None
        raw, source = target.value, target.source
        if id(raw) in self.known:
            return None
        found = self.blind.get(id(raw))
        if found is None:
            self.guard(source, Check.TYPE, cls)
            found = self.blind[id(raw)] = Blind(source, raw)
        elif found.source is not source:
            self.guard(source, Check.SAME_AS, found.source)
        return found

    def append(self, target: Any, value: Any) -> None:
        blind = self.blindly(target, list)
        if blind is None:
            list.append(opened(target), value)
        else:
            blind.calls.append(("append", (value,)))

    def add(self, target: Any, value: Any) -> None:
        blind = self.blindly(target, set)
        if blind is None:
            super().add(opened(target), value)
        else:
            blind.calls.append(("add", (value,)))

    def put(self, target: Any, key: Any, value: Any) -> None:
        blind = self.blindly(target, dict)
        if blind is None:
            super().put(target, key, value)
        else:
            blind.calls.append(("__setitem__", (key, value)))

    # ---- iteration

    def iterate(self, value: Any) -> Any:
        value = opened(value)
        cls = type(value)
        if cls is FakeTensor:
            return iter(self.recorder.call(torch.Tensor.unbind, (value, 0), {}))
        if is_array(value):
            return iter(self.arrays.items(value))
        if cls in SIZED:
            self.refuse_disorder(value)
            return iter(value)
        if self.is_opaque(value):
            if is_iterator(cls):
                return value  # as each of these says; it is advanced for real
            self.refuse(breaks.OPAQUE_OBJECT, f"iteration over a {cls.__module__}.{cls.__qualname__}")
        method = None if is_ours(cls) else self.own_method(value, cls, "__iter__")
        if method is not None:
            iterator = opened(self.invoke(method, value))
            if not hasattr(type(iterator), "__next__"):
                raise TypeError(f"iter() returned non-iterator of type '{type(iterator).__name__}'")
            return iterator
        if not cls.__flags__ & IMMUTABLE_TYPE:
            for name in ("__iter__", "__getitem__"):
                self.class_attribute(cls, name)
        return native(iter, value)

    def advance(self, iterator: Any) -> Any:
        iterator = opened(iterator)
        resume = getattr(type(iterator), "resume", None)
        if resume is not None and is_ours(type(iterator)):
            try:
                return resume(iterator)
            except StopIteration:
                return MISSING
        if self.is_opaque(iterator):
            self.refuse(breaks.OUTSIDE_ITERATOR, f"a {type(iterator).__qualname__}")
        self.special_of_c(type(iterator), "__next__")
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


def half_done(before: list[Any], target: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """What was done to a set by a method that then failed: `update([1, []])` adds 1."""
    if not set.__len__(target):
        return [("clear", ())] if before else []
    had = set(before)
    gone = [("discard", (item,)) for item in before if not set.__contains__(target, item)]
    came = dict.fromkeys(item for item in set.__iter__(target) if item not in had)
    return gone + [("add", (item,)) for item in came]


PLAIN_MEMBERS = {type(MISSING), FunctionType, classmethod, staticmethod, int, str, type(None)}
PLAIN_MEMBERS |= {types.MethodDescriptorType, types.WrapperDescriptorType}
"""What a class may have under a name for `hasattr` to run no code of the program's."""


def protocols_in(classes: Any) -> list[type]:
    """The protocols among what `isinstance` is asked about."""
    if issubclass(type(classes), types.UnionType):
        classes = classes.__args__
    if issubclass(type(classes), tuple):
        return [protocol for item in classes for protocol in protocols_in(item)]
    return [classes] if getattr(classes, "_is_protocol", False) and issubclass(type(classes), type) else []


def is_checked_by_class(classes: Any) -> bool:
    if issubclass(type(classes), tuple):
        return all(map(is_checked_by_class, classes))
    bases = [base for base in type(classes).__mro__ if "__instancecheck__" in vars(base)]
    found: Any = vars(bases[0])["__instancecheck__"] if bases else None  # as it is: a descriptor is not asked
    return any(found is check for check in CHECKED_BY_CLASS)
