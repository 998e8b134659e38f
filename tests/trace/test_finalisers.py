"""Objects that a captured stretch lets go of are finalised in the order in which the program drops them."""

from __future__ import annotations

import collections
import itertools
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift


class Finalised:
    def __init__(self, name: Any, log: list[Any]) -> None:
        self.name, self.log = name, log

    def __del__(self) -> None:
        self.log.append(self.name)


class Places:
    """Where objects with finalisers are, outside."""

    def __init__(self, log: list[Any]) -> None:
        def make(name: str) -> Finalised:
            return Finalised(name, log)

        self.instance = types.SimpleNamespace(a=make("a"), b=make("b"))
        self.listed = [make("first"), make("last")]
        self.table = {"x": make("x"), "y": make("y")}
        self.queue = collections.deque([make("left"), make("right")])


def overwrite(places: Places) -> None:
    places.instance.b = None


def delete(places: Places) -> None:
    del places.instance.a


def pop(places: Places) -> None:
    places.listed.pop()


def replace(places: Places) -> None:
    places.listed[0] = None  # type: ignore[call-overload]


def take(places: Places) -> None:
    taken = places.table.pop("y", None)
    del taken


def forget(places: Places) -> None:
    places.table["x"] = None  # type: ignore[assignment]


def advance(places: Places) -> None:
    places.queue.popleft()


def clear(places: Places) -> None:
    places.table.clear()


DROPS: tuple[Callable[[Places], None], ...] = (overwrite, delete, pop, replace, take, forget, advance, clear)


@pytest.mark.parametrize(
    "drops", itertools.permutations(DROPS, 2), ids=lambda pair: "-".join(d.__name__ for d in pair)
)
def test_two_objects_are_finalised_in_the_programs_order(drops: tuple[Callable[[Places], None], ...]) -> None:
    def program(x: torch.Tensor, places: Places) -> Any:
        for drop in drops:
            x = x + 1
            drop(places)
        return x * 2

    found = []
    for run in (program, framelift.compile(program, backend="eager")):
        log: list[Any] = []
        places = Places(log)
        run(torch.ones(2), places)
        found.append(list(log))
    assert found[0] == found[1] and len(found[0]) >= 2


LOG: list[Any] = []


class Plain:
    """Has no finaliser of its own."""


REFERENCES: list[weakref.ref[Plain]] = []


def watched(name: Any) -> Plain:
    """What a weak reference calls something for when it dies."""
    found = Plain()
    REFERENCES.append(weakref.ref(found, lambda _: LOG.append(name)))
    return found


MAKERS: dict[str, Callable[[Any], Any]] = {"__del__": lambda name: Finalised(name, LOG), "callback": watched}
MAKER = {"kind": "__del__"}


@framelift.disable
def made(name: Any) -> Any:
    return MAKERS[MAKER["kind"]](name)


def delete_variables(x: torch.Tensor) -> Any:
    a, b = made("a"), made("b")
    LOG.append("made")
    del a
    LOG.append("after a")
    y = x + 1
    b = None  # noqa: F841
    LOG.append("end")
    return y


def put_others_into_a_variable(x: torch.Tensor) -> Any:
    a: Any = made("a")
    LOG.append(1)
    a = made("b")
    LOG.append(2)
    a = None  # noqa: F841
    LOG.append(3)
    return x + 1


def delete_where_an_error_is_handled(x: torch.Tensor) -> Any:
    a = made("a")
    try:
        torch.linalg.cholesky(x.sum() * 0 - torch.eye(2))
    except RuntimeError:
        LOG.append("caught")
        del a
        LOG.append("deleted")
    return x + 1


def drop_results(x: torch.Tensor) -> Any:
    made("a")
    LOG.append("after a")
    (lambda: made("b"))()
    LOG.append("after b")
    return x + 1


def take_out_of_a_list(x: torch.Tensor) -> Any:
    listed = [made(1), made(2)]
    LOG.append("made")
    listed.pop()
    LOG.append("popped")
    listed.clear()
    LOG.append("cleared")
    return x + 1


def hold_by_two_names(x: torch.Tensor) -> Any:
    table = {"key": made("key")}
    a: Any = table["key"]
    del table
    LOG.append("the table is gone")
    a = 1
    LOG.append("a is gone")
    return x + a


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "program",
    [
        delete_variables,
        put_others_into_a_variable,
        delete_where_an_error_is_handled,
        drop_results,
        take_out_of_a_list,
        hold_by_two_names,
    ],
)
def test_finalisers_run_in_between_what_else_is_done(
    program: Callable[..., Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MAKER, "kind", kind)
    found = []
    for run in (program, *2 * (framelift.compile(program, backend="eager"),)):
        run(torch.ones(2, 2))
        found.append(list(LOG))
        LOG.clear()
    assert found[0] == found[1] == found[2]


def test_one_object_is_captured_with() -> None:
    def program(x: torch.Tensor, places: Places) -> Any:
        places.instance.b = x + 1
        return x * 2

    log: list[Any] = []
    places = Places(log)
    framelift.compile(program, backend="eager", fullgraph=True)(torch.ones(2), places)
    assert log == ["b"]


# ---- objects that only variables hold, across breaks


LOG: list[Any] = []


class Ending:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append(self.name)


@framelift.disable
def note(what: Any) -> None:
    LOG.append(what)


def overwritten(x: torch.Tensor) -> torch.Tensor:
    held: Any = Ending("end")
    held = None  # noqa: F841
    LOG.append("after")
    return x + 1


def deleted(x: torch.Tensor) -> torch.Tensor:
    held = Ending("end")
    del held
    LOG.append("after")
    return x + 1


def held_until_the_end(x: torch.Tensor) -> torch.Tensor:
    held = Ending("end")  # noqa: F841
    note("first")
    LOG.append("second")
    note("third")
    LOG.append("fourth")
    return x + 1


def scope(x: torch.Tensor) -> torch.Tensor:
    held = Ending("end")  # noqa: F841
    note("within")
    return x * 2


def held_by_a_function_that_returns(x: torch.Tensor) -> torch.Tensor:
    y = scope(x)
    LOG.append("after")
    return y + 1


def handed_over(x: torch.Tensor) -> torch.Tensor:
    held = Ending("end")
    also = held
    held = None  # type: ignore[assignment]
    LOG.append("before")
    also = None  # type: ignore[assignment]  # noqa: F841
    LOG.append("after")
    return x + 1


PROGRAMS = (overwritten, deleted, held_until_the_end, held_by_a_function_that_returns, handed_over)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_object_that_variables_hold_is_finalised_when_they_let_go(program: Callable[..., Any]) -> None:
    found = []
    for run in (program, framelift.compile(program, backend="eager")):
        LOG.clear()
        for n in range(3):
            run(torch.full((2,), float(n)))
        found.append(list(LOG))
    assert found[0] == found[1] and found[0].count("end") == 3


class Named:
    name = "referred to"


def test_a_proxy_of_what_lives_on_behind_a_break() -> None:
    """A proxy has no attributes of its own that would say whether it calls something."""
    held = Named()
    proxies = [weakref.proxy(held), weakref.proxy(held, lambda _: None)]

    def program(x: torch.Tensor, held: Any) -> Any:
        note("break")
        y = x + 1
        return y * 2, [proxy.name for proxy in proxies]

    compiled = framelift.compile(program, backend="eager")
    found, expected = compiled(torch.ones(2), held), program(torch.ones(2), held)
    assert found[1] == expected[1] and torch.equal(found[0], expected[0])
