"""Whatever a trace read, a later change of it is noticed; what it did not read may change freely.

`changes(make, change)` compiles a function once, changes one thing, and expects eager's result again,
with one more graph. `leaves(make, change)` is the opposite: the graph that is there still serves.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import decimal
import enum
import functools
import itertools
import operator
import re
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import capture, compare, copied, entries, numbers, recompiles, run, why_not

X = torch.arange(4.0)


class Item:
    size = 2
    scale = 3

    def __init__(self, name: str = "a") -> None:
        self.name = name

    def weight(self) -> int:
        return self.size * 10

    @property
    def area(self) -> int:
        return self.size**2

    @classmethod
    def made(cls) -> int:
        return cls.scale

    def __lt__(self, other: Item) -> bool:
        return self.name < other.name


class Slots:
    __slots__ = ("empty", "value")

    def __init__(self, value: Any = 1) -> None:
        self.value = value


class Dynamic:
    def __getattr__(self, name: str) -> int:
        return len(name)


@dataclasses.dataclass
class Data:
    a: int = 1


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("scale", torch.ones(4))
        self.rate = 2

    def forward(self, x: Any) -> Any:
        x = self.linear(x) * self.scale * self.rate
        return x + 1 if self.training else x - 1


def fresh_class() -> type:
    """A class of its own for each test: they change it."""
    return type("Item", (Item,), dict(vars(Item)))


def both(fn: Any, args: Any) -> Any:
    return run(fn, args, {})


def check_after(
    fn: Callable[..., Any], args: tuple[Any, ...], change: Callable[..., Any], added: int
) -> None:
    """`change` gets the arguments; what it gives, if anything, are the arguments of the second call."""
    compiled = capture(fn)
    compare(run(fn, copied(args), {}), run(compiled, shared := copied(args), {}))
    first = numbers(compiled)
    assert len(first) == 1, why_not(compiled)
    args = shared
    args = change(*args) or args
    given = copied((args, args))  # one copy, so that what is shared by class or function still is
    expected, found = run(fn, copied(args), {}), run(compiled, args, {})
    compare(expected, found)
    if expected.error is None:
        assert len(numbers(compiled) - first) == added, numbers(compiled)
    assert given


def changes(fn: Callable[..., Any], *args: Any, to: Callable[..., Any]) -> None:
    check_after(fn, args, to, added=1)


def leaves(fn: Callable[..., Any], *args: Any, to: Callable[..., Any]) -> None:
    check_after(fn, args, to, added=0)


def set_to(name: str, value: Any) -> Callable[..., Any]:
    return lambda x, o, *_: setattr(o, name, value)


def put(key: Any, value: Any) -> Callable[..., Any]:
    return lambda x, o, *_: operator.setitem(o, key, value)


def now(*values: Any) -> Callable[..., Any]:
    """The second call's arguments, after the tensor."""
    return lambda x, *_: (x, *values)


# ---- arguments

ARGUMENTS = {
    "an int": (lambda x, n: x + n, 1, 2),
    "an int's type": (lambda x, n: x + n, 1, 1.0),
    "True for 1": (lambda x, n: x + n, 1, True),
    "a float": (lambda x, n: x + n, 1.5, 2.5),
    "-0.0 for 0.0": (lambda x, n: (x + 1, str(n)), 0.0, -0.0),
    "nan": (lambda x, n: x + n, 1.0, float("nan")),
    "a complex": (lambda x, n: x + n.real, 1j, 2 + 2j),
    "a str": (lambda x, s: x + len(s), "a", "bc"),
    "bytes": (lambda x, s: x + s[0], b"a", b"b"),
    "None-ness": (lambda x, n: x - 1 if n is None else x + n, None, 1),
    "not None": (lambda x, n: x - 1 if n is None else x + 1, 5, None),
    "truth": (lambda x, n: x + 1 if n else x - 1, 1, 0),
    "truth of a list": (lambda x, n: x + 1 if n else x - 1, [1], []),
    "truth of a dict": (lambda x, n: x + 1 if n else x - 1, {}, {"a": 1}),
    "a type": (lambda x, n: x + 1 if isinstance(n, int) else x - 1, 1, "a"),
    "a type by type()": (lambda x, n: x + 1 if type(n) is int else x - 1, 1, "a"),
    "a list's length": (lambda x, n: x + len(n), [1], [1, 2]),
    "a list's element": (lambda x, n: x + n[0], [1], [2]),
    "a list for a tuple": (lambda x, n: x + 1 if isinstance(n, list) else x - 1, [1], (1,)),
    "an element's type": (lambda x, n: x + n[0], [1], [1.0]),
    "a nested element": (lambda x, n: x + n[0]["a"][1], [{"a": (1, 2)}], [{"a": (1, 3)}]),
    "a negative index": (lambda x, n: x + n[-1], [1, 2], [1, 3]),
    "a dict's key": (lambda x, d: x + sum(len(k) for k in d), {"a": 1}, {"bb": 1}),
    "a dict's value": (lambda x, d: x + d["a"], {"a": 1}, {"a": 2}),
    "a dict's order": (lambda x, d: (x + 1, list(d)), {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "an absent key": (lambda x, d: x + d.get("a", 0), {}, {"a": 2}),
    "an absent key, asked by in": (lambda x, d: x + 1 if "a" in d else x - 1, {"b": 1}, {"a": 2}),
    "a key that vanishes": (lambda x, d: x + 1 if "a" in d else x - 1, {"a": 1}, {"b": 2}),
    "a key's type": (lambda x, d: (x + 1, [type(k) for k in d]), {1: 1}, {1.0: 1}),
    "a set's elements": (lambda x, s: x + 1 if 1 in s else x - 1, {1, 2}, {2, 3}),
    "a set's size": (lambda x, s: x + len(s), {1, 2}, {1}),
    "a frozenset": (lambda x, s: (x + 1, sorted(s)), frozenset({1}), frozenset({2})),
    "a deque's maxlen": (
        lambda x, d: (x + 1, d.append(1)),
        collections.deque([1], maxlen=1),
        collections.deque([1], maxlen=2),
    ),
    "a deque's element": (lambda x, d: x + d[0], collections.deque([1]), collections.deque([2])),
    "an OrderedDict's order": (
        lambda x, d: (x + 1, list(d)),
        collections.OrderedDict(a=1, b=2),
        collections.OrderedDict(b=2, a=1),
    ),
    "a defaultdict's factory": (
        lambda x, d: (x + 1, d["new"]),
        collections.defaultdict(int),
        collections.defaultdict(list),
    ),
    "a Counter": (lambda x, c: x + c["a"], collections.Counter("a"), collections.Counter("aa")),
    "a range": (lambda x, r: x + sum(r), range(3), range(4)),
    "a slice": (lambda x, s: x[s], slice(1, 3), slice(0, 3)),
    "a Size": (lambda x, s: x + s[0], torch.Size([1]), torch.Size([2])),
    "a dtype": (lambda x, d: x.to(d), torch.float64, torch.int32),
    "a function": (lambda x, f: f(x), torch.sin, torch.cos),
    "a lambda": (lambda x, f: f(x), lambda x: x + 1, lambda x: x + 2),
    "a class": (lambda x, c: (x + 1, c.__name__), Item, Slots),
    "an instance's class": (lambda x, o: (x + 1, type(o).__name__), Item(), Slots()),
    "a partial's argument": (
        lambda x, f: f(x),
        functools.partial(torch.add, other=1),
        functools.partial(torch.add, other=2),
    ),
    "a builtin method's object": (lambda x, m: x + m("a"), "aa".count, "aaa".count),
    "a namedtuple's field": (
        lambda x, p: x + p.a,
        collections.namedtuple("P", "a")(1),
        collections.namedtuple("P", "a")(2),
    ),
    "a dataclass's field": (lambda x, d: x + d.a, Data(1), Data(2)),
    "a slot": (lambda x, d: x + d.value, Slots(1), Slots(2)),
}


def test_the_context_of_decimal_numbers() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    compiled = capture(fn)
    with decimal.localcontext() as context:
        for context.prec in (5, 5, 2):
            torch.testing.assert_close(compiled(X), fn(X), rtol=0, atol=0)
    assert recompiles(compiled) == 1


def test_signals_of_decimal_numbers_are_noted_each_time() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * float(decimal.Decimal(1) / decimal.Decimal(3)) + float(decimal.Decimal(0.5))

    compiled = capture(fn)
    with decimal.localcontext() as context:
        for _ in range(3):
            context.clear_flags()
            context.flags[decimal.Clamped] = True  # is there already, and stays
            compiled(X)
            raised = {signal for signal, is_raised in context.flags.items() if is_raised}
            assert raised == {decimal.Clamped, decimal.Inexact, decimal.Rounded, decimal.FloatOperation}
        assert recompiles(compiled) == 0
        context.traps[decimal.FloatOperation] = True
        with pytest.raises(decimal.FloatOperation):
            compiled(X)


def test_signals_of_decimal_numbers_are_read_when_they_are_asked_for() -> None:
    def fn(x: torch.Tensor, context: decimal.Context) -> tuple[torch.Tensor, bool]:
        return x + 1, context.flags[decimal.Inexact]

    compiled = framelift.compile(fn, backend="eager")
    context = decimal.Context()
    for expected in (False, True, False):
        context.flags[decimal.Inexact] = expected
        assert compiled(X, context)[1] is expected


def test_what_c_relies_on_outlives_a_break() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        context = decimal.Context()
        y = x + 1
        return y, context.flags[decimal.Inexact]  # which are in the context's memory

    compiled = framelift.compile(fn, backend="eager")
    with decimal.localcontext() as other:
        other.flags[decimal.Inexact] = True
        assert [compiled(X)[1] for _ in range(3)] == [False] * 3


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_that_was_read_changes(name: str) -> None:
    fn, first, second = ARGUMENTS[name]
    changes(fn, X, first, to=now(second))


UNREAD = {
    "a constant passed along": (lambda x, n: (x + 1, n), 1, "two"),
    "a constant stored": (lambda x, n: (x + 1, [n, {"k": n}]), 1, 2),
    "a constant passed to a function": (lambda x, n: (lambda a, b: (a + 1, b))(x, n), 1, None),
    "elements of a list that is asked for its length": (lambda x, xs: x + len(xs), [1, 2], ["a", None]),
    "values of a dict that is asked for its keys": (lambda x, d: (x + 1, sorted(d)), {"a": 1}, {"a": 2}),
    "other elements": (lambda x, xs: x + xs[0], [1, 2], [1, 3]),
    "other keys": (lambda x, d: x + d["a"], {"a": 1, "b": 2}, {"a": 1}),
    "the length of a list asked for truth": (lambda x, xs: x + 1 if xs else x - 1, [1], [1, 2, 3]),
    "the value of what is not None": (lambda x, n: x - 1 if n is None else x + 1, 5, "a"),
    "the value of what is asked for its type": (lambda x, n: x + 1 if isinstance(n, int) else x - 1, 1, 2),
    "an instance": (lambda x, o: (x + 1, o.name), Item("a"), Item("b")),
    "an attribute returned": (lambda x, o: (x + 1, o.value), Slots(1), Slots([2])),
    "a list appended to": (lambda x, xs: (x + 1, xs.append(1)), [1], [5]),
    "equal constants, other objects": (lambda x, s: x + len(s), "a" * 30, "".join(["a"] * 30)),
    "another tensor": (lambda x, y: x + y, torch.ones(4), torch.zeros(4)),
}


@pytest.mark.parametrize("name", UNREAD)
def test_an_argument_that_was_not_read_changes(name: str) -> None:
    fn, first, second = UNREAD[name]
    leaves(fn, X, first, to=now(second))


# ---- objects

READ_OF_AN_OBJECT = {
    "an attribute": (lambda x, o: x + len(o.name), set_to("name", "abc")),
    "an attribute that hides the class's": (lambda x, o: x + o.size, set_to("size", 9)),
    "an attribute that hides a method": (lambda x, o: x + o.weight(), set_to("weight", lambda: 7)),
    "an attribute added": (lambda x, o: x + getattr(o, "new", 0), set_to("new", 5)),
    "an attribute removed": (
        lambda x, o: x + 1 if hasattr(o, "name") else x - 1,
        lambda x, o: delattr(o, "name"),
    ),
    "an attribute read by getattr": (lambda x, o: x + len(getattr(o, "name")), set_to("name", "abc")),
    "an attribute read by attrgetter": (
        lambda x, o: x + len(operator.attrgetter("name")(o)),
        set_to("name", "abc"),
    ),
    "an attribute read by vars": (lambda x, o: x + len(vars(o)["name"]), set_to("name", "abc")),
    "an attribute read by __dict__": (lambda x, o: x + len(o.__dict__), set_to("more", 1)),
    "an attribute read by a format": (lambda x, o: (x + 1, "{0.name}".format(o)), set_to("name", "abc")),
    "an attribute read by a sort key": (
        lambda x, o: (x + 1, sorted([o, Item("k")])[0] is o),
        set_to("name", "z"),
    ),
    "an attribute read by map(getattr)": (
        lambda x, o: (x + 1, list(map(getattr, [o], ["name"]))[0] + "!"),
        set_to("name", "z"),
    ),
    "the class": (
        lambda x, o: x + o.size,
        lambda x, o: setattr(o, "__class__", type("Other", (Item,), {"size": 5})),
    ),
}


@pytest.mark.parametrize("name", READ_OF_AN_OBJECT)
def test_what_was_read_of_an_object_changes(name: str) -> None:
    fn, change = READ_OF_AN_OBJECT[name]
    changes(fn, X, Item(), to=change)


UNREAD_OF_AN_OBJECT = {
    "another attribute": (lambda x, o: x + o.size, set_to("name", "abc")),
    "another attribute added": (lambda x, o: x + len(o.name), set_to("new", 1)),
    "an attribute that is only written": (
        lambda x, o: (x + 1, setattr(o, "name", "q")),
        set_to("name", "abc"),
    ),
    "an attribute that is only moved": (lambda x, o: (x + 1, [o.name]), set_to("name", "abc")),
}


@pytest.mark.parametrize("name", UNREAD_OF_AN_OBJECT)
def test_what_was_not_read_of_an_object_changes(name: str) -> None:
    fn, change = UNREAD_OF_AN_OBJECT[name]
    leaves(fn, X, Item(), to=change)


# ---- classes


def own(name: str, wanted: str) -> int:
    if name == wanted:
        return 9
    raise AttributeError(name)


READ_OF_A_CLASS = {
    "an attribute": (lambda x, o: x + o.size, "size", 7),
    "a method": (lambda x, o: x + o.weight(), "weight", lambda self: 5),
    "a method, called on the class": (lambda x, o: x + type(o).weight(o), "weight", lambda self: 5),
    "a property": (lambda x, o: x + o.area, "area", property(lambda self: 1)),
    "a classmethod": (lambda x, o: x + o.made(), "made", classmethod(lambda cls: 8)),
    "what a classmethod reads": (lambda x, o: x + o.made(), "scale", 8),
    "a comparison": (lambda x, o: x + 1 if o < Item("k") else x - 1, "__lt__", lambda self, other: False),
    "a comparison by sorted": (
        lambda x, o: (x + 1, sorted([o, o, Item("0")])[0] is o),
        "__lt__",
        lambda a, b: False,
    ),
    "a comparison by max": (lambda x, o: (x + 1, max(o, Item("k")) is o), "__gt__", lambda a, b: True),
    "__eq__, which was not there": (lambda x, o: x + 1 if o == 1 else x - 1, "__eq__", lambda a, b: True),
    "__eq__, asked by in": (lambda x, o: x + 1 if 1 in [o] else x - 1, "__eq__", lambda a, b: True),
    "__bool__, which was not there": (lambda x, o: x + 1 if o else x - 1, "__bool__", lambda self: False),
    "__len__, which was not there": (lambda x, o: x + 1 if o else x - 1, "__len__", lambda self: 0),
    "__getattr__, which was not there": (
        lambda x, o: x + getattr(o, "new", 0),
        "__getattr__",
        lambda self, name: own(name, "new"),
    ),
    "__getattribute__, which was not there": (
        lambda x, o: x + o.size,
        "__getattribute__",
        lambda self, name: 9 if name == "size" else object.__getattribute__(self, name),
    ),
    "__setattr__, which was not there": (
        lambda x, o: (x + 1, setattr(o, "name", "n")),
        "__setattr__",
        lambda self, name, value: self.__dict__.update({name: "other"}),
    ),
    "__call__, which was not there": (
        lambda x, o: x + 1 if callable(o) else x - 1,
        "__call__",
        lambda self: 9,
    ),
    "__init__": (
        lambda x, o: x + len(type(o)("ab").name),
        "__init__",
        lambda self, name: setattr(self, "name", "q"),
    ),
    "an attribute added": (lambda x, o: x + getattr(o, "extra", 1), "extra", 5),
}


@pytest.mark.parametrize("name", READ_OF_A_CLASS)
def test_what_was_read_of_a_class_changes(name: str) -> None:
    fn, attribute, value = READ_OF_A_CLASS[name]
    cls = fresh_class()
    changes(fn, X, cls(), to=lambda x, o: setattr(cls, attribute, value))


def test_a_base_class_changes() -> None:
    base = fresh_class()
    cls = type("Derived", (base,), {})
    changes(lambda x, o: x + o.size, X, cls(), to=lambda x, o: setattr(base, "size", 9))


def test_what_super_finds_changes() -> None:
    base = fresh_class()

    class Derived(base):  # type: ignore[misc,valid-type]
        def weight(self) -> int:
            return super().weight() + 1

    changes(
        lambda x, o: x + o.weight(), X, Derived(), to=lambda x, o: setattr(base, "weight", lambda self: 0)
    )


def test_a_class_attribute_that_was_not_read_changes() -> None:
    cls = fresh_class()
    leaves(lambda x, o: x + o.size, X, cls(), to=lambda x, o: setattr(cls, "scale", 9))


def test_a_container_in_a_class_changes() -> None:
    class Holder:
        held = [1, 2]

    changes(lambda x, o: x + sum(o.held), X, Holder(), to=lambda x, o: Holder.held.append(3))


# ---- globals, closures, defaults


def in_module(body: str, **names: Any) -> dict[str, Any]:
    namespace = {"__name__": __name__, "torch": torch, **names}
    exec(body, namespace)
    return namespace


GLOBALS = {
    "rebound": ("def f(x): return x + value", {"value": 1}, lambda g: g.update(value=2)),
    "a container in it": (
        "def f(x): return x + value[0]",
        {"value": [1]},
        lambda g: g["value"].__setitem__(0, 2),
    ),
    "its container's length": (
        "def f(x): return x + len(value)",
        {"value": [1]},
        lambda g: g["value"].append(2),
    ),
    "an object in it": (
        "def f(x): return x + value.a",
        {"value": Data(1)},
        lambda g: setattr(g["value"], "a", 2),
    ),
    "a function": (
        "def f(x): return helper(x)\ndef helper(x): return x + 1",
        {},
        lambda g: g.update(helper=torch.sin),
    ),
    "a function's code": (
        "def f(x): return helper(x)\ndef helper(x): return x + 1\ndef other(x): return x + 2",
        {},
        lambda g: setattr(g["helper"], "__code__", g["other"].__code__),
    ),
    "a function's default": (
        "def f(x): return helper(x)\ndef helper(x, n=1): return x + n",
        {},
        lambda g: setattr(g["helper"], "__defaults__", (5,)),
    ),
    "a function's keyword default": (
        "def f(x): return helper(x)\ndef helper(x, *, n=1): return x + n",
        {},
        lambda g: g["helper"].__kwdefaults__.update(n=5),
    ),
    "a function's attribute": (
        "def f(x): return x + helper.n\ndef helper(): pass\nhelper.n = 1",
        {},
        lambda g: setattr(g["helper"], "n", 2),
    ),
    "a name that hides a builtin": (
        "def f(x): return x + len([1])",
        {},
        lambda g: g.update(len=lambda xs: 5),
    ),
    "a name that vanishes": ("value = 1\ndef f(x): return x + value", {}, lambda g: g.__delitem__("value")),
    "a global of another module": (
        "def f(x): return x + other.value",
        {"other": types.ModuleType("other")},
        lambda g: setattr(g["other"], "value", 5),
    ),
    "a tensor": (
        "def f(x): return x + value",
        {"value": torch.ones(4)},
        lambda g: g.update(value=torch.ones(1)),
    ),
}


@pytest.mark.parametrize("name", GLOBALS)
def test_a_global_changes(name: str) -> None:
    body, names, change = GLOBALS[name]
    namespace = in_module(body, **copied(names))
    if "other" in names:
        namespace["other"].value = 1
    changes(namespace["f"], X, to=lambda x: change(namespace))


def test_another_global_changes() -> None:
    namespace = in_module("def f(x): return x + value", value=1, unread=1)
    leaves(namespace["f"], X, to=lambda x: namespace.update(unread=2, new=3))


def test_a_global_tensor_is_replaced_by_one_like_it() -> None:
    namespace = in_module("def f(x): return x + value", value=torch.ones(4))
    leaves(namespace["f"], X, to=lambda x: namespace.update(value=torch.zeros(4)))


def test_a_closure_cell_changes() -> None:
    value = 1

    def f(x: Any) -> Any:
        return x + value

    def change(x: Any) -> None:
        nonlocal value
        value = 2

    changes(f, X, to=change)


def test_the_cell_of_an_inlined_function_changes() -> None:
    value = 1

    def inner() -> int:
        return value

    def change(x: Any) -> None:
        nonlocal value
        value = 2

    changes(lambda x: x + inner(), X, to=change)


def test_two_closures_of_one_code_keep_apart() -> None:
    def make(n: int) -> Any:
        return lambda x: x + n

    first, second = capture(make(1)), make(2)
    assert torch.equal(first(X), X + 1)
    assert torch.equal(capture(second)(X), X + 2)


def test_a_default_of_the_function_itself_changes() -> None:
    def f(x: Any, n: int = 1) -> Any:
        return x + n

    changes(f, X, to=lambda x: setattr(f, "__defaults__", (2,)))


# ---- tensors and torch's state

TENSORS = {
    "dtype": lambda x, y: (x, y.double()),
    "shape": lambda x, y: (x, torch.ones(1)),
    "number of dimensions": lambda x, y: (x, y[None]),
    "strides": lambda x, y: (x, torch.ones(8)[::2]),
    "requires_grad": lambda x, y: (x, y.clone().requires_grad_()),
    "Parameter": lambda x, y: (x, torch.nn.Parameter(y)),
    "a number": lambda x, y: (x, 1.0),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_changes(name: str) -> None:
    changes(
        lambda x, y: (x + y, y.stride() if isinstance(y, torch.Tensor) else 0),
        X,
        torch.ones(4),
        to=TENSORS[name],
    )


def test_an_attribute_of_a_tensor_changes() -> None:
    y = torch.ones(4)
    y.tag = 1
    compiled = capture(lambda x, y: x + y.tag, X, y)
    y.tag = 2
    assert torch.equal(compiled(X, y), X + 2)
    assert entries(compiled) == 2  # two tags


def contexts() -> dict[str, Any]:
    return {
        "no_grad": torch.no_grad(),
        "inference mode": torch.inference_mode(),
        "autocast": torch.autocast("cpu", dtype=torch.bfloat16),
        "deterministic algorithms": switched(torch.use_deterministic_algorithms, True, False),
        "default dtype": switched(torch.set_default_dtype, torch.float64, torch.float32),
    }


class switched:
    def __init__(self, switch: Any, value: Any, back: Any) -> None:
        self.switch, self.value, self.back = switch, value, back

    def __enter__(self) -> None:
        self.switch(self.value)

    def __exit__(self, *_: Any) -> None:
        self.switch(self.back)


@pytest.mark.parametrize("name", contexts())
def test_global_state_changes(name: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return torch.mm(x, w) + torch.ones(2, 2), torch.is_grad_enabled()

    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    compiled = capture(f, x, w)
    with contexts()[name]:
        expected, found = f(x, w), compiled(x, w)
    assert found[0].dtype is expected[0].dtype and found[0].requires_grad is expected[0].requires_grad
    assert found[1] is expected[1]
    assert torch.equal(compiled(x, w)[0], f(x, w)[0])
    assert entries(compiled) == 2  # in the context and out of it


# ---- modules

MODULES = {
    "eval": lambda x, m: m.eval() and None,
    "a plain attribute": lambda x, m: setattr(m, "rate", 3),
    "a parameter of another shape": lambda x, m: setattr(m.linear, "bias", torch.nn.Parameter(torch.ones(1))),
    "a parameter that vanishes": lambda x, m: setattr(m.linear, "bias", None),
    "requires_grad of a parameter": lambda x, m: m.linear.requires_grad_(False) and None,
    "a submodule": lambda x, m: setattr(m, "linear", torch.nn.Identity()),
    "a forward hook": lambda x, m: m.linear.register_forward_hook(lambda mod, args, out: out * 2) and None,
    "a forward pre-hook": lambda x, m: m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,)) and None,
    "forward of an instance": lambda x, m: setattr(m.linear, "forward", lambda y: y + 5),
    "half": lambda x, m: m.double() and (x.double(), m),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_changes(name: str) -> None:
    torch.manual_seed(0)
    changes(lambda x, m: m(x), X, Net(), to=MODULES[name])


def test_a_parameter_is_replaced_by_one_like_it() -> None:
    leaves(
        lambda x, m: m(x),
        X,
        Net(),
        to=lambda x, m: setattr(m.linear, "bias", torch.nn.Parameter(torch.ones(4))),
    )


def test_a_parameter_is_updated_in_place() -> None:
    leaves(lambda x, m: m(x), X, Net(), to=lambda x, m: m.linear.bias.data.add_(1).sum() and None)


def test_a_global_hook_is_added() -> None:
    module, compiled = Net(), capture(lambda x, m: m(x))
    compiled(X, module)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda mod, args, out: out + 1)
    try:
        assert torch.equal(compiled(X, module), module(X))
    finally:
        handle.remove()


# ---- aliasing


def test_two_names_for_one_list() -> None:
    one = [1]
    changes(lambda x, a, b: (x + 1, a.append(2), len(b)), X, one, one, to=lambda x, a, b: (x, a, [1, 2]))
    changes(lambda x, a, b: (x + 1, a.append(2), len(b)), X, [1], [1], to=lambda x, a, b: (x, a, a))


def test_two_names_for_one_list_become_two_lists() -> None:
    one = [1, 2]
    changes(lambda x, a, b: (x + 1, a.append(7), b[-1]), X, one, one, to=lambda x, a, b: (x, [1, 2], [1, 2]))
    changes(lambda x, a, b: (x + 1, a.add(7), 7 in b), X, {1}, {1}, to=lambda x, a, b: (x, a, a))


def test_lists_that_are_only_read_may_become_one() -> None:
    leaves(lambda x, a, b: x + a[0] + b[0], X, [1], [1], to=lambda x, a, b: (x, a, a))


ALIASED_WRITES = {
    "a dict written, its alias looked up": lambda x, a, b: (x + 1, a.__setitem__("k", 5), b["k"]),
    "a dict written, its alias asked by in": lambda x, a, b: (x + 1, a.__setitem__("new", 5), "new" in b),
    "a dict written, its alias asked for truth": lambda x, a, b: (x + 1, a.clear(), bool(b)),
    "a dict written, its alias compared": lambda x, a, b: (x + 1, a.clear(), b == {}),
    "identity": lambda x, a, b: x + 1 if a is b else x - 1,
}


@pytest.mark.parametrize("name", ALIASED_WRITES)
def test_two_dicts_become_one(name: str) -> None:
    changes(ALIASED_WRITES[name], X, {"k": 1}, {"k": 1}, to=lambda x, a, b: (x, a, a))


@pytest.mark.parametrize("name", ALIASED_WRITES)
def test_one_dict_becomes_two(name: str) -> None:
    one = {"k": 1}
    changes(ALIASED_WRITES[name], X, one, one, to=lambda x, a, b: (x, a, {"k": 1}))


ALIASED_OBJECTS = {
    "an attribute written, its alias's read": lambda x, a, b: (x + 1, setattr(a, "name", "zz"), len(b.name)),
    "identity": lambda x, a, b: x + 1 if a is b else x - 1,
    "equality": lambda x, a, b: x + 1 if a == b else x - 1,
    "membership": lambda x, a, b: x + 1 if a in [b] else x - 1,
    "membership in a set": lambda x, a, b: x + 1 if a in {b} else x - 1,
    "list.index": lambda x, a, b: x + [1, b, a].index(a),
    "as keys": lambda x, a, b: x + len({a: 1, b: 2}),
    "in a tuple": lambda x, a, b: x + 1 if (a, 1) == (b, 1) else x - 1,
}


@pytest.mark.parametrize("name", ALIASED_OBJECTS)
def test_two_objects_become_one(name: str) -> None:
    changes(ALIASED_OBJECTS[name], X, Item("a"), Item("a"), to=lambda x, a, b: (x, a, a))


@pytest.mark.parametrize("name", ALIASED_OBJECTS)
def test_one_object_becomes_two(name: str) -> None:
    one = Item("a")
    changes(ALIASED_OBJECTS[name], X, one, one, to=lambda x, a, b: (x, a, Item("a")))


def test_an_object_that_becomes_a_key_of_a_dict() -> None:
    d = {Item("k"): 1}
    changes(lambda x, d, o: x + d.get(o, 5), X, d, Item("o"), to=lambda x, d, o: (x, d, next(iter(d))))


def test_two_names_for_one_tensor() -> None:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return a + b, a is b

    one = torch.ones(4)
    changes(f, one, one, to=lambda a, b: (a, torch.ones(4)))
    changes(f, torch.ones(4), torch.ones(4), to=lambda a, b: (a, a))


def test_two_tensors_come_to_share_memory() -> None:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return a + b

    changes(f, torch.ones(4), torch.ones(4), to=lambda a, b: (a, a.view(4)))


def test_tensors_that_are_asked_for_identity_become_one() -> None:
    changes(lambda a, b: a + 1 if a is b else a - 1, torch.ones(4), torch.ones(4), to=lambda a, b: (a, a))


def test_tensors_that_are_only_read_may_become_one() -> None:
    leaves(lambda a, b: a + b, torch.ones(4), torch.ones(4), to=lambda a, b: (a, a.view(4)))


# ---- what C code, or code that it calls, has read


class Weight:
    def __init__(self, n: int = 1) -> None:
        self.n = n

    def __str__(self) -> str:
        return "w" * self.n

    def __add__(self, other: Any) -> int:
        return self.n + other

    __radd__ = __add__

    def __hash__(self) -> int:
        return hash(self.n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weight) and self.n == other.n


def tried(x: Any, d: dict[str, int]) -> Any:
    try:
        d["a"]
    except KeyError:
        return x - 1
    return x + 1


SEEN_BY_C = {
    "a dict behind a sort key": (
        lambda x, d: (x + 1, sorted("ab", key=d.get)),
        {"a": 2, "b": 1},
        put("a", 0),
    ),
    "lists behind map(len)": (lambda x, xs: x + sum(map(len, xs)), [[1], [2]], lambda x, xs: xs[0].append(1)),
    "an object's text": (lambda x, o: x + len(f"{o}"), Weight(), set_to("n", 2)),
    "objects' text": (
        lambda x, xs: x + len("".join(map(str, xs))),
        [Weight()],
        lambda x, xs: setattr(xs[0], "n", 2),
    ),
    "what sum adds": (lambda x, xs: x + sum(xs), [Weight()], lambda x, xs: setattr(xs[0], "n", 2)),
    "what a set hashes": (
        lambda x, xs: x + len(set(xs)),
        [Weight(1), Weight(2)],
        lambda x, xs: setattr(xs[0], "n", 2),
    ),
    "what a comparison of lists compares": (
        lambda x, xs: x + 1 if xs == [Weight(1)] else x - 1,
        [Weight(1)],
        lambda x, xs: setattr(xs[0], "n", 2),
    ),
    "what deepcopy copies": (lambda x, o: x + copy.deepcopy(o).n, Weight(), set_to("n", 2)),
    "what asdict reads": (lambda x, o: (x + 1, dataclasses.asdict(o)["a"] + 1), Data(1), set_to("a", 2)),
    "what a partial holds": (
        lambda x, f: x + f(),
        functools.partial(max, Weight(1).n, 0),
        lambda x, f: (x, functools.partial(max, 5, 0)),
    ),
    "what a ChainMap holds": (lambda x, m: x + m["a"], collections.ChainMap({"a": 1}), put("a", 2)),
    "a key that a handler misses": (tried, {"a": 1}, lambda x, d: d.clear()),
    "a key that a handler finds": (tried, {}, put("a", 1)),
    "a slot that is emptied": (
        lambda x, o: x + getattr(o, "value", 9),
        Slots(1),
        lambda x, o: delattr(o, "value"),
    ),
    "a slot that is filled": (lambda x, o: x + getattr(o, "empty", 9), Slots(1), set_to("empty", 2)),
    "a list that `any` stops in": (lambda x, xs: x + 1 if any(xs) else x - 1, [0, 1], put(1, 0)),
    "elements taken by islice": (lambda x, xs: x + sum(itertools.islice(xs, 2)), [1, 2, 3], put(1, 5)),
    "elements of a zip": (lambda x, xs: x + sum(a * b for a, b in zip(xs, xs)), [1, 2], put(1, 5)),
    "elements joined": (lambda x, xs: x + len("".join(xs)), ["a"], put(0, "bb")),
    "elements unpacked": (lambda x, xs: x + (lambda a, b: a)(*xs), [1, 2], put(0, 5)),
    "keywords unpacked": (lambda x, d: x + (lambda a: a)(**d), {"a": 1}, put("a", 5)),
    "what re matches": (lambda x, xs: x + len(re.findall("a", xs[0])), ["a"], put(0, "aa")),
    "elements of a tuple in a list": (lambda x, xs: x + max(xs)[1], [(1, 2)], put(0, (1, 3))),
    "a constant in a shown tuple": (
        lambda x, xs: (x + 1, sorted(xs), xs[0][1] + 1),
        [(1, 2)],
        put(0, (1, 3)),
    ),
}


@pytest.mark.parametrize("name", SEEN_BY_C)
def test_what_native_code_saw_changes(name: str) -> None:
    fn, value, change = SEEN_BY_C[name]
    changes(fn, X, value, to=change)


def test_a_global_that_a_callback_from_c_reads_changes() -> None:
    for body in (
        "def f(x, xs): return x + sum(map(lambda n: n * value, xs))",
        "def f(x, xs): return x + max(n * value for n in xs)",
        "def f(x, xs): return x + sorted(xs, key=lambda n: n * value)[0]",
        "def f(x, xs): return x + sum(filter(lambda n: n > value, xs))",
    ):
        namespace = in_module(body, value=1)
        changes(namespace["f"], X, [1, 2, 3], to=lambda x, xs: namespace.update(value=-1))


def test_an_instancecheck_of_a_metaclass_changes_its_mind() -> None:
    class Meta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return value == 1

    class Odd(metaclass=Meta):
        pass

    changes(lambda x, n: x + 1 if isinstance(n, Odd) else x - 1, X, 1, to=now(2))


def test_an_enum_member_with_a_mutable_value_changes() -> None:
    class Lists(enum.Enum):
        A = [1]

    compiled = capture(lambda x: x + sum(Lists.A.value), X)
    Lists.A.value.append(2)
    assert torch.equal(compiled(X), X + 3)


def test_an_implementation_is_registered_with_singledispatch() -> None:
    @functools.singledispatch
    def kind(value: Any) -> int:
        return 0

    compiled = capture(lambda x, v: x + 1 + kind(v), X, "text")
    kind.register(str, lambda value: 5)
    assert torch.equal(compiled(X, "text"), X + 6)


def test_a_class_whose_getattr_decides_changes() -> None:
    class Dynamic:
        def __getattr__(self, name: str) -> int:
            return own(name, "abc")

    changes(lambda x, o: x + o.abc, X, Dynamic(), to=set_to("abc", 7))
    changes(
        lambda x, o: x + o.abc,
        X,
        Dynamic(),
        to=lambda x, o: setattr(Dynamic, "__getattr__", lambda self, name: 2 * own(name, "abc")),
    )


def test_a_text_with_attributes_changes() -> None:
    class Name(str):
        pass

    name = Name("abc")
    name.length = 3
    compiled = capture(lambda x, n: x + n.length, X, name)
    name.length = 4
    assert torch.equal(compiled(X, name), X + 4)


def test_two_modules_of_one_class_are_served_by_one_graph() -> None:
    leaves(lambda x, m: m(x), X, torch.nn.Linear(4, 4), to=lambda x, m: (x, torch.nn.Linear(4, 4)))
