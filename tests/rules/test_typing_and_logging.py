"""What the library asks about its caller or keeps in a registry: hints, type parameters, loggers."""

from __future__ import annotations

import functools
import logging
import typing
from typing import Any

import pytest
import torch

from check import capture, check, reasons, recompiles

LOGGER = logging.getLogger("framelift.tests.known")
OUTSIDE = typing.TypeVar("OUTSIDE")


def hints_of_functions_made_inside(x):
    def plain(a: int, b: str = "", *, c: float | None = None) -> list[int]: ...

    def texts(a: "int", b: "torch.Tensor", c: "typing.Optional[float]" = None): ...  # noqa: UP037

    return typing.get_type_hints(plain), typing.get_type_hints(texts), x + 1


def a_dispatching_function_with_annotations(x):
    @functools.singledispatch
    def kind(value):
        return "other"

    @kind.register
    def _(value: int):
        return "int"

    @kind.register
    def _(value: torch.Tensor):
        return value * 2

    return kind(1), kind("a"), kind(x)


def type_parameters(x):
    T = typing.TypeVar("T", bound=int)
    P = typing.ParamSpec("P")
    return repr(T), T.__module__, T.__bound__, P.__name__, P.__module__, x + 1


def generic_classes(x):
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value):
            self.value = value

    class Other(typing.Generic[OUTSIDE]):
        def __init__(self, value):
            self.value = value

    return Box[int](x).value + Other[str](x).value


def new_types(x):
    Scale = typing.NewType("Scale", int)
    return x * Scale(3), Scale.__module__, Scale.__supertype__, Scale.__name__


def loggers_that_there_are(x):
    found = logging.getLogger("framelift.tests.known")
    found.debug("nobody listens to %s", 1)
    return x + 1, found is LOGGER, logging.getLogger() is logging.root, logging.getLogger("root").name


PROGRAMS = [
    hints_of_functions_made_inside,
    a_dispatching_function_with_annotations,
    type_parameters,
    generic_classes,
    new_types,
    loggers_that_there_are,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_whole(program: Any) -> None:
    check(program, torch.arange(3.0), calls=2)


def test_a_logger_that_is_made_is_an_effect() -> None:
    name = "framelift.tests.made.by.a.call"
    manager = logging.Logger.manager

    def program(x):
        logging.getLogger(name).debug("")
        return x + 1

    assert name not in manager.loggerDict
    compiled = capture(program, torch.ones(2), fullgraph=False)
    assert "run-time effect" in reasons(compiled) and name in manager.loggerDict


def test_a_logger_whose_level_changes_is_noticed() -> None:
    def program(x):
        return x * (2 if logging.getLogger("framelift.tests.known").isEnabledFor(logging.ERROR) else 3)

    compiled = capture(program)
    try:
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        LOGGER.setLevel(logging.CRITICAL)
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
        assert recompiles(compiled) == 1
    finally:
        LOGGER.setLevel(logging.NOTSET)


def test_names_of_arguments_that_are_no_strings() -> None:
    def of_a_type(x):
        try:
            return dict(**{1: x})
        except TypeError as error:
            return x + 1, str(error)

    def of_a_function_of_c(x):
        try:
            return "{}".format(**{1: 2})
        except IndexError as error:
            return x + 1, str(error)

    check(of_a_type, torch.ones(2))
    check(of_a_function_of_c, torch.ones(2), fullgraph=False)


def test_what_a_tensor_holds_is_a_number_that_only_the_data_decides() -> None:
    def asked(x, n):
        return n in x, n not in x, not x.sum().item(), x.shape[0] in x

    def checked(x, n):
        if n in x:
            raise ValueError(n)
        return x + n

    check(asked, torch.tensor([1.0, 4.0]), 4)
    check(asked, torch.tensor([2, -2]), 3)
    check(asked, torch.tensor([1.0, 4.0]), 4, fullgraph=False)
    check(checked, torch.tensor([1.0, 4.0]), 3)
    check(checked, torch.tensor([1.0, 4.0]), 4)
