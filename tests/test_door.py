"""Every kind of value that can come in (FEATURES.md C), wherever it is found, however it is used."""

from __future__ import annotations

import abc
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import operator
import pathlib
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
from check import check

# ---- values


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    A = 1
    B = 2


class Word(str, enum.Enum):
    HELLO = "hello"


Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    first: int
    second: int = 2


@dataclasses.dataclass
class Data:
    a: int = 1
    b: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1
    b: str = "b"


@dataclasses.dataclass(slots=True)
class Slotted:
    a: int = 1
    b: float = 2.0


class Tagged(list):
    tag = "class"

    def __init__(self, *args: Any, tag: str = "own") -> None:
        super().__init__(*args)
        self.tag = tag


class Table(dict):
    def total(self) -> int:
        return sum(self.values())


class Trio(tuple):
    def middle(self) -> Any:
        return self[1]


class Bag(set):
    pass


class Name(str):
    pass


class Metres(float):
    unit = "m"


class Plain:
    limit = 7

    def __init__(self, value: int = 3) -> None:
        self.value = value

    def method(self, n: int = 1) -> int:
        return self.value + n

    @classmethod
    def made(cls) -> str:
        return cls.__name__

    @staticmethod
    def fixed() -> int:
        return 5

    @property
    def double(self) -> int:
        return self.value * 2


class Callable_(Plain):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.value


class WithSlots:
    __slots__ = ("empty", "value")

    def __init__(self) -> None:
        self.value = 3


class Equal:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.by_meta = True
        return made

    @property
    def label(cls) -> str:
        return cls.__name__.lower()


class WithMeta(metaclass=Meta):
    pass


def function(n: int = 2) -> int:
    return n + 1


def cyclic() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


CONSTANTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "int": lambda: 3,
    "zero": lambda: 0,
    "big int": lambda: 2**100,
    "float": lambda: 2.5,
    "nan": lambda: math.nan,
    "infinity": lambda: -math.inf,
    "negative zero": lambda: -0.0,
    "complex": lambda: 1 - 2j,
    "str": lambda: "text",
    "empty str": lambda: "",
    "bytes": lambda: b"ab\0",
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "dtype": lambda: torch.float64,
    "device": lambda: torch.device("cpu"),
    "layout": lambda: torch.strided,
    "memory format": lambda: torch.channels_last,
    "range": lambda: range(1, 9, 2),
    "Size": lambda: torch.Size([2, 3]),
    "enum": lambda: Colour.RED,
    "int enum": lambda: Level.HIGH,
    "flag": lambda: Flags.A | Flags.B,
    "str enum": lambda: Word.HELLO,
    "pattern": lambda: re.compile(r"\d+"),
    "date": lambda: datetime.date(2024, 2, 29),
    "datetime": lambda: datetime.datetime(2024, 2, 29, 12, 30),
    "timedelta": lambda: datetime.timedelta(days=2),
    "Decimal": lambda: decimal.Decimal("1.50"),
    "Fraction": lambda: fractions.Fraction(3, 4),
    "path": lambda: pathlib.PurePosixPath("a/b"),
    "version": lambda: torch.__version__,
    "finfo": lambda: torch.finfo(torch.float32),
    "typing object": lambda: typing.Optional[int],
    "generic alias": lambda: list[int],
    "union": lambda: int | None,
}
CONTAINERS: dict[str, Callable[[], Any]] = {
    "slice": lambda: slice(1, None, 2),
    "list": lambda: [1, "two", None],
    "empty list": list,
    "nested list": lambda: [[1], [2, [3]]],
    "aliased list": lambda: [shared := [1], shared],
    "list in itself": cyclic,
    "tuple": lambda: (1, (2, 3)),
    "empty tuple": tuple,
    "dict": lambda: {"a": 1, 2: "b", None: [3]},
    "empty dict": dict,
    "dict of dicts": lambda: {"a": {"b": {"c": 1}}},
    "set": lambda: {1, "a"},
    "empty set": set,
    "frozenset": lambda: frozenset({1, 2}),
    "deque": lambda: collections.deque([1, 2, 3], maxlen=4),
    "OrderedDict": lambda: collections.OrderedDict(b=1, a=2),
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "Counter": lambda: collections.Counter("abca"),
    "ChainMap": lambda: collections.ChainMap({"a": 1}, {"b": 2}),
    "UserDict": lambda: collections.UserDict(a=1),
    "UserList": lambda: collections.UserList([1, 2]),
    "mappingproxy": lambda: types.MappingProxyType({"a": 1}),
    "namedtuple": lambda: Point(1, [2]),
    "NamedTuple": lambda: Pair(1),
    "list subclass": lambda: Tagged([1, 2]),
    "dict subclass": lambda: Table(a=1, b=2),
    "tuple subclass": lambda: Trio((1, 2, 3)),
    "set subclass": lambda: Bag({1, 2}),
    "str subclass": lambda: Name("name"),
    "float subclass": lambda: Metres(1.5),
    "bytearray": lambda: bytearray(b"ab"),
    "dict keys": lambda: {"a": 1}.keys(),
}
OBJECTS: dict[str, Callable[[], Any]] = {
    "dataclass": Data,
    "frozen dataclass": Frozen,
    "slotted dataclass": Slotted,
    "SimpleNamespace": lambda: types.SimpleNamespace(a=1),
    "instance": Plain,
    "callable object": Callable_,
    "instance with slots": WithSlots,
    "instance with __eq__": lambda: Equal(1),
    "instance of a metaclass's class": WithMeta,
    "object": object,
    "function": lambda: function,
    "lambda": lambda: lambda x: x,
    "closure": lambda: (lambda n: lambda: n)(4),
    "method": lambda: Plain().method,
    "classmethod": lambda: Plain.made,
    "staticmethod": lambda: Plain.fixed,
    "builtin": lambda: len,
    "builtin method": lambda: [1, 2].count,
    "method descriptor": lambda: str.upper,
    "partial": lambda: functools.partial(function, n=5),
    "itemgetter": lambda: operator.itemgetter(1),
    "class": lambda: Plain,
    "builtin class": lambda: dict,
    "metaclass": lambda: Meta,
    "enum class": lambda: Colour,
    "abstract class": lambda: abc.ABC,
    "module": lambda: math,
    "property": lambda: Plain.__dict__["double"],
    "exception": lambda: ValueError("wrong", 1),
    "exception class": lambda: KeyError,
    "nn.Module": lambda: torch.nn.Linear(2, 2),
    "Parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "tensor": lambda: torch.arange(3.0),
    "generator": lambda: torch.Generator(),
}
VALUES = CONSTANTS | CONTAINERS | OBJECTS

# ---- places


def as_argument(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    return use, value


def as_attribute(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    return (lambda x, holder: use(x, holder.held)), types.SimpleNamespace(held=value)


def as_slot(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    holder = WithSlots()
    holder.value = value
    return (lambda x, holder: use(x, holder.value)), holder


def as_module_attribute(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    holder = torch.nn.Identity()
    holder.held = value
    return (lambda x, holder: use(x, holder.held)), holder


def as_global(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    namespace = {"use": use, "value": value, "__name__": __name__}
    exec("def from_global(x):\n    return use(x, value)\n", namespace)
    return (namespace["from_global"],)


def as_closure(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    return (lambda x: use(x, value),)


def as_default(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    def from_default(x: Any, held: Any = value) -> Any:
        return use(x, held)

    return (from_default,)


def as_keyword_default(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    def inner(x: Any, *, held: Any = value) -> Any:
        return use(x, held)

    return (lambda x: inner(x),)


def as_class_attribute(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    class Holder:
        held = [value]

    return (lambda x: use(x, Holder.held[0]),)


def as_item(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    return (lambda x, held: use(x, held[1])), [0, value]


def as_dict_value(use: Callable[..., Any], value: Any) -> tuple[Any, ...]:
    return (lambda x, held: use(x, held["held"])), {"other": 1, "held": value}


PLACES = [as_argument, as_attribute, as_slot, as_module_attribute, as_global, as_closure, as_default]
PLACES += [as_keyword_default, as_class_attribute, as_item, as_dict_value]

# ---- uses


def returned(x: Any, v: Any) -> Any:
    return x + 1, v


def moved_about(x: Any, v: Any) -> Any:
    kept = [v, (v,), {"k": v}]
    (again,) = kept[1]
    return x + 1, kept, again is v


def compared_with_none(x: Any, v: Any) -> Any:
    return x + 1 if v is None else x - 1


def asked_for_its_type(x: Any, v: Any) -> Any:
    if isinstance(v, (int, str)):
        x = x + 1
    if isinstance(v, collections.abc.Sequence) or callable(v):
        x = x * 2
    return x - 1, type(v)


def looked_into(x: Any, v: Any) -> Any:
    """What can be done with a value of any kind without the address of anything."""
    done = [hasattr(v, "value"), getattr(v, "a", None), v is v]
    if isinstance(v, (list, tuple, dict, set, frozenset, range, str, bytes, collections.deque)):
        done += [len(v), list(v), bool(v)]
    return x + 1, done


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_moved_and_returned(name: str, place: Any) -> None:
    for use in (returned, moved_about):
        fn, *args = place(use, VALUES[name]())
        check(fn, torch.ones(2), *args)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_asked_about(name: str, place: Any) -> None:
    for use in (compared_with_none, asked_for_its_type, looked_into):
        fn, *args = place(use, VALUES[name]())
        check(fn, torch.ones(2), *args)
