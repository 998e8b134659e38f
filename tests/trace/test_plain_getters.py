"""Attributes found by a class's own `__getattribute__`: as eagerly, however often it is asked and whatever is
changed between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.trace.plain_getters import PlainGetters


class Renaming:
    """As configurations of large models are."""

    attribute_map = {"width": "hidden", "depth": "layers"}
    constant = 4

    def __init__(self) -> None:
        self.hidden, self.layers, self.given, self._kind = 3, 2, None, "plain"
        self.sizes = [1, 2]

    def __getattribute__(self, key: str) -> Any:
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)

    @property
    def kind(self) -> str:
        return self._kind

    @property
    def is_given(self) -> bool:
        return hasattr(self, "given") and self.given is not None

    def scaled(self, x: Any) -> Any:
        return x * self.width


class Looking(Renaming):
    """Looks into its own dictionary too, and has a way out that it does not take."""

    def __getattribute__(self, key: str) -> Any:
        own = super().__getattribute__("__dict__").get("special")
        if own is not None and key in own:
            raise ValueError(f"{key} is special")
        return super().__getattribute__(key)


class Counting(Renaming):
    count = 0
    log: list[str] = []

    def __getattribute__(self, key: str) -> Any:
        if key == "layers":
            Counting.log.append(key)
        return super().__getattribute__(key)


class Falling(Renaming):
    def __getattr__(self, key: str) -> Any:
        return f"no {key}"


def reads(x, c):
    return x * c.width + c.hidden + c.width, c.depth, c.kind, c.kind, c.constant, c.is_given, c.is_given


def sets_between(x, c):
    first = c.width, c.kind
    c.hidden = 7
    c._kind = "other"
    return x * c.width, first, c.kind, c.hidden


def deletes_between(x, c):
    first = hasattr(c, "width"), hasattr(c, "nothing")
    del c.hidden
    return x + 1, first, hasattr(c, "width"), hasattr(c, "nothing")


def adds_between(x, c):
    first = hasattr(c, "nothing"), getattr(c, "nothing", 5)
    c.nothing = 6
    return x * c.nothing, first, hasattr(c, "nothing"), getattr(c, "nothing", 5)


def renames_between(x, c):
    first = c.width
    c.attribute_map["width"] = "layers"
    second = c.width
    c.attribute_map.clear()
    return x * first + second, hasattr(c, "width")


def adds_a_map(x, c):
    first = c.width
    c.attribute_map = {"width": "constant"}
    second = c.width
    c.attribute_map["width"] = "layers"
    return x * first, second, c.width


def writes_to_its_dictionary(x, c):
    first = c.width
    vars(c)["hidden"] = 9
    second = c.width
    vars(c)["hidden"] = 10
    return x * first, second, c.width


def changes_a_list(x, c):
    c.sizes.append(5)
    return x * len(c.sizes), c.sizes is c.sizes, c.sizes


def methods(x, c):
    return c.scaled(x), c.scaled(x), c.scaled is c.scaled, c.scaled == c.scaled


def what_is_missing(x, c):
    texts = []
    for _ in range(3):
        try:
            c.nothing
        except AttributeError as error:
            texts.append(str(error))
    return x + 1, texts


def becomes_special(x, c):
    first = c.layers, c.layers
    c.special = {"layers": 1}
    try:
        return x + 1, first, c.layers
    except ValueError as error:
        return x + 2, first, str(error)


def in_a_loop(x, c):
    for n in range(4):
        x = x * c.width + c.depth
        if n == 2:
            c.layers = 11
    return x


PROGRAMS = [reads, sets_between, deletes_between, adds_between, renames_between, adds_a_map, methods]
PROGRAMS += [writes_to_its_dictionary, changes_a_list, what_is_missing, becomes_special, in_a_loop]


@pytest.mark.parametrize("cls", [Renaming, Looking, Falling, Counting])
@pytest.mark.parametrize("program", PROGRAMS)
def test_attributes_are_those_of_eager(program: Callable[..., Any], cls: type) -> None:
    def run(x: torch.Tensor) -> Any:
        made = cls()
        made.attribute_map = dict(cls.attribute_map)  # of its own: what one run changes another must not see
        Counting.log.clear()
        return (fn(x, made), vars(made), made.attribute_map, list(Counting.log))

    fn: Callable[..., Any] = program
    expected = run(torch.ones(3))
    fn = framelift.compile(program)
    found = run(torch.ones(3))
    torch.testing.assert_close(found[0][0], expected[0][0])
    assert repr(found[0][1:]) == repr(expected[0][1:]) and repr(found[1:]) == repr(expected[1:])


def test_what_was_found_is_guarded() -> None:
    config = Looking()
    config.attribute_map = dict(config.attribute_map)
    compiled = framelift.compile(reads, fullgraph=True)

    def check() -> None:
        expected, found = reads(torch.ones(3), config), compiled(torch.ones(3), config)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]

    check()
    others = {"width": "layers", "depth": "hidden"}
    for name, value in (
        ("hidden", 5),
        ("layers", 8),
        ("_kind", "x"),
        ("given", 1),
        ("attribute_map", others),
    ):
        setattr(config, name, value)
        check()
    config.attribute_map["width"] = "hidden"
    check()
    config.special = {}
    check()


def test_it_is_run_once_for_each_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = PlainGetters.ask

    def counted(self: PlainGetters, getattribute: Any, obj: Any, name: str) -> Any:
        asked.append(name)
        return ask(self, getattribute, obj, name)

    monkeypatch.setattr(PlainGetters, "ask", counted)
    config = Looking()

    @framelift.compile(fullgraph=True)
    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = x * config.width + config.depth + len(config.kind) + hasattr(config, "nothing")
        return x

    fn(torch.ones(3))
    assert sorted(asked) == sorted(["width", "depth", "kind", "_kind", "nothing"])
