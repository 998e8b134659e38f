"""Objects from outside with state of their own: instances, weak references, iterators, and what the library has."""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import contextvars
import dataclasses
import functools
import io
import itertools
import logging
import operator
import queue
import random
import string
import sys
import threading
import types
import typing
import weakref

import torch

from conformance_programs._objects import Kind, chapter, each


@dataclasses.dataclass
class Record:
    left: typing.Any
    right: int = 2
    tags: list = dataclasses.field(default_factory=list)

    def moved(self, by):
        return dataclasses.replace(self, right=self.right + by)


@dataclasses.dataclass(frozen=True, order=True)
class Fixed:
    left: int
    right: int = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    left: typing.Any
    right: int = 2


class Node:
    """Compared by identity."""

    kind = "node"

    def __init__(self, value=1, below=()):
        self.value, self.below = value, list(below)

    def total(self):
        return self.value + sum(each.total() for each in self.below)

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, value):
        self.value = value // 2

    @functools.cached_property
    def squared(self):
        return self.value**2


class Slots:
    __slots__ = ("left", "right")

    def __init__(self, left, right=2):
        self.left, self.right = left, right


class Equal:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Equal) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"Equal({self.value})"

    def __bool__(self):
        return self.value > 1

    def __lt__(self, other):
        return self.value < other.value


class Asking:
    """Has any attribute."""

    def __init__(self, **names):
        self.__dict__["names"] = names

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.names.get(name, f"no {name}")

    def __setattr__(self, name, value):
        self.names[name] = value

    def __delattr__(self, name):
        del self.names[name]


class Described:
    """A descriptor that counts what is read through it."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, "unset")

    def __set__(self, obj, value):
        setattr(obj, self.name, [value])


class Fielded:
    field = Described()
    limit = 5


class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index >= self.n:
            raise IndexError(index)
        return index * 10

    def __contains__(self, item):
        return item == "in"


class Vector:
    def __init__(self, *parts):
        self.parts = parts

    def __add__(self, other):
        return Vector(*map(operator.add, self.parts, other.parts))

    def __mul__(self, number):
        return Vector(*(part * number for part in self.parts))

    __rmul__ = __mul__

    def __eq__(self, other):
        return isinstance(other, Vector) and self.parts == other.parts

    def __iter__(self):
        return iter(self.parts)

    def __matmul__(self, other):
        return sum(map(operator.mul, self.parts, other.parts))


class Manager:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, *error):
        self.log.append("out")
        return True


class Cyclic:
    def __init__(self):
        self.me = self
        self.others = [self, {"me": self}]


class Counting:
    """An iterator of the user's."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


class Failure(Exception):
    def __init__(self, code, *more):
        super().__init__(code, *more)
        self.code = code


def linear():
    made = torch.nn.Linear(3, 3)
    torch.nn.init.ones_(made.weight)
    torch.nn.init.zeros_(made.bias)
    return made


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def raised_from(error, cause):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def begun(iterable):
    """An iterator that is past its first item."""
    iterator = iter(iterable)
    next(iterator)
    return iterator


def generated():
    yield 1
    yield 2
    yield 3


async def awaited():
    return 1


KEPT = [Node(1), Node(2)]
"""What weak references of this chapter refer to."""


def dead():
    node = Node()
    reference = weakref.ref(node)
    del node
    return reference


def keyed():
    return weakref.WeakKeyDictionary({KEPT[0]: 1})


def valued():
    return weakref.WeakValueDictionary(a=KEPT[0])


def logger(name, level):
    made = logging.getLogger(name)
    made.setLevel(level)
    return made


VARIABLE = contextvars.ContextVar("VARIABLE", default=3)

ATTRIBUTES = """
    read: v.left, v.right, getattr(v, "none", 4), hasattr(v, "left")
    set: v.left = [v.right]
    added: v.right += 1
    deleted:
        kept.gone = v.left
        del v.left
        out.append(hasattr(v, "left"))
        v.left = kept.gone
"""
ADVANCED = """
    looped:
        seen = []
        for each in v:
            seen.append(each)
        out.append(seen)
    advanced: next(v, "end")
    listed_all: list(v)
"""
OPAQUE = "opaque object"
BEFORE = "iterator from before"
UNLICENSED = "unknown native function"
EFFECT = "run-time effect"
WEAKLY: dict = {"iterated": ()}
"""Captured by itself: behind changes, what a weak reference leads to may be gone."""


SAYING_WHERE = "list_iterator reversed_list tuple_iterator string_iterator range_iterator zip enumerate map filter".split()
"""Iterators that say where they are, and are advanced in captured code."""


def iterator(name, make, **more):
    """It may be moved about; what advances it is done for real, unless it says where it is."""
    broken = each("looped advanced listed_all", () if name in SAYING_WHERE else BEFORE)
    return Kind(name, make, own=ADVANCED, breaks=broken | more, without="text equal copied deeply_copied")


chapter(
    Kind("dataclass", lambda: Record(1), lambda: Record("l", 3), ATTRIBUTES + """
        methods: v.moved(1), dataclasses.asdict(v), dataclasses.replace(v, left=0), [field.name for field in dataclasses.fields(v)]
        changed: v.tags.append(v.right)
    """, scope={"dataclasses": dataclasses}),
    Kind("frozen_dataclass", lambda: Fixed(1), lambda: Fixed(2, 3), "read: v.left, v.right\nused: dataclasses.astuple(v), dataclasses.replace(v, left=5)", scope={"dataclasses": dataclasses}),
    Kind("slotted_dataclass", lambda: Slotted(1), lambda: Slotted("l", 3), ATTRIBUTES),
    Kind("instance", lambda: Node(3, [Node(4)]), lambda: Node(5), """
        read: v.value, v.kind, v.double, v.total(), v.below, x * v.value
        set: v.value = v.value + 1
        new: v.extra = v.kind
        property: v.double = 20
        cached: v.squared
        nested: v.below.append(Node(1)); out.append(v.total())
        compared: v == v, v == LIKE, v != LIKE, v in [v], [LIKE, v].index(v)
        keyed: {v: 1}[v], v in {v}, {LIKE: 1}.get(v)
        namespace: vars(v)["value"], list(vars(v)), v.__dict__.get("none")
        tensor: v.held = x + v.value
    """, scope={"Node": Node}, without="deeply_copied"),
    Kind("slots", lambda: Slots(1), lambda: Slots("l", 3), ATTRIBUTES),
    Kind("equal_instance", lambda: Equal(1), lambda: Equal(2), "read: v.value\nset: v.value = v.value\nsorted: sorted([v, LIKE, Equal(0)])", scope={"Equal": Equal}, without="ordered"),
    Kind("asking", lambda: Asking(a=1), lambda: Asking(a=2), "read: v.a, v.b, hasattr(v, 'c')\nset: v.d = v.a\ndeleted: v.e = 1; del v.e; out.append(v.e)"),
    Kind("fielded", Fielded, own="read: v.field, v.limit\nset: v.field = 3; out.append(v.field)\n"),
    Kind("sized", lambda: Sized(2), lambda: Sized(0), "indexed: v[0] if v else None, 'in' in v, 'out' in v, len(v), list(v)", without="unpacked"),
    Kind("vector", lambda: Vector(1, 2), lambda: Vector(3, 4), "operators: (v + v).parts, (v * 2).parts, (3 * v).parts, v @ v, (v * x).parts", without="hashed"),
    Kind("context_manager", Manager, own="entered:\n    with v as entered:\n        out.append(entered is v)\n        raise ValueError\nread: list(v.log)\n"),
    Kind("cyclic", Cyclic, own="read: v.me is v, v.others[0] is v.me, v.others[1]['me'] is v\nchanged: v.others.append(v.me)\n"),
    Kind("user_iterator", lambda: Counting(9), lambda: Counting(6), "advanced: next(v, None), v.n\nlooped: [each for each, _ in zip(v, range(1))]\n"),
    Kind("namespace", lambda: types.SimpleNamespace(left=1, right=2), lambda: types.SimpleNamespace(left=3, right=4), ATTRIBUTES, each("equal text", OPAQUE)),
    Kind("arguments", lambda: argparse.Namespace(left=1, right=2), lambda: argparse.Namespace(left=3, right=4), ATTRIBUTES + "asked: 'left' in v, vars(v)\n"),
    Kind("module", linear, own="""
        called: v(x).shape, v.weight.shape, v.bias is None, v.training, v.in_features
        parts: [name for name, _ in v.named_parameters()], len(list(v.modules())), v.state_dict().keys()
        set: v.note = 1
        keyed: {v: 1}[v], v in [v]
    """, without="deeply_copied copied"),
    Kind("module_list", lambda: torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()]), lambda: torch.nn.ModuleList([torch.nn.Sigmoid()]), "used: v[0](x), len(v), [type(each).__name__ for each in v], list(v.named_children())[0][0]", without="deeply_copied copied contained unpacked"),
    Kind("module_dict", lambda: torch.nn.ModuleDict({"a": torch.nn.ReLU()}), own="used: v['a'](x), 'a' in v, list(v.keys()), len(v)", without="deeply_copied copied keys"),
    Kind("parameter", lambda: torch.nn.Parameter(torch.ones(3)), own="used: (v * x).sum(), v.requires_grad, isinstance(v, torch.nn.Parameter), v.shape", without="deeply_copied copied truth equal ordered hashed text iterated unpacked contained enumerated"),
    Kind("tensor", lambda: torch.ones(3), lambda: torch.zeros(3), """
        used: v + x, v.shape, v.dtype, v is x, len(v), v.dim(), v[0], v.numel()
        keyed: {v: 1}[v], v in {v: 2}, {x: 1}.get(v, 5)
        in_place: v.mul_(2)
        attribute: hasattr(v, "note"), getattr(v, "note", 3)
    """, each("text", "data-dependent value"), "truth copied ordered hashed contained equal"),
    Kind("weak_reference", lambda: weakref.ref(KEPT[0]), lambda: weakref.ref(KEPT[1]), "called: v().value, v() is None, v() is KEPT[0]", without="stored text copied deeply_copied", scope={"KEPT": KEPT}),
    Kind("dead_reference", dead, own="called: v(), v() is None", without="stored text equal hashed copied deeply_copied"),
    Kind("weak_method", lambda: weakref.WeakMethod(KEPT[0].total), own="called: v()()", breaks={"called": UNLICENSED}, without="text equal hashed copied deeply_copied"),
    Kind("weak_keys", keyed, own="read: len(v), v.get(KEPT[1], 4), KEPT[0] in v, v[KEPT[0]]", breaks=WEAKLY, scope={"KEPT": KEPT}, without="equal copied deeply_copied unpacked contained enumerated keys"),
    Kind("weak_values", valued, own="read: len(v), v.get('b', 4), 'a' in v, v['a'].value", breaks=WEAKLY, without="stored equal copied deeply_copied keys unpacked contained enumerated"),
    Kind("weak_set", lambda: weakref.WeakSet([KEPT[0]]), own="read: len(v), KEPT[0] in v, KEPT[1] in v", breaks=WEAKLY, scope={"KEPT": KEPT}, without="equal ordered copied deeply_copied unpacked contained enumerated"),
    Kind("finalizer", lambda: weakref.finalize(KEPT[0], int), without="copied deeply_copied"),
    Kind("logger", lambda: logger("quiet", logging.ERROR), lambda: logger("quieter", logging.CRITICAL), "asked: v.name, v.isEnabledFor(logging.DEBUG), v.level, v.disabled\nquiet: v.debug('nothing %s', 1); v.info('nothing')\n", each("text copied", EFFECT), "deeply_copied", {"logging": logging}),
    Kind("context_variable", lambda: VARIABLE, own="read: v.get(), v.name"),
    Kind("thread_local", threading.local, own="set: v.value = 1\nread: getattr(v, 'value', 0)"),
    Kind("lock", threading.Lock, own="held:\n    with v:\n        out.append(v.locked())\n", breaks={"held": UNLICENSED}, without="text"),
    Kind("reentrant_lock", threading.RLock, own="held:\n    with v:\n        pass\n", breaks={"held": UNLICENSED}, without="text"),
    Kind("event", threading.Event, own="asked: v.is_set()\nset: v.set()\n", breaks=each("asked set", UNLICENSED), without="text"),
    Kind("queue", queue.Queue, own="used: v.put(1); out.append(v.qsize())", breaks={"used": UNLICENSED}, without="text"),
    Kind("text_file", io.StringIO, own="written: v.write('a')\nread: v.getvalue()", breaks=each("written read", OPAQUE), without="copied deeply_copied iterated unpacked contained enumerated"),
    Kind("random", lambda: random.Random(3), own="drawn: v.random()", without="copied deeply_copied"),
    Kind("generator_of_torch", lambda: torch.Generator(), own="read: v.device.type", without="copied deeply_copied"),
    Kind("template", lambda: string.Template("a $b"), own="used: v.substitute(b=1), v.template"),
    Kind("exit_stack", contextlib.ExitStack, own="read: v._exit_callbacks", without="text"),
    Kind("exception", lambda: ValueError("a", 1), lambda: ValueError("b"), "read: v.args, type(v).__name__, v.__cause__, v.__traceback__", each("text copied", OPAQUE), "deeply_copied"),
    Kind("raised_exception", lambda: raised(Failure(3)), lambda: raised(Failure(4)), "read: v.args, v.code, v.__traceback__ is None", {"text": OPAQUE, "copied": (OPAQUE, "attribute that can't be set")}, "deeply_copied"),
    Kind("caused_exception", lambda: raised_from(Failure(3), KeyError("k")), own="read: type(v.__cause__).__name__, v.__suppress_context__, v.__context__ is None", breaks={"text": OPAQUE, "copied": (OPAQUE, "attribute that can't be set")}, without="deeply_copied"),
    Kind("exception_group", lambda: ExceptionGroup("g", [ValueError(1), KeyError(2)]), own="read: v.message, len(v.exceptions)", breaks=each("text copied", OPAQUE), without="deeply_copied"),
    Kind("modules_of_python", lambda: sys.modules, own="read: 'torch' in v, v['math'].pi, v.get('no such')", without="iterated unpacked contained enumerated keys equal text copied deeply_copied returned passed stored listed"),
    iterator("list_iterator", lambda: begun([1, 2, 3])),
    iterator("reversed_list", lambda: begun(reversed([1, 2, 3]))),
    iterator("tuple_iterator", lambda: begun((1, 2, 3))),
    iterator("string_iterator", lambda: begun("abc")),
    iterator("range_iterator", lambda: begun(range(4))),
    iterator("dict_iterator", lambda: begun({"a": 1, "b": 2, "c": 3})),
    iterator("items_iterator", lambda: begun({"a": 1, "b": 2}.items())),
    iterator("set_iterator", lambda: begun({1, 2, 3})),
    iterator("deque_iterator", lambda: begun(collections.deque([1, 2, 3])), looped=BEFORE, advanced=BEFORE, listed_all=BEFORE),
    iterator("zip", lambda: begun(zip([1, 2], "ab"))),
    iterator("enumerate", lambda: begun(enumerate("abc"))),
    iterator("map", lambda: begun(map(str, [1, 2, 3]))),
    iterator("filter", lambda: begun(filter(None, [1, 2, 3]))),
    iterator("chain", lambda: begun(itertools.chain([1], [2, 3]))),
    iterator("cycle", lambda: itertools.islice(itertools.cycle("ab"), 5)),
    iterator("count", lambda: itertools.islice(itertools.count(3), 2)),
    iterator("product", lambda: begun(itertools.product([1, 2], "a"))),
    iterator("accumulate", lambda: begun(itertools.accumulate([1, 2, 3]))),
    iterator("generator", lambda: begun(generated())),
    iterator("new_generator", generated),
    iterator("generator_expression", lambda: (each * 2 for each in [1, 2, 3])),
)  # fmt: skip
