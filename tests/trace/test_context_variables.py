"""Variables of the context: read with a guard, set by the region."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pytest
import torch

from check import capture, entries, reasons
from framelift.core import breaks

SCALE: contextvars.ContextVar[Any] = contextvars.ContextVar("SCALE", default=3)
BARE: contextvars.ContextVar[Any] = contextvars.ContextVar("BARE")


def reads(x):
    return x * SCALE.get()


def reads_with_a_default(x):
    return x * SCALE.get(5), BARE.get(7)


def handles_what_is_not_there(x):
    try:
        return x * BARE.get()
    except LookupError as error:
        return x + 1, error.args[0] is BARE


def sets(x):
    SCALE.set(8)
    return x * SCALE.get()


def sets_a_tensor(x):
    BARE.set([x * 2])
    return BARE.get()[0] + 1


def sets_and_resets(x):
    token = SCALE.set(7)
    y = x * SCALE.get()
    SCALE.reset(token)
    return y * SCALE.get()


def resets_what_was_not_there(x):
    token = BARE.set(7)
    y = x * BARE.get()
    BARE.reset(token)
    return y, BARE.get(None)


def resets_twice(x):
    token = SCALE.set(7)
    SCALE.reset(token)
    try:
        SCALE.reset(token)
    except RuntimeError:
        return x + 1


def changes_what_it_holds(x):
    BARE.set([1])
    BARE.get().append(x)
    return BARE.get()[1] + len(BARE.get())


PROGRAMS = [reads, reads_with_a_default, handles_what_is_not_there, sets, sets_a_tensor, sets_and_resets]
PROGRAMS += [resets_what_was_not_there, resets_twice, changes_what_it_holds]


def outcome(fn: Callable[..., Any], given: dict[contextvars.ContextVar[Any], Any]) -> str:
    """What a call gives, and what the variables hold then, in a context of its own."""

    def run() -> str:
        for variable, value in given.items():
            variable.set(value)
        results = [fn(torch.ones(2)) for _ in range(2)]
        return str((results, SCALE.get(None), BARE.get(None)))

    return contextvars.Context().run(run)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_variables_are_as_eagerly(fn: Callable[..., Any]) -> None:
    compiled = capture(fn)
    for given in ({}, {SCALE: 4}, {BARE: 2}, {SCALE: torch.ones(2), BARE: 3.5}, {}):
        assert outcome(compiled, given) == outcome(fn, given)


def test_the_same_value_is_the_same_entry() -> None:
    compiled = capture(reads)
    for scale in (2.5, 2.5, torch.ones(2), torch.zeros(2)):
        contextvars.Context().run(lambda scale=scale: (SCALE.set(scale), compiled(torch.ones(2))))
    assert entries(compiled) == 2


def test_an_outside_list_is_changed_where_it_is() -> None:
    def fn(x):
        BARE.get().append(x + 1)
        return x * 2

    held: list[Any] = []
    compiled = capture(fn)
    contextvars.Context().run(lambda: (BARE.set(held), compiled(torch.ones(2))))
    assert len(held) == 1


def test_a_break_in_between() -> None:
    def fn(x):
        token = SCALE.set(x + 1)
        y = SCALE.get() * 2
        print(end="")
        y = y + SCALE.get()
        SCALE.reset(token)
        return y * SCALE.get()

    compiled = capture(fn, fullgraph=False)
    assert outcome(compiled, {}) == outcome(fn, {})
    assert breaks.EFFECT.name in reasons(compiled)


def test_a_token_from_before_breaks() -> None:
    def fn(x, token):
        SCALE.reset(token)
        return x * SCALE.get()

    def run(called):
        return called(torch.ones(2), SCALE.set(9)).tolist()

    compiled = capture(fn, fullgraph=False)
    assert contextvars.Context().run(run, compiled) == contextvars.Context().run(run, fn)
    assert breaks.EFFECT.name in reasons(compiled)
