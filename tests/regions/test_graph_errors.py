"""Graphs that fail for what is in their arguments: the program gets the error in its own line, handles it as
it would, and has done before that what it does before that."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import framelift
from check import compare, copied, entries, run, why_not
from framelift import counters

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SQUARE = torch.eye(3)
ROWS = torch.tensor([0, 2, 1])
BEYOND = torch.tensor([0, 7, 1])

OPERATIONS: dict[str, tuple[Operation, torch.Tensor, torch.Tensor]] = {
    "index": (lambda x, i: x[i], ROWS, BEYOND),
    "embedding": (lambda x, i: functional.embedding(i, x), ROWS, BEYOND),
    "gather": (lambda x, i: x.gather(0, i[:, None]), ROWS, BEYOND),
    "index_select": (lambda x, i: x.index_select(0, i), ROWS, BEYOND),
    "take": (lambda x, i: x.take(i), ROWS, ROWS + 9),
    "scatter": (lambda x, i: x.scatter(0, i[:, None], 1.0), ROWS, BEYOND),
    "index_add": (lambda x, i: x.index_add(0, i, x), ROWS, BEYOND),
    "cross_entropy": (lambda x, i: functional.cross_entropy(x, i), ROWS, BEYOND),
    "cholesky": (lambda x, m: torch.linalg.cholesky(m) @ x, SQUARE, -SQUARE),
    "inverse": (lambda x, m: torch.linalg.inv(m) @ x, SQUARE, SQUARE * 0),
    "multinomial": (lambda x, p: x[torch.multinomial(p, 2)], SQUARE[0], -SQUARE[0]),
    "assertion": (lambda x, m: asserted(x, m), SQUARE, SQUARE * 0),
}


DROPPED = set() if torch.__version__ >= "2.13" else {"cholesky", "inverse"}
"""AOTAutograd leaves out what would raise."""


def asserted(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    torch._assert_async(m[0, 0] > 0)
    return x * m


def nothing() -> None:
    pass


@framelift.disable
def stop() -> None:
    pass


# ---- what programs do about an error


def handled(op: Operation, x: torch.Tensor, given: torch.Tensor, log: list[Any], between: Any) -> Any:
    log.append("begins")
    try:
        between()
        y = op(x * 2, given)
    except (IndexError, RuntimeError) as error:
        log.append(type(error).__name__)
        between()
        return x.sum() - 1
    else:
        log.append("else")
    finally:
        log.append("finally")
    return y.sum()


def left_to_the_caller(
    op: Operation, x: torch.Tensor, given: torch.Tensor, log: list[Any], between: Any
) -> Any:
    log.append(x.shape)
    between()
    y = op(x, given)
    log.append("not reached")
    return y * 2


def in_a_callee(op: Operation, x: torch.Tensor, given: torch.Tensor, log: list[Any], between: Any) -> Any:
    def inner() -> torch.Tensor:
        between()
        return op(x, given) + 1

    results = [x.sum()]
    for _ in range(2):
        with contextlib.suppress(IndexError, RuntimeError):
            results.append(inner().sum())
        log.append(len(results))
    return results


def in_contexts(op: Operation, x: torch.Tensor, given: torch.Tensor, log: list[Any], between: Any) -> Any:
    with torch.no_grad(), noting(log):
        between()
        y = op(x, given)
        log.append(torch.is_grad_enabled())
    return y


@contextlib.contextmanager
def noting(log: list[Any]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        log.append(f"saw {type(error).__name__}")
        raise
    finally:
        log.append("left")


def in_a_generator(op: Operation, x: torch.Tensor, given: torch.Tensor, log: list[Any], between: Any) -> Any:
    def made() -> Iterator[torch.Tensor]:
        try:
            yield x * 2
            between()
            yield op(x, given)
        finally:
            log.append("closed")

    return [y.sum() for y in made()]


PROGRAMS = [handled, left_to_the_caller, in_a_callee, in_contexts, in_a_generator]


@pytest.mark.parametrize("between", [nothing, stop])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_error_is_the_programs(program: Any, name: str, between: Any) -> None:
    op, good, bad = OPERATIONS[name]
    for backend in ("eager", "aot_eager")[: 1 if name in DROPPED else 2]:
        compiled = framelift.compile(program, backend=backend, fullgraph=between is nothing)
        for given in (good, bad, good, bad):
            outcomes = []
            for fn in (program, compiled):
                torch.manual_seed(0)
                copies = copied((torch.arange(9.0).reshape(3, 3) + 1, given, []))
                outcome = run(fn, (op, *copies, between), {})
                outcomes.append((outcome, torch.is_grad_enabled(), torch.get_rng_state().tolist()))
            compare(outcomes[0][0], outcomes[1][0])
            assert outcomes[0][1:] == outcomes[1][1:]
        assert why_not(compiled) is None
        assert entries(compiled) > 0


def test_the_lines_of_an_error_are_the_programs() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return inner(y, i) + 1

    def inner(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i]

    for backend in ("eager", "aot_eager", "inductor"):
        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        compiled(torch.ones(3), ROWS)
        with pytest.raises(IndexError) as caught:
            compiled(torch.ones(3), BEYOND)
        lines = [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert lines[-2:] == ["return inner(y, i) + 1", "return x[i]"]
        assert caught.value.__context__ is None
        assert entries(compiled) == 1


def test_random_numbers_are_drawn_once() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        y = x * torch.rand(3)
        try:
            return y[i], torch.rand(2)
        except IndexError:
            return y, torch.rand(4)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for given in (ROWS, BEYOND, ROWS):
        found = []
        for each in (fn, compiled):
            torch.manual_seed(1)
            found.append([part.tolist() for part in each(torch.ones(3), given)] + [torch.rand(1).item()])
        assert found[0] == found[1]
    assert entries(compiled) == 1


# ---- what does not run again


def test_what_was_written_to_is_not_written_to_twice() -> None:
    """The graph may have written before it failed: the error is the caller's, as it is."""

    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x[i]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    x = torch.zeros(3)
    compiled(x, ROWS)
    with pytest.raises(IndexError):
        compiled(x, BEYOND)
    assert x.tolist() == [2.0] * 3


def test_an_operator_of_the_programs_own_runs_once() -> None:
    calls: list[int] = []

    @torch.library.custom_op("framelift_again::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(calls))
        return x + 1

    noted.register_fake(torch.empty_like)

    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return noted(x)[i]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(torch.ones(3), ROWS)
    with pytest.raises(IndexError):
        compiled(torch.ones(3), BEYOND)
    assert calls == [0, 1]


def test_a_generator_of_the_programs_own_is_not_drawn_from_twice() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor, generator: torch.Generator) -> Any:
        return (x * torch.rand(3, generator=generator))[i]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    states = []
    for each in (fn, compiled):
        generator = torch.Generator().manual_seed(3)
        each(torch.ones(3), ROWS, generator)
        with pytest.raises(IndexError):
            each(torch.ones(3), BEYOND, generator)
        states.append(generator.get_state().tolist())
    assert states[0] == states[1]


def test_tensors_that_wrap_others_do_not_run_again() -> None:
    """What they do in an operator may be a collective."""

    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] * 2

    counters.clear()
    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    x = TwoTensor(torch.ones(3), torch.ones(3))
    compiled(x, ROWS)
    with pytest.raises(IndexError):
        compiled(x, BEYOND)
    assert not counters["graph_errors"] and entries(compiled) == 1


def failing(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
    def call(*args: Any) -> Any:
        raise ValueError("the backend is broken")

    return call


def test_an_error_that_the_program_does_not_have_is_the_backends() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.raises(ValueError, match="the backend is broken") as caught:
        framelift.compile(fn, backend=failing)(torch.ones(3))
    assert caught.value.__notes__ == ["The compiled graph of fn raised this; plain Python does not."]


def test_an_error_that_may_have_been_handled_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def guarded(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * 2
        except KeyError:
            return x

    counters.clear()
    compiled = framelift.compile(guarded, backend=failing)
    with caplog.at_level(logging.INFO, "framelift.regions.rerun"):
        for _ in range(3):
            assert compiled(torch.ones(3)).tolist() == [2.0] * 3
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [
        (
            "INFO",
            "the graph of guarded raised ValueError: the backend is broken\n"
            "It ran as plain Python instead, and returned.",
        )
    ]
    assert counters["graph_errors"] == {"guarded: ValueError": 3}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, framelift.exc.WrongResult])
def test_an_error_that_says_nothing_of_the_program_is_raised(kind: Any) -> None:
    def backend(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        def call(*args: Any) -> Any:
            raise kind("now")

        return call

    def fn(x: torch.Tensor, calls: list[int]) -> torch.Tensor:
        calls.append(1)
        try:
            return x * 2
        except Exception:
            return x

    calls: list[int] = []
    with pytest.raises(kind, match="now"):
        framelift.compile(fn, backend=backend)(torch.ones(3), calls)
    assert calls == []


def test_warnings_are_not_errors() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(torch.arange(3.0), ROWS).tolist() == [0.0, 2.0, 1.0]


# ---- what sees the graph compute


def test_hooks_on_saved_tensors_see_nothing_twice() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.sin().exp()[i]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(torch.ones(3, requires_grad=True), ROWS)
    seen: list[list[torch.Size]] = []
    for each in (fn, compiled):
        packed: list[torch.Size] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, packed=packed: (packed.append(x.shape), x)[1],  # type: ignore[misc]
            lambda x: x,
        ):
            each(torch.ones(3, requires_grad=True), ROWS)
            with pytest.raises(IndexError):
                each(torch.ones(3, requires_grad=True), BEYOND)
        seen.append(packed)
    assert seen[0] == seen[1] and seen[0]
    assert why_not(compiled) is None and entries(compiled) > 0


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_dispatch_modes_see_nothing_twice() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.sin()[i]

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(torch.ones(3), ROWS)
    modes = [Counting(), Counting()]
    for each, mode in zip((fn, compiled), modes, strict=True):
        with mode, pytest.raises(IndexError):
            each(torch.ones(3), BEYOND)
    assert modes[0].seen == modes[1].seen


def fails_within_a_handler(x: torch.Tensor) -> Any:
    try:
        raise KeyError(1)
    except KeyError:
        try:
            x.view(7)
        except RuntimeError as error:
            return str(error), sys.exc_info()[0]


def fails_within_a_handler_of_the_same(x: torch.Tensor) -> Any:
    try:
        x.view(9)
    except RuntimeError:
        with contextlib.suppress(RuntimeError):
            x.view(7)
        return sys.exc_info()[0], x + 1


@pytest.mark.parametrize("fn", [fails_within_a_handler, fails_within_a_handler_of_the_same])
def test_no_exception_is_handled_afterwards(fn: Callable[..., Any]) -> None:
    x = torch.ones(2)
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        compare(run(fn, (x,), {}), run(compiled, (x,), {}))
        assert sys.exception() is None
