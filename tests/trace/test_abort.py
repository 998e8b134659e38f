"""Abort is invisible: a trace that is given up, at any instruction, has changed nothing of the program's.

Each program has effects. Everything that it can reach is described (`Snapshot`), and the program is traced
again and again: until a break in front of its first instruction, of its second, and so on to the end, in
frames that C code enters too. Exceptions and KeyboardInterrupt come in such places too. After each trace the
description must be the same; after running the program for real it must not be.
"""

from __future__ import annotations

import array
import bisect
import collections
import contextlib
import contextvars
import copy
import dataclasses
import decimal
import enum
import functools
import gc
import heapq
import io
import itertools
import logging
import operator
import os
import pickle
import random
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from check import Bag
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.dispatch.tracing import EscapedError, Trace
from framelift.graph.torch_flags import TorchState

Made = tuple[types.FunctionType, list[Any]]
PROGRAMS: dict[str, Callable[[], Made]] = {}


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    """`make` gives a function, with whatever it needs, and its arguments."""
    PROGRAMS[make.__name__] = make
    return make


# ---- what there is


class Snapshot:
    """What can be reached from some objects: of each its type and what it holds, values or other objects."""

    def __init__(self, *roots: Any) -> None:
        self.described: dict[int, tuple[Any, ...]] = {}
        self.kept: list[Any] = []
        """While they live no other object has their ids."""
        self.waiting = [*roots]
        while self.waiting:
            value = self.waiting.pop()
            if id(value) not in self.described:
                self.kept.append(value)
                self.described[id(value)] = ()
                self.described[id(value)] = (type(value), *self.describe(value))

    def __call__(self, value: Any) -> Any:
        """How a value is told from others where it is found."""
        if issubclass(type(value), ATOMS):
            return type(value), repr(value)
        self.waiting.append(value)
        return type(value).__name__, id(value)

    def describe(self, value: Any) -> Iterator[Any]:
        for cls in type(value).__mro__:
            if cls in DESCRIPTIONS:
                yield DESCRIPTIONS[cls](self, value)
            if cls.__module__ == __name__ and "__slots__" in vars(cls):
                yield [self(getattr(value, name, None)) for name in cls.__slots__ if name[0] != "_"]
        if not issubclass(type(value), (type, types.ModuleType)):
            with contextlib.suppress(AttributeError):
                yield self.pairs(object.__getattribute__(value, "__dict__").items())
            self(type(value))

    def each(self, values: Any) -> list[Any]:
        return [self(value) for value in values]

    def pairs(self, values: Any) -> list[Any]:
        return [(self(key), self(value)) for key, value in values]

    def differences(self, other: Snapshot) -> list[str]:
        return [
            f"{type(value).__name__} {before} became {after}"
            for value in self.kept
            if (before := self.described[id(value)]) != (after := other.described.get(id(value), ("gone",)))
        ]


ATOMS = (int, float, complex, str, bytes, type(None), type(...), types.CodeType, torch.dtype, torch.device)


def tensor(look: Snapshot, value: torch.Tensor) -> tuple[Any, ...]:
    hooks = value._backward_hooks
    return (
        (value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.data_ptr()),
        repr(value.detach().tolist()),
        value._version,
        (value.requires_grad, value.is_leaf, look(value.grad_fn)),
        look(value.grad) if value.is_leaf else None,
        look.pairs(hooks.items()) if hooks is not None else None,
    )


def function(look: Snapshot, value: types.FunctionType) -> tuple[Any, ...]:
    own = value.__globals__ is not globals()
    return (
        (value.__code__, value.__name__, value.__doc__),
        look.each((value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()))),
        look(value.__globals__) if own and value.__module__ == __name__ else None,
    )


def cls(look: Snapshot, value: type) -> tuple[Any, ...]:
    if value.__module__ != __name__:
        return ()
    return look.pairs(vars(value).items()), look.each(value.__bases__)


def module(look: Snapshot, value: types.ModuleType) -> Any:
    return look.pairs(vars(value).items()) if value.__name__.startswith(__name__) else None


def cell(look: Snapshot, value: types.CellType) -> Any:
    try:
        return look(value.cell_contents)
    except ValueError:
        return "empty"


def generator(look: Snapshot, value: types.GeneratorType) -> Any:
    frame = value.gi_frame
    return frame and (frame.f_lasti, look.pairs(frame.f_locals.items())), value.gi_running


def exception(look: Snapshot, value: BaseException) -> Any:
    lines, traceback = [], value.__traceback__
    while traceback is not None:
        lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return look.each((value.args, value.__cause__, value.__context__)), value.__suppress_context__, lines


def iterator(look: Snapshot, value: Any) -> Any:
    _, arguments, *state = value.__reduce__()
    return [
        look.each(part) if isinstance(part, (list, tuple)) else look(part) for part in (*arguments, *state)
    ]


ITERATORS = (
    iter([]),
    iter(()),
    iter({}),
    iter({}.items()),
    iter(range(2)),
    enumerate(()),
    zip(),
    map(id, ()),
)
ITERATORS += (itertools.count(), itertools.cycle([1]), itertools.islice([], 1), itertools.chain())

DESCRIPTIONS: dict[type, Callable[[Snapshot, Any], Any]] = {
    **{type(kind): iterator for kind in ITERATORS},
    **{type(kind): lambda look, value: value.__length_hint__() for kind in (iter(set()), iter({}.items()))},
    dict: lambda look, value: look.pairs(dict.items(value)),
    collections.OrderedDict: lambda look, value: look.pairs(collections.OrderedDict.items(value)),
    collections.defaultdict: lambda look, value: look(value.default_factory),
    list: lambda look, value: look.each(list.__iter__(value)),
    tuple: lambda look, value: look.each(tuple.__iter__(value)),
    set: lambda look, value: look.each(set.__iter__(value)),
    collections.deque: lambda look, value: (value.maxlen, look.each(value)),
    bytearray: lambda look, value: bytes(value),
    torch.Tensor: tensor,
    torch.Generator: lambda look, value: bytes(value.get_state().numpy()),
    random.Random: lambda look, value: value.getstate(),
    io.StringIO: lambda look, value: (value.getvalue(), value.tell()),
    types.FunctionType: function,
    types.MethodType: lambda look, value: look.each((value.__self__, value.__func__)),
    classmethod: lambda look, value: look(value.__func__),
    staticmethod: lambda look, value: look(value.__func__),
    property: lambda look, value: look.each((value.fget, value.fset, value.fdel)),
    functools.partial: lambda look, value: look.each((value.func, value.args, value.keywords)),
    functools._lru_cache_wrapper: lambda look, value: value.cache_info(),
    types.CellType: cell,
    slice: lambda look, value: look.each((value.start, value.stop, value.step)),
    super: lambda look, value: look.each((value.__self__, value.__thisclass__)),
    types.GeneratorType: generator,
    types.ModuleType: module,
    BaseException: exception,
    type: cls,
    weakref.ref: lambda look, value: (look(value()), look(value.__callback__)),
    contextvars.ContextVar: lambda look, value: look(value.get(None)),
    decimal.Context: lambda look, value: repr(value),
}


def surroundings() -> dict[str, Any]:
    """State that belongs to the process, or the thread."""
    return {
        "random": random.getstate(),
        "torch's random": bytes(torch.get_rng_state().numpy()),
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()),
        "autocast": [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
        "autocast cache": torch.is_autocast_cache_enabled(),
        "defaults": (torch.get_default_dtype(), torch.get_default_device()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "saved tensors hooks": torch._C._autograd._top_saved_tensors_default_hooks(True),
        "module hooks": len(torch.nn.modules.module._global_forward_hooks),
        "threads": (torch.get_num_threads(), threading.active_count()),
        "modules": set(sys.modules),
        "exception": [id(part) for part in sys.exc_info()],
        "warnings": [*warnings.filters],
        "recursion": sys.getrecursionlimit(),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "trace": (sys.gettrace(), sys.getprofile()),
        "environment": {k: v for k, v in os.environ.items() if not k.startswith("TORCH")},
        "decimal": repr(decimal.getcontext()),
    }


class Everything:
    """All that may not change while programs are traced."""

    def __init__(self, fn: types.FunctionType, arguments: list[Any]) -> None:
        self.around = surroundings()
        self.reached = Snapshot(fn, arguments, sys.stdout)

    def differences(self, other: Everything) -> list[str]:
        return self.reached.differences(other.reached) + [
            f"{name} was {before}, is {after}"
            if not isinstance(before, set)
            else f"{name} has new {after - before}, lost {before - after}"
            for name, before in self.around.items()
            if before != (after := other.around[name])
        ]


# ---- traces that are given up


class Stop:
    """Raises in front of the n-th instruction that the machine comes to, in whichever run; 0: never."""

    def __init__(self, n: int, error: BaseException | None = None) -> None:
        self.n = n
        self.error = error
        self.count = 0
        self.at = ""

    def __call__(self, frame: Any) -> None:
        if frame.code.instructions[frame.ip].opname == "PUSH_EXC_INFO":
            return  # in front of which nothing is raised: a handler begins with it
        self.count += 1
        if self.count == self.n and self.error is not None:
            self.at = f"{frame.code.instructions[frame.ip].opname}, line {frame.line}, {frame.func.__name__}"
            raise self.error


def traced(fn: types.FunctionType, arguments: list[Any], stop: Stop, finish: bool = False) -> str:
    """Traces the function; how that ended."""
    with TorchState() as switches:
        trace = Trace(fn, list(arguments), switches)
        trace.machine.look = stop
        try:
            trace.run()
            ended = "whole" if trace.ended_by is None else "broken"
            if finish:
                trace.finish()
        except EscapedError:
            ended = "escaped"
        except KeyboardInterrupt:
            ended = "interrupted"
        except Break:
            ended = "refused"
    trace.release()
    return ended


class Interruption(Exception):
    """An exception of the program's that may come at any time."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "broken": lambda: Break(breaks.EFFECT, "test"),
    "escaped": lambda: Interruption("test"),
    "interrupted": KeyboardInterrupt,
}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Output goes where it can be described."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@quiet()
def given_up_everywhere(made: Made, end: str, limit: int) -> None:
    """Ends a trace with `end` in front of each instruction, or of `limit` of them."""
    fn, arguments = made
    traced(fn, arguments, Stop(0))  # torch and the standard library import what they need, and remember
    before = Everything(fn, arguments)
    for n in places(made, limit):
        stop = Stop(n, ENDS[end]())
        ended = traced(fn, arguments, stop)
        found = before.differences(Everything(fn, arguments))
        assert not found, f"{ended} in front of instruction {n} ({stop.at}): {found}"
        assert stop.at and (ended in (end, "refused") or end == "escaped")
    gc.collect()
    assert not before.differences(Everything(fn, arguments)), "after a collection"


def places(made: Made, limit: int) -> list[int]:
    whole = Stop(0)
    traced(*made, whole)
    instructions = range(1, whole.count + 1)
    return sorted(random.Random(0).sample(instructions, min(limit, whole.count)))


@quiet()
def unchanged_by(made: Made, **how: Any) -> str:
    fn, arguments = made
    before = Everything(fn, arguments)
    ended = traced(fn, arguments, Stop(0), **how)
    found = before.differences(Everything(fn, arguments))
    assert not found, f"{ended}: {found}"
    return ended


@quiet()
def called(made: Made) -> bool:
    """Runs the program for real. Whether that can be seen."""
    fn, arguments = made
    before = Everything(fn, arguments)
    with contextlib.suppress(Exception):
        fn(*arguments)
    return bool(before.differences(Everything(fn, arguments)))


# ---- attributes


class Box:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Slots:
    __slots__ = ("a", "b", "gone")

    def __init__(self) -> None:
        self.a, self.b = 1, [2]


class Logged:
    """Attributes go through the class's own methods."""

    def __init__(self) -> None:
        self.__dict__.update(log=[], _x=1)

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self.log.append(f"del {name}")
        object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        self.log.append(f"no {name}")
        return len(self.log)

    @property
    def x(self) -> Any:
        return self._x

    @x.setter
    def x(self, value: Any) -> None:
        self._x = value


class Descriptor:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self if obj is None else obj.__dict__.get(self.name, 0)

    def __set__(self, obj: Any, value: Any) -> None:
        obj.__dict__[self.name] = abs(value)


class Measured:
    size = Descriptor()

    @functools.cached_property
    def area(self) -> Any:
        return self.size**2


def x3() -> torch.Tensor:
    return torch.tensor([1.0, -2.0, 3.0])


@program
def attributes_set_and_deleted() -> Made:
    def fn(box: Box, x: torch.Tensor) -> Any:
        box.count += 1
        box.new = x * 2
        del box.old
        setattr(box, "named", [box.new])
        delattr(box, "count")
        box.__dict__["direct"] = 3
        return box.new + len(vars(box))

    return fn, [Box(count=0, old=[1]), x3()]


@program
def slots() -> Made:
    def fn(box: Slots, x: torch.Tensor) -> Any:
        box.a, box.gone = x + box.a, 1
        box.b.append(box.a)
        del box.gone, box.b
        return box.a

    return fn, [Slots(), x3()]


@program
def setattr_getattr_and_properties() -> Made:
    def fn(box: Logged, x: torch.Tensor) -> Any:
        box.x = x + box.x
        box.y = box.missing
        del box.y
        return box.x * box.another

    return fn, [Logged(), x3()]


@program
def descriptors_and_cached_property() -> Made:
    def fn(box: Measured, x: torch.Tensor) -> Any:
        box.size = -3
        y = x * box.area
        box.size = box.area - 20
        return y + box.size

    return fn, [Measured(), x3()]


@program
def descriptors_with_state() -> Made:
    class Counting:
        count = 0

        def __get__(self, obj: Any, cls: type | None = None) -> Any:
            self.count += 1
            return self.count

    class Counted:
        value = Counting()

    def fn(box: Counted, x: torch.Tensor) -> Any:
        return x + box.value + Counted.value

    return fn, [Counted(), x3()]


@program
def class_attributes() -> Made:
    class Counter:
        total = 0
        names: list[str] = []
        table: dict[str, Any] = {}

        @classmethod
        def tick(cls, name: str) -> int:
            cls.names.append(name)
            cls.table[name] = cls.total
            return len(cls.names)

    def fn(x: torch.Tensor) -> Any:
        y = x * Counter.tick("a") + Counter.tick("b")
        Counter.total += 1
        return y

    return fn, [x3()]


@program
def attributes_and_defaults_of_functions() -> Made:
    def helper(x: torch.Tensor, scale: list[int] = [1], *, names: list[str] = []) -> torch.Tensor:
        scale.append(len(helper.log))
        names.append("called")
        helper.log.append(scale)
        return x * len(scale)

    helper.log = []

    def fn(x: torch.Tensor) -> Any:
        y = helper(helper(x))
        helper.last = y
        return y

    return fn, [x3()]


# ---- namespaces


def in_globals(fn: Any, **names: Any) -> types.FunctionType:
    """The function, with globals of its own."""
    made = types.FunctionType(fn.__code__, {"__name__": __name__, **names}, fn.__name__, None, fn.__closure__)
    made.__module__ = __name__
    return made


@program
def globals_set_and_deleted() -> Made:
    def fn(x: torch.Tensor) -> Any:
        global total, old, new, seen
        total += 1
        new = x * total
        seen.append("new")
        del old
        globals()["direct"] = total
        return new

    return in_globals(fn, total=1, old=2, seen=[]), [x3()]


@program
def cells() -> Made:
    total, trail, gone = 0, [], 1

    def add(x: torch.Tensor) -> torch.Tensor:
        nonlocal total, gone
        total += 1
        trail.append(total)
        del gone
        gone = x
        return x + total

    def fn(x: torch.Tensor) -> Any:
        return add(add(x)) * len(trail)

    return fn, [x3()]


@program
def module_attributes() -> Made:
    settings = types.ModuleType(f"{__name__}.settings")
    settings.level, settings.old, settings.table = 1, 2, {}

    def fn(x: torch.Tensor) -> Any:
        settings.level += 1
        settings.table["x"] = x
        settings.new = x * settings.level
        del settings.old
        return settings.new

    return fn, [x3()]


# ---- containers


@program
def lists() -> Made:
    def fn(items: list[Any], nested: list[list[int]], x: torch.Tensor) -> Any:
        items.append(x)
        items[0] = nested
        items += [1, 2]
        items.insert(1, items.pop())
        nested[0][1:1] = [5, 6]
        del nested[1]
        items.reverse()
        nested[0].sort()
        items.extend(nested)
        return x + len(items)

    shared = [3, 1, 2]
    return fn, [["a", shared], [shared, shared], x3()]


@program
def lists_grow_in_a_loop() -> Made:
    def fn(items: list[int], x: torch.Tensor) -> Any:
        for item in items:
            if item < 6:
                items.append(item * 2)
                x = x + item
        while items:
            x = x * items.pop()
        return x

    return fn, [[1, 2], x3()]


@program
def dicts() -> Made:
    def fn(table: dict[str, Any], x: torch.Tensor) -> Any:
        table["new"] = x
        table["a"] = table.pop("b")
        table.setdefault("list", []).append(1)
        table.update(c=2, new=x + 1)
        del table["a"]
        table |= {"d": table.popitem()}
        return x * len(table)

    return fn, [{"a": 1, "b": [2], "list": [0]}, x3()]


@program
def sets() -> Made:
    def fn(names: set[Any], x: torch.Tensor) -> Any:
        names.add("new")
        names.discard(1)
        names |= {7, 8}
        names.remove(2)
        names ^= {3}
        return x * len(names)

    return fn, [{1, 2, 3, "a"}, x3()]


@program
def deques() -> Made:
    def fn(queue: collections.deque[Any], x: torch.Tensor) -> Any:
        queue.append(x)
        queue.appendleft(1)
        queue.rotate(1)
        y = queue.popleft()
        queue[0] = y
        queue.extend([4, 5])
        return x + len(queue)

    return fn, [collections.deque([1, 2, 3], maxlen=5), x3()]


@program
def ordered_dicts() -> Made:
    def fn(table: collections.OrderedDict[str, Any], x: torch.Tensor) -> Any:
        table.move_to_end("a")
        table["c"] = x
        table.popitem(last=False)
        table.move_to_end("c", last=False)
        return x + len(table)

    return fn, [collections.OrderedDict(a=1, b=2), x3()]


@program
def default_dicts() -> Made:
    made = []

    def default() -> list[Any]:
        made.append(1)
        return []

    def fn(table: Any, x: torch.Tensor) -> Any:
        table["a"].append(x)
        table["b"].append(x)
        table["c"] += [1]
        return x + len(table) + len(made)

    return fn, [collections.defaultdict(default, a=[0]), x3()]


@program
def counters() -> Made:
    def fn(counts: collections.Counter[str], x: torch.Tensor) -> Any:
        counts["a"] += 2
        counts.update("abc")
        counts.subtract(["b"])
        return x * counts["a"]

    return fn, [collections.Counter("aab"), x3()]


@program
def containers_of_the_users_own() -> Made:
    def fn(bag: Bag, x: torch.Tensor) -> Any:
        bag["x"] = bag["one"] + x
        bag += {"two": 2}
        if "one" in bag and bag:
            del bag["one"]
        for key in bag:
            x = bag(x) + len(bag)
        return x + bag["two"]

    bag = Bag()
    bag["one"] = 1
    return fn, [bag, x3()]


class Names(list):
    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.changes = 0

    def append(self, item: Any) -> None:
        self.changes += 1
        super().append(item)


class Table(dict):
    __slots__ = ("hits",)

    def __missing__(self, key: Any) -> Any:
        self.hits = key
        self[key] = [key]
        return self[key]


@program
def subclasses_of_containers() -> Made:
    def fn(names: Names, table: Table, x: torch.Tensor) -> Any:
        names.append("c")
        names.tag = x
        table["new"].append(names[0])
        table.update(a=2)
        del table["b"]
        return x + names.changes + len(table)

    return fn, [Names("a", "b"), Table(a=1, b=2), x3()]


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    names: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        MADE.append(self.scale)


MADE: list[float] = []


@program
def dataclasses_changed_and_made() -> Made:
    def fn(config: Config, made: list[Any], x: torch.Tensor) -> Any:
        config.scale += 1
        config.names.append(dataclasses.replace(config, scale=1.0))
        made.append(Config(3.0))
        return x * config.scale

    return fn, [Config(), MADE, x3()]


# ---- what C calls back


class Shy:
    """Comparing, hashing and showing it leaves traces."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.seen: list[str] = []

    def __lt__(self, other: Shy) -> bool:
        self.seen.append("<")
        return self.value < other.value

    def __eq__(self, other: object) -> bool:
        self.seen.append("==")
        return isinstance(other, Shy) and self.value == other.value

    def __hash__(self) -> int:
        self.seen.append("hash")
        return hash(self.value)

    def __repr__(self) -> str:
        self.seen.append("repr")
        return f"Shy({self.value})"

    def __index__(self) -> int:
        self.seen.append("index")
        return self.value


@program
def sorting_with_keys() -> Made:
    asked: list[int] = []

    def key(item: list[int]) -> int:
        asked.append(item[0])
        item.append(len(asked))
        return -item[0]

    def fn(items: list[list[int]], x: torch.Tensor) -> Any:
        first = sorted(items, key=key)[0]
        items.sort(key=key, reverse=True)
        top = max(items, key=lambda item: asked.append(0) or item[0])
        return x * first[0] + top[0]

    return fn, [[[1], [3], [2]], x3()]


@program
def special_methods_called_by_c() -> Made:
    def fn(items: list[Shy], table: dict[Any, int], x: torch.Tensor) -> Any:
        items.sort()
        found = items[1] in items
        label = f"{items!r}"
        y = x[items[0] : 3] + len(label) + range(9)[items[1]]
        heapq.heappush(items, Shy(4))
        bisect.insort(items, Shy(0))
        table[items[0]] = found
        return y

    return fn, [[Shy(3), Shy(1), Shy(2)], {Shy(7): 1}, x3()]


@program
def maps_filters_and_reductions() -> Made:
    def fn(log: list[Any], x: torch.Tensor) -> Any:
        def note(item: Any) -> Any:
            log.append(item)
            return item

        y = sum(map(note, [x, x]))
        kept = list(filter(note, [0, 1, 2]))
        total = functools.reduce(lambda a, b: note(a) + b, kept, 0)
        return y * total + any(note(item) > 1 for item in kept)

    return fn, [[], x3()]


@program
def subclass_hooks_and_metaclasses() -> Made:
    seen: list[str] = []

    class Meta(type):
        def __call__(cls, *args: Any) -> Any:
            seen.append(f"call {cls.__name__}")
            return super().__call__(*args)

    class Base(metaclass=Meta):
        def __init_subclass__(cls) -> None:
            seen.append(cls.__name__)

        def __init__(self, x: Any) -> None:
            seen.append("init")
            self.x = x

    def fn(x: torch.Tensor) -> Any:
        class Child(Base):
            seen.append("body")

        return Child(x + 1).x + Base(2).x

    return fn, [x3()]


@program
def patterns_over_objects() -> Made:
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self) -> None:
            self.reads = 0

        @property
        def x(self) -> int:
            self.reads += 1
            return self.reads

        y = x

    def fn(point: Point, x: torch.Tensor) -> Any:
        match point:
            case Point(5, _):
                point.reads = 0
            case Point(a, b) if a < b:
                point.reads += 10
                return x * a
        return x

    return fn, [Point(), x3()]


# ---- iterators and generators


@program
def generators_made() -> Made:
    def numbers(log: list[Any]) -> Iterator[int]:
        try:
            for n in range(3):
                log.append(n)
                log.append((yield n))
        finally:
            log.append("closed")

    def delegating(log: list[Any]) -> Iterator[int]:
        log.append((yield from numbers(log)))

    def fn(log: list[Any], x: torch.Tensor) -> Any:
        first, second, third = numbers(log), delegating(log), numbers(log)
        x = x + next(first) + next(second)
        for n in first:
            x = x * n
        next(third)
        x = x + sum(n for n in numbers(log))
        second.close()
        return x

    return fn, [[], x3()]


@program
def asynchronous_functions() -> Made:
    async def inner(log: list[Any], x: torch.Tensor) -> torch.Tensor:
        log.append("inner")
        return x + 1

    async def outer(log: list[Any], x: torch.Tensor) -> torch.Tensor:
        try:
            return await inner(log, x) * 2
        finally:
            log.append("outer")

    def fn(log: list[Any], x: torch.Tensor) -> Any:
        running, waiting = outer(log, x), outer(log, x)
        log.append("made")
        waiting.close()
        try:
            running.send(None)
        except StopIteration as stop:
            return stop.value

    return fn, [[], x3()]


class Countdown:
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


@program
def iterators_of_the_users_own() -> Made:
    def fn(given: Countdown, x: torch.Tensor) -> Any:
        a, b = next(given), next(given)
        y = x + a + b
        for n in given:
            y = y * (n + 1)
        return y, list(given), [*zip(given, [1])]

    return fn, [Countdown(5), x3()]


# ---- exceptions and managers


@program
def exceptions_raised_and_caught() -> Made:
    def risky(log: list[Any], n: int) -> None:
        log.append(n)
        raise ValueError(n)

    def fn(log: list[Any], x: torch.Tensor) -> Any:
        try:
            try:
                risky(log, 1)
            except ValueError as error:
                error.add_note("seen")
                log.append(error)
                raise KeyError(2) from error
            finally:
                log.append(sys.exc_info()[0])
        except KeyError as error:
            log.append(error.__cause__)
        else:
            log.append("never")
        return x + len(log)

    return fn, [[], x3()]


@program
def exceptions_from_before() -> Made:
    def fn(error: Exception, box: Box, x: torch.Tensor) -> Any:
        box.count += 1
        try:
            raise error
        except ValueError as caught:
            caught.add_note("seen")
            box.error = caught
        return x + box.count

    return fn, [ValueError(1), Box(count=0), x3()]


@program
def exceptions_that_leave() -> Made:
    def fn(box: Box, items: list[Any], x: torch.Tensor) -> Any:
        items.append(x.add_(1))
        box.count += 1
        try:
            raise ValueError(box.count)
        finally:
            items.append("finally")
            box.count *= 2

    return fn, [Box(count=0), [], x3()]


@program
def errors_of_torch() -> Made:
    def fn(box: Box, x: torch.Tensor) -> Any:
        box.y = x.mul_(2)
        try:
            return x @ torch.ones(4, 4)
        except RuntimeError as error:
            box.error = type(error)
        x.add_(1)
        return x.view(2, 2)

    return fn, [Box(), x3()]


class Manager:
    def __init__(self, swallows: bool) -> None:
        self.swallows = swallows
        self.log: list[Any] = []

    def __enter__(self) -> list[Any]:
        self.log.append("enter")
        return self.log

    def __exit__(self, *raised: Any) -> bool:
        self.log.append(raised[0])
        return self.swallows


@contextlib.contextmanager
def noted(log: list[Any]) -> Iterator[int]:
    log.append("in")
    try:
        yield len(log)
    except ZeroDivisionError:
        log.append("caught")
    finally:
        log.append("out")


@program
def managers() -> Made:
    def fn(manager: Manager, x: torch.Tensor) -> Any:
        with manager as log, noted(log) as n:
            x = x + n
            log.append(x)
        with manager:
            raise ValueError(n)
        with contextlib.ExitStack() as stack:
            stack.enter_context(manager)
            stack.callback(log.append, "callback")
        with contextlib.suppress(KeyError), noted(log):
            log.append(1 // 0)
        return x * len(log)

    return fn, [Manager(True), x3()]


# ---- tensors


@program
def tensors_changed_in_place() -> Made:
    def fn(x: torch.Tensor, view: torch.Tensor, out: torch.Tensor) -> Any:
        x.add_(1)
        x[0] = 5
        view.mul_(2)
        x *= 3
        torch.sub(x, 1, out=out)
        x[1:].zero_()
        x.detach()[0] = 7
        torch.relu_(x)
        return view + 1

    x = x3()
    return fn, [x, x[1:], torch.empty(3)]


@program
def tensors_of_another_shape_after() -> Made:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.unsqueeze_(0)
        y.t_()
        x.squeeze_(0)
        y.transpose_(0, 1)
        return x + 1

    return fn, [x3(), torch.arange(6.0).view(2, 3)]


@program
def gradients() -> Made:
    def fn(w: torch.Tensor, x: torch.Tensor) -> Any:
        y = (w * x).sum()
        w.grad.zero_()
        with torch.no_grad():
            w.sub_(w.grad)
        w.grad = w.grad + 1
        return y

    w = torch.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    return fn, [w, x3()]


# ---- switches and random numbers


@program
def grad_mode() -> Made:
    def fn(x: torch.Tensor) -> Any:
        torch.set_grad_enabled(False)
        with torch.enable_grad():
            y = x * 2
            with torch.no_grad():
                y = y + 1
        return y

    return fn, [torch.ones(3, requires_grad=True)]


@program
def autocast_and_default_dtype() -> Made:
    def fn(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        torch.set_default_dtype(torch.float64)
        return y + torch.ones(3)

    return fn, [x3()]


@program
def random_numbers_of_torch() -> Made:
    def fn(x: torch.Tensor) -> Any:
        y = torch.rand(3) + torch.nn.functional.dropout(x)
        x.normal_()
        y = y + torch.randn_like(x) + torch.randperm(3)
        return y + torch.bernoulli(x.sigmoid())

    return fn, [x3()]


# ---- modules


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += 1
        self.last = x
        return self.linear(x) + self.seen


@program
def buffers_and_attributes_of_modules() -> Made:
    def fn(net: Net, x: torch.Tensor) -> Any:
        y = net(net(x))
        net.seen = net.seen * 2
        net.linear.eval()
        return y

    return fn, [Net(), x3()]


@program
def registrations_in_modules() -> Made:
    def fn(net: Net, children: nn.ModuleList, x: torch.Tensor) -> Any:
        net.register_buffer("fresh", x + 1)
        net.register_parameter("nothing", None)
        children.append(net.linear)
        net.child = children[0]
        del net.linear
        return net.child(net.fresh)

    return fn, [Net(), nn.ModuleList([nn.Identity()]), x3()]


@program
def batch_norm() -> Made:
    def fn(norm: nn.Module, x: torch.Tensor) -> Any:
        y = norm(x)
        norm.reset_running_stats()
        norm.momentum = 0.5
        return norm(y * 2)

    return fn, [nn.BatchNorm1d(3), torch.arange(6.0).view(2, 3)]


@program
def hooks_of_modules() -> Made:
    log: list[Any] = []

    def hook(module: nn.Module, args: Any, *out: Any) -> None:
        log.append(len(out))
        module.seen.add_(1)
        module.hooked = args[0]

    def fn(net: Net, x: torch.Tensor) -> Any:
        y = net(x)
        handle = net.register_forward_hook(hook)
        y = net(y)
        handle.remove()
        return y + len(log)

    net = Net()
    net.register_forward_hook(hook)
    net.register_forward_pre_hook(hook)
    return fn, [net, x3()]


# ---- lives


class Noisy:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        log.append("born")

    def __del__(self) -> None:
        self.log.append("died")


@program
def finalisers() -> Made:
    def fn(log: list[str], kept: list[Any], x: torch.Tensor) -> Any:
        y = x + 1
        kept.clear()
        log.append("cleared")
        kept.append(Noisy(log))
        return y + len(log)

    log: list[str] = []
    return fn, [log, [Noisy(log)], x3()]


@program
def finalisers_of_the_callees() -> Made:
    def helper(log: list[str]) -> int:
        two = Noisy(log), Noisy(log)
        return len(two)

    def fn(log: list[str], x: torch.Tensor) -> Any:
        return x + helper(log) + [helper(log) for _ in range(2)][0]

    return fn, [[], x3()]


@program
def a_cycle_with_a_finaliser() -> Made:
    class Knot(Noisy):
        def __init__(self, log: list[str]) -> None:
            super().__init__(log)
            self.me = self

    def fn(log: list[str], x: torch.Tensor) -> Any:
        x.add_(1)
        Knot(log)
        return x + len(log)

    return fn, [[], x3()]


# ---- the rest of the world


@program
def caches() -> Made:
    asked: list[int] = []

    @functools.lru_cache
    def cached(n: int) -> int:
        asked.append(n)
        return n * 2

    @functools.singledispatch
    def show(value: Any) -> str:
        asked.append(0)
        return "any"

    def fn(x: torch.Tensor) -> Any:
        show.register(int, lambda value: "int")
        return x + cached(2) + cached(2) + len(show(1))

    return fn, [x3()]


# ---- one use of something after other effects


def using(given: Callable[[], Any], use: Callable[[Any, torch.Tensor], Any]) -> Callable[[], Made]:
    def make() -> Made:
        def fn(log: list[Any], value: Any, x: torch.Tensor) -> Any:
            log.append(x + 1)
            x.mul_(2)
            result = use(value, x)
            log.append("after")
            return result

        return fn, [[], given(), x3()]

    return make


def advanced(given: Any) -> Any:
    next(given)
    return given


def counting(log: list[Any]) -> Iterator[int]:
    try:
        for n in range(1, 4):
            log.append(n)
            yield n
    finally:
        log.append("closed")


def leaf(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes or (3,), requires_grad=True)


def with_gradient() -> Any:
    w = leaf()
    (w * 2).sum().backward()
    return torch.optim.SGD([w], lr=0.1, momentum=0.9)


def entered(manager: Any, x: torch.Tensor) -> torch.Tensor:
    with manager:
        return x @ x + torch.rand(3)


class Doubled(torch.autograd.Function):
    log: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Doubled.log.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


class Careful:
    def __init__(self) -> None:
        self.copies: list[str] = []

    def __deepcopy__(self, memo: Any) -> Careful:
        self.copies.append("deep")
        return self

    def __copy__(self) -> Careful:
        self.copies.append("shallow")
        return self

    def __reduce__(self) -> Any:
        self.copies.append("pickled")
        return Careful, ()

    def __format__(self, spec: str) -> str:
        self.copies.append(spec)
        return spec


class Watched:
    """Sees every attribute that is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name != "asked":
            self.asked.append(name)
        return object.__getattribute__(self, name)


class Color(enum.Enum):
    RED = 1


class Louder(Logged):
    pass


KEPT = Names()


class Family:
    def __init__(self) -> None:
        self.base = type("Base", (), {"__module__": __name__})


DESCRIPTIONS[Family] = lambda look, value: look.each(value.base.__subclasses__())


USES: dict[str, Callable[[], Made]] = {
    "next of a list iterator": using(lambda: advanced(iter([1, 2, 3])), lambda it, x: x + next(it)),
    "a loop over a list iterator": using(lambda: iter([1, 2]), lambda it, x: [x * n for n in it]),
    "a set iterator drained": using(lambda: iter({1, 2}), lambda it, x: x + len([*it])),
    "a dict iterator drained": using(lambda: iter({1: 2}.items()), lambda it, x: x + len(dict(it))),
    "a reversed list unpacked": using(lambda: reversed([1, 2]), lambda it, x: (lambda a, b: x + a)(*it)),
    "enumerate drained": using(lambda: enumerate("ab"), lambda it, x: x + len(list(it))),
    "zip of an open iterator": using(
        lambda: iter([1, 2, 3]), lambda it, x: [x + a for a, _ in zip(it, "ab")]
    ),
    "an element sought in an iterator": using(lambda: iter([1, 2, 3]), lambda it, x: x + (2 in it)),
    "an endless iterator": using(lambda: itertools.cycle([1, 2]), lambda it, x: x + next(it) + next(it)),
    "a slice of a count": using(itertools.count, lambda it, x: x + sum(itertools.islice(it, 3))),
    "a map over open iterators": using(lambda: map(abs, iter([1, -2])), lambda it, x: x + sum(it)),
    "next of a generator": using(lambda: advanced(counting([])), lambda it, x: x + next(it)),
    "a loop over a generator": using(lambda: counting([]), lambda it, x: [x + n for n in it]),
    "yield from a generator": using(lambda: counting([]), lambda it, x: x + sum((lambda: (yield from it))())),
    "a generator sent to": using(lambda: advanced(counting([])), lambda it, x: x + it.send(1)),
    "a generator closed": using(lambda: advanced(counting([])), lambda it, x: it.close()),
    "a generator thrown into": using(lambda: advanced(counting([])), lambda it, x: it.throw(KeyError)),
    "a generator unpacked": using(lambda: counting([]), lambda it, x: x + max(*it)),
    "a generator sorted": using(lambda: counting([]), lambda it, x: x + sorted(it)[0]),
    "an inside generator sent to": using(list, lambda log, x: x + advanced(counting(log)).send(1)),
    "an inside generator thrown into": using(list, lambda log, x: advanced(counting(log)).throw(KeyError)),
    "an inside generator left open": using(list, lambda log, x: x + next(counting(log))),
    "a manager that was made before": using(lambda: noted([]), lambda m, x: m.__enter__() + x),
    "a bytearray": using(lambda: bytearray(b"abc"), lambda data, x: data.append(x.dim())),
    "an array": using(lambda: array.array("i", [1, 2]), lambda data, x: data.append(x.dim())),
    "a memoryview": using(
        lambda: memoryview(bytearray(b"abc")), lambda data, x: operator.setitem(data, 0, 7)
    ),
    "a namespace": using(lambda: types.SimpleNamespace(a=1), lambda ns, x: setattr(ns, "a", x)),
    "a user dict": using(lambda: collections.UserDict(a=1), lambda table, x: table.update(a=x, b=2)),
    "a user list": using(lambda: collections.UserList([1]), lambda items, x: items.append(x)),
    "a chain of maps": using(lambda: collections.ChainMap({}, {"a": 1}), lambda m, x: m.update(a=x)),
    "methods taken from the class": using(
        lambda: [3, 1], lambda items, x: (list.append(items, x), list.pop(items, 0))
    ),
    "functions of operator": using(
        lambda: [3, 1], lambda items, x: operator.iadd(items, [operator.setitem(items, 0, x)])
    ),
    "a bound method": using(lambda: [1].append, lambda append, x: append(x)),
    "a partial": using(lambda: functools.partial(list.append, [1]), lambda append, x: append(x)),
    "a heap": using(lambda: [1, 5, 3], lambda heap, x: heapq.heappush(heap, heapq.heappop(heap) + 1)),
    "a dict through vars": using(lambda: Box(a=1), lambda box, x: vars(box).update(a=x, b=2)),
    "a frozen dataclass": using(Config, lambda config, x: object.__setattr__(config, "scale", x)),
    "a member of an enum": using(lambda: Color.RED, lambda red, x: setattr(red, "seen", red.value)),
    "an attribute of an exception": using(lambda: ValueError(1), lambda error, x: error.add_note("note")),
    "a copy": using(Careful, lambda it, x: copy.copy(it).copies),
    "a deep copy": using(Careful, lambda it, x: copy.deepcopy([it, it])),
    "a pickle": using(Careful, lambda it, x: pickle.dumps(it)),
    "a format": using(Careful, lambda it, x: f"{it:>7}{it:abc}"),
    "a super object": using(lambda: super(Louder, Louder()), lambda above, x: above.__setattr__("y", 1)),
    "a weak proxy": using(lambda: (KEPT, weakref.proxy(KEPT)), lambda pair, x: pair[1].append(x)),
    "a part of a slice": using(lambda: slice(Box(n=0)), lambda part, x: setattr(part.stop, "n", x)),
    "a subclass": using(Family, lambda family, x: type("Child", (family.base,), {})),
    "every attribute": using(Watched, lambda it, x: x + hasattr(it, "a")),
    "a lock": using(threading.Lock, lambda lock, x: lock.acquire()),
    "a thread's own": using(threading.local, lambda local, x: setattr(local, "x", x)),
    "a weak reference": using(lambda: weakref.ref(Doubled), lambda ref, x: ref().log.append(x)),
    "a new weak reference": using(Box, lambda box, x: setattr(box, "own", weakref.ref(box))),
    "a weak dictionary": using(
        lambda: weakref.WeakValueDictionary(a=Doubled), lambda table, x: table.pop("a")
    ),
    "a weak set": using(weakref.WeakSet, lambda names, x: names.add(Doubled)),
    "a finaliser": using(Box, lambda box, x: setattr(box, "end", weakref.finalize(box, print))),
    "print": using(lambda: 1, lambda _, x: print(x.shape)),
    "print to a file": using(lambda: io.StringIO("before"), lambda out, x: print("text", file=out)),
    "a file": using(lambda: io.StringIO("before"), lambda out, x: out.read(3)),
    "a warning": using(lambda: 1, lambda _, x: warnings.simplefilter("error")),
    "a log": using(lambda: logging.getLogger(__name__), lambda log, x: log.setLevel("ERROR")),
    "an import": using(lambda: sys.modules.pop("sndhdr", None) and 0, lambda _, x: __import__("sndhdr")),
    "a context variable": using(lambda: contextvars.ContextVar("variable"), lambda var, x: var.set(1)),
    "the environment": using(lambda: 1, lambda _, x: os.environ.update(FRAMELIFT_TEST="1")),
    "the context of decimal": using(lambda: 1, lambda _, x: setattr(decimal.getcontext(), "prec", 5)),
    "the recursion limit": using(lambda: 1, lambda _, x: sys.setrecursionlimit(2345)),
    "the collector": using(lambda: 1, lambda _, x: gc.set_threshold(1234)),
    "code from text": using(lambda: {"__builtins__": {}}, lambda table, x: exec("a = [1]", table)),
    "a cache": using(lambda: functools.lru_cache(lambda n: [n]), lambda cached, x: x + cached(1)[0]),
    "random numbers of Python": using(lambda: 1, lambda _, x: x + random.random()),
    "a shuffle": using(lambda: [1, 2, 3, 4, 5, 6], lambda items, x: random.shuffle(items)),
    "a seed": using(lambda: 1, lambda _, x: random.seed(7)),
    "random numbers of one's own": using(lambda: random.Random(1), lambda own, x: x + own.random()),
    "a torch generator": using(torch.Generator, lambda own, x: x + torch.rand(3, generator=own)),
    "a seed of torch": using(lambda: 1, lambda _, x: torch.manual_seed(7)),
    "a random state of torch": using(torch.get_rng_state, lambda state, x: torch.set_rng_state(state + 1)),
    "forked random numbers": using(lambda: 1, lambda _, x: entered(torch.random.fork_rng(), x)),
    "data": using(x3, lambda y, x: y.data.add_(1)),
    "data set": using(x3, lambda y, x: setattr(y, "data", x)),
    "set_": using(x3, lambda y, x: y.set_(torch.ones(4))),
    "resize_": using(x3, lambda y, x: y.resize_(1)),
    "requires_grad_": using(x3, lambda y, x: y.requires_grad_()),
    "requires_grad set": using(x3, lambda y, x: setattr(y, "requires_grad", True)),
    "detach_": using(lambda: leaf() * 2, lambda y, x: y.detach_()),
    "retain_grad": using(lambda: leaf() * 2, lambda y, x: y.retain_grad()),
    "an attribute of a tensor": using(x3, lambda y, x: setattr(y, "tag", 1)),
    "a hook of a tensor": using(leaf, lambda w, x: w.register_hook(print)),
    "backward": using(leaf, lambda w, x: (w * x).sum().backward()),
    "gradients asked for": using(leaf, lambda w, x: torch.autograd.grad((w * x).sum(), w)[0] + 1),
    "a gradient set to None": using(with_gradient, lambda o, x: o.zero_grad()),
    "an optimiser's step": using(with_gradient, lambda o, x: o.step()),
    "a function of autograd": using(leaf, lambda w, x: Doubled.apply(w)),
    "numpy": using(x3, lambda y, x: y.numpy().fill(9)),
    "a list of a tensor": using(x3, lambda y, x: y.add_(x.tolist()[0])),
    "an item": using(x3, lambda y, x: y.add_(x.sum().item())),
    "a branch on data": using(x3, lambda y, x: y.add_(1) if x.sum() > 0 else y),
    "inference mode": using(x3, lambda y, x: entered(torch.inference_mode(), x)),
    "a device": using(x3, lambda y, x: torch.set_default_device("meta")),
    "a manager of a device": using(x3, lambda y, x: entered(torch.device("meta"), x)),
    "default dtype": using(x3, lambda y, x: torch.set_default_dtype(torch.float64)),
    "anomalies": using(x3, lambda y, x: torch.autograd.set_detect_anomaly(True)),
    "deterministic algorithms": using(x3, lambda y, x: torch.use_deterministic_algorithms(True)),
    "autocast's cache": using(x3, lambda y, x: torch.set_autocast_cache_enabled(False)),
    "autocast's dtype": using(x3, lambda y, x: torch.set_autocast_dtype("cpu", torch.float16)),
    "autocast": using(x3, lambda y, x: entered(torch.autocast("cpu"), x)),
    "threads": using(x3, lambda y, x: torch.set_num_threads(3)),
    "a parameter of a module": using(Net, lambda net, x: setattr(net, "w", nn.Parameter(x))),
    "a hook of a module": using(Net, lambda net, x: net.register_forward_hook(print)),
    "a state of a module": using(Net, lambda net, x: net.load_state_dict(net.state_dict())),
    "another dtype of a module": using(Net, lambda net, x: net.double()),
    "gradients of a module": using(Net, lambda net, x: net.requires_grad_(False)),
    "a module's initialisation": using(Net, lambda net, x: net.linear.reset_parameters()),
}
PROGRAMS |= USES


# ---- the checks

KNOWN = {
    "a super object": "what a super object is bound to is not opened as an input",
    "a subclass": "a class that a trace makes is among its base's subclasses until it is collected",
}

AT_ANY = [
    pytest.param(name, marks=pytest.mark.xfail(reason=KNOWN[name])) if name in KNOWN else name
    for name in PROGRAMS
]


@pytest.fixture(scope="module", autouse=True)
def settled() -> None:
    """What torch loads when first used is loaded; what there is then is not looked at by the collector."""
    first = ("tensors_changed_in_place", "batch_norm", "a function of autograd", "random numbers of Python")
    for name in first:
        fn, arguments = PROGRAMS[name]()
        traced(fn, arguments, Stop(0))
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What programs that are run for real do to the process is undone."""
    limit, precision, threshold = sys.getrecursionlimit(), decimal.getcontext().prec, gc.get_threshold()
    states, environment, threads = (
        (torch.get_rng_state(), random.getstate()),
        {**os.environ},
        torch.get_num_threads(),
    )
    with TorchState():
        yield
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    torch.autograd.set_detect_anomaly(False)
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(environment)
    sys.setrecursionlimit(limit)
    decimal.getcontext().prec = precision
    gc.set_threshold(*threshold)
    MADE.clear()
    Doubled.log.clear()
    KEPT.__init__()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_changes_something(name: str) -> None:
    assert called(PROGRAMS[name]())


@pytest.mark.parametrize("name", AT_ANY)
def test_given_up_at_any_instruction(name: str) -> None:
    given_up_everywhere(PROGRAMS[name](), "broken", limit=150)


@pytest.mark.parametrize("name", AT_ANY)
def test_an_exception_at_any_instruction(name: str) -> None:
    given_up_everywhere(PROGRAMS[name](), "escaped", limit=40)


@pytest.mark.parametrize("name", AT_ANY)
def test_an_interrupt_at_any_instruction(name: str) -> None:
    given_up_everywhere(PROGRAMS[name](), "interrupted", limit=40)


@pytest.mark.parametrize("name", AT_ANY)
def test_given_up_at_the_end(name: str) -> None:
    made = PROGRAMS[name]()
    unchanged_by(made)
    unchanged_by(made, finish=True)
    try:
        raise LookupError(name)
    except LookupError:
        unchanged_by(made)
