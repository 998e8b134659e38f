"""A mistake of Framelift's is none of the program's: it never sees it, and gets its result."""

from __future__ import annotations

import contextlib
import functools
import logging
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from check import capture, check, reasons
from framelift.core import breaks
from framelift.core.blame import acts_for_program
from framelift.regions import region
from framelift.trace import faults, native_calls
from framelift.trace.attributes import Attributes
from framelift.trace.bodies import HIGHER_ORDER_OPERATORS, captures
from framelift.trace.callable_rules import HANDLERS
from framelift.trace.operators import Operators
from framelift.trace.shadows import DELETED

pytestmark = pytest.mark.faults


def handles_everything(x: torch.Tensor, log: list[Any]) -> Any:
    y = x + 1
    try:
        largest = max(log, default=0)
    except Exception as error:
        return repr(error)
    log.append(largest + 1)
    return y * largest


def test_the_program_does_not_see_it(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(native_calls, "rule_of", None)
    compiled = capture(handles_everything, fullgraph=False)
    log = [3]
    with caplog.at_level(logging.ERROR):
        assert compiled(torch.ones(2), log).tolist() == [6.0, 6.0]
    assert log == [3, 4]
    assert "bug in Framelift" in reasons(compiled)
    assert "'NoneType' object is not callable" in caplog.text
    assert "please report" in caplog.text.lower()


def test_with_fullgraph_it_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_calls, "rule_of", None)
    with pytest.raises(framelift.exc.Unsupported, match="bug in Framelift.*TypeError"):
        capture(handles_everything)(torch.ones(2), [3])


def test_after_the_trace_the_frame_runs_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region, "replay", None)
    log = [3]
    assert capture(handles_everything, fullgraph=False)(torch.ones(2), log).tolist() == [6.0, 6.0]
    assert log == [3, 4]


def errors_of_the_programs(x: torch.Tensor, n: int) -> Any:
    found = []
    for operation in (
        lambda: {}["missing"],
        lambda: [][n],
        lambda: n / 0,
        lambda: n.nothing,
        lambda: undefined_name,  # noqa: F821
        lambda: next(iter(())),
        lambda: int("x"),
        lambda: x.reshape(7),
        lambda: sorted([n, "a"]),
        lambda: len(n),
        lambda: (lambda a: a)(),
        lambda: hash([]),
        lambda: {[]: 1},
        lambda: setattr(n, "a", 1),
        lambda: isinstance(n, 3),
        lambda: x + "a",
        lambda: getattr(x, "nothing"),  # noqa: B009
        lambda: torch.cat(3),
    ):
        try:
            operation()
        except Exception as error:
            found.append(type(error))
    return x + len(found), found


def test_errors_of_the_programs_are_not_taken_for_it(caplog: Any) -> None:
    with caplog.at_level(logging.ERROR, logger=faults.__name__):
        found = capture(errors_of_the_programs, torch.ones(3), 1, fullgraph=False)(torch.ones(3), 1)
    assert found[1] == errors_of_the_programs(torch.ones(3), 1)[1]
    assert not caplog.records


# ---- errors that only the trace has


class Hidden:
    def __init__(self) -> None:
        self.there = 3


def hide(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Framelift does not find an attribute, and says so as it would of one that the program lacks."""
    lookup = Attributes.own

    def own(self: Any, view: Any, obj: Any, asked: str) -> Any:
        return DELETED if asked == name else lookup(self, view, obj, asked)

    monkeypatch.setattr(Attributes, "own", own)


READERS: dict[str, Callable[[Any], Any]] = {
    "read": lambda obj: obj.there,
    "asked for": lambda obj: hasattr(obj, "there"),
    "with a default": lambda obj: getattr(obj, "there", None),
    "caught": lambda obj: attempted(lambda: obj.there),
    "suppressed": lambda obj: suppressed(lambda: obj.there),
}


def attempted(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except AttributeError:
        return "caught"


def suppressed(ask: Callable[[], Any]) -> Any:
    with contextlib.suppress(Exception):
        return ask()


@pytest.mark.parametrize("way", READERS)
def test_an_attribute_that_is_there_after_all(monkeypatch: pytest.MonkeyPatch, caplog: Any, way: str) -> None:
    hide(monkeypatch, "there")
    obj = Hidden()

    def program(x: torch.Tensor) -> Any:
        return x + 1, READERS[way](obj)

    compiled = capture(program, fullgraph=False)
    with caplog.at_level(logging.ERROR):
        found = compiled(torch.ones(2))
    assert found[1] == program(torch.ones(2))[1]
    assert "bug in Framelift" in reasons(compiled)
    assert "please report" in caplog.text.lower()
    with pytest.raises(framelift.exc.Unsupported, match="bug in Framelift"):
        capture(program)(torch.ones(2))


def program_that_raises(x: torch.Tensor, how: Callable[[], Any]) -> Any:
    y = x + 1
    how()
    return y


def value_error() -> None:
    raise ValueError("only the trace has it")


def fails_while_traced(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Callable[[], Any]:
    """A function of C's in Python's library of which Framelift gives an error that it does not have."""

    @acts_for_program
    def length(*_: Any) -> int:
        raise error

    monkeypatch.setattr(Operators, "length", length)
    return lambda: len([1, 2])


def test_an_error_that_the_plain_run_does_not_raise(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    how = fails_while_traced(monkeypatch, ValueError("only the trace has it"))
    compiled = capture(program_that_raises, fullgraph=False)
    before = framelift.counters["unimplemented"]["bug in Framelift"]
    with caplog.at_level(logging.ERROR):
        assert compiled(torch.ones(2), how).tolist() == [2.0, 2.0]
    assert "only the trace has it" in caplog.text
    assert "bug in Framelift" in reasons(compiled)
    assert framelift.counters["unimplemented"]["bug in Framelift"] > before
    with pytest.raises(framelift.exc.Unsupported, match="ValueError: only the trace has it") as raised:
        capture(program_that_raises)(torch.ones(2), how)
    assert "fullgraph" in str(raised.value) and "test_faults.py" in str(raised.value)


def test_an_error_of_another_class_than_the_plain_run_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    fails_while_traced(monkeypatch, ValueError("only the trace has it"))
    compiled = capture(program_that_raises, fullgraph=False)
    with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
        compiled(torch.ones(2), lambda: len([]) / 0 or 1 / 0)
    assert "raises ZeroDivisionError instead" in caplog.text


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_error_of_the_programs_is_no_fault(caplog: Any, fullgraph: bool) -> None:
    compiled = capture(program_that_raises, fullgraph=fullgraph)
    with caplog.at_level(logging.ERROR, logger=faults.__name__):
        for _ in range(12):  # more often than it is traced
            with pytest.raises(ValueError, match="only the trace"):
                compiled(torch.ones(2), value_error)
            with pytest.raises(RuntimeError):
                compiled(torch.ones(2), lambda: torch.ones(2) @ torch.ones(3))
    assert not caplog.records


def test_an_error_that_the_program_does_not_come_to(caplog: Any) -> None:
    """Operators that fail on real data, which the program does something about, or not."""

    def suppressing(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        with contextlib.suppress(IndexError):
            x[i].sum()
            raise ValueError("never raised")
        return x + 1

    def catching(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            torch.normal(x, x - 5)
            raise ValueError("never raised")
        except RuntimeError:
            return x + 1

    def failing(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x[i].sum()
        raise ValueError("never raised")

    framelift.reset()
    x, beyond = torch.ones(3), torch.tensor([7])
    for fn in (suppressing, catching):
        assert torch.equal(framelift.compile(fn, backend="eager")(x, beyond), x + 1)
    with pytest.raises(IndexError):
        framelift.compile(failing, backend="eager")(x, beyond)
    assert not caplog.records and breaks.FAULT.name not in framelift.counters["graph_break"]


def test_an_error_of_what_makes_fakes_ends_the_trace() -> None:
    hidden = torch.ones(2)
    box = types.SimpleNamespace(get=functools.lru_cache(lambda: hidden))

    def program(x: torch.Tensor) -> Any:
        try:
            return x + 1, box.get() * 2
        except AssertionError:
            return "caught"

    check(program, torch.ones(2), fullgraph=False)


def test_a_descriptor_that_raises_leaves_it_to_getattr() -> None:
    class Lenient:
        @property
        def broken(self) -> Any:
            return self.nothing.at_all

        def __getattr__(self, name: str) -> Any:
            if name == "nothing":
                raise AttributeError(name)
            return len(name)

    outside = Lenient()

    def program(x: torch.Tensor) -> Any:
        inside = Lenient()
        return x + outside.broken + inside.broken, hasattr(outside, "nothing"), hasattr(inside, "broken")

    check(program, torch.ones(2))


def test_traced_modules_are_called_for_real() -> None:
    module = torch.jit.trace(torch.nn.Linear(2, 2), (torch.ones(2),))

    def program(x: torch.Tensor) -> Any:
        try:
            return module(x) + 1, hasattr(module, "forward"), hasattr(module, "nothing")
        except Exception as error:
            return x, repr(error)

    check(program, torch.ones(2), fullgraph=False)


# ---- handlers of others


def operation(x: torch.Tensor, fn: Callable[[Any], Any]) -> Any:
    return fn(x)


@pytest.fixture
def operation_with_handler() -> Iterator[Callable[[Any], None]]:
    def register(handler: Any) -> None:
        captures(operation)(handler)

    yield register
    del HIGHER_ORDER_OPERATORS[operation], HANDLERS[operation]


def uses_operation(x: torch.Tensor) -> Any:
    try:
        return operation(x + 1, lambda y: y * 2)
    except KeyError:
        return "caught"


def test_a_handler_that_fails_is_named(operation_with_handler: Any, caplog: Any) -> None:
    def failing_handler(world: Any, x: Any, fn: Any) -> Any:
        return {}["not there"]

    operation_with_handler(failing_handler)
    compiled = capture(uses_operation, fullgraph=False)
    with caplog.at_level(logging.ERROR):
        assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
    assert reasons(compiled) == ["handler that fails"]
    assert "failing_handler" in caplog.text and "please report" not in caplog.text.lower()
    with pytest.raises(framelift.exc.Unsupported, match="failing_handler: KeyError"):
        capture(uses_operation)(torch.ones(2))


def test_what_a_handler_has_interpreted_raises_for_the_program(operation_with_handler: Any) -> None:
    operation_with_handler(lambda world, x, fn: world.calls.invoke(fn, x))

    def program(x: torch.Tensor) -> Any:
        try:
            return operation(x + 1, lambda y: {}["not there"])
        except KeyError:
            return x + 3

    check(program, torch.ones(2))
