"""Identity: which outside objects are one, or must be told apart, and what shows where they are.

The order of a set's elements does too, and on all that was ever done to the set (`SetOrder`).
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift._frame import native
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.core.sentinels import MISSING
from framelift.graph import op_memory
from framelift.graph.symbols import settled
from framelift.guards.hashing import is_hashed_with_effects
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.interpreter.lookups import is_ours
from framelift.interpreter.pending import Pending, opened
from framelift.trace.addresses import Address
from framelift.trace.callable_rules import rule_of
from framelift.trace.materialize import ATOMS, Seen
from framelift.trace.operators import NUMBERS
from framelift.trace.part import Part
from framelift.trace.type_rules import BUILTINS

SHOWING_ADDRESSES = frozenset({types.FunctionType, types.CellType, memoryview, types.MethodWrapperType})
"""Types of which the text is not the default one, and tells the address all the same."""

FEW = 16
"""Up to so many pairs of objects are kept apart pair by pair; of more, each is kept the object it is."""


class Identity(Part):
    """Guards what the program finds out by comparing, hashing or printing objects."""

    def start(self) -> None:
        self.nans: list[tuple[Source, Any]] = []
        """Constants from outside that do not equal themselves: tables and lists go by which ones they are."""
        self.hashed_tensors: dict[int, tuple[FakeTensor, Source]] = {}
        """Tensors from outside that are, or were looked for, in tables of the trace, by their ids."""
        self.meets_tables = False
        """Whether tensors are keys of tables from outside, which hold them as the ones they are."""

    def same(self, left: Any, right: Any) -> bool:
        if left is None:
            left, right = right, left
        if right is None and type(left) is Pending and left.opened is MISSING:
            none = left.value is None
            if isinstance(left.value, torch.Tensor):
                self.world.inputs.note_read(left.value)
            self.world.guards.add(left.source, Check.IS if none else Check.IS_NOT, None)
            return none
        if type(left) is Pending or type(right) is Pending:
            same = self.same_constants(left, right)
            if same is not None:
                return same
        left, right = opened(left), opened(right)
        if left is right:
            return True
        if type(left) in NUMBERS and type(right) in NUMBERS:
            if not settled(self.world.operators.apply(operator.eq, left, right)):
                return False
            return settled(left) is settled(right)
        if type(left) is type(right):
            mine, other = self.source_of(left), self.source_of(right)
            if mine is not None and other is not None and not mine.access is other.access is Access.CONST:
                self.world.recorder.builder.tape.spoil("is")
                self.world.guards.add(mine, Check.NOT_SAME_AS, other)
        return False

    def same_constants(self, left: Any, right: Any) -> bool | None:
        """Of constants only the values would be guarded: here it matters which of several equal ones they
        are. None: one of them is something else."""
        pending = [value for value in (left, right) if type(value) is Pending]
        values = [value.value if type(value) is Pending else value for value in (left, right)]
        if not all(type(value) in op_memory.PYTHON_ATOMS for value in values):
            return None
        if any(value.source.is_drawn for value in pending):
            return None
        same = values[0] is values[1]
        if type(right) is not Pending:
            self.world.guards.add(left.source, Check.IS if same else Check.IS_NOT, right)
        elif type(left) is not Pending:
            self.world.guards.add(right.source, Check.IS if same else Check.IS_NOT, left)
        elif left.source is not right.source:
            self.world.guards.add(left.source, Check.SAME_AS if same else Check.NOT_SAME_AS, right.source)
        return same

    def fix_nans(self) -> None:
        """C is about to compare or hash values, and takes each object for equal to itself."""
        for source, value in self.nans:
            self.world.guards.add(source, Check.IS, value)
        self.nans.clear()

    def source_of(self, value: Any) -> Source | None:
        """Like `source_of`, for tensors too."""
        if type(value) is not FakeTensor:
            return self.world.inputs.source_of(value)
        known = self.world.inputs.known_of(value)
        return None if known is None else known.source

    def key(self, value: Any) -> Any:
        """A value about to be hashed: objects that are hashed by address are fixed, but for tensors, of which
        it matters only which are the same."""
        if self.nans:
            self.fix_nans()
        if type(value) in ATOMS and type(value) is not torch.Size:
            return value
        seen: Seen = {}
        value = self.world.materialize.value(value, seen)
        if self.nans:
            self.fix_nans()
        for each in self.identities(seen):
            if type(each) is FakeTensor:
                self.tell_apart(each)
            else:
                self.guard(each)
        return value

    def tell_apart(self, fake: FakeTensor) -> None:
        """A tensor from outside that is to be hashed is none of the others that were."""
        if id(fake) in self.hashed_tensors and not self.meets_tables:
            return
        if len(self.hashed_tensors) >= FEW:
            self.meet_table()
        if self.meets_tables:
            self.guard(fake)
            return
        self.world.recorder.builder.tape.spoil("an object's identity")
        mine = self.source_of(fake)
        assert mine is not None
        for _, other in self.hashed_tensors.values():
            if mine is not other and not mine.access is other.access is Access.CONST:
                self.world.guards.add(mine, Check.NOT_SAME_AS, other)
        self.hashed_tensors[id(fake)] = fake, mine

    def meet_table(self) -> None:
        """A table comes in that has tensors for keys, or there are many in tables: each is the one it is."""
        self.meets_tables = True
        for fake, _ in self.hashed_tensors.values():
            self.guard(fake)
        self.hashed_tensors.clear()

    def check_hash(self, key: Any) -> None:
        """A shadow's keys are hashed while the trace runs, which the program must not notice."""
        if is_hashed_with_effects(key):
            refuse(breaks.EFFECT, f"{type(key).__qualname__}.__hash__")

    def fix(self, seen: Seen) -> None:
        if self.nans:
            self.fix_nans()
        for value in self.identities(seen):
            self.guard(value)

    def guard(self, value: Any) -> None:
        self.world.recorder.builder.tape.spoil("an object's identity")
        source = self.source_of(value)
        if source is not None and source.access is not Access.CONST:
            self.world.guards.add(source, Check.IS, self.world.addresses.real(value))

    def keep_apart(self, left: Seen, right: Seen) -> None:
        """C compares these: that two outside objects are not one, which decides it, is guarded."""
        if self.nans:
            self.fix_nans()
        ours, others = self.identities(left), self.identities(right)
        pairs = [(a, b) for a in ours for b in others if a is not b and type(a) is type(b)]
        if len(pairs) > FEW:
            self.fix({**left, **right})
            return
        for a, b in pairs:
            mine, other = self.source_of(a), self.source_of(b)
            assert mine is not None and other is not None
            if mine is not other and not mine.access is other.access is Access.CONST:
                self.world.guards.add(mine, Check.NOT_SAME_AS, other)

    def identities(self, seen: Seen) -> list[Any]:
        """The outside objects that equal only themselves."""
        values = seen.values()
        return [value for value in values if self.is_unique(value) and self.source_of(value) is not None]

    def is_unique(self, value: Any) -> bool:
        cls = type(value)
        if cls is FakeTensor or cls is functools.partial:
            return True
        world = self.world
        if cls is types.FunctionType:
            return world.functions.is_made_anew(value)
        return id(value) in world.attributes.views and world.classes.attribute(cls, "__eq__") is object.__eq__

    def fix_addresses(self, seen: Seen) -> None:
        """Before the program is told a hash that depends on where these are."""
        for value in seen.values():
            cls = type(value)
            if cls is Address:
                value.leaks()
            if cls is FakeTensor or is_hashed_by_address(value):
                if cls is FakeTensor or self.is_made(value):
                    refuse(breaks.IDENTITY, f"hash() of a {cls.__name__}")
                self.guard(value)
            if issubclass(cls, frozenset):
                held: Seen = {}
                for item in frozenset.__iter__(value):
                    self.world.materialize.value(item, held)
                self.fix_addresses(held)

    def refuse_addresses(self, seen: Seen, fn: Any) -> None:
        """The default text of an object is its address, which is another one at run time."""
        for n, value in enumerate(seen.values()):
            cls = type(value)
            if cls is Address:
                value.leaks()
            if (
                n == 0
                and fn is format
                and self.world.classes.attribute(cls, "__format__") is not object.__format__
            ):
                continue  # what it holds may be shown all the same
            told = cls in SHOWING_ADDRESSES or is_ours(cls) or is_bound_to_instance(value)
            if self.shows_address(cls, fn) or (told and self.is_made(value)):
                refuse(breaks.IDENTITY, f"the default text of a {cls.__qualname__}")

    def is_made(self, value: Any) -> bool:
        """Whether the trace has made a function, or what stands for one."""
        known = self.world.inputs.known.get(id(value))
        return known is None or known.value is not value or self.world.functions.is_made_anew(value)

    def shows_address(self, cls: type, fn: Any) -> bool:
        if fn not in (repr, ascii) and self.world.classes.attribute(cls, "__str__") is not object.__str__:
            return False
        return self.world.classes.attribute(cls, "__repr__") is object.__repr__


def is_hashed_by_address(value: Any) -> bool:
    by_address: Any = object.__hash__
    return type(value).__hash__ is by_address or is_bound_to_instance(value)


def is_bound_to_instance(value: Any) -> bool:
    """Whether it is a C function's bound method: its text has the address of what it is bound to."""
    kinds = (types.ModuleType, type, type(None))
    return type(value) in BUILTINS and not issubclass(type(value.__self__), kinds)


SINGLE = frozenset({"add", "discard", "remove", "pop", "clear"})
"""Methods of sets that are about one element, or none."""

OPERANDS: dict[type, Any] = {
    **dict.fromkeys((set, frozenset), lambda other: set(list(other))),
    **dict.fromkeys((list, tuple, str, bytes, bytearray, range), list),
    dict: dict.fromkeys,
}
"""What a set's method may be given -> what it looks at: there is room for what is in a table in advance."""


class SetOrder(Part):
    """Replays calls on outside sets, and refuses what would show an order that no guard knows."""

    def start(self) -> None:
        self.sources: dict[int, Source] = {}
        """id of the shadow of an outside set -> where that is found."""
        self.disordered: set[int] = set()
        """Shadows of sets that may be iterated in another order than what they stand for."""
        self.is_hashed = False
        """Whether the order of a set was seen that is another one in another process: texts have other hashes
        there."""

    def call(self, fn: Any, operands: list[Any]) -> Any:
        """C does it; what that does to an outside set is noted, to be done again."""
        method = rule_of(fn).changes if self.sources and operands else None
        if method is None or id(operands[0]) not in self.sources:
            for n, operand in enumerate(operands):
                if type(operand) in SETS and not self.hides_order(fn, n):
                    self.note_order(operand)
            return native(fn, *operands)
        target, *others = operands
        if getattr(type(target), method) is not vars(set)[method] and fn is not vars(set)[method]:
            return native(fn, *operands)  # the program's own operator, which does it in its own way
        kept = others if method in SINGLE else [self.kept_operand(target, other) for other in others]
        for key in others if method in SINGLE else itertools.chain(*kept):
            self.world.identity.check_hash(key)
        calls, before = self.world.containers.shadows[id(target)].calls, list(set.__iter__(target))
        try:
            result = native(fn, *operands)
        except BaseException:
            calls += half_done(before, target)
            raise
        if result is not NotImplemented:
            calls.append((method, tuple(kept)))
        return result

    def hides_order(self, fn: Any, n: int) -> bool:
        """Whether a function shows nothing of the order of the set that is its operand `n`."""
        rule = rule_of(fn)
        return rule.orderless or (n == 0 and rule.changes not in (None, "pop"))

    def note_order(self, value: Any) -> None:
        """The order of a set is seen."""
        if isinstance(value, (set, frozenset)) and not HASHED_ALIKE.issuperset(map(type, value)):
            self.is_hashed = True

    def kept_operand(self, target: Any, other: Any) -> Any:
        """A copy of what an outside set's method goes over."""
        if not (hasattr(type(other), "__iter__") or hasattr(type(other), "__getitem__")):
            return ()  # C says so
        copy = OPERANDS.get(type(other)) if other is not target else None
        if copy is None or not all(map(operator.is_, kept := copy(other), other)):
            refuse(breaks.SET_ORDER, f"{self.sources[id(target)]}")
        return kept

    def check(self, fn: Any, operands: Iterable[Any]) -> None:
        """Before an operation on outside sets: what enters one lands in a place that depends on the size of
        its table, which no guard knows, and what is popped depends on what was popped before."""
        rule = rule_of(fn)
        if rule.orderless:
            return
        for n, value in enumerate(operands):
            if id(value) in self.sources:
                if n == 0 and fn is set.pop and len(value) > 1:
                    refuse(breaks.SET_ORDER, f"{self.sources[id(value)]}")
                elif n == 0 and rule.changes is not None:
                    self.disordered.add(id(value))
                else:
                    self.refuse(value)

    def refuse(self, value: Any) -> None:
        """Before an operation whose result depends on the order of a set."""
        self.note_order(value)
        if id(value) in self.disordered:
            refuse(breaks.SET_ORDER, f"{self.sources[id(value)]}")

    def refuse_in(self, seen: Seen) -> None:
        """Before what shows the order of the sets in a container too."""
        for value in seen.values():
            if self.disordered or type(value) in SETS:
                self.refuse(value)


SETS = frozenset({set, frozenset})
HASHED_ALIKE = frozenset({int, bool, float})
"""Types whose values have the same hash in each process."""


def half_done(before: list[Any], target: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """What was done to a set by a method that then failed: `update([1, []])` adds 1."""
    if not set.__len__(target):
        return [("clear", ())] if before else []
    had = set(before)
    gone = [("discard", (item,)) for item in before if not set.__contains__(target, item)]
    came = dict.fromkeys(item for item in set.__iter__(target) if item not in had)
    return gone + [("add", (item,)) for item in came]
