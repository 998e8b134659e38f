"""Recompile limits and `framelift.config`: how often, in which places, and what is said past the limit."""

from __future__ import annotations

import copy
import gc
import logging
import threading
from typing import Any

import pytest
import torch

import framelift
from check import captures
from framelift.dispatch import recompiles

X = torch.ones(2)


@pytest.fixture(autouse=True)
def defaults() -> Any:
    framelift.reset()
    framelift.config.automatic_dynamic_shapes = False  # each number is an entry of its own
    yield
    framelift.config.reset()
    framelift.reset()


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def call(compiled: Any, times: int) -> None:
    for n in range(times):
        assert torch.equal(compiled(X, n), X * n)


# ---- the limit of one code object


def test_past_the_limit_a_function_runs_as_plain_python_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compiled = framelift.compile(scaled, backend="eager")
    with caplog.at_level(logging.WARNING, logger="framelift"):
        call(compiled, 20)
        assert captures(compiled) == 8  # the limit, of 20 numbers
        call(compiled, 20)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.splitlines() == [
        f"scaled ({__file__}:{scaled.__code__.co_firstlineno}) hit config.recompile_limit (8 entries); "
        "it runs as plain Python where none of them fits",
        "  last reason: n == 7, found 8",
        "  guard failed: n == 6, found 7",
        "  guard failed: n == 5, found 6",
        "  guard failed: n == 4, found 5",
        "  guard failed: n == 3, found 4",
        "  and 3 more",
        "  Why so often (integer, 8 times): An int that keeps changing was compiled in as a constant.",
        "  What to do: Compile with dynamic=True, or pass `n` as a tensor.",
        '  To log all reasons, use TORCH_LOGS="recompiles"',
    ]
    (found,) = framelift.entries(compiled)
    assert found.skipped is not None and len(found.recompiles) == 7  # and no more, however often it is called


def test_entries_stay_in_use_past_the_limit() -> None:
    compiled = framelift.compile(scaled, backend="eager", recompile_limit=1)
    call(compiled, 3)
    before = framelift.entries(compiled)[0].entries[0].hits
    compiled(X, 0)
    assert framelift.entries(compiled)[0].entries[0].hits == before + 1


def test_the_limit_can_be_set_for_all_and_for_one() -> None:
    one = framelift.compile(scaled, backend="eager", recompile_limit=3)
    other = framelift.compile(scaled, backend="eager")
    with framelift.config.patch(recompile_limit=2):
        call(one, 6), call(other, 6)
    assert (captures(one), captures(other)) == (3, 2)  # the limits, of 6 numbers


def test_a_limit_that_is_raised_counts_at_once() -> None:
    compiled = framelift.compile(scaled, backend="eager")
    with framelift.config.patch(recompile_limit=2):
        call(compiled, 6)
    assert captures(compiled) == 2 and framelift.entries(compiled)[0].skipped is not None
    framelift.config.recompile_limit = 5
    call(compiled, 6)
    assert captures(compiled) == 5
    framelift.config.recompile_limit = 16
    call(compiled, 6)
    # all six numbers
    assert captures(compiled) == 6 and framelift.entries(compiled)[0].skipped is None


def test_the_rest_of_a_function_may_have_eight_times_as_many() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for n in range(30):
            x = x + n
            print("effect")
        return x

    compiled = framelift.compile(fn, backend="eager", recompile_limit=2)
    assert torch.equal(compiled(X), fn(X))
    # eight times the limit of 2
    assert max(len(found.entries) for found in framelift.entries(compiled)) == 16


@pytest.mark.parametrize("by", ["fullgraph", "config"])
def test_past_the_limit_may_be_an_error(by: str) -> None:
    compiled = framelift.compile(scaled, backend="eager", fullgraph=by == "fullgraph", recompile_limit=2)
    call(compiled, 2)
    error = (
        framelift.exc.RecompileLimitExceeded if by == "fullgraph" else framelift.exc.FailOnRecompileLimitHit
    )
    with framelift.config.patch(fail_on_recompile_limit_hit=by == "config"):
        for _ in range(2):
            with pytest.raises(error, match=r"(?s)recompile_limit \(2 entries\).*n == 1, found 2") as raised:
                compiled(X, 2)
        asked = "fullgraph=True" if by == "fullgraph" else "fail_on_recompile_limit_hit"
        assert asked in str(raised.value) and "What to do:" in str(raised.value)
        call(compiled, 2)  # what is compiled still runs


def test_every_recompilation_can_be_an_error() -> None:
    compiled = framelift.compile(scaled, backend="eager")
    framelift.config.error_on_recompile = True
    compiled(X, 1)
    for _ in range(2):
        with pytest.raises(framelift.exc.RecompileError, match=r"(?s)error_on_recompile.*n == 1, found 2"):
            compiled(X, 2)
    assert captures(compiled) == 1 and not framelift.entries(compiled)[0].recompiles
    framelift.config.error_on_recompile = False
    compiled(X, 2)
    assert captures(compiled) == 2  # n == 1, and then n == 2


# ---- who competes with whom


def test_a_function_compiled_again_shares_its_entries_and_raises_their_limit() -> None:
    functions = [framelift.compile(scaled, backend="eager") for _ in range(12)]
    for n, compiled in enumerate(functions):
        compiled(X, n)
    assert {captures(compiled) for compiled in functions} == {12}
    del functions[2:], compiled
    context = functions[0]._framelift_context
    assert recompiles.limit(context, context.state_of(scaled.__code__)) == 16


def test_lambdas_of_one_loop_do_not_compete() -> None:
    functions = [framelift.compile(lambda x, n=n: x * n, backend="eager") for n in range(12)]
    for n, compiled in enumerate(functions):
        assert torch.equal(compiled(X), X * n)
    assert {captures(compiled) for compiled in functions} == {12}


class Layer(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.n


def test_instances_of_one_class_do_not_compete() -> None:
    layers = [framelift.compile(Layer(n), backend="eager") for n in range(12)]
    for n, layer in enumerate(layers):
        assert torch.equal(layer(X), X * n)
    assert {captures(layer) for layer in layers} == {12}


def test_callers_of_one_function_do_not_compete_for_it() -> None:
    def caller(x: torch.Tensor, n: int) -> torch.Tensor:
        print("effect")
        return framelift.disable(lambda: None)() or scaled(x, n)

    callers = [framelift.compile(caller, backend="eager", recompile_limit=2) for _ in range(3)]
    gc.disable()  # entries go with the functions made inside, which are in cycles
    try:
        for compiled in callers:
            call(compiled, 2)
        assert len({tuple(len(found.entries) for found in framelift.entries(one)) for one in callers}) == 1
    finally:
        gc.enable()


def test_all_compiled_functions_together_have_a_limit_on_a_code_object(
    caplog: pytest.LogCaptureFixture,
) -> None:
    framelift.config.accumulated_recompile_limit = 5
    functions = [framelift.compile(scaled, backend="eager", name=str(n)) for n in range(4)]
    with caplog.at_level(logging.WARNING, logger="framelift"):
        for compiled in functions:
            call(compiled, 2)
    assert [captures(compiled) for compiled in functions] == [2, 2, 1, 0]  # 5 in all, of two numbers each
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2 and all("accumulated_recompile_limit (5 entries" in text for text in messages)
    assert "isolate_recompiles=True" in messages[1]
    framelift.reset()
    call(functions[3], 2)
    assert captures(functions[3]) == 2


def test_an_isolated_function_neither_counts_nor_is_counted() -> None:
    framelift.config.accumulated_recompile_limit = 3
    alone = framelift.compile(scaled, backend="eager", isolate_recompiles=True)
    call(alone, 5)
    assert captures(alone) == 5  # all numbers
    shared = framelift.compile(scaled, backend="eager")
    call(shared, 5)
    assert captures(shared) == 3  # the limit
    again = framelift.compile(scaled, backend="eager", isolate_recompiles=True)
    call(again, 2)
    assert captures(again) == 2  # all numbers


def test_functions_that_are_gone_are_not_counted() -> None:
    framelift.config.accumulated_recompile_limit = 3
    for n in range(6):
        assert framelift.explain(scaled)(X, n).graph_count == 1


def test_copies_of_an_isolated_module_have_entries_of_their_own() -> None:
    for isolated in (False, True):
        layer = framelift.compile(Layer(1), backend="eager", isolate_recompiles=isolated)
        other = copy.deepcopy(layer)
        layer(X), other(X)
        assert (layer._framelift_context is other._framelift_context) is not isolated
        assert captures(layer) == 1 and captures(other) == 1


def test_a_limit_holds_for_threads_together() -> None:
    compiled = framelift.compile(scaled, backend="eager", recompile_limit=4)
    threads = [threading.Thread(target=call, args=(compiled, 10)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert captures(compiled) == 4  # the limit, of 10 numbers


# ---- framelift.config


def test_the_configuration_is_shown_and_put_back() -> None:
    before = repr(framelift.config)
    assert "recompile_limit=8" in before and "accumulated_recompile_limit=256" in before
    with pytest.raises(ZeroDivisionError), framelift.config.patch(recompile_limit=2, error_on_recompile=True):
        assert framelift.config.recompile_limit == 2 and framelift.config.error_on_recompile
        raise ZeroDivisionError
    assert repr(framelift.config) == before
    assert "recompile_limit" in dir(framelift.config)


def test_patch_decorates_functions_too() -> None:
    @framelift.config.patch(recompile_limit=3)
    def asked() -> int:
        return framelift.config.recompile_limit

    assert (asked(), framelift.config.recompile_limit, asked()) == (3, 8, 3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("recompile_limit", 0, "must be at least 1, not 0"),
        ("recompile_limit", 2.0, r"must be of type int, not 2.0 \(float\)"),
        ("recompile_limit", True, r"must be of type int, not True \(bool\)"),
        ("accumulated_recompile_limit", "many", r"must be of type int, not 'many' \(str\)"),
        ("error_on_recompile", 1, r"must be of type bool, not 1 \(int\)"),
        ("recompile_limits", 3, "no option 'recompile_limits'; did you mean 'recompile_limit'"),
        ("zzz", 3, "no option 'zzz'; known are: recompile_limit"),
    ],
)
def test_wrong_options_and_values_are_errors(name: str, value: Any, message: str) -> None:
    before = repr(framelift.config)
    with pytest.raises(framelift.exc.UserError, match=message):
        setattr(framelift.config, name, value)
    with pytest.raises(framelift.exc.UserError, match=message), framelift.config.patch(**{name: value}):
        pass
    with pytest.raises(framelift.exc.UserError, match=message):  # nothing of it is set
        framelift.config.patch(fail_on_recompile_limit_hit=True, **{name: value}).__enter__()
    assert repr(framelift.config) == before


def test_options_can_be_neither_deleted_nor_asked_for_by_another_name() -> None:
    with pytest.raises(framelift.exc.UserError, match="can't be deleted; its default is 8"):
        del framelift.config.recompile_limit
    with pytest.raises(AttributeError, match="no option 'recompile'"):
        framelift.config.recompile  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recompile_limit": 0}, "framelift.compile: recompile_limit must be at least 1, not 0"),
        ({"recompile_limit": "8"}, "framelift.compile: recompile_limit must be of type int"),
        ({"isolate_recompiles": 1}, "framelift.compile: isolate_recompiles must be a bool, not 1"),
    ],
)
def test_wrong_limits_of_compile_are_errors(settings: dict[str, Any], message: str) -> None:
    for compile_it in (lambda: framelift.compile(scaled, **settings), lambda: framelift.compile(**settings)):
        with pytest.raises(framelift.exc.UserError, match=message):
            compile_it()
