"""Objects from outside that can be called, and what classes are made of."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import math
import operator
import types
import typing

import torch

from conformance_programs._objects import Kind, chapter, each


def doubled(value, extra=1):
    """Twice."""
    return value * 2 + extra


def halved(value, extra=1):
    return value / 2 - extra


def annotated(value: int, *, by: float = 2.0) -> float:
    return value * by


def adding(number):
    def add(value):
        return value + number

    return add


def counting():
    calls = [0]

    def count(value):
        nonlocal last
        calls[0] += 1
        last = value
        return value * calls[0]

    last = None
    return count


def marked(fn, **marks):
    copied = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    vars(copied).update(marks)
    return copied


@functools.lru_cache
def remembered(value):
    return value * 2


@functools.singledispatch
def dispatched(value):
    return "something", value


@dispatched.register
def _(value: int):
    return "integer", value


class Adder:
    """With methods of all kinds."""

    shared = [1]
    __slots__ = ("number",)

    def __init__(self, number=1):
        self.number = number

    def __call__(self, value):
        return value + self.number

    def add(self, value):
        return value + self.number

    @classmethod
    def named(cls, value):
        return cls.__name__, value

    @staticmethod
    def plain(value):
        return value

    @property
    def twice(self):
        return self.number * 2


class Derived(Adder):
    def add(self, value):
        return super().add(value) * 10


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    side = 2

    def area(self):
        return self.side**2


@typing.runtime_checkable
class Sized(typing.Protocol):
    def __len__(self): ...


@dataclasses.dataclass
class Record:
    left: typing.Any
    right: int = 2


@dataclasses.dataclass(frozen=True, order=True)
class Fixed:
    left: int
    right: int = 2


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


T = typing.TypeVar("T")


class Stack(typing.Generic[T]):
    def __init__(self, items=()):
        self.items = list(items)

    def push(self, item: T) -> None:
        self.items.append(item)


class Meta(type):
    def __len__(cls):
        return 3

    def __iter__(cls):
        return iter("ab")

    def __getitem__(cls, key):
        return cls.__name__, key


class WithMeta(metaclass=Meta):
    pass


class Raising:
    def __init__(self):
        raise ValueError("never made")


NAMED = "named: v.__name__, v.__qualname__, v.__module__, v.__doc__\n"
CALLED = "called: v(x), v(2), passed_on(v(3))\nmapped: list(map(v, [1, 2])), [v(each) for each in (1, 2)]\n"
FUNCTION = (
    NAMED
    + CALLED
    + "compared: v == v, v != LIKE, v in [v], {v: 1}[v]\nasked: callable(v), hasattr(v, '__call__')\n"
)
CLASS = (
    NAMED
    + "asked: callable(v), issubclass(v, object), issubclass(v, int), v == v, v is CLASS, {v: 1}[v]\nbases: v.__mro__[-1], v.__bases__, type(v).__name__\n"
)

ADDRESS = "address of an abstract value"

chapter(
    Kind("function", lambda: doubled, lambda: halved, FUNCTION + """
        parts: v.__defaults__, v.__kwdefaults__, v.__code__.co_name, v.__code__.co_varnames, v.__annotations__, v.__dict__
        keywords: v(x, extra=3), v(value=x), v(*[x], **{"extra": 1})
    """),
    Kind("annotated_function", lambda: annotated, own="called: v(2), v(x, by=3)\nparts: v.__annotations__, v.__kwdefaults__"),
    Kind("marked_function", lambda: marked(doubled, note="n"), lambda: marked(doubled, note="m"), "attributes: v.note, getattr(v, 'none', 2), hasattr(v, 'note'), v(x)"),
    Kind("lambda", lambda: (lambda value: value + 1), lambda: (lambda value: value - 1), CALLED + "named: v.__name__\n"),
    Kind("closure", lambda: adding(2), lambda: adding(3), CALLED + "named: v.__name__\n"),
    Kind("counting_closure", counting, own="called: v(x), v(2)"),
    Kind("partial", lambda: functools.partial(doubled, extra=5), lambda: functools.partial(halved), CALLED + "parts: v.func, v.args, v.keywords\n"),
    Kind("nested_partial", lambda: functools.partial(functools.partial(doubled, 2), extra=1), own="called: v(), v(extra=x)"),
    Kind("bound_method", lambda: Adder(2).add, lambda: Adder(3).add, CALLED + "parts: v.__self__.number, v.__func__.__name__, v.__name__, v.__self__ is v.__self__, v == v\n", breaks={"hashed": ADDRESS}),
    Kind("overriding_method", lambda: Derived(2).add, own=CALLED, breaks={"deeply_copied": "internals of an object", "hashed": ADDRESS}),
    Kind("class_method", lambda: Adder.named, lambda: Derived.named, "called: v(x), v.__self__, v.__func__.__name__"),
    Kind("callable_object", lambda: Adder(2), lambda: Adder(3), CALLED + "attribute: v.number, v.twice\nchanged: v.number += 1\n"),
    Kind("builtin", lambda: len, lambda: max, "called: v([1, 2]), v.__name__, v.__self__\nmapped: list(map(v, ['ab']))\n"),
    Kind("math_function", lambda: math.sqrt, lambda: math.exp, "called: v(4.0)\nmapped: list(map(v, [1.0]))\nnamed: v.__name__, v.__module__\n"),
    Kind("torch_function", lambda: torch.sin, lambda: torch.cos, "called: v(x), v(x) + 1\nmapped: [v(each) for each in (x, x * 2)]\nnamed: v.__name__\n"),
    Kind("torch_functional", lambda: torch.nn.functional.relu, lambda: torch.nn.functional.gelu, "called: v(x)\nnamed: v.__name__\n"),
    Kind("builtin_method", lambda: "abc".upper, lambda: "xyz".title, "called: v(), v.__name__, v.__self__", breaks={"hashed": ADDRESS}),
    Kind("list_method", lambda: [1, 2].append, lambda: [3].append, "called: v(5); out.append(v.__self__)", breaks={"hashed": ADDRESS}),
    Kind("dict_method", lambda: {"a": 1}.get, lambda: {"a": 2}.get, "called: v('a'), v('b', 3), list(map(v, 'ab'))", breaks={"hashed": ADDRESS}),
    Kind("tensor_method", lambda: torch.ones(3).add, lambda: torch.zeros(3).add, "called: v(x)", breaks={"hashed": ADDRESS}, without="equal"),
    Kind("method_wrapper", lambda: (2).__add__, lambda: (3).__add__, "called: v(1), v.__name__, v.__self__"),
    Kind("method_descriptor", lambda: str.upper, lambda: str.title, "called: v('abc'), v.__name__, v.__objclass__\nmapped: list(map(v, ['a']))\n"),
    Kind("wrapper_descriptor", lambda: int.__add__, lambda: int.__sub__, "called: v(1, 2), v.__name__, v.__objclass__"),
    Kind("getset_descriptor", lambda: types.FunctionType.__code__, own="named: v.__name__, v.__objclass__"),
    Kind("member_descriptor", lambda: Adder.number, own="named: v.__name__, v.__objclass__\nused: v.__get__(Adder(4))\n", scope={"Adder": Adder}),
    Kind("property", lambda: vars(Adder)["twice"], own="used: v.fget(Adder(2)), v.fset, v.__get__(Adder(3)), v.__doc__", scope={"Adder": Adder}),
    Kind("cached_property", lambda: functools.cached_property(lambda self: 5), own="used: v.attrname, v.func(1)", without="class_attribute"),
    Kind("attrgetter", lambda: operator.attrgetter("ndim"), lambda: operator.attrgetter("shape"), "called: v(x)\nmapped: list(map(v, [x]))"),
    Kind("itemgetter", lambda: operator.itemgetter(0), lambda: operator.itemgetter(1), "called: v([1, 2]), v(x)\nmapped: list(map(v, [(1, 2)]))"),
    Kind("methodcaller", lambda: operator.methodcaller("sum"), lambda: operator.methodcaller("mean"), "called: v(x)"),
    Kind("memoised", lambda: remembered, own="called: v(3), v(4), v(3), v.__name__, v.__wrapped__(2)\ntensor: v(x)\n"),
    Kind("dispatcher", lambda: dispatched, own="called: v(3), v('s'), v(x)"),
    Kind("builtin_class", lambda: int, lambda: float, "called: v('3'), v(2.0), v()\nasked: isinstance(3, v), issubclass(v, object), v is int, v in (int, str), {int: 1}.get(v)\nnamed: v.__name__, v.__mro__\nmapped: list(map(v, '12'))\n"),
    Kind("class", lambda: Adder, lambda: Derived, CLASS + "made: v(3).add(x), v(3).number, isinstance(v(), Adder), v.plain(2), v.named(1), v.shared\ncompared: v is Adder, v == Derived, issubclass(v, Adder)\n", scope={"Adder": Adder, "Derived": Derived}),
    Kind("dataclass", lambda: Record, own=CLASS + "made: v(x), v(1, 3) == v(1, 3), v(left=1).right, dataclasses.fields(v)[0].name, dataclasses.is_dataclass(v)\n", scope={"dataclasses": dataclasses}),
    Kind("enum_class", lambda: Colour, own="used: v.RED, v(2), v['RED'], v.RED is v(1), list(v.__members__)\nnamed: v.__name__"),
    Kind("abstract_class", lambda: Shape, lambda: Square, CLASS + "asked: isinstance(Square(), v), issubclass(Square, v), v.__abstractmethods__\n", scope={"Square": Square}),
    Kind("protocol", lambda: Sized, own="asked: isinstance([], v), isinstance(3, v)\nnamed: v.__name__\n"),
    Kind("generic_class", lambda: Stack, own="made: v([1]).items, v[int]([2]).items, v[int].__origin__ is v, v.__parameters__\n"),
    Kind("generic_instance_alias", lambda: Stack[int], own="made: v([1]).items, v.__args__, v.__origin__", without="equal iterated unpacked enumerated contained"),
    Kind("class_with_metaclass", lambda: WithMeta, own="used: v['k'], v() is None, isinstance(v(), v)\n"),
    Kind("exception_class", lambda: ValueError, lambda: KeyError, "used: v('a').args, issubclass(v, Exception), isinstance(v(), LookupError)\nraised:\n    try:\n        raise v('oops')\n    except Exception as error:\n        out.append((type(error).__name__, error.args))\n"),
    Kind("tensor_class", lambda: torch.Tensor, lambda: torch.nn.Parameter, "asked: isinstance(x, v), v.__name__, issubclass(v, torch.Tensor), v.add is torch.Tensor.add"),
    Kind("module_class", lambda: torch.nn.ReLU, lambda: torch.nn.Tanh, "made: v()(x), v.__name__, isinstance(v(), v)"),
    Kind("collection_class", lambda: dict, lambda: collections.OrderedDict, "made: v(), v(a=1), v([('a', 2)]), isinstance({}, v)"),
    Kind("python_module", lambda: math, lambda: operator, "asked: v.__name__, hasattr(v, 'sqrt'), v is LIKE, getattr(v, 'pi', 0)"),
    Kind("torch_module", lambda: torch.nn.functional, own="called: v.relu(x), v.__name__"),
    Kind("code", lambda: doubled.__code__, lambda: halved.__code__, "read: v.co_name, v.co_argcount, v.co_varnames, v.co_flags"),
)  # fmt: skip
