"""Operators on tensors whose class has special methods of its own: these are called, in Python's order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift

Tensor = torch.Tensor

BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
COMPARING = "lt le gt ge eq ne".split()
UNARY = "neg pos invert".split()


def plain(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else value


def answering(*names: str, base: type = Tensor, gives: Callable[..., Any] | None = None) -> type:
    """A class of tensors with these special methods, each of which says what it was given."""

    def method(name: str) -> Any:
        def own(self: Any, *args: Any) -> Any:
            if gives is not None:
                return gives(self, *args)
            return f"{made.__name__}.{name}", plain(self) + 1, *map(plain, args)

        return own

    made = type(f"Own{base.__name__}", (base,), {f"__{name}__": method(f"__{name}__") for name in names})
    return made


def applied(name: str) -> Any:
    found = getattr(operator, name, None) or getattr(operator, name + "_")
    return found


def one(cls: type) -> Any:
    return torch.arange(1, 5).as_subclass(cls)  # type: ignore[type-var]


def copied(value: Any) -> Any:
    return plain(value).clone().as_subclass(type(value)) if isinstance(value, Tensor) else value


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        found = fn(*args)
    except (TypeError, RuntimeError) as error:
        return str(error)
    if isinstance(found, tuple):
        return [part.tolist() if isinstance(part, Tensor) else repr(part) for part in found]
    return type(found).__name__, found.tolist() if isinstance(found, Tensor) else found


def same(fn: Callable[..., Any], *args: Any) -> None:
    expected = outcome(fn, *map(copied, args))
    whole = not isinstance(expected, str)
    compiled = framelift.compile(fn, backend="eager", fullgraph=whole, isolate_recompiles=True)
    for _ in range(2):
        assert outcome(compiled, *map(copied, args)) == expected


@pytest.mark.parametrize("name", BINARY)
def test_operators_with_two_operands(name: str) -> None:
    fn, own, other = applied(name), one(answering(name, "r" + name)), torch.arange(1, 5)
    for left, right in [(own, other), (other, own), (own, 3), (3, own), (own, own), (own, [1])]:
        same(lambda a, b: fn(a, b), left, right)


@pytest.mark.parametrize("name", BINARY)
def test_operators_that_only_the_right_operand_has(name: str) -> None:
    fn, own = applied(name), one(answering("r" + name))
    for left in (torch.arange(1, 5), 3, one(answering()), one(answering(name))):
        same(lambda a, b: fn(a, b), left, own)


@pytest.mark.parametrize("name", BINARY)
def test_a_subclass_of_the_left_operands_class_is_asked_first(name: str) -> None:
    fn, base = applied(name), answering(name, "r" + name)
    inherits, own = one(answering(base=base)), one(answering("r" + name, base=base))
    for left, right in [(one(base), inherits), (one(base), own), (own, one(base))]:
        same(lambda a, b: fn(a, b), left, right)


@pytest.mark.parametrize("name", BINARY)
def test_operators_in_place(name: str) -> None:
    fn = applied("i" + name)
    for names in [("i" + name,), (name,), ("i" + name, name)]:
        same(lambda a, b: fn(a, b), one(answering(*names)), 3)


@pytest.mark.parametrize("name", BINARY)
def test_what_a_class_does_not_do_is_left_to_the_other(name: str) -> None:
    fn = applied(name)
    refusing = answering(name, "r" + name, gives=lambda self, other: NotImplemented)
    for left, right in [
        (one(refusing), torch.arange(1, 5)),
        (one(refusing), one(answering("r" + name))),
        (2, one(refusing)),
    ]:
        same(lambda a, b: fn(a, b), left, right)


@pytest.mark.parametrize("name", COMPARING)
def test_comparisons(name: str) -> None:
    fn, opposite = applied(name), {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name)
    for names in [(name,), (opposite,), (name, opposite)]:
        cls = answering(*names, "hash")
        for left, right in [
            (one(cls), 2),
            (2, one(cls)),
            (torch.arange(1, 5), one(cls)),
            (one(cls), torch.arange(1, 5)),
        ]:
            same(lambda a, b: fn(a, b), left, right)


@pytest.mark.parametrize("name", UNARY)
def test_operators_with_one_operand(name: str) -> None:
    fn = applied(name)
    same(lambda a: fn(a), one(answering(name)))


class Sized(Tensor):
    def __len__(self) -> int:
        return 7

    def __bool__(self) -> bool:
        return False

    def __contains__(self, value: Any) -> bool:
        return bool(value == "own")

    def __iter__(self) -> Any:
        return iter(["a", "b"])

    def __getitem__(self, index: Any) -> Any:
        return ("item", index)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value * 2)


def test_questions_and_items() -> None:
    def asked(x: Any) -> Any:
        x[1] = 5
        return len(x), "yes" if x else "no", "own" in x, 3 in x, list(x), x[2], x[:2], plain(x) * 1

    given = [torch.arange(1, 5).as_subclass(Sized) for _ in range(2)]
    compiled = framelift.compile(asked, backend="eager", fullgraph=True)
    expected, found = asked(given[0]), compiled(given[1])
    assert [plain(v).tolist() if isinstance(v, Tensor) else v for v in found] == [
        plain(v).tolist() if isinstance(v, Tensor) else v for v in expected
    ]


def test_an_object_of_the_programs_is_asked_before_a_tensor_on_the_right() -> None:
    class Left:
        def __add__(self, other: Any) -> Any:
            return "left", plain(other) + 1

        def __repr__(self) -> str:
            return "Left"

        def __mul__(self, other: Any) -> Any:
            return NotImplemented

    own = one(answering("radd", "rmul"))
    same(lambda t: Left() + t, own)
    same(lambda t: Left() * t, own)


def test_a_method_that_is_set_later_is_noticed() -> None:
    class Own(Tensor):
        pass

    compiled = framelift.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    x = one(Own)
    assert compiled(x).tolist() == [2, 3, 4, 5]
    Own.__add__ = lambda self, other: "added"  # type: ignore[assignment,method-assign]
    assert compiled(x) == "added"


class Inherits(Tensor):
    def __add__(self, other: Any) -> Any:
        return super().__add__(other) * 10

    def __setitem__(self, index: Any, value: Any) -> None:
        super(Inherits, self).__setitem__(index, value + 1)

    def sum(self, *args: Any) -> Any:
        return super().sum(*args) - 1

    @property
    def shape(self) -> Any:
        return ("shape", *super().shape)


def test_what_a_method_says_of_its_super_class() -> None:
    def asks(x: Any) -> Any:
        x[0] = 4
        missing = []
        try:
            super(Inherits, x).nothing
        except AttributeError as error:
            missing = str(error)
        return plain(x + 1), plain(x.sum()), x.shape, plain(super(Inherits, x).sum(0)), missing

    given = [torch.arange(4).as_subclass(Inherits) for _ in range(2)]
    compiled = framelift.compile(asks, backend="eager", fullgraph=True)
    assert [str(v) for v in compiled(given[0])] == [str(v) for v in asks(given[1])]
    assert plain(given[0]).tolist() == plain(given[1]).tolist()


def test_the_handler_of_a_class_is_asked_for_its_length() -> None:
    class Longer(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = super().__torch_function__(func, types, args, kwargs or {})
            return found + 2 if func is Tensor.__len__ else found

    compiled = framelift.compile(lambda x: (len(x), x + 1), backend="eager", fullgraph=True)
    assert compiled(one(Longer))[0] == len(one(Longer)) == 6
