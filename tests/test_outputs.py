"""What a captured function gives back equals what it gives eagerly, down to which objects are the same."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import framelift

# ---- comparing two runs


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
        keys = list(dict.keys(a)), list(dict.keys(b))
        assert len(keys[0]) == len(keys[1]), f"{at}: keys {keys[0]} and {keys[1]}"
        for mine, other in zip(*keys, strict=True):
            self.compare(mine, other, f"{at}: key")
            self.compare(dict.__getitem__(a, mine), dict.__getitem__(b, other), f"{at}[{mine!r:.40}]")
        assert len(list(a)) == len(list(b))
        if isinstance(a, collections.defaultdict):
            self.compare(a.default_factory, b.default_factory, f"{at}.default_factory")

    def set(self, a: Any, b: Any, at: str) -> None:
        if all(isinstance(item, ATOMS) for item in a):
            assert a == b, f"{at}: {a} and {b}"
        else:
            assert len(a) == len(b)

    def tensor(self, a: torch.Tensor, b: torch.Tensor, at: str) -> None:
        for fact in ("shape", "dtype", "requires_grad", "is_leaf"):
            assert getattr(a, fact) == getattr(b, fact), f"{at}.{fact}: {getattr(a, fact)} and {getattr(b, fact)}"
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
ATOMS = (int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, torch.dtype, torch.device, enum.Enum)
SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, Absent, types.CellType)
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
]


def has_no_identity(value: Any) -> bool:
    """An immutable container of constants: the compiler may make one of two, or two of one."""
    return isinstance(value, (tuple, frozenset)) and all(isinstance(x, ATOMS) or has_no_identity(x) for x in value)


def has_contents(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def slots_of(cls: type) -> list[str]:
    return [n for base in cls.__mro__ for n, v in vars(base).items() if type(v) is types.MemberDescriptorType]


def alike(a: Any, b: Any) -> None:
    Alike().compare(a, b)


def check_calls(
    make: Callable[[], tuple[Any, ...]], calls: int = 3, fullgraph: bool = True, backend: str = "eager", graphs: int = 1
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


def check(fn: Callable[..., Any], *args: Any, fullgraph: bool = True, calls: int = 2) -> None:
    """The same for a function without state of its own; each side gets its own copy of the arguments."""
    check_calls(lambda: (fn, *copy.deepcopy(args)), calls, fullgraph)


def x2() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


# ---- containers


class Point(NamedTuple):
    x: Any
    y: Any = 0


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any = None
    extra: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    left: Any
    right: Any = 3


class Slotted:
    __slots__ = ("__dict__", "a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a
        self.more = [a]


class Celsius:
    def __init__(self, degrees: Any) -> None:
        self._degrees = degrees

    @property
    def degrees(self) -> Any:
        return self._degrees

    @degrees.setter
    def degrees(self, value: Any) -> None:
        self._degrees = value

    def warmer(self, by: Any) -> Any:
        return self._degrees + by


class Stack(list):
    def __init__(self, items: Any, name: str) -> None:
        super().__init__(items)
        self.name = name


class Attributes(dict):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Tags(set):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Node:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.next: Any = None


OUTSIDE = Node("outside")
OUTSIDE_LIST = [1, 2]


def nested(x):
    return {"a": [x + 1, (x * 2, [x - 1])], "b": ({"c": x.sum()},), 3: None}


def one_list_twice(x):
    inner = [x + 1]
    return [inner, inner, {"again": inner}]


def one_tensor_twice(x):
    y = x + 1
    return y, y, [y]


def argument_in_result(x):
    y = x * 2
    return x, y, [x]


def list_holding_itself(x):
    items = [x + 1]
    items.append(items)
    return items


def dict_holding_itself(x):
    made = {"t": x + 1}
    made["self"] = made
    made["list"] = [made]
    return made


def tuple_in_a_cycle(x):
    items = [x + 1]
    pair = (items, 1)
    items.append(pair)
    return pair


def tuple_in_a_cycle_from_inside(x):
    items = [x + 1]
    pair = (items, 1)
    items.append(pair)
    return items


def instances_in_a_cycle(x):
    a, b = Node(x + 1), Node(x + 2)
    a.next, b.next = b, a
    return a


def slotted_in_a_cycle(x):
    s = Slotted(x + 1)
    s.b = s
    s.more.append(s)
    return s


def set_with_instance_in_a_cycle(x):
    node = Node(x + 1)
    node.next = {node}
    return node


def deque_in_a_cycle(x):
    queue = collections.deque([x + 1], maxlen=5)
    queue.append(queue)
    return queue


def partial_in_a_cycle(x):
    items = [x + 1]
    items.append(functools.partial(max, items))
    return items


def method_in_a_cycle(x):
    node = Celsius(x + 1)
    node.bound = node.warmer
    return node


def named_tuple(x):
    return Point(x + 1), Point(y=[x], x=2)


def return_type(x):
    return x.max(dim=0), torch.sort(x), x.max(dim=1)[0]


def return_type_inside(x):
    found = (x + 1).min(dim=0)
    return [found, found.values, found.indices]


def size(x):
    y = x + 1
    return y.shape, y.size(), y.shape[1:], y


def strides_and_numbers(x):
    y = x.t() + 1
    return y.stride(), y.ndim, y.numel(), y.dtype, y.device, y.is_contiguous(), y


def data_class(x):
    pair = Pair(x + 1)
    return pair, Pair(pair, x, [pair])


def frozen_data_class(x):
    return Frozen(x + 1), dataclasses.replace(Frozen(x), right=x * 2)


def slots(x):
    s = Slotted(x + 1)
    t = Slotted(None)
    t.b = s
    return s, t


def with_property(x):
    c = Celsius(x + 1)
    c.degrees = c.degrees * 2
    return c


def ordered(x):
    made = collections.OrderedDict(b=x + 1, a=2)
    made.move_to_end("b")
    return made


def default_dict(x):
    made = collections.defaultdict(list)
    made["a"].append(x + 1)
    made["b"]
    return made


def default_dict_of_lambda(x):
    y = x + 1
    made = collections.defaultdict(lambda: y)
    made["a"]
    return made


def deques(x):
    queue = collections.deque([1, x + 1, 3], maxlen=3)
    queue.append(x)
    queue.rotate(1)
    return queue, collections.deque([x * 2])


def counter(x):
    found = collections.Counter("abca")
    found["z"] += 2
    return found, x + 1


def sets(x):
    return {1, 2, "a"}, frozenset({(1, 2), 3}), set(), frozenset(), x + 1


def set_of_instances(x):
    node = Node(x + 1)
    return {node, 3}, node


def list_subclass(x):
    stack = Stack([x + 1, 2], "s")
    stack.append(stack.name)
    return stack


def dict_subclass(x):
    made = Attributes(a=1)
    made.tensor = x + made.a
    return made


def set_subclass(x):
    tags = Tags("abc")
    tags.note = x + 1
    return tags


def enum_members(x):
    return Color.RED, {Color.BLUE: x + 1}, Color(1)


def odd_constants(x):
    return (x + 1, float("nan"), float("inf"), -0.0, 1j, b"x", "\n'\"", ..., NotImplemented, 10**40, True)


def ranges_and_slices(x):
    return range(1, 9, 2), slice(1, None), slice(x.shape[0]), [range(3)], x[slice(0, 1)]


def nothing(x):
    x + 1


def values_of_constants(x):
    return None, (), [], {}, "", 0, x + 1


def big_tree(x):
    return [{"k": [i, (i + 1, [x + i])]} for i in range(4)]


def outside_object(x):
    return OUTSIDE, x + 1, [OUTSIDE], OUTSIDE.value


def outside_list(x):
    return OUTSIDE_LIST, len(OUTSIDE_LIST), x + 1


def instance_with_outside(x):
    node = Node(x + 1)
    node.next = OUTSIDE
    return node


def copied(x):
    made = [x + 1, [1, 2]]
    return made, copy.copy(made), made[:], list(made), dict(a=made).copy()


def deep_copied(x):
    node = Node([1, {"a": 2}])
    return copy.deepcopy(node), x + 1


def simple_namespace(x):
    return types.SimpleNamespace(a=x + 1, b=[1])


def nested_instances(x):
    root = Node(x)
    at = root
    for i in range(5):
        at.next = Node(x + i)
        at = at.next
    return root


def dict_views(x):
    made = {"a": x + 1, "b": 2}
    return list(made.items()), list(made), made


CONTAINERS = [
    *(nested, one_list_twice, one_tensor_twice, argument_in_result, list_holding_itself, dict_holding_itself),
    *(tuple_in_a_cycle, tuple_in_a_cycle_from_inside, instances_in_a_cycle, slotted_in_a_cycle),
    *(set_with_instance_in_a_cycle, deque_in_a_cycle, partial_in_a_cycle, method_in_a_cycle, named_tuple),
    *(return_type, return_type_inside, size, strides_and_numbers, data_class, frozen_data_class, slots),
    *(with_property, ordered, default_dict, default_dict_of_lambda, deques, counter, sets, set_of_instances),
    *(list_subclass, dict_subclass, set_subclass, enum_members, odd_constants, ranges_and_slices, nothing),
    *(values_of_constants, big_tree, outside_object, outside_list, instance_with_outside, copied, deep_copied),
    *(simple_namespace, nested_instances, dict_views),
]


@pytest.mark.parametrize("program", CONTAINERS, ids=lambda fn: fn.__name__)
def test_container(program):
    check(program, x2())
