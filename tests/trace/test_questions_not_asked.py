"""Objects and classes that note what they are asked, or have an answer to anything: the trace asks nothing
that plain Python does not ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import pytest
import torch

import framelift

NOTED: list[Any] = []


class Noting:
    """Notes what is read, set and deleted."""

    value = 2

    def __getattribute__(self, name: str) -> Any:
        NOTED.append(name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        NOTED.append(("set", name))
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        NOTED.append(("del", name))
        object.__delattr__(self, name)

    def __iter__(self) -> Any:
        return iter([1, 2])

    def __call__(self, x: Any) -> Any:
        return x + 1

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *raised: Any) -> None:
        return None

    def __index__(self) -> int:
        return 1


@framelift.disable
def stop() -> None:
    pass


def entered(a: Any, x: Any) -> Any:
    with a as b:
        b.n = 3
    return x * 2


def across_a_break(a: Any, x: Any) -> Any:
    for n in range(3):
        a.n = n
        stop()
        x = x * a.n
    return x, a


def matched(a: Any, x: Any) -> Any:
    match a:
        case [_, _]:
            return x
        case Noting(value=2):
            return x * 2
    return x * 3


USES: dict[str, Callable[[Any, Any], Any]] = {
    "read": lambda a, x: x * a.value,
    "set": lambda a, x: setattr(a, "n", x.sum()),
    "deleted": lambda a, x: (setattr(a, "n", 1), delattr(a, "n")),
    "there or not": lambda a, x: (hasattr(a, "n"), getattr(a, "n", 1)),
    "asked for its class": lambda a, x: (isinstance(a, Noting), isinstance(a, (int, torch.Tensor)), type(a)),
    "iterated": lambda a, x: ([*a], list(a), [x * n for n in a], sum(a), dict(zip(a, a))),
    "called": lambda a, x: a(x),
    "an index": lambda a, x: ([1, 2][a], list(range(a))),
    "compared": lambda a, x: (a == 1, a is x, a in [a], not a),
    "shown": lambda a, x: (str(a)[:3], f"{a!r:.3}"),
    "in containers": lambda a, x: [{"a": a}, (a, x), [a]],
    "with": entered,
    "across a break": across_a_break,
    "matched": matched,
}


@pytest.mark.parametrize("name", USES)
def test_an_object_that_notes_questions(name: str) -> None:
    def fn(a: Any, x: Any) -> Any:
        return USES[name](a, x), x + 1

    compiled, a, b = framelift.compile(fn, backend="eager"), Noting(), Noting()
    for _ in range(3):
        found = []
        for one, given in ((fn, a), (compiled, b)):
            NOTED.clear()
            one(given, torch.arange(2.0))
            found.append(list(NOTED))
        assert found[0] == found[1]


class Answering(type):
    def __getattr__(cls, name: str) -> Any:
        if name in ("__wrapped__", "__signature__", "__text_signature__", "__orig_bases__"):
            raise AttributeError(name)
        return lambda *args: 42


class Checking(Answering):
    def __instancecheck__(cls, value: Any) -> bool:
        NOTED.append("instance")
        return type(value) is int

    def __subclasscheck__(cls, other: Any) -> bool:
        NOTED.append("subclass")
        return other is int


class Answered(metaclass=Answering):
    def __init__(self, value: Any) -> None:
        self.value = value


class Checked(Answered, metaclass=Checking):
    pass


class Holder:
    held = Answered(1)


@runtime_checkable
class HasSin(Protocol):
    def sin(self) -> Any: ...


@runtime_checkable
class HasMore(HasSin, Protocol):
    more: int


def raised(fn: Callable[[], Any]) -> Any:
    try:
        return fn()
    except Exception as error:
        return type(error), str(error)


QUESTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "instances": lambda a, h, x: [isinstance(v, Checked) for v in (x, x + 1, 3, 2.5, a, [])],
    "instances of several": lambda a, h, x: (isinstance(x, (Checked, str)), isinstance(x, Checked | int)),
    "subclasses": lambda a, h, x: (issubclass(int, Checked), issubclass(type(x), Checked)),
    "instances of one that answers": lambda a, h, x: (isinstance(x, Answered), isinstance(a, Answered)),
    "protocols": lambda a, h, x: (isinstance(x, HasSin), isinstance(x, HasMore), isinstance(3, HasSin)),
    "attributes": lambda a, h, x: (x * a.value, Answered.nothing(1), h.held is a, type(h.held)),
    "set": lambda a, h, x: (setattr(h, "held", x), h.held, delattr(h, "held"), h.held is a),
    "what it is not": lambda a, h, x: [
        raised(lambda: [*a]),
        raised(lambda: list(a)),
        raised(lambda: len(a)),
        raised(lambda: a[0]),
        raised(lambda: {**a}),
        raised(lambda: a()),
        raised(lambda: a + 1),
        raised(lambda: 3 in a),
        raised(lambda: next(a)),
        raised(lambda: float(a)),
        raised(lambda: a < 1),
        a == 1,
        bool(a),
    ],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_class_that_answers_everything(name: str) -> None:
    def fn(a: Any, h: Any, x: Any) -> Any:
        return x * 2, QUESTIONS[name](a, h, x)

    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        found = []
        for one in (fn, compiled):
            NOTED.clear()
            doubled, answers = one(Holder.held, Holder(), torch.ones(2))
            found.append((doubled.tolist(), repr(answers), list(NOTED)))
        assert found[0] == found[1]
