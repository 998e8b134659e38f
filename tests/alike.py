"""Comparing two runs of a program by everything that can be reached from what they gave and changed."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

import torch

import framelift


class Alike:
    """Compares two graphs of objects: same types, same values, and the same pattern of who is who.

    An object of one side corresponds to one object of the other; what both sides share (classes,
    modules, code) corresponds to itself.
    """

    def __init__(self) -> None:
        self.there: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.kept: list[Any] = []
        self.storages: dict[int, int] = {}

    def compare(self, a: Any, b: Any, at: str = "result") -> None:
        assert type(a) is type(b), f"{at}: {type(a)} and {type(b)}"
        if isinstance(a, ATOMS):
            assert a == b or a != a, f"{at}: {a!r} and {b!r}"
            return
        if id(a) in self.there or id(b) in self.back:
            assert self.there.get(id(a)) == id(b), f"{at}: one object here, two there"
            return
        if a is b and isinstance(a, SHARED):
            return
        if not has_no_identity(a):
            self.there[id(a)], self.back[id(b)] = id(b), id(a)
            self.kept += [a, b]
        for cls, compare in COMPARISONS:
            if isinstance(a, cls):
                compare(self, a, b, at)
                break
        else:
            if not hasattr(a, "__dict__") and not slots_of(type(a)):
                assert a == b, f"{at}: {a!r} and {b!r}"
        if not isinstance(a, torch.Tensor) or type(a) is not torch.Tensor:
            self.attributes(a, b, at)

    def attributes(self, a: Any, b: Any, at: str) -> None:
        mine, other = getattr(a, "__dict__", {}), getattr(b, "__dict__", {})
        assert list(mine) == list(other), f"{at}: attributes {list(mine)} and {list(other)}"
        for name in mine:
            self.compare(mine[name], other[name], f"{at}.{name}")
        for name in slots_of(type(a)):
            self.compare(getattr(a, name, ABSENT), getattr(b, name, ABSENT), f"{at}.{name}")

    def sequence(self, a: Any, b: Any, at: str) -> None:
        mine, other = list(type(a).__iter__(a)), list(type(b).__iter__(b))
        assert len(mine) == len(other), f"{at}: {mine!r} and {other!r}"
        for n, (x, y) in enumerate(zip(mine, other, strict=True)):
            self.compare(x, y, f"{at}[{n}]")
        if isinstance(a, collections.deque):
            assert a.maxlen == b.maxlen

    def mapping(self, a: Any, b: Any, at: str) -> None:
        own = collections.OrderedDict if isinstance(a, collections.OrderedDict) else dict
        keys = list(own.__iter__(a)), list(own.__iter__(b))
        assert len(keys[0]) == len(keys[1]), f"{at}: keys {keys[0]} and {keys[1]}"
        for mine, other in zip(*keys, strict=True):
            self.compare(mine, other, f"{at}: key")
            self.compare(dict.__getitem__(a, mine), dict.__getitem__(b, other), f"{at}[{mine!r:.40}]")
        if isinstance(a, collections.defaultdict):
            self.compare(a.default_factory, b.default_factory, f"{at}.default_factory")

    def set(self, a: Any, b: Any, at: str) -> None:
        if all(isinstance(item, ATOMS) for item in a):
            assert a == b, f"{at}: {a} and {b}"
        else:
            assert len(a) == len(b)

    def tensor(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        for fact in ("shape", "dtype", "requires_grad", "is_leaf"):
            assert getattr(a, fact) == getattr(b, fact), (
                f"{at}.{fact}: {getattr(a, fact)} and {getattr(b, fact)}"
            )
        assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset(), f"{at}: strides"
        assert torch.equal(a, b) or torch.allclose(a, b, equal_nan=True), f"{at}: {a} and {b}"
        mine, other = a.untyped_storage()._cdata, b.untyped_storage()._cdata
        assert self.storages.setdefault(mine, other) == other, f"{at}: memory is shared here and not there"
        assert self.storages.setdefault(-other, mine) == mine, f"{at}: memory is shared there and not here"
        if a.is_leaf:
            self.compare(a.grad, b.grad, f"{at}.grad")

    def function(self, a: Any, b: Any, at: str) -> None:
        assert a.__code__ == b.__code__, f"{at}: {a} and {b}"
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"):
            self.compare(getattr(a, name), getattr(b, name), f"{at}.{name}")
        self.compare(a.__annotations__, b.__annotations__, f"{at}.__annotations__")
        self.compare(a.__closure__, b.__closure__, f"{at}.__closure__")

    def cell(self, a: Any, b: Any, at: str) -> None:
        full = [*map(has_contents, (a, b))]
        assert full[0] == full[1], f"{at}: an empty cell"
        if full[0]:
            self.compare(a.cell_contents, b.cell_contents, f"{at}.cell_contents")

    def method(self, a: Any, b: Any, at: str) -> None:
        self.compare(a.__self__, b.__self__, f"{at}.__self__")
        assert a.__name__ == b.__name__
        if type(a) is types.MethodType:
            self.compare(a.__func__, b.__func__, f"{at}.__func__")

    def partial(self, a: Any, b: Any, at: str) -> None:
        self.compare([a.func, a.args, a.keywords], [b.func, b.args, b.keywords], at)

    def error(self, a: Any, b: Any, at: str) -> None:
        self.compare(a.args, b.args, f"{at}.args")
        for name in ("__cause__", "__context__", "__suppress_context__"):
            self.compare(getattr(a, name), getattr(b, name), f"{at}.{name}")

    def iterator(self, a: Any, b: Any, at: str) -> None:
        self.compare(list(itertools.islice(a, 50)), list(itertools.islice(b, 50)), f"list({at})")


class Absent:
    pass


ABSENT = Absent()
ATOMS = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(Ellipsis),
    range,
    slice,
    torch.dtype,
    torch.device,
    enum.Enum,
    datetime.timedelta,
    decimal.Decimal,
)
SHARED = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.CodeType,
    Absent,
    types.CellType,
)
COMPARISONS: list[tuple[Any, Any]] = [
    (torch.Tensor, Alike.tensor),
    (torch.Size, lambda *_: None),
    ((list, tuple, collections.deque), Alike.sequence),
    (dict, Alike.mapping),
    ((set, frozenset), Alike.set),
    (types.FunctionType, Alike.function),
    (types.CellType, Alike.cell),
    ((types.MethodType, types.BuiltinFunctionType), Alike.method),
    (functools.partial, Alike.partial),
    (BaseException, Alike.error),
    (collections.abc.Iterator, Alike.iterator),
    (collections.abc.MappingView, Alike.sequence),
]


def has_no_identity(value: Any) -> bool:
    """An immutable container of constants: the compiler may make one of two, or two of one."""
    return isinstance(value, (tuple, frozenset)) and all(
        isinstance(x, ATOMS) or has_no_identity(x) for x in value
    )


def has_contents(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def slots_of(cls: type) -> list[str]:
    declared = [base for base in cls.__mro__ if "__slots__" in vars(base)]
    return [n for base in declared for n, v in vars(base).items() if type(v) is types.MemberDescriptorType]


def alike(a: Any, b: Any) -> None:
    Alike().compare(a, b)


def check_calls(
    make: Callable[[], tuple[Any, ...]],
    calls: int = 3,
    fullgraph: bool = True,
    backend: str = "eager",
    graphs: int = 1,
) -> None:
    """`make()` gives a function and its arguments, all new, then perhaps other state to compare.

    The function is called some times eagerly and, on a second set, compiled: results, arguments and
    state must be alike after each call. The last element of what `make` gives may be a `State`.
    """
    framelift.reset()
    fn, *eager_args = make()
    eager_fn, eager_args, eager_state = split(fn, eager_args)
    fn, *args = make()
    fn, args, state = split(fn, args)
    compiled = framelift.compile(fn, backend=backend, fullgraph=fullgraph)
    results = [], []
    for n in range(calls):
        torch.manual_seed(n)
        results[0].append(eager_fn(*eager_args))
        torch.manual_seed(n)
        results[1].append(compiled(*args))
        alike([results[0], eager_args, eager_state], [results[1], args, state])
    if fullgraph:
        assert framelift.counters["stats"]["unique_graphs"] >= 1, "nothing was captured"


class State(list):
    """What else a program may change, beside its arguments."""


def split(fn: Any, args: list[Any]) -> tuple[Any, list[Any], Any]:
    if args and type(args[-1]) is State:
        return fn, args[:-1], args[-1]
    return fn, args, None


def x2() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)
