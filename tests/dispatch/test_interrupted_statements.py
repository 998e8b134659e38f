"""A signal while the rest of a frame is compiled: what its handler raises comes out of a place in the program
where it could have come, so that each context manager that was entered is left, and `try` statements see it.

The rest of a frame begins anywhere: in the last round of a loop that ends a `with` statement, behind
`__enter__`, where an exception has just been raised. A backend interrupts each of a program's graphs in turn,
while it is compiled or when it runs.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift

LOG: list[str] = []


class Limit(Exception):
    """As a time limit raises."""


@framelift.disable
def note(what: str) -> None:
    """What the graph ends for."""
    LOG.append(what)


class Noted:
    """A context manager that notes what it does, and sets a mode of torch's. Both of its methods run as they
    are: what comes in the midst of one comes in the midst of it eagerly too."""

    def __init__(self, name: str, suppresses: tuple[type[BaseException], ...] = ()) -> None:
        self.name, self.suppresses = name, suppresses
        self.mode = torch.no_grad()

    @framelift.disable
    def __enter__(self) -> Noted:
        self.mode.__enter__()
        note(f"enter {self.name}")
        return self

    @framelift.disable
    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        note(f"exit {self.name}")
        self.mode.__exit__(kind, error, traceback)
        return kind is not None and issubclass(kind, self.suppresses)


def in_a_loop(x: torch.Tensor) -> torch.Tensor:
    with Noted("outer"):
        try:
            with Noted("inner"):
                for n in range(3):
                    x = x + n
                    note("round")
            return x * 2
        except Limit:
            x = x - 1
            note("caught")
            return x


def loop_at_the_end(x: torch.Tensor) -> torch.Tensor:
    try:
        with Noted("outer"):
            while x.sum() < 10:
                x = x + 1
    except Limit:
        return x - 1
    return x * 2


def raising(x: torch.Tensor) -> torch.Tensor:
    try:
        with Noted("outer"), Noted("inner", (ValueError,)):
            y = x + 1
            fail(y)
    except Limit:
        return x - 1
    return y * 2


@framelift.disable
def fail(x: torch.Tensor) -> None:
    raise ValueError(x.tolist())


def in_a_function(x: torch.Tensor) -> torch.Tensor:
    def inner(y: torch.Tensor) -> torch.Tensor:
        with Noted("inner"):
            y = y.sin()
            note("within")
        return y + 1

    try:
        with Noted("outer"):
            return inner(x * 2) + 1
    except Limit:
        return x - 1
    finally:
        note("finally")


def handling(x: torch.Tensor) -> torch.Tensor:
    try:
        try:
            fail(x + 1)
        except ValueError:
            with Noted("handler"):
                x = x + 1
                note("handled")
            x = x * 2
    except Limit:
        return x - 1
    return x + 1


def finishing(x: torch.Tensor) -> torch.Tensor:
    with Noted("outer", (Limit,)):
        try:
            x = x + 1
            note("begun")
            x = x * 2
        finally:
            x = x.cos()
            note("finally")
        return x + 1
    return x - 1


PROGRAMS = [in_a_loop, loop_at_the_end, raising, in_a_function, handling, finishing]


def is_balanced(log: list[str]) -> bool:
    """Whether each context that was entered was left, the inner ones first."""
    entered: list[str] = []
    for what in log:
        kind, _, name = what.partition(" ")
        if kind == "enter":
            entered.append(name)
        elif kind == "exit" and (not entered or entered.pop() != name):
            return False
    return not entered


@pytest.mark.parametrize("when", ["compiled", "run"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_graph_is_interrupted(program: Callable[..., Any], when: str) -> None:
    x = torch.linspace(0.5, 1.0, 3)
    LOG.clear()
    expected, plain_log = program(x), list(LOG)

    def raise_limit(number: int, frame: Any) -> None:
        raise Limit

    def interrupting(chosen: int) -> tuple[Any, Iterator[int]]:
        numbers = itertools.count()

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            number = next(numbers)
            if number == chosen and when == "compiled":
                signal.raise_signal(signal.SIGALRM)

            def run(*args: Any) -> Any:
                if number == chosen and when == "run":
                    signal.raise_signal(signal.SIGALRM)
                return graph(*args)

            return run

        return backend, numbers

    handler = signal.signal(signal.SIGALRM, raise_limit)
    try:
        for chosen in itertools.count():
            backend, numbers = interrupting(chosen)
            compiled = framelift.compile(program, backend=backend, isolate_recompiles=True)
            LOG.clear()
            try:
                found = compiled(x)
            except Limit:
                found = None
            assert torch.is_grad_enabled()
            assert is_balanced(LOG), (chosen, LOG)
            if next(numbers) <= chosen:
                break
            assert found is None or not torch.equal(found, expected), "what the handler raised is lost"
        assert torch.equal(found, expected)
        assert LOG == plain_log
        assert chosen > 1
    finally:
        signal.signal(signal.SIGALRM, handler)
