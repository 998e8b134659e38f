"""Which object something is: `id`, `is`, membership and tables, on every call as eagerly.

Every kind of object is asked every question, by calls with objects that are one or not, in every order.
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import math
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.testing._internal.two_tensor import TwoTensor

import framelift
from check import capture, check, recompiles
from sameness import alike


class Plain:
    pass


class Named(str):
    pass


class HashedById:
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def made_function() -> Callable[[], int]:
    n = [0]
    return lambda: len(n)


KINDS: dict[str, Callable[[], Any]] = {
    "instance": Plain,
    "tensor": lambda: torch.ones(2),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "module": lambda: torch.nn.Linear(2, 2),
    "closure": made_function,
    "list": lambda: [1],
    "dict": lambda: {"a": 1},
    "set": lambda: {1},
    "tuple": lambda: (1, [2]),
    "deque": lambda: collections.deque([1]),
    "partial": lambda: functools.partial(max, 1),
    "bound method": lambda: Plain().__init__,
    "namespace": lambda: types.SimpleNamespace(a=1),
    "text": lambda: "".join(["some ", "text"]),
    "float": lambda: float("1.5"),
    "big integer": lambda: int("123456789012345"),
    "NaN": lambda: float("nan"),
    "complex": lambda: complex("1+2j"),
    "subclass of text": lambda: Named("a"),
    "hashed by address": HashedById,
}

ADDRESSES: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
    "are one": lambda a, b, known: a is b,
    "have one address": lambda a, b, known: id(a) == id(b),
    "differ in address": lambda a, b, known: id(a) != id(b),
    "address is a number from outside": lambda a, b, known: id(a) == known["number"],
    "address in outside set": lambda a, b, known: (id(a) in known["ids"], id(b) in known["ids"]),
    "address in outside dict": lambda a, b, known: (known["by_id"].get(id(a)), known["by_id"].get(id(b))),
    "address in outside list": lambda a, b, known: id(a) in known["listed"],
    "table made inside": lambda a, b, known: len({id(a): 1, id(b): 2}),
    "set made inside": lambda a, b, known: len({id(a), id(b)}),
    "table filled with outside ids": lambda a, b, known: id(a) in {**known["by_id"]},
    "type of an address": lambda a, b, known: type(id(a)),
    "order of addresses": lambda a, b, known: (id(a) < id(b)) == known["rising"](a, b),
}


def unlike_first(make: Callable[[], Any]) -> list[tuple[Any, Any]]:
    one, other = make(), make()
    return [(one, other), (one, one), (other, one), (other, other)]


@pytest.mark.parametrize("question", ADDRESSES)
@pytest.mark.parametrize("kind", KINDS)
def test_addresses_answer_as_eagerly_on_every_call(kind: str, question: str) -> None:
    pairs = unlike_first(KINDS[kind])
    ask, first = ADDRESSES[question], pairs[0][0]
    known = {
        "number": id(first),
        "ids": {id(first), 7},
        "by_id": {id(first): "known"},
        "listed": [3, id(first)],
        "rising": lambda a, b: id(a) < id(b),
    }

    def program(x: torch.Tensor, a: Any, b: Any) -> Any:
        return x + 1, ask(a, b, known)

    for order in (pairs, pairs[::-1]):
        compiled = framelift.compile(program, backend="eager")
        for a, b in order:
            x = torch.ones(3)
            expected, found = program(x, a, b), compiled(x, a, b)
            assert expected[1] == found[1], (kind, question, a is b)


MEMBERSHIP: dict[str, Callable[[Any, Any, Any], Any]] = {
    "outside set": lambda a, b, held: (a in held["set"], b in held["set"]),
    "outside frozenset": lambda a, b, held: (a in held["frozenset"], b in held["frozenset"]),
    "outside dict": lambda a, b, held: (held["dict"].get(a), held["dict"].get(b)),
    "outside list of one": lambda a, b, held: a in [a],
    "weak set": lambda a, b, held: None if held["weak"] is None else a in held["weak"],
    "inside set": lambda a, b, held: (len({a, b}), a in {b}, a in {a}),
    "inside and outside": lambda a, b, held: (len({a, b}), a in held["set"], len({a} | held["frozenset"])),
    "outside after inside": lambda a, b, held: ({a: 1}.get(b), held["dict"].get(b), len({a, *held["dict"]})),
    "inside dict": lambda a, b, held: (len({a: 1, b: 2}), a in {a: 1}, {a: 5}[a]),
    "algebra": lambda a, b, held: (len({a} & {b}), len({a} | {b}), {a} <= {a, b}, {a}.isdisjoint({b})),
    "discarded": lambda a, b, held: len({a, b} - {a}),
    "key of a pair": lambda a, b, held: (a, 1) in {(a, 1): 2},
    "index": lambda a, b, held: ([a].index(a), [a].count(a), (a,).index(a)),
    "equal lists": lambda a, b, held: ([a] == [a], (a, 1) == (a, 1)),
}
HASHED = [kind for kind in KINDS if kind not in ("list", "dict", "set", "tuple", "deque", "namespace")]


@pytest.mark.parametrize("question", MEMBERSHIP)
@pytest.mark.parametrize("kind", HASHED)
def test_tables_and_lists_find_what_they_find_eagerly(kind: str, question: str) -> None:
    pairs = unlike_first(KINDS[kind])
    ask, first = MEMBERSHIP[question], pairs[0][0]
    weak: Any = None
    if type(first).__weakrefoffset__ and question == "weak set" and not isinstance(first, torch.Tensor):
        weak = weakref.WeakSet([first])
    held = {"set": {first}, "frozenset": frozenset([first]), "dict": {first: "known"}, "weak": weak}

    def program(x: torch.Tensor, a: Any, b: Any) -> Any:
        return x + 1, ask(a, b, held)

    for order in (pairs, pairs[::-1]):
        compiled = framelift.compile(program, backend="eager")
        for a, b in order:
            x = torch.ones(3)
            assert program(x, a, b)[1] == compiled(x, a, b)[1], (kind, question, a is b)


def test_other_tensors_in_tables_are_captured_once() -> None:
    known = torch.ones(3)

    def program(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        found = {a: 1, b: 2}
        return a + len({known, a, b, c}), len(found), found.get(c), (a, 1) in {(b, 1)}

    compiled = framelift.compile(program, backend="eager", fullgraph=True)
    x, y, z = (torch.ones(3) * n for n in range(3))
    for given, count in [
        *[((x, y, z), 0), ((z, x, y), 0), ((x, x, y), 1), ((z, z, x), 1), ((known, x, y), 2)],
        *[((known, z, x), 2), ((x, y, x), 3), ((known, known, known), 4), ((y, z, x), 4)],
    ]:
        alike(program(*given), compiled(*given))
        assert recompiles(compiled) == count, given


def test_a_copy_of_a_nested_argument_is_captured_once() -> None:
    def program(x: torch.Tensor, config: dict[str, Any]) -> Any:
        copied = copy.deepcopy(config)
        return x * copied["scale"], copied

    compiled = capture(program)
    for _ in range(3):
        inner = [1, 2]
        config = {"scale": 2, "sizes": [inner, [3], [4, 5]], "again": inner}
        alike(program(torch.ones(2), config), compiled(torch.ones(2), config))
    assert recompiles(compiled) == 0
    inner = [1, 2]
    config = {"scale": 2, "sizes": [inner, [3], [4, 5]], "again": [1, 2]}
    alike(program(torch.ones(2), config), compiled(torch.ones(2), config))


def test_a_number_that_is_no_address_costs_no_guard() -> None:
    def program(x: torch.Tensor, parts: list[Any]) -> Any:
        return x * len({id(part) for part in parts})

    compiled = capture(program)
    for _ in range(3):
        compiled(torch.ones(2), [Plain(), Plain()])
    assert recompiles(compiled) == 0


def test_nan_is_a_key_by_its_object() -> None:
    table = {math.nan: 3.0}

    def program(x: torch.Tensor, key: float) -> Any:
        return x * table.get(key, 7.0), key in [math.nan], [key] == [math.nan], key is math.nan

    compiled = capture(program)
    for key in (math.nan, float("nan"), math.nan, float("nan")):
        alike(program(torch.ones(2), key), compiled(torch.ones(2), key))


@pytest.mark.parametrize("make", [lambda nan: {nan}, lambda nan: {nan: 1}, lambda nan: {(nan, 1): 1}])
def test_tables_with_another_nan_are_other_tables(make: Callable[[float], Any]) -> None:
    def program(x: torch.Tensor, table: Any) -> Any:
        return x + (math.nan in table) + 2 * ((math.nan, 1) in table)

    compiled = capture(program)
    for table in (make(math.nan), make(float("nan")), make(math.nan)):
        assert compiled(torch.ones(2), table).tolist() == program(torch.ones(2), table).tolist()


def test_nan_that_nobody_compares_is_a_constant() -> None:
    compiled = capture(lambda x, fill: torch.full_like(x, fill))
    for _ in range(3):
        compiled(torch.ones(2), float("nan"))
    assert recompiles(compiled) == 0


# ---- isinstance of tensors


class Marked(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return getattr(value, "_mark", False) or super().__instancecheck__(value)


class WithMark(metaclass=Marked):
    pass


class EveryClass(type):
    def __subclasscheck__(cls, other: type) -> bool:
        return True


class AnyClass(metaclass=EveryClass):
    pass


class Subclass(torch.Tensor):
    pass


@typing.runtime_checkable
class Sized(typing.Protocol):
    def numel(self) -> int: ...


@typing.runtime_checkable
class Faked(typing.Protocol):
    def fake_mode(self) -> Any: ...


@typing.runtime_checkable
class Tagged(typing.Protocol):
    tag: int


def with_attribute(tensor: torch.Tensor, name: str) -> torch.Tensor:
    setattr(tensor, name, True)
    return tensor


TENSORS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.ones(2),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "buffer": lambda: torch.nn.Buffer(torch.ones(2)),
    "parameter that wraps": lambda: torch.nn.Parameter(TwoTensor(torch.ones(2), torch.ones(2))),
    "wrapper": lambda: TwoTensor(torch.ones(2), torch.ones(2)),
    "parameter of a subclass": lambda: torch.nn.Parameter(torch.ones(2).as_subclass(Subclass)),
    "subclass": lambda: torch.ones(2).as_subclass(Subclass),
    "marked": lambda: with_attribute(torch.ones(2), "_mark"),
    "tagged": lambda: with_attribute(torch.ones(2), "tag"),
}
CLASSES: tuple[Any, ...] = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, WithMark, AnyClass, Subclass)
CLASSES += (
    TwoTensor,
    Sized,
    Faked,
    Tagged,
    int | torch.nn.Parameter,
    (str, torch.nn.Buffer),
    typing.Hashable,
)


@pytest.mark.parametrize("kind", TENSORS)
def test_isinstance_asks_the_metaclass_about_the_tensor(kind: str) -> None:
    def program(x: torch.Tensor, value: Any) -> Any:
        return x + 1, [isinstance(value, cls) for cls in CLASSES]

    value = TENSORS[kind]()
    assert capture(program)(torch.ones(2), value)[1] == program(torch.ones(2), value)[1]


def test_isinstance_goes_by_attributes_that_change() -> None:
    compiled = capture(lambda x: x + isinstance(x, torch.nn.Buffer) + 2 * isinstance(x, WithMark))
    for marks in itertools.product((False, True), repeat=2):
        x = torch.ones(2)
        x._is_buffer, x._mark = marks  # type: ignore[attr-defined]
        assert compiled(x).tolist() == [1.0 + marks[0] + 2 * marks[1]] * 2


def test_buffers_made_inside_are_buffers() -> None:
    def program(x: torch.Tensor) -> Any:
        made = torch.nn.Buffer(x + 1, persistent=False)
        return isinstance(made, torch.nn.Buffer), made.persistent, made

    found = check(program, torch.ones(2))(torch.ones(2))[2]
    assert found._is_buffer and not found.persistent


# ---- attributes of partials


def scaled(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    return x * by


def partial_with(**attributes: Any) -> Any:
    made = functools.partial(scaled, by=2.0)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def delete_tag(p: Any) -> Any:
    del p.tag
    return hasattr(p, "tag")


PARTIALS: dict[str, Callable[[Any], Any]] = {
    "read": lambda p: getattr(p, "tag", None),
    "asked for": lambda p: hasattr(p, "tag"),
    "all": lambda p: dict(vars(p)),
    "set": lambda p: setattr(p, "tag", 5) or p.tag,
    "set past the class": lambda p: object.__setattr__(p, "other", 5),
    "set in the dictionary": lambda p: vars(p).__setitem__("other", [1]),
    "deleted": lambda p: delete_tag(p) if hasattr(p, "tag") else None,
    "copied": lambda p: dict(vars(copy.copy(p))),
}


@pytest.mark.parametrize("question", PARTIALS)
def test_attributes_of_partials(question: str) -> None:
    def program(x: torch.Tensor, p: Any) -> Any:
        return p(x), PARTIALS[question](p)

    plain, copies = ([partial_with(), partial_with(tag=1), partial_with(tag=2)] for _ in range(2))
    compiled = capture(program)
    for p, q in zip(plain, copies, strict=True):
        alike((program(torch.ones(2), p), vars(p)), (compiled(torch.ones(2), q), vars(q)))


# ---- indices


def index_class(base: type, **methods: Any) -> Any:
    return type("Index", (base,), {"__index__": lambda self: 1, **methods})


def fails(self: Any) -> int:
    raise ValueError("no")


INDICES: dict[str, Callable[[], Any]] = {
    "list": lambda: index_class(list)([0, 1]),
    "tuple": lambda: index_class(tuple)([0, 1]),
    "integer": lambda: index_class(int)(0),
    "object": lambda: index_class(object)(),
    "sequence": lambda: index_class(object, __len__=lambda self: 2, __getitem__=lambda self, n: [0, 1][n])(),
    "mapping": lambda: index_class(dict)(),
    "failing": lambda: index_class(object, __index__=fails)(),
    "no number": lambda: index_class(object, __index__=lambda self: "a")(),
}


@pytest.mark.parametrize("kind", INDICES)
def test_what_torch_takes_an_index_for(kind: str) -> None:
    key = INDICES[kind]()

    def program(x: torch.Tensor) -> Any:
        try:
            return x[key], x[key, 0] if kind not in ("mapping",) else None
        except IndexError:
            return x + 1

    check(program, torch.arange(24.0).reshape(2, 3, 4), fullgraph=False)


# ---- constants


ZEROS = (0.0, -0.0)
COMPLEX = [complex(a, b) for a, b in itertools.product((*ZEROS, 1.0, -2.0, math.inf), repeat=2)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_complex_constants_keep_the_signs_of_zeros(backend: str) -> None:
    def program(x: torch.Tensor, number: complex) -> Any:
        return torch.full((2,), number), torch.tensor([number]), str(number)

    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    with framelift.config.patch(recompile_limit=len(COMPLEX) + 1):
        for number in COMPLEX:
            expected, found = program(torch.ones(2), number), compiled(torch.ones(2), number)
            for left, right in zip(expected[:2], found[:2], strict=True):
                assert str(torch.view_as_real(left)) == str(torch.view_as_real(right))
                signs = [torch.signbit(torch.view_as_real(each)).tolist() for each in (left, right)]
                assert signs[0] == signs[1], number
            assert expected[2] == found[2]


def test_a_tensor_is_none_of_what_stands_for_it_in_a_trace() -> None:
    module = torch.nn.Linear(2, 2)

    def asked(x: torch.Tensor, n: int) -> tuple[Any, ...]:
        values = (x, x * 2, module.weight, x.shape[0], n, n > 2)
        classes = (FakeTensor, torch.SymInt, torch.SymBool, torch.SymFloat)
        answers = [isinstance(value, cls) for value in values for cls in classes]
        either = [isinstance(value, classes) for value in values]
        return x * 2, answers, either, [issubclass(type(value), classes) for value in values]

    for dynamic in (None, True):
        compiled = framelift.compile(asked, backend="eager", dynamic=dynamic, isolate_recompiles=True)
        x = torch.randn(3, 2)
        alike(compiled(x, 3), asked(x, 3))


OUTSIDE, LISTED = Plain(), [1]


def test_addresses_of_what_was_there_are_numbers() -> None:
    x, table = torch.ones(2), {}

    def seen(x: torch.Tensor) -> Any:
        numbers = id(OUTSIDE) % 7, f"{id(LISTED):x}", id(x), id(x) + 1, hash(x), hash(x) == id(x)
        return x + 1, numbers, {hash(x): 1}[hash(x)], hash(x) == hash(x * 1)

    def noted(x: torch.Tensor, table: dict[int, int]) -> Any:
        table[id(OUTSIDE)] = table.get(id(OUTSIDE), 0) + 1
        return x * table[id(OUTSIDE)]

    for other in (x, x, torch.ones(2), x):
        compiled = framelift.compile(seen, backend="eager", fullgraph=True)
        alike(compiled(other), seen(other))
    compiled = framelift.compile(noted, backend="eager", fullgraph=True)
    found = [compiled(x, table) for _ in range(3)]
    assert [int(one[0]) for one in found] == [1, 2, 3]
    assert table == {id(OUTSIDE): 3}


def test_an_address_of_what_is_made_is_that_of_what_lives_on() -> None:
    def made(x: torch.Tensor) -> Any:
        y, box = x + 1, [x]
        return y, box, id(y), id(box)

    y, box, *numbers = framelift.compile(made, backend="eager", fullgraph=True)(torch.ones(2))
    assert numbers == [id(y), id(box)]
