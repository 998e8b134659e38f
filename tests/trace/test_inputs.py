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

from check import capture, check

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


OPAQUE = {"mappingproxy", "bytearray", "dict keys"}
"""State that only C sees: may be moved about, but looking into them is a break."""


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_found_anywhere(name: str) -> None:
    for place in PLACES:
        fn, *args = place(returned if name in OPAQUE else looked_into, VALUES[name]())
        check(fn, torch.ones(2), *args)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_moved_and_asked_about(name: str) -> None:
    for use in (returned, moved_about, compared_with_none, asked_for_its_type):
        check(use, torch.ones(2), VALUES[name]())


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_used(name: str) -> None:
    value = CONSTANTS[name]()
    check(
        lambda x, v: (x + 1, v == v, v != v, bool(v) if v is not NotImplemented else 0), torch.ones(2), value
    )
    check(lambda x, v: (x + 1, str(v), repr(v), f"{v}"), torch.ones(2), value)
    check(lambda x, v: (x + 1, v in [1, v], [v].index(v), (v, 1) == (v, 1)), torch.ones(2), value)
    if type(value).__hash__ is not None:
        check(lambda x, v: (x + 1, {v: 1}, {v: 2}[v], len({v, v})), torch.ones(2), value)


# ---- objects at work


class Descriptor:
    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return "class" if obj is None else obj.value + 100

    def __set__(self, obj: Any, value: Any) -> None:
        obj.value = value - 100


class NonData:
    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return ("non-data", obj is None)


class Base:
    kind = "base"

    def __init__(self, value: int = 1) -> None:
        self.value = value

    def describe(self) -> str:
        return f"{self.kind} {self.value}"

    @classmethod
    def create(cls, *args: Any) -> Any:
        return cls(*args)

    @property
    def half(self) -> float:
        return self.value / 2

    @half.setter
    def half(self, value: float) -> None:
        self.value = value * 2

    @half.deleter
    def half(self) -> None:
        self.value = 0


class Derived(Base):
    kind = "derived"
    data = Descriptor()
    non_data = NonData()

    def describe(self) -> str:
        return "<" + super().describe() + ">"

    @classmethod
    def create(cls, *args: Any) -> Any:
        made = super().create(*args)
        made.created = True
        return made

    @property
    def half(self) -> float:
        return super().half + 1

    @staticmethod
    def twice(n: int) -> int:
        return n * 2


class Proxy:
    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._target, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._target, name)


class Spy:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.value = 4

    def __getattribute__(self, name: str) -> Any:
        if name not in ("asked", "__dict__", "__class__") and not name.startswith("__"):
            object.__getattribute__(self, "asked").append(name)
        return object.__getattribute__(self, name)


class Vector:
    def __init__(self, *parts: float) -> None:
        self.parts = list(parts)

    def __add__(self, other: Any) -> Any:
        return (
            Vector(*(a + b for a, b in zip(self.parts, other.parts)))
            if isinstance(other, Vector)
            else NotImplemented
        )

    def __radd__(self, other: Any) -> Any:
        return Vector(*(a + other for a in self.parts))

    def __iadd__(self, other: Any) -> Any:
        self.parts = [a + 1 for a in self.parts]
        return self

    def __neg__(self) -> Any:
        return Vector(*(-a for a in self.parts))

    def __getitem__(self, n: Any) -> Any:
        return self.parts[n]

    def __setitem__(self, n: Any, value: Any) -> None:
        self.parts[n] = value

    def __delitem__(self, n: Any) -> None:
        del self.parts[n]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Any:
        return iter(self.parts)

    def __contains__(self, value: Any) -> bool:
        return value in self.parts

    def __bool__(self) -> bool:
        return any(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    def __index__(self) -> int:
        return len(self.parts)

    def __float__(self) -> float:
        return float(sum(self.parts))

    def __enter__(self) -> Any:
        self.parts.append(0)
        return self

    def __exit__(self, *_: Any) -> None:
        self.parts.append(-1)

    def __class_getitem__(cls, item: Any) -> Any:
        return (cls.__name__, item)


class Registered:
    known: dict[str, type] = {}

    def __init_subclass__(cls, *, label: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.label = label


def deleted(o: Any, name: str) -> Any:
    delattr(o, name)
    return o


def in_context(o: Any) -> Any:
    with o as entered:
        return entered is o, len(o)


def augmented(o: Any) -> Any:
    before = o
    o += 1
    return o is before, o


BEHAVIOURS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "a method": (lambda o: o.describe(), Derived),
    "a method held": (lambda o: (lambda m: m())(o.describe), Derived),
    "a method of the class": (lambda o: Base.describe(o), Derived),
    "a classmethod": (lambda o: o.create(5), Derived),
    "a staticmethod": (lambda o: (o.twice(2), type(o).twice(3)), Derived),
    "a property": (lambda o: o.half, Derived),
    "a property set": (lambda o: setattr(o, "half", 4), Base),
    "a property without a setter": (lambda o: setattr(o, "half", 4), Derived),
    "a property deleted": (lambda o: deleted(o, "half"), Base),
    "a data descriptor": (lambda o: (o.data, type(o).data), Derived),
    "a data descriptor set": (lambda o: setattr(o, "data", 105), Derived),
    "a non-data descriptor": (lambda o: (o.non_data, type(o).non_data), Derived),
    "a non-data descriptor hidden": (lambda o: (setattr(o, "non_data", 1), o.non_data), Derived),
    "a class attribute hidden": (lambda o: (setattr(o, "kind", "own"), o.describe(), type(o).kind), Derived),
    "super with arguments": (lambda o: super(Derived, o).describe(), Derived),
    "an attribute added and read": (lambda o: (setattr(o, "new", [1]), o.new.append(2), o.new), Base),
    "an attribute deleted": (lambda o: (deleted(o, "value"), hasattr(o, "value")), Base),
    "an attribute that is not there": (lambda o: o.none, Base),
    "an attribute that is not there, caught": (lambda o: getattr(o, "none", "default"), Base),
    "__dict__": (lambda o: (sorted(o.__dict__), o.__dict__["value"]), Base),
    "__dict__ written": (lambda o: (o.__dict__.update(value=7), o.value), Base),
    "vars": (lambda o: {k: v for k, v in vars(o).items()}, Base),
    "__class__": (lambda o: (o.__class__.__name__, o.__class__ is type(o)), Derived),
    "type() and its names": (
        lambda o: (type(o).__mro__[1].__name__, type(o).__module__, type(o).__doc__),
        Derived,
    ),
    "isinstance and issubclass": (lambda o: (isinstance(o, Base), issubclass(type(o), Base)), Derived),
    "__getattr__ and __setattr__": (
        lambda o: (o.value, setattr(o, "value", 9), o.value, o.describe()),
        lambda: Proxy(Base()),
    ),
    "__delattr__": (lambda o: (deleted(o, "value"), hasattr(o, "value")), lambda: Proxy(Base())),
    "__getattribute__": (lambda o: (o.value, o.value, getattr(o, "none", 0)), Spy),
    "slots": (lambda o: (o.value, setattr(o, "value", 5), o.value, hasattr(o, "empty")), WithSlots),
    "a slot that does not exist": (lambda o: setattr(o, "other", 5), WithSlots),
    "a slot deleted": (lambda o: (deleted(o, "value"), hasattr(o, "value")), WithSlots),
    "__call__": (lambda o: o(torch.ones(2)), Callable_),
    "addition": (lambda o: (o + o, 1 + o, -o), lambda: Vector(1, 2)),
    "addition that fails": (lambda o: o + "text", lambda: Vector(1, 2)),
    "in-place addition": (augmented, lambda: Vector(1, 2)),
    "subscripts": (lambda o: (o[0], o[-1], o[:1], o.__setitem__(0, 9)), lambda: Vector(1, 2)),
    "a subscript deleted": (lambda o: o.__delitem__(0), lambda: Vector(1, 2)),
    "len, iter, in, bool": (lambda o: (len(o), list(o), 2 in o, bool(o), [*o]), lambda: Vector(1, 2)),
    "equality and hash": (lambda o: (o == Vector(1, 2), o != o, {o: 1}[Vector(1, 2)]), lambda: Vector(1, 2)),
    "__index__ and __float__": (lambda o: ([1, 2, 3][o], float(o), range(5)[o]), lambda: Vector(1, 2)),
    "with": (in_context, lambda: Vector(1, 2)),
    "unpacking": (lambda o: (lambda a, b: a - b)(*o), lambda: Vector(1, 2)),
    "__class_getitem__": (lambda o: type(o)[int], lambda: Vector(1)),
    "a metaclass's call": (lambda o: type(o)().by_meta, WithMeta),
    "a metaclass's property": (lambda o: type(o).label, WithMeta),
    "a dataclass": (lambda o: (o.a, o.b.append(1), o == Data(1, [1]), repr(o)), Data),
    "a frozen dataclass": (lambda o: (hash(o) == hash(Frozen()), o == Frozen(), repr(o)), Frozen),
    "a frozen dataclass set": (lambda o: setattr(o, "a", 2), Frozen),
    "a slotted dataclass": (lambda o: (setattr(o, "a", 5), o.a + o.b, repr(o)), Slotted),
    "a namedtuple": (
        lambda o: (o.x, o[1].append(3), o._replace(x=2), o._fields, o == (1, [2, 3])),
        lambda: Point(1, [2]),
    ),
    "a NamedTuple": (lambda o: (o.first + o.second, [*o], o.index(2)), lambda: Pair(1)),
    "a list's subclass": (
        lambda o: (o.tag, o.append(3), len(o), o[0], setattr(o, "tag", "new")),
        lambda: Tagged([1, 2]),
    ),
    "a dict's subclass": (
        lambda o: (o.total(), o.update(c=5), o.get("a"), "b" in o, o.total()),
        lambda: Table(a=1),
    ),
    "a tuple's subclass": (lambda o: (o.middle(), o[0], o + (4,)), lambda: Trio((1, 2, 3))),
    "a set's subclass": (lambda o: (1 in o, o.add(5), sorted(o)), lambda: Bag({1, 2})),
    "a str's subclass": (lambda o: (o.upper(), o + "!", len(o), o == "name"), lambda: Name("name")),
    "a float's subclass": (lambda o: (o + 1, o.unit, float(o)), lambda: Metres(1.5)),
    "an enum": (lambda o: (o.name, o.value, o is Colour.RED, o == Colour.GREEN), lambda: Colour.RED),
    "an int enum": (lambda o: (o + 1, o < 5, o.name), lambda: Level.HIGH),
    "a str enum": (lambda o: (o.upper(), o == "hello", o.value), lambda: Word.HELLO),
    "a flag": (
        lambda o: (Flags.A in o, o & Flags.A, bool(o & Flags.B), (o ^ Flags.A).name),
        lambda: Flags.A | Flags.B,
    ),
    "a namespace": (lambda o: (o.a, setattr(o, "b", 2), o.b), lambda: types.SimpleNamespace(a=1)),
    "a function": (lambda o: (o(), o(5), o.__name__, o.__defaults__), lambda: function),
    "a partial": (
        lambda o: (o(), o(n=1), o.func is function, o.keywords["n"]),
        lambda: functools.partial(function, n=5),
    ),
    "a bound method": (lambda o: (o(2), o.__self__.value, o.__name__), lambda: Plain().method),
    "a class": (lambda o: (o(5).method(), o.limit, o.made(), o.__name__), lambda: Plain),
    "a module": (lambda o: (o.sqrt(4.0), o.pi), lambda: math),
    "a counter": (
        lambda o: (o["a"], o["zz"], o.most_common(1), o.update("a"), o.total()),
        lambda: collections.Counter("aab"),
    ),
    "a chain map": (
        lambda o: (o["b"], o.__setitem__("b", 5), o["b"], sorted(o)),
        lambda: collections.ChainMap({"a": 1}, {"b": 2}),
    ),
    "a user dict": (
        lambda o: (o["a"], o.__setitem__("b", 2), len(o), dict(o)),
        lambda: collections.UserDict(a=1),
    ),
    "a default dict": (
        lambda o: (o["a"], o["new"].append(1), sorted(o)),
        lambda: collections.defaultdict(list, a=[1]),
    ),
    "a deque": (
        lambda o: (o.append(4), o[0], o.popleft(), list(o), o.maxlen),
        lambda: collections.deque([1, 2], maxlen=2),
    ),
    "an ordered dict": (
        lambda o: (o.move_to_end("b"), list(o), o.popitem()),
        lambda: collections.OrderedDict(b=1, a=2),
    ),
    "a list in itself": (lambda o: (o[1] is o, len(o[1][1])), cyclic),
    "aliased lists": (lambda o: (o[0] is o[1], o[0].append(2), o[1]), lambda: [shared := [1], shared]),
    "a fraction": (lambda o: (o + 1, o.numerator, float(o)), lambda: fractions.Fraction(1, 2)),
    "a path": (lambda o: (o.name, str(o / "c"), o.parent.name), lambda: pathlib.PurePosixPath("a/b")),
    "a datetime": (
        lambda o: (o.year, o.isoformat(), (o + datetime.timedelta(1)).day),
        lambda: datetime.datetime(2024, 1, 2),
    ),
    "a size": (lambda o: (o.numel(), o[0], list(o)), lambda: torch.Size([2, 3])),
    "a dtype": (lambda o: (o.is_floating_point, torch.finfo(o).max), lambda: torch.float32),
    "a device": (lambda o: (o.type, o.index, str(o)), lambda: torch.device("cpu")),
    "a parameter": (
        lambda o: (o.shape, o.requires_grad, isinstance(o, torch.nn.Parameter), o * 2),
        lambda: torch.nn.Parameter(torch.ones(2)),
    ),
    "a tensor with attributes": (lambda o: (hasattr(o, "tag"), o + 1), lambda: torch.ones(2)),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_an_object_behaves(name: str) -> None:
    use, make = BEHAVIOURS[name]
    check(lambda x, o: (x + 1, use(o)), torch.ones(2), make())


def test_classes_are_made_inside() -> None:
    def f(x: Any, n: int) -> Any:
        class Local(Registered, label="local"):
            size = n

            def grow(self) -> int:
                return self.size + 1

        return x + Local().grow(), Local.label

    check(f, torch.ones(2), 3)


def test_closures_share_a_cell() -> None:
    def f(x: Any) -> Any:
        count = 0

        def increase() -> None:
            nonlocal count
            count += 1

        def read() -> int:
            return count

        increase()
        increase()
        return x + read(), read, increase

    result = check(f, torch.ones(2))(torch.ones(2))
    result[2]()
    assert result[1]() == 3


def test_outside_closures_share_a_cell() -> None:
    def make() -> Any:
        count = 0

        def increase() -> None:
            nonlocal count
            count += 1

        return increase, lambda: count

    outcomes = []
    for compiled in (False, True):
        increase, read = make()

        def f(x: Any) -> Any:
            increase()
            return x + read()

        fn = capture(f) if compiled else f
        outcomes.append([fn(torch.ones(2)).sum().item(), fn(torch.ones(2)).sum().item(), read()])
    assert outcomes[0] == outcomes[1]
