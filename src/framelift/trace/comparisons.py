"""Comparisons by C of containers that hold symbols: each symbol is compared as the program would compare it.

C goes over lists and tuples and compares what it finds. It is given copies of them in which an object stands
for each symbol that asks the trace (`Comparable`), so no more is relied on than how the comparisons came out:
`n in (3, 4)` is a fact about `n`, and not its value. Only what is made of builtin containers, numbers and
other constants is compared this way; the program's own objects would see the copies.
"""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from framelift._frame import native
from framelift.core.blame import acts_for_program
from framelift.core.sentinels import MISSING
from framelift.graph.arithmetic import NUMBERS
from framelift.graph.symbols import PYTHON_TYPES, SYMBOLIC, data_dependence, settled
from framelift.trace.materialize import ATOMS
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld

ORDER = (operator.lt, operator.le, operator.gt, operator.ge)
ORDERING = ("__lt__", "__le__", "__gt__", "__ge__")
COMPARING_METHODS = ("__eq__", "__ne__", *ORDERING, "__contains__")
"""What sequences of the language compare what they hold by."""
LOOKING_IN = frozenset({operator.contains, range.__contains__})
COMPARING = frozenset({operator.eq, operator.ne, operator.contains, *ORDER})
"""Operators that compare what containers hold."""


class Comparable:
    """A number that C compares as the program would."""

    __slots__ = ("number", "world")

    def __init__(self, world: TraceWorld, number: Any) -> None:
        self.world = world
        self.number = number

    def compared(self, fn: Any, other: Any) -> Any:
        other = other.number if type(other) is Comparable else other
        if type(other) not in NUMBERS:
            return NotImplemented
        return bool(settled(self.world.operators.apply(fn, self.number, other)))

    def __eq__(self, other: object) -> Any:
        return self.compared(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self.compared(operator.ne, other)

    def __lt__(self, other: Any) -> Any:
        return self.compared(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self.compared(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self.compared(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self.compared(operator.ge, other)

    __hash__ = None  # type: ignore[assignment]


class NotPlain(Exception):
    """Something that is no builtin container or constant."""


class Copies:
    """Copies of containers for C to compare: which object is which is the same in them."""

    def __init__(self, world: TraceWorld) -> None:
        self.world = world
        self.made: dict[int, tuple[Any, Any]] = {}
        self.has_symbols = False

    def of(self, value: Any) -> Any:
        """What stands for a value that is opened; NotPlain if it must not be copied."""
        cls = type(value)
        if cls in ATOMS and cls is not torch.Size:
            return value
        if id(value) in self.made:
            return self.made[id(value)][1]
        if cls in SYMBOLIC:
            self.has_symbols = True
            copy: Any = Comparable(self.world, value)
        elif cls in COPIED:
            copy = COPIED[cls](self.of, value)
        elif issubclass(cls, tuple) and self.is_compared_as_tuple(cls):
            copy = tuple([self.of(item) for item in tuple.__iter__(value)])
        else:
            raise NotPlain
        self.made[id(value)] = value, copy
        return copy

    def is_compared_as_tuple(self, cls: type) -> bool:
        """Whether it is one in all that C asks: a named tuple."""
        attribute = self.world.classes.attribute
        asked = (*COMPARING_METHODS, "__iter__")
        return all(attribute(cls, name) is vars(tuple)[name] for name in asked)


COPIED: dict[type, Callable[[Callable[[Any], Any], Any], Any]] = {
    list: lambda of, value: [of(item) for item in value],
    tuple: lambda of, value: tuple([of(item) for item in value]),
    torch.Size: lambda of, value: tuple([of(item) for item in value]),
    dict: lambda of, value: {key: of(item) for key, item in value.items()},
    collections.deque: lambda of, value: collections.deque(map(of, value), value.maxlen),
    slice: lambda of, value: slice(of(value.start), of(value.stop), of(value.step)),
}
"""Type of a container -> how it is copied. Keys are hashed, so they are no symbols."""


class Comparisons(Part):
    def copies(self, values: list[Any]) -> list[Any] | None:
        """What C may be given in the place of values that hold symbols; None if it must be given these."""
        copies = Copies(self.world)
        try:
            made = [copies.of(self.world.materialize.for_torch(value)) for value in values]
        except (NotPlain, RecursionError):
            return None
        return made if copies.has_symbols else None

    @acts_for_program
    def call(self, fn: Any, args: list[Any]) -> Any:
        """A function that compares what it is given, and hands none of it on; MISSING: no symbols are there,
        or not only what can be copied."""
        if fn in LOOKING_IN and type(args[0]) is range:
            return self.in_range(args[0], args[1])
        if fn is operator.contains and (found := self.is_among(args[1], args[0])) is not MISSING:
            return found
        bounds = [settled(bound) for bound in args[2:]]  # between which `index` looks
        copies = self.copies(args[:2])
        if copies is None:
            args[2:] = bounds
            return MISSING
        return fn(*copies, *bounds)

    @acts_for_program
    def with_constant(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """A comparison of a number and something that is none: which number it is makes no difference."""
        if all(type(operand) in SYMBOLIC or type(operand) in UNLIKE_NUMBERS for operand in operands):
            return fn(*[PYTHON_TYPES.get(type(operand), lambda x=operand: x)() for operand in operands])
        return MISSING

    def is_among(self, value: Any, container: Any) -> Any:
        """Whether an integer is one of some others: one fact, whichever it is. MISSING: some are none."""
        if type(value) is not torch.SymInt or type(container) not in (tuple, list) or not container:
            return MISSING
        items = [self.world.materialize.for_torch(item) for item in container]
        if not all(type(item) in (int, torch.SymInt) for item in items):
            return MISSING
        with torch._C.DisableTorchFunction(), data_dependence():
            conditions = [value == item for item in items]
            if any(condition is True for condition in conditions):
                return True
            open_ones = [condition for condition in conditions if type(condition) is torch.SymBool]
            return bool(settled(functools.reduce(operator.or_, open_ones))) if open_ones else False

    def in_range(self, numbers: range, value: Any) -> Any:
        if type(value) is not torch.SymInt or not numbers:
            return MISSING
        apply = self.world.operators.apply
        low, high = sorted((numbers[0], numbers[-1]))
        if not (settled(apply(operator.ge, value, low)) and settled(apply(operator.le, value, high))):
            return False
        rest = apply(operator.mod, apply(operator.sub, value, low), abs(numbers.step))
        return bool(settled(apply(operator.eq, rest, 0)))

    def is_absent(self, table: Any, key: Any) -> bool:
        """Whether a key with symbols in it equals none of a table's, so that it need not be hashed."""
        if len(table) > FEW_KEYS or type(key) not in HASHED:
            return False
        copies = self.copies([key, list(table)])
        return copies is not None and copies[0] not in copies[1]

    @acts_for_program
    def choose(self, fn: Any, keys: list[Any], **how: Any) -> Any:
        """What `sorted`, `min` or `max` gives of the positions of keys."""
        copies = self.copies(keys)
        if copies is not None:
            return fn(range(len(keys)), key=copies.__getitem__, **how)
        shown = [self.world.materialize.for_c(key) for key in keys]
        return native(fn, range(len(keys)), key=shown.__getitem__, **how)


FEW_KEYS = 32
"""With so many keys a key is compared, one by one."""
HASHED = frozenset({tuple, torch.Size, torch.SymInt, torch.SymFloat})
UNLIKE_NUMBERS = frozenset({str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device})
"""Types whose values equal no number."""
