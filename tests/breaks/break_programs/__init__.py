"""Small programs that break the capture and change state, one module per part of a chapter.

A program is a function marked with `@program` that makes a fresh case each time it is called: the function
under test and what it is called with. It may return

    f                           called with each of `values()`: a positive, a negative and a mixed tensor
    f, box, log                 the same, with these further arguments, shared by all calls
    case(f, calls=[...], ...)   anything else

A program that takes an argument is given a *breaker*, a function that breaks the capture and returns its
argument. It becomes a case with `disabled`, one with another breaker of `BREAKERS` (all of them with
`@program(all)`), and one with `nothing`, which does not break: what can be captured whole must be right too.
What starts with an underscore serves the programs of its module. `test_programs.py` runs each case eagerly
and compiled, and compares.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import random
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import framelift

# What a program makes


@dataclass
class Case:
    fn: Callable[..., Any]
    calls: list[tuple[Any, ...]]
    """The positional arguments of each call; a dictionary at the end of type `Keywords` is passed as such."""
    watched: Sequence[Any] = ()
    """Classes and modules whose attributes are compared after each call, and put back after it."""
    state: Any = None
    """What else is compared after each call."""
    then: Callable[[Any], Any] | None = None
    """What is done with the result of each call, outside of the compiled function."""


class Keywords(dict[str, Any]):
    """Keyword arguments of a call."""


def case(
    fn: Callable[..., Any],
    *shared: Any,
    inputs: Sequence[Any] | None = None,
    calls: list[tuple[Any, ...]] | None = None,
    watched: Sequence[Any] = (),
    state: Any = None,
    then: Callable[[Any], Any] | None = None,
) -> Case:
    """A case of a call per input, followed by what all calls share; or of the calls as they are given."""
    if calls is None:
        calls = [(x, *shared) for x in (values() if inputs is None else inputs)]
    return Case(fn, calls, watched, state, then)


def values(grad: bool = False) -> list[torch.Tensor]:
    """A positive tensor, a negative one, and one whose sum is zero."""
    rows = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, -0.5, 0.0])
    return [torch.tensor(row, requires_grad=grad) for row in rows]


def matrices() -> list[torch.Tensor]:
    return [torch.outer(x, torch.tensor([1.0, 2.0])) for x in values()]


# The catalogue

Maker = Callable[[], Any]


@dataclass
class Catalogue:
    programs: dict[Callable[..., Any], str] = field(default_factory=dict)
    """Each program's name, `module::program`."""
    cases: dict[str, Maker] = field(default_factory=dict)
    """Those that break, by `module::program` or `module::program[breaker]`."""
    unbroken: dict[str, Maker] = field(default_factory=dict)
    """Those with `nothing` for a breaker."""

    def add(self, maker: Callable[..., Any], every: bool) -> None:
        name = f"{maker.__module__.rpartition('.')[2]}::{maker.__name__}"
        assert name not in self.programs.values(), f"two programs are called {name}"
        self.programs[maker] = name
        if not inspect.signature(maker).parameters:
            self.cases[name] = maker
            return
        for breaker in BREAKERS if every else chosen(name):
            self.cases[f"{name}[{breaker}]"] = functools.partial(maker, BREAKERS[breaker])
        self.unbroken[f"{name}[nothing]"] = functools.partial(maker, nothing)


CATALOGUE = Catalogue()


def program(maker: Callable[..., Any]) -> Any:
    """Marks a program; `@program(all)` is for one to be run with every breaker."""
    if maker is all:
        return lambda maker: CATALOGUE.add(maker, every=True) or maker
    CATALOGUE.add(maker, every=False)
    return maker


def chosen(name: str) -> tuple[str, str]:
    """`disabled`, which breaks in the function itself, and one that mostly breaks in a function it calls."""
    others = [breaker for breaker in BREAKERS if breaker != "disabled"]
    return "disabled", others[zlib.crc32(name.encode()) % len(others)]


def made(maker: Maker) -> Case:
    parts = maker()
    if isinstance(parts, Case):
        return parts
    return case(*parts) if isinstance(parts, tuple) else case(parts)


# Ways to break

RECORDS: list[Any] = []
"""What breakers leave behind; emptied before each call and compared after it."""


class Notice(UserWarning):
    """What the programs warn of; other people's warnings are not compared."""


class Recorder(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        RECORDS.append((record.levelname, record.getMessage(), record.funcName, record.lineno))


LOG = logging.getLogger("break_programs")
LOG.propagate = False
LOG.setLevel(logging.INFO)
LOG.handlers = [Recorder()]


OUTSIDE = torch.ones(2)
"""Data that a trace does not know, as it would that of a tensor made inside."""


def total(value: Any) -> torch.Tensor:
    return (value.detach() if isinstance(value, torch.Tensor) else OUTSIDE).sum()


def shown(value: Any) -> Any:
    """What can be printed of a value without its address."""
    return value if isinstance(value, (torch.Tensor, int, float, str, tuple)) else type(value).__name__


def by_print(value: Any) -> Any:
    print("stop", shown(value))
    return value


def by_item(value: Any) -> Any:
    RECORDS.append(total(value).item())
    return value


def by_list(value: Any) -> Any:
    RECORDS.append(torch.stack([total(value), total(value) * 2]).tolist())
    return value


def by_int(value: Any) -> Any:
    RECORDS.append((int(total(value)), float(total(value))))
    return value


def by_branch(value: Any) -> Any:
    if total(value) > 0:
        RECORDS.append("positive")
        return value
    RECORDS.append("negative or zero")
    return value


def by_loop(value: Any) -> Any:
    left = total(value)
    while left > 2:
        left = left - 2
        RECORDS.append("step")
    return value


def by_assert(value: Any) -> Any:
    try:
        assert total(value) < 1e6
    except AssertionError:
        return value * 0
    return value


def by_shape(value: Any) -> Any:
    RECORDS.append(tuple(torch.unique(total(value).reshape(1)).shape))
    return value


def by_mask(value: Any) -> Any:
    several = total(value).reshape(1)
    RECORDS.append((several[several > 0].shape, several.nonzero().shape))
    return value


def by_log(value: Any) -> Any:
    LOG.info("stop %s", type(value).__name__)
    return value


def by_warning(value: Any) -> Any:
    warnings.warn("stop", Notice, stacklevel=2)
    return value


def by_chance(value: Any) -> Any:
    RECORDS.append((random.random(), random.sample(range(6), 2)))
    return value


def by_clock(value: Any) -> Any:
    time.perf_counter()
    return value


def by_file(value: Any) -> Any:
    with open("breaker.txt", "a") as file:
        file.write("stop\n")
    with open("breaker.txt") as file:
        RECORDS.append(len(file.readlines()))
    return value


def by_chance_of_the_system(value: Any) -> Any:
    RECORDS.append(len(os.urandom(2)))
    return value


def by_address(value: Any) -> Any:
    f"{id(value):x}"
    return value


def by_lock(value: Any) -> Any:
    with threading.Lock():
        RECORDS.append("locked")
    return value


def by_stack(value: Any) -> Any:
    RECORDS.append([(entry.name, entry.lineno) for entry in traceback.extract_stack(limit=2)])
    return value


def by_process(value: Any) -> Any:
    RECORDS.append(os.getpid() > 0)
    return value


def nothing(value: Any) -> Any:
    return value


@framelift.disable
def halt(value: Any = None) -> Any:
    RECORDS.append("halt")
    return value


@framelift.disable
def change(tensor: torch.Tensor) -> torch.Tensor:
    """Breaks, and changes its argument."""
    with torch.no_grad():
        tensor.add_(1)
    return tensor


class Leaving(BaseException):
    """Not an `Exception`, as `KeyboardInterrupt`."""


class Trouble(Exception):
    """What `fail` raises."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message, code)
        self.code = code


@framelift.disable
def fail(message: str = "trouble", code: int = 0) -> Any:
    """Breaks, and raises."""
    RECORDS.append("fail")
    raise Trouble(message, code)


@framelift.disable
def fail_if(condition: Any, message: str = "trouble") -> Any:
    """Breaks, and raises where the tensor (or whatever) is true."""
    if condition:
        raise Trouble(message)
    return condition


BREAKERS: dict[str, Callable[[Any], Any]] = {
    "disabled": halt,
    "print": by_print,
    "item": by_item,
    "tolist": by_list,
    "int": by_int,
    "branch": by_branch,
    "loop": by_loop,
    "assert": by_assert,
    "unique": by_shape,
    "mask": by_mask,
    "log": by_log,
    "warn": by_warning,
    "random": by_chance,
    "clock": by_clock,
    "file": by_file,
    "urandom": by_chance_of_the_system,
    "id": by_address,
    "lock": by_lock,
    "stack": by_stack,
    "process": by_process,
}


# What programs work on


class Box:
    """Anything with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Hidden(Box):
    """The same; what is in it is not compared (and iterators in it are not drained by that)."""


class Slim:
    """The same, in slots."""

    __slots__ = ("a", "b", "log")

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


class Manager:
    """A context manager that says what happens to it, and swallows some exceptions."""

    def __init__(self, name: Any, log: list[Any], *swallows: type[BaseException]) -> None:
        self.name, self.log, self.swallows = name, log, swallows

    def __enter__(self) -> Manager:
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, traceback: Any) -> bool:
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return kind is not None and issubclass(kind, self.swallows)


@framelift.disable
def modes() -> None:
    """torch's switches as a break finds them."""
    RECORDS.append(
        (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
    )
