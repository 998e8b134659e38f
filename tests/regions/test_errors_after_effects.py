"""Operators that fail on data after the program has done something: what was done before has happened,
handlers run, and everything after is as eagerly. Every effect is combined with every kind of handler, and
with half of the failing operators."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import framelift
from check import entries, reasons
from framelift.core.breaks import ERROR_AFTER_EFFECT

ROWS = torch.tensor([0, 2, 1])
BEYOND = torch.tensor([0, 7, 1])
NUMBERS = torch.arange(1, 4)
SQUARE = torch.eye(3)

FAILING: dict[str, tuple[Callable[[Any, Any], Any], torch.Tensor, torch.Tensor]] = {
    "index": (lambda x, i: x[i], ROWS, BEYOND),
    "store": (lambda x, i: x.clone().__setitem__(i, 1.0), ROWS, BEYOND),
    "cross entropy": (lambda x, i: functional.cross_entropy(x, i), ROWS, BEYOND),
    "integer division": (lambda x, i: NUMBERS // i, NUMBERS, NUMBERS - 2),
    "inverse": (lambda x, m: torch.linalg.inv(m) + x, SQUARE, SQUARE * 0),
    "draw": (lambda x, p: torch.bernoulli(p) + x, SQUARE, SQUARE * 2),
}

# ---- what was done before


class State:
    """What effects change, and calls start from."""

    def __init__(self) -> None:
        self.x = torch.arange(9.0).reshape(3, 3)
        self.mean, self.variance = torch.zeros(3), torch.ones(3)
        self.big = torch.zeros(1 << 19)
        self.generator = torch.Generator().manual_seed(3)
        self.calls: list[int] = []
        self.seen: list[Any] = []
        self.attribute = 0
        torch.manual_seed(1)
        random.seed(2)
        np.random.seed(3)

    def after(self) -> list[Any]:
        tensors = (self.x, self.mean, self.variance, self.big[:2], self.generator.get_state())
        streams = torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())
        found = [tensor.tolist() for tensor in tensors]
        return [*found, *streams, self.calls, self.seen, self.attribute, self.x.requires_grad]


STATE: State


@torch.library.custom_op("framelift_effects::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    STATE.calls.append(len(STATE.calls))
    return x + 1


noted.register_fake(torch.empty_like)


EFFECTS: dict[str, Callable[[State], Any]] = {
    "nothing": lambda s: s.x.sum(),
    "a write": lambda s: s.x.add_(1),
    "a write to a view": lambda s: s.x[1].mul_(2),
    "a store that may fail": lambda s: s.x.__setitem__(ROWS, 3.0),
    "statistics": lambda s: functional.batch_norm(s.x, s.mean, s.variance, training=True),
    "a large write": lambda s: s.big.add_(1),
    "dropout": lambda s: functional.dropout(s.x),
    "a number of Python's": lambda s: s.x * random.random(),
    "an array of NumPy's": lambda s: s.x * torch.from_numpy(np.random.rand(3)),
    "a generator": lambda s: torch.rand(2, generator=s.generator),
    "requires_grad": lambda s: s.x.requires_grad_(),
    "an operator of its own": lambda s: noted(s.x),
}

# ---- how the program handles errors


def handled(effect: Any, operation: Any, s: State, given: torch.Tensor) -> Any:
    s.seen.append("begins")
    done = effect(s)
    try:
        s.attribute += 1
        found = operation(s.x, given)
        s.seen.append("else")
    except (RuntimeError, IndexError) as error:
        s.seen.append(type(error).__name__)
        found = s.x.sum()
    finally:
        s.seen.append("finally")
    return done, found, torch.rand(1)


def unused(effect: Any, operation: Any, s: State, given: torch.Tensor) -> Any:
    done = effect(s)
    try:
        operation(s.x, given)
    except (RuntimeError, IndexError):
        return done, "failed"
    return done, s.x + 1


def suppressed(effect: Any, operation: Any, s: State, given: torch.Tensor) -> Any:
    found = done = None
    with torch.no_grad(), contextlib.suppress(RuntimeError, IndexError):
        done = effect(s)
        s.seen.append(torch.is_grad_enabled())
        found = operation(s.x, given)
    s.attribute += 1
    return done, found, torch.is_grad_enabled()


def in_a_callee(effect: Any, operation: Any, s: State, given: torch.Tensor) -> Any:
    def inner() -> Any:
        with torch.no_grad():
            return operation(s.x, given)

    done = effect(s)
    with noting(s.seen):
        return done, inner()
    return done, None


@contextlib.contextmanager
def noting(seen: list[Any]) -> Iterator[None]:
    seen.append("entered")
    try:
        yield
    except (RuntimeError, IndexError) as error:
        seen.append(str(error))
    finally:
        seen.append("left")


def left_to_the_caller(effect: Any, operation: Any, s: State, given: torch.Tensor) -> Any:
    s.attribute += 1
    done = effect(s)
    return done, operation(s.x, given)


PROGRAMS = [handled, unused, suppressed, in_a_callee, left_to_the_caller]
LASTING = ("a large write", "an operator of its own")
"""Effects that can't be undone."""


def outcome(fn: Any, effect: Any, operation: Any, given: torch.Tensor) -> Any:
    global STATE
    s = STATE = State()
    try:
        found: Any = fn(effect, operation, s, given)
    except (RuntimeError, IndexError) as error:
        found = type(error), str(error)
    plain = torch.utils._pytree.tree_map(lambda x: x.tolist() if isinstance(x, torch.Tensor) else x, found)
    return plain, s.after()


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_was_done_before_has_happened(program: Any, effect: str) -> None:
    if effect in LASTING and program is left_to_the_caller:
        pytest.skip("the graph raises as it is")
    names = list(FAILING)[(len(effect) + len(program.__name__)) % 2 :: 2]
    for n, name in enumerate(names):
        operation, good, bad = FAILING[name]
        backend = ("eager", "aot_eager")[(n + len(effect)) % 2]
        compiled = framelift.compile(program, backend=backend)
        for given in (good, bad, good, bad):
            expected = outcome(program, EFFECTS[effect], operation, given)
            assert outcome(compiled, EFFECTS[effect], operation, given) == expected, (name, backend)
        assert entries(compiled) > 0


@pytest.mark.parametrize("effect", ["a write", "statistics", "dropout", "a number of Python's"])
def test_what_can_be_undone_is_one_graph(effect: str) -> None:
    operation, good, bad = FAILING["cross entropy"]
    compiled = framelift.compile(handled, backend="eager", fullgraph=True)
    for given in (good, bad):
        expected = outcome(handled, EFFECTS[effect], operation, given)
        assert outcome(compiled, EFFECTS[effect], operation, given) == expected


@pytest.mark.inductor
def test_what_was_done_before_has_happened_with_inductor() -> None:
    for effect in ("a write", "statistics", "a large write"):
        operation, good, bad = FAILING["cross entropy"]
        compiled = framelift.compile(unused, backend="inductor")
        for given in (good, bad, good):
            expected, state = outcome(unused, EFFECTS[effect], operation, given)
            found, state_after = outcome(compiled, EFFECTS[effect], operation, given)
            assert found[1:] == expected[1:]
            torch.testing.assert_close(state_after[:4], state[:4])


# ---- what can't be undone


@pytest.mark.parametrize("effect", LASTING)
def test_the_trace_ends_in_front_of_an_operator_whose_error_is_handled(effect: str) -> None:
    operation, good, _ = FAILING["index"]
    compiled = framelift.compile(handled, backend="eager")
    compiled(EFFECTS[effect], operation, prepared(), good)
    assert ERROR_AFTER_EFFECT.name in reasons(compiled)


def test_without_handlers_the_graph_is_whole() -> None:
    operation, good, bad = FAILING["index"]
    compiled = framelift.compile(left_to_the_caller, backend="eager", fullgraph=True)
    for effect in LASTING:
        outcome(compiled, EFFECTS[effect], operation, good)
        found, after = outcome(compiled, EFFECTS[effect], operation, bad)
        assert found[0] is IndexError
        expected = outcome(left_to_the_caller, EFFECTS[effect], operation, bad)[1]
        assert after[:8] == expected[:8]


def prepared() -> State:
    global STATE
    STATE = State()
    return STATE


# ---- what undoing costs


def lines_of(fn: Any, *args: Any) -> str:
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(*args)
    states = compiled._framelift_context.code_states.values()
    return "\n".join(entry.capture.region.source for state in states for entry in state.entries)


def training(x: Any, target: Any, weight: Any, mean: Any, variance: Any) -> Any:
    y = functional.batch_norm(x @ weight, mean, variance, training=True)
    loss = functional.cross_entropy(y, target)
    (grad,) = torch.autograd.grad(loss, [weight])
    with torch.no_grad():
        weight.sub_(grad)
    return loss


def test_statistics_are_copied_and_parameters_are_not() -> None:
    def given() -> tuple[Any, ...]:
        torch.manual_seed(0)
        weight = torch.randn(3, 3, requires_grad=True)
        return torch.randn(3, 3), weight, torch.zeros(3), torch.ones(3)

    for backend in ("eager", "aot_eager"):
        compiled = framelift.compile(training, backend=backend, fullgraph=True)
        for target in (ROWS, BEYOND, ROWS):
            results = []
            for fn in (training, compiled):
                x, weight, mean, variance = given()
                versions = [each._version for each in (weight, mean)]
                try:
                    found = fn(x, target, weight, mean, variance).item()
                except IndexError as error:
                    found = str(error)
                counts = [each._version - v for each, v in zip((weight, mean), versions, strict=True)]
                state = [each.tolist() for each in (weight, mean, variance)]
                results.append((found, state, counts if target is BEYOND else None))
            assert results[0] == results[1]


def test_a_graph_without_failing_calls_copies_nothing() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * y

    def failing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1)[y.long()]

    def failing_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y[y.long()] + x.add_(1)

    given = (torch.ones(3), torch.ones(3))
    assert "copies" not in lines_of(fn, *given)
    assert "copies" in lines_of(failing, *given)
    assert "copies" not in lines_of(failing_first, *given)
