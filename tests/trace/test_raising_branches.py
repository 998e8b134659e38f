"""Checks of data that raise are assertions in the graph: one graph, and the program's own exception.

Every form of a check is combined with every place that it may stand in, among effects that come before and
after it. Each program is called with data for which all is well and with data for which it is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from checking_programs import (
    BAD,
    CHECKS,
    GOOD,
    HANDLING,
    PLACES,
    State,
    among_effects,
    by_assert,
    by_distribution,
    by_raise,
)
from torch import distributions

import framelift
from check import captures, reasons
from framelift.core.breaks import DATA_DEPENDENT_BRANCH

named = lambda fn: fn.__name__


def outcome(fn: Callable[..., Any], *given: Any, x: torch.Tensor) -> Any:
    s, x = State(), x.clone()
    try:
        result: Any = fn(*given, s, x).tolist()
    except Exception as error:
        cause, context = error.__cause__, error.__context__
        result = type(error), str(error), error.args, vars(error), repr(cause), repr(context)
    return result, x.tolist(), s.found()


def assert_as_eagerly(compiled: Any, fn: Callable[..., Any], *given: Any) -> None:
    for x in (GOOD, BAD, GOOD + 1, BAD * 2):
        assert outcome(compiled, *given, x=x) == outcome(fn, *given, x=x)


@pytest.fixture(autouse=True)
def arguments_are_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which parts of torch turn off for the whole process."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


@pytest.mark.parametrize("place", PLACES, ids=named)
@pytest.mark.parametrize("check", CHECKS, ids=named)
def test_a_check_is_an_assertion(check: Any, place: Any) -> None:
    compiled = framelift.compile(place, backend="eager", isolate_recompiles=True)
    assert_as_eagerly(compiled, place, check)
    assert captures(compiled) == 1, reasons(compiled)


@pytest.mark.parametrize("place", HANDLING, ids=named)
@pytest.mark.parametrize("check", CHECKS, ids=named)
def test_a_check_whose_exception_is_handled_is_a_branch(check: Any, place: Any) -> None:
    """Either side is as likely as the other: both are captured."""
    compiled = framelift.compile(place, backend="eager", isolate_recompiles=True)
    assert_as_eagerly(compiled, place, check)
    assert reasons(compiled)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("check", [by_assert, by_raise, by_distribution], ids=named)
def test_with_compilers(check: Any, backend: str) -> None:
    def fn(s: State, x: torch.Tensor) -> torch.Tensor:
        s.log.append("before")
        s.buffer.add_(1)
        check(x)
        s.log.append("after")
        return x * 2 + s.buffer

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    assert_as_eagerly(compiled, fn)


def test_gradients_flow_past_a_check() -> None:
    def gradient(fn: Any, x: torch.Tensor) -> Any:
        leaf = x.clone().requires_grad_()
        try:
            fn(by_raise, State(), leaf).sum().backward()
        except ValueError as error:
            return error.args, leaf.grad
        return leaf.grad.tolist()  # type: ignore[union-attr]

    compiled = framelift.compile(among_effects, backend="aot_eager", fullgraph=True)
    for x in (GOOD, BAD, GOOD):
        assert gradient(compiled, x) == gradient(among_effects, x)


def test_a_check_that_only_the_compiled_graph_fails_is_passed() -> None:
    def fn(x):
        assert x.sum() < 1
        return x + 1

    def backend(graph: Any, examples: Any) -> Any:
        return lambda *args: graph(*[arg + 1e-3 for arg in args])

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    x = torch.tensor([0.4995, 0.5])
    assert torch.equal(compiled(x), fn(x))


def test_a_check_fails_under_hooks_that_see_what_is_saved() -> None:
    def fn(s: State, x: torch.Tensor) -> torch.Tensor:
        y = (x.detach().requires_grad_() ** 2).sin()
        by_raise(x)
        return y.detach()

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert_as_eagerly(compiled, fn)


# ---- what can't be undone


CALLS: list[int] = []


@torch.library.custom_op("framelift_checks::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(len(CALLS))
    return x + 1


counted.register_fake(torch.empty_like)
LARGE = torch.zeros(1 << 19)


def operator_before(s, x):
    y = counted(x)
    by_raise(x)
    return y


def operator_behind(s, x):
    by_raise(x)
    return counted(x)


def large_write_before(s, x):
    LARGE.add_(1)
    by_raise(x)
    return LARGE[:3] + x


def large_write_in_front_of_another_check(s, x):
    by_raise(x)
    LARGE.add_(1)
    by_assert(x - 1e-3)
    return LARGE[:3] + x


@pytest.mark.parametrize("fn", [operator_before, operator_behind, large_write_before], ids=named)
def test_a_check_is_a_branch_where_the_graph_could_not_be_undone(fn: Any) -> None:
    check_effects(fn)


def test_a_write_between_checks_is_made_once() -> None:
    check_effects(large_write_in_front_of_another_check)


def check_effects(fn: Any) -> None:
    compiled = framelift.compile(fn, backend="eager", isolate_recompiles=True)
    for x in (GOOD, BAD, GOOD, torch.zeros(3)):
        found = []
        for each in (compiled, fn):
            CALLS.clear()
            LARGE.zero_()
            found.append((outcome(each, x=x), CALLS.copy(), LARGE[0].item()))
        assert found[0] == found[1]
    assert DATA_DEPENDENT_BRANCH.name in reasons(compiled)


def test_a_large_write_behind_all_checks_is_no_reason_to_break() -> None:
    def fn(s, x):
        by_raise(x)
        LARGE.add_(1)
        return LARGE[:3] + x

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for x in (GOOD, BAD):
        LARGE.zero_()
        expected = outcome(fn, x=x), LARGE[0].item()
        LARGE.zero_()
        assert (outcome(compiled, x=x), LARGE[0].item()) == expected


# ---- distributions

COVARIANCE = torch.eye(3) + 0.1
ARGUMENTS: dict[str, torch.Tensor] = {
    "covariance_matrix": COVARIANCE,
    "precision_matrix": COVARIANCE,
    "scale_tril": COVARIANCE.tril(),
    "cov_factor": torch.ones(3, 1),
    "total_count": torch.tensor(5.0),
    "df": torch.tensor(4.0),
}
PARAMETER = torch.tensor([0.2, 0.3, 0.4])
"""Where a distribution has no other argument of that name."""
POSITIONAL: dict[str, tuple[Any, ...]] = {
    "LKJCholesky": (3,),
    "RelaxedBernoulli": (torch.tensor(0.5),),
    "RelaxedOneHotCategorical": (torch.tensor(0.5),),
}
ALTERNATIVES = {"logits", "covariance_matrix", "precision_matrix"}
"""Arguments that stand for others, which are given."""


def classes() -> list[Any]:
    found = [getattr(distributions, name) for name in distributions.__all__]
    kinds = [one for one in found if inspect.isclass(one) and issubclass(one, distributions.Distribution)]
    return [one for one in kinds if type(one.arg_constraints) is dict and one.arg_constraints]


def arguments(cls: Any, alternative: str) -> dict[str, Any]:
    left = {name for name in cls.arg_constraints if name not in ALTERNATIVES - {alternative}}
    left -= {"probs"} if alternative == "logits" else {"scale_tril"} if alternative else set()
    needed = inspect.signature(cls).parameters.keys() & left
    return {name: ARGUMENTS.get(name, PARAMETER).clone() for name in needed}


def constructions() -> list[Any]:
    found = []
    for cls in classes():
        for alternative in ("", *sorted(ALTERNATIVES & cls.arg_constraints.keys())):
            found.append(pytest.param(cls, alternative, id=f"{cls.__name__}-{alternative}"))
    return found


@pytest.mark.parametrize(("cls", "alternative"), constructions())
def test_constructing_a_distribution_with_validation_gives_one_graph(cls: Any, alternative: str) -> None:
    given, first = arguments(cls, alternative), POSITIONAL.get(cls.__name__, ())
    names = list(given)

    def fn(*parameters: torch.Tensor) -> Any:
        made = cls(*first, **dict(zip(names, parameters, strict=True)), validate_args=True)
        return [getattr(made, name) for name in names], made.batch_shape, made.event_shape

    compiled = framelift.compile(fn, backend="eager", isolate_recompiles=True)
    cases = [list(given.values())]
    for n in range(len(names)):
        for wrong in (-cases[0][n], cases[0][n] * torch.nan):
            cases.append([wrong if n == at else value for at, value in enumerate(cases[0])])
    raised = 0
    for case in cases:
        expected, found = of_call(fn, case), of_call(compiled, case)
        assert found == expected
        raised += isinstance(expected, tuple)
    assert not isinstance(of_call(fn, cases[0]), tuple)
    assert captures(compiled) == 1, reasons(compiled)
    assert raised or not names


def of_call(fn: Callable[..., Any], args: list[Any]) -> Any:
    try:
        return repr(fn(*args))
    except Exception as error:
        return type(error), str(error)
