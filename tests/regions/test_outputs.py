"""What a captured function gives back equals what it gives eagerly, down to which objects are the same."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import framelift
from sameness import alike, check_calls


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
    x.add_(1)


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


def views_of_a_dict(x):
    made = {"a": x + 1, "b": 2}
    kept = collections.OrderedDict(c=x)
    return list(made.keys()), made.keys(), made.values(), made.items(), made, kept.keys()


def long_constants(x):
    return 10**6000, "text" * 1000, b"x" * 1000, x + 1


def values_of_the_library(x):
    return (
        datetime.timedelta(1) * 2,
        decimal.Decimal("1.5") + 1,
        bytearray(b"ab"),
        x + 1,
    )


class Celsiusé(float):
    unit = "°"


def odd_names(x):
    made = Celsiusé(3.5)
    made.été = x + 1
    made.__dict__["not a name"] = 1
    made.__dict__["class"] = 2
    return made


CONTAINERS = [
    *(views_of_a_dict, long_constants, values_of_the_library, odd_names),
    *(nested, one_list_twice, one_tensor_twice, argument_in_result, list_holding_itself, dict_holding_itself),
    *(tuple_in_a_cycle, tuple_in_a_cycle_from_inside, instances_in_a_cycle, slotted_in_a_cycle),
    *(set_with_instance_in_a_cycle, deque_in_a_cycle, partial_in_a_cycle, method_in_a_cycle, named_tuple),
    *(return_type, return_type_inside, size, strides_and_numbers, data_class, frozen_data_class, slots),
    *(with_property, ordered, default_dict, default_dict_of_lambda, deques, counter, sets, set_of_instances),
    *(list_subclass, dict_subclass, set_subclass, enum_members, odd_constants, ranges_and_slices, nothing),
    *(
        values_of_constants,
        big_tree,
        outside_object,
        outside_list,
        instance_with_outside,
        copied,
        deep_copied,
    ),
    *(simple_namespace, nested_instances, dict_views),
]


@pytest.mark.parametrize("program", CONTAINERS, ids=lambda fn: fn.__name__)
def test_a_container_is_given_as_eagerly(program):
    check(program, x2())


def test_values_nested_deeper_than_python_recurses():
    def fn(x):
        root = at = Node(x + 1)
        for i in range(2000):
            at.next = Node(i)
            at = at.next
        at.next = root
        nested_list: Any = []
        for i in range(2000):
            nested_list = [nested_list, {"k": i}]
        return root, nested_list

    root, items = framelift.compile(fn, backend="eager", fullgraph=True)(x2())
    at = root
    for i in range(2000):
        at = at.next
        assert at.value == i and items[1] == {"k": 1999 - i}
        items = items[0]
    assert at.next is root and items == []


# ---- functions that are given back and called afterwards


def called(program: Callable[..., Any]) -> Callable[..., Any]:
    """The result's functions, compared as they are and then by what they give."""
    check(program, x2())
    eager, compiled = program(x2()), framelift.compile(program, backend="eager", fullgraph=True)(x2())
    return eager, compiled


def closure(x):
    y = x + 1
    n = 3

    def inner(z, k=2):
        """Adds."""
        return z + y * k + n

    return inner


def shared_cell(x):
    count = 0
    y = x * 2

    def up(z):
        nonlocal count
        count += 1
        return z + y + count

    def read():
        return count

    up(x)
    return up, read


def recursive(x):
    y = x + 1

    def down(n):
        return y if n == 0 else down(n - 1) + 1

    return down


def mutually_recursive(x):
    y = x + 1

    def even(n):
        return y if n == 0 else odd(n - 1)

    def odd(n):
        return -y if n == 0 else even(n - 1)

    return even


def decorated(x):
    y = x + 1

    def wrap(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) + y

        return wrapper

    @wrap
    def plain(z: int, *, w: torch.Tensor = y) -> torch.Tensor:
        """Plain."""
        return z + w

    plain.note = [y]
    return plain


def lambdas(x):
    y = x + 1
    return [lambda z, i=i: z * i + y for i in range(3)]


def method_of_inside(x):
    c = Celsius(x + 1)
    return c.warmer, c


def partials(x):
    y = x + 1
    return functools.partial(torch.add, y, alpha=2), functools.partial(lambda a, b: a - b, b=y)


def builtin_methods(x):
    items = [x + 1]
    return items.append, items, "abc".upper, {"a": x * 2}.get


def cell_filled_later(x):
    def inner():
        return value

    value = x + 1
    return inner


def empty_cell(x):
    def inner():
        return value

    y = x + 1
    if y.shape[0] == 99:
        value = 1
    return inner, y


def closure_over_argument(x):
    y = x.sin()
    return lambda: (x, y)


def function_of_a_class(x):
    c = Celsius(x + 1)
    return Celsius.warmer, Celsius, type(x), torch.Tensor.sum, len, c.warmer.__func__, c


def keyword_defaults(x):
    def inner(a, /, b=[x], *args, c={"y": x + 1}, **kwargs):
        return a, b, args, c, kwargs

    inner.__kwdefaults__["c"]["z"] = inner
    return inner


FUNCTIONS = {
    closure: lambda f: f(torch.ones(3), k=4),
    shared_cell: lambda pair: (pair[0](1), pair[0](2), pair[1]()),
    recursive: lambda f: f(3),
    mutually_recursive: lambda f: (f(3), f(4)),
    decorated: lambda f: (f(2), f(2, w=1), f.__wrapped__(1)),
    lambdas: lambda fs: [f(10) for f in fs],
    method_of_inside: lambda pair: pair[0](1),
    partials: lambda fs: [f(torch.ones(3)) for f in fs],
    builtin_methods: lambda fs: (fs[0](1), fs[1], fs[2](), fs[3]("a")),
    cell_filled_later: lambda f: f(),
    empty_cell: lambda pair: pair[1],
    closure_over_argument: lambda f: f(),
    function_of_a_class: lambda fs: fs[5](Celsius(1), 2),
    keyword_defaults: lambda f: f(1, 2, 3, d=4),
}


@pytest.mark.parametrize("program", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_a_function_is_given_as_eagerly(program):
    eager, compiled = called(program)
    alike(FUNCTIONS[program](eager), FUNCTIONS[program](compiled))


def test_method_of_an_outside_object_is_bound_to_that_object():
    c = Celsius(torch.ones(2))
    f = framelift.compile(lambda c: (c.warmer, c.degrees + 1), backend="eager", fullgraph=True)
    for _ in range(2):
        assert f(c)[0].__self__ is c


def test_a_function_given_back_uses_the_globals_of_its_own_frame():
    source = "def f(x):\n    y = x + 1\n    return lambda: (y, name)\n"
    code = compile(source, "<test>", "exec")
    found = []
    for name in ("first", "second"):
        scope = {"name": name, "__name__": "scope"}
        exec(code, scope)
        fn = types.FunctionType(found[0].__code__ if found else scope["f"].__code__, scope)
        found.append(fn)
    for fn, name in zip(found, ("first", "second"), strict=True):
        assert framelift.compile(fn, backend="eager", fullgraph=True)(x2())()[1] == name


# ---- iterators in the middle


def list_iterator(x):
    it = iter([x, x + 1, x + 2])
    next(it)
    return it


def tuple_and_reversed(x):
    first, second = iter((x + 1, 2, 3)), reversed([x, x * 2, 3])
    next(first), next(second)
    return first, second


def dict_iterators(x):
    made = {"a": 1, "b": x + 1, "c": 3}
    iterators = iter(made), iter(made.values()), iter(made.items())
    for it in iterators:
        next(it)
    return iterators


def ordered_iterators(x):
    made, one = collections.OrderedDict(a=1, b=x + 1, c=3), collections.OrderedDict(a=x)
    iterators = iter(made), iter(made.values()), iter(made.items()), reversed(made), reversed(made.items())
    for it in iterators:
        next(it)
    ending = iter(made)
    for _ in made:
        next(ending)
    return *iterators, ending, iter(made.items()), reversed(one)


def zipped(x):
    it = zip([1, 2, 3], (x, x + 1, x + 2))
    next(it)
    return it


def enumerated(x):
    it = enumerate([x, x + 1, x + 2], start=5)
    next(it)
    return it


def mapped(x):
    it = map(lambda v: v * 2, [x, x + 1, x + 2])
    next(it)
    return it


def sliced(x):
    it = itertools.islice([x + i for i in range(6)], 1, 6, 2)
    next(it)
    return it


def chained(x):
    it = itertools.chain([x], [x + 1, 3], (4,))
    next(it), next(it)
    return it


def counted_and_repeated(x):
    numbers, same = itertools.count(3, 2), itertools.repeat(x + 1, 3)
    next(numbers), next(same)
    return numbers, same


def one_iterator_twice(x):
    it = iter([x, x + 1, x + 2, x + 3])
    next(it)
    return zip(it, it), it


def range_iterator(x):
    it = iter(range(5))
    next(it)
    return it, x + 1


def set_iterator(x):
    return iter({1, 2, 3}), x + 1


def iterator_over_its_own_list(x):
    items = [x + 1, 2, 3]
    it = iter(items)
    next(it)
    return it, items


def used_up(x):
    it = iter([x + 1])
    items = list(it)
    return it, items


ITERATORS = [
    *(
        list_iterator,
        tuple_and_reversed,
        dict_iterators,
        ordered_iterators,
        zipped,
        enumerated,
        mapped,
        sliced,
        chained,
    ),
    *(
        counted_and_repeated,
        one_iterator_twice,
        range_iterator,
        set_iterator,
        iterator_over_its_own_list,
        used_up,
    ),
]


@pytest.mark.parametrize("program", ITERATORS, ids=lambda fn: fn.__name__)
def test_an_iterator_is_given_as_eagerly(program):
    # each result is drained by the comparison, so results of earlier calls are not kept
    check(program, x2(), calls=1)
    check(program, x2(), calls=1)


# ---- exceptions


class Failure(ValueError):
    def __init__(self, code, tensor):
        super().__init__(code)
        self.tensor = tensor


def caught(x):
    try:
        raise ValueError("bad", x + 1)
    except ValueError as error:
        return error


def caught_with_cause(x):
    try:
        try:
            {}["k"]
        except KeyError as error:
            raise Failure(3, x + 1) from error
    except Failure as error:
        error.add_note("note")
        return error


def caught_in_context(x):
    try:
        try:
            [][1]
        except IndexError:
            raise RuntimeError("second")
    except RuntimeError as error:
        return error, x + 1


def made_only(x):
    return StopIteration(x + 1), OSError(2, "no"), KeyError("k"), ExceptionGroup("g", [ValueError(1)])


@pytest.mark.parametrize(
    "program", [caught, caught_with_cause, caught_in_context, made_only], ids=lambda f: f.__name__
)
def test_exception_as_a_value(program):
    check(program, x2())


# ---- tensors


def test_an_input_given_back_is_that_input():
    x = x2()
    out = framelift.compile(lambda x: (x, x + 1, [x], x.add_(1)), backend="eager", fullgraph=True)(x)
    assert out[0] is x and out[2][0] is x and out[3] is x


def view_of_input(x):
    return x.view(-1), x[0], x.t(), x + 1


def mutated_view(x):
    x[0] = 7
    x[:, 1].mul_(3)
    return x[1]


def outputs_share_memory(x):
    y = x + 1
    return y, y.view(-1), y[0], y.t()


def mutated_output(x):
    y = x + 1
    z = y[0]
    z.add_(1)
    return y, z


def expanded(x):
    return x[0].expand(4, 3), x.unsqueeze(0), x.permute(1, 0), x.detach()


def input_mutated_then_used(x):
    y = x * 2
    x.add_(1)
    z = x * 2
    return y, z


def identity_ops(x):
    return x.contiguous(), x.to(torch.float32), x.view_as(x), x.clone()


def split_parts(x):
    return x.split(1), (x + 1).chunk(3, dim=1), torch.unbind(x)


def no_grad_outputs(w, x):
    with torch.no_grad():
        y = w * x
    z = w * x
    return y, z, z.detach()


def constants_made_inside(x):
    return (
        torch.zeros(2),
        torch.ones_like(x),
        torch.arange(3),
        torch.tensor([1.0, 2.0]),
        torch.full((2,), 3.0),
    )


TENSORS = [
    *(view_of_input, mutated_view, outputs_share_memory, mutated_output, expanded, input_mutated_then_used),
    *(identity_ops, split_parts, constants_made_inside),
]


@pytest.mark.parametrize("program", TENSORS, ids=lambda fn: fn.__name__)
def test_a_tensor_is_given_as_eagerly(program):
    check(program, x2())


def test_outputs_with_and_without_gradient():
    check_calls(lambda: (no_grad_outputs, torch.ones(2, 3, requires_grad=True), x2()))


def test_the_same_tensor_given_twice():
    x = x2()
    check_calls(lambda: (lambda a, b: (a.add_(1), b * 2, a is b), *(lambda t: (t, t))(x2())))


def test_overlapping_inputs():
    def make():
        base = torch.arange(8.0)
        return lambda a, b: (a.add_(1), b * 2), base[:6], base[2:]

    check_calls(make)


def enumerated(kind, value):
    def program(x, n):
        class Made(kind):
            A = 1
            B = 2

        return x + 1, value(Made, n)

    return program


ENUMERATED = {
    "a member": enumerated(enum.Enum, lambda made, n: made.A),
    "of a value": enumerated(enum.IntEnum, lambda made, n: made(n % 2 + 1)),
    "flags": enumerated(enum.IntFlag, lambda made, n: made(n & 3)),
    "flags together": enumerated(enum.Flag, lambda made, n: [made.A | made.B, made(n & 3)]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", ENUMERATED.values(), ids=ENUMERATED)
def test_a_member_of_a_class_that_each_call_makes(program, dynamic):
    compiled, seen = framelift.compile(program, backend="eager", dynamic=dynamic), []
    for n in (2, 3, 0, 7, 2):
        expected, found = (one(x2(), n)[1] for one in (program, compiled))
        expected, found = (one[-1] if isinstance(one, list) else one for one in (expected, found))
        assert repr(found) == repr(expected)
        assert type(found.value) is int
        assert all(type(found) is not other for other in seen)
        seen.append(type(found))


# ---- outside objects


def test_outside_objects_keep_their_identity():
    node, items, table = Node(1), [1], {"a": 2}
    fn = lambda x, *rest: (rest, x + 1, [*rest], len(rest[1]), rest[2]["a"], rest[0].value)
    out = framelift.compile(fn, backend="eager", fullgraph=True)(x2(), node, items, table)
    for mine, theirs in zip(out[0], (node, items, table), strict=True):
        assert mine is theirs
    assert out[2][1] is items


@pytest.mark.parametrize(
    "value",
    [
        functools.partial(max, 1),
        Celsius(1).warmer,
        (1, [2]),
        range(3),
        10**30,
        "text" * 50,
        Color.RED,
        frozenset({1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_outside_value_that_was_looked_at_is_given_back_itself(value):
    def fn(x, v):
        looked = isinstance(v, int), callable(v), type(v), v == 3
        return v, x + 1

    assert framelift.compile(fn, backend="eager", fullgraph=True)(x2(), value)[0] is value


def test_an_outside_function_that_was_called_is_given_back_itself():
    def helper(v):
        return v + 1

    fn = lambda x, f, g: (f(x), f, g(x), g)
    partial = functools.partial(torch.add, other=2)
    out = framelift.compile(fn, backend="eager", fullgraph=True)(x2(), helper, partial)
    assert out[1] is helper and out[3] is partial


def test_hugging_face_output():
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def fn(x):
        made = outputs.BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2))
        return made, made[0], made.to_tuple(), outputs.CausalLMOutputWithPast(logits=x - 1)

    check(fn, x2())


def test_hugging_face_output_given():
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def fn(given):
        given.hidden_states = (given.last_hidden_state * 2,)
        given["attentions"] = None
        return given, given[0] + 1, given.keys()

    check(lambda g: fn(g)[:2], outputs.BaseModelOutput(last_hidden_state=x2(), hidden_states=(x2(),)))


# ---- what can't be made again is left to Python


def generator(x):
    y = x + 1
    return (y * i for i in range(3))


def class_made_inside(x):
    class Local:
        tensor = x + 1

        def get(self):
            return self.tensor

    return Local()


def opened_file(x):
    y = x + 1
    with open("/dev/null") as file:
        return file.name, y


def method_of_a_number(x):
    y = x + 1
    return classmethod(1).__get__(None, int), y


UNREBUILDABLE = {
    method_of_a_number: lambda made: (made[0].__func__, made[0].__self__, made[1]),
    class_made_inside: lambda made: made.get(),
    opened_file: lambda made: made,
}


@pytest.mark.parametrize("advanced", [0, 1, 2])
def test_a_generator_stands_where_it_stood(advanced):
    def program(x):
        made = generator(x)
        first = [next(made) for _ in range(advanced)]
        return made, first

    expected, found = program(x2()), framelift.compile(program, backend="eager", fullgraph=True)(x2())
    assert type(found[0]) is types.GeneratorType
    alike((list(expected[0]), expected[1]), (list(found[0]), found[1]))


@pytest.mark.parametrize("program", UNREBUILDABLE, ids=lambda fn: fn.__name__)
def test_what_cannot_be_rebuilt_runs_as_python(program):
    compiled = framelift.compile(program, backend="eager")
    for _ in range(2):
        alike(UNREBUILDABLE[program](program(x2())), UNREBUILDABLE[program](compiled(x2())))
    with pytest.raises(framelift.exc.Unsupported):
        framelift.compile(program, backend="eager", fullgraph=True)(x2())
