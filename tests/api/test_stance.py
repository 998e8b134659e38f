"""Stances: `set_stance` as a function, a context manager and a decorator; `run`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import framelift
from check import check
from framelift import _frame
from framelift.core import stance

X = torch.ones(2)


@pytest.fixture(autouse=True)
def default_stance() -> Any:
    framelift.reset()
    yield
    assert stance.get() == "default"


class Counting:
    """A backend that counts how often its graphs run."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            self.runs += 1
            return graph(*args)

        return run


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def graphs(compiled: Any) -> int:
    return sum(len(found.entries) for found in framelift.entries(compiled))


def test_force_eager_runs_nothing_that_is_compiled() -> None:
    backend = Counting()
    compiled = framelift.compile(scaled, backend=backend)
    compiled(X, 2)
    with framelift.set_stance("force_eager"):
        for n in (2, 3):
            assert torch.equal(compiled(X, n), X * n)
        assert not _frame.installed()
    assert (backend.runs, graphs(compiled)) == (1, 1)
    compiled(X, 2)
    assert backend.runs == 2


def test_force_eager_holds_for_modules_and_for_calls_below_plain_frames() -> None:
    backend = Counting()
    layer = framelift.compile(torch.nn.Linear(2, 2), backend=backend)
    inner = framelift.compile(scaled, backend=backend)
    outer = framelift.compile(framelift.skip(lambda x: inner(layer(x), 2)), backend=backend)
    expected = outer(X)
    runs = backend.runs
    with framelift.set_stance("force_eager"):
        assert torch.equal(outer(X), expected) and torch.equal(layer(X) * 2, expected)
    assert backend.runs == runs


def test_eager_on_recompile_uses_what_is_there_and_compiles_nothing() -> None:
    backend = Counting()
    compiled, other = (framelift.compile(scaled, backend=backend, name=name) for name in ("one", "other"))
    compiled(X, 2)
    with framelift.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(X, 2), X * 2) and backend.runs == 2
        assert torch.equal(compiled(X, 3), X * 3) and torch.equal(other(X, 3), X * 3)
    assert backend.runs == 2 and (graphs(compiled), graphs(other)) == (1, 0)
    compiled(X, 3)
    assert graphs(compiled) == 2  # n == 2, and then n == 3


def test_fail_on_recompile_says_what_does_not_hold() -> None:
    compiled = framelift.compile(scaled, backend="eager")
    compiled(X, 2)
    with framelift.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(X, 2), X * 2)
        with pytest.raises(framelift.exc.RecompileError) as raised:
            compiled(X, 3)
        with pytest.raises(framelift.exc.RecompileError, match="it has not been compiled before"):
            framelift.compile(scaled, backend="eager", isolate_recompiles=True)(X, 2)
    line = scaled.__code__.co_firstlineno
    assert str(raised.value).splitlines() == [
        f"Detected recompile when torch.compile stance is 'fail_on_recompile': scaled ({__file__}:{line})",
        "  triggered by the following guard failure(s):",
        "  entry 0: n == 2, found 3",
        f"    relied on at {__file__}:{line + 1}: x * n",
    ]
    assert graphs(compiled) == 1


def test_fail_on_recompile_leaves_alone_what_there_is_nothing_to_compile_in() -> None:
    def empty(n: int) -> int:
        return n + 1

    @framelift.skip
    def outer(x: torch.Tensor) -> torch.Tensor:
        return scaled(x, empty(1))

    def raising(x: torch.Tensor) -> torch.Tensor:
        raise KeyError(x)

    compiled, fails = framelift.compile(outer, backend="eager"), framelift.compile(raising, backend="eager")
    compiled(X)
    with pytest.raises(KeyError):
        fails(X)
    with framelift.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(X), X * 2)
        with pytest.raises(KeyError):
            fails(X)


def test_breaks_work_in_every_stance(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        for k in range(2):
            x = x * (n + k)
            print(k)
        return x

    compiled = framelift.compile(fn, backend="eager")
    expected = compiled(X, 2)
    count = graphs(compiled)
    for name in stance.STANCES:
        with framelift.set_stance(name):
            assert torch.equal(compiled(X, 2), expected)
    for name in ("force_eager", "eager_on_recompile"):
        with framelift.set_stance(name):
            assert torch.equal(compiled(X, 5), X * 30)
    assert graphs(compiled) == count and capsys.readouterr().out == "0\n1\n" * 9


# ---- forms


def test_as_a_function_it_holds_until_the_next() -> None:
    framelift.set_stance("force_eager")
    try:
        assert stance.get() == "force_eager"
    finally:
        framelift.set_stance("default")
    framelift.set_stance()
    assert stance.get() == "default"


def test_context_managers_nest_and_put_back_what_was_there() -> None:
    with framelift.set_stance("fail_on_recompile"):
        with pytest.raises(ZeroDivisionError), framelift.set_stance("force_eager"):
            assert stance.get() == "force_eager"
            raise ZeroDivisionError
        assert stance.get() == "fail_on_recompile"


def test_as_a_decorator_it_holds_for_each_call() -> None:
    seen: list[str] = []

    @framelift.set_stance("eager_on_recompile")
    def fn(depth: int) -> int:
        """Documented."""
        seen.append(stance.get())
        return depth and fn(depth - 1)

    assert stance.get() == "default" and fn.__doc__ == "Documented."
    fn(1)
    assert seen == ["eager_on_recompile"] * 2


@pytest.mark.parametrize("wrong", ["eager", "", None, 3, ["default"]])
def test_an_unknown_stance_is_an_error_that_lists_the_known(wrong: Any) -> None:
    with pytest.raises(
        framelift.exc.UserError, match="no stance .*known are: default, force_eager, eager_on_"
    ):
        framelift.set_stance(wrong)


def test_what_is_not_offered_is_an_error() -> None:
    with pytest.raises(framelift.exc.UserError, match="skip_guard_eval_unsafe is not offered"):
        framelift.set_stance("default", skip_guard_eval_unsafe=True)
    with pytest.raises(TypeError, match="decorates a function, not a int"):
        framelift.set_stance("force_eager")(3)  # type: ignore[arg-type]


def test_one_stance_for_all_threads() -> None:
    seen: list[str] = []
    with framelift.set_stance("eager_on_recompile"):
        thread = threading.Thread(target=lambda: seen.append(stance.get()))
        thread.start()
        thread.join()
    assert seen == ["eager_on_recompile"]


# ---- within compiled functions


def as_a_call(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    framelift.set_stance("eager_on_recompile")
    x = x * 2
    framelift.set_stance("default")
    return x - 1


def as_a_block(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with framelift.set_stance("force_eager"):
        x = x * 2
    return x - 1


DECORATED = framelift.set_stance("force_eager")(lambda x: x * 2)
ENTERED = framelift.set_stance("default")


def as_a_decorator(x: torch.Tensor) -> torch.Tensor:
    return DECORATED(x + 1) - 1


def as_a_block_from_outside(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with ENTERED:
        x = x * 2
    return x - 1


@pytest.mark.parametrize("fn", [as_a_call, as_a_block, as_a_decorator, as_a_block_from_outside])
def test_setting_the_stance_in_a_compiled_function_is_a_break(fn: Any) -> None:
    compiled = framelift.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(X), X * 3) and stance.get() == "default"
    with pytest.raises(framelift.exc.Unsupported, match="framelift.set_stance"):
        framelift.compile(fn, backend="eager", fullgraph=True)(X)


# ---- run


def test_run_uses_what_is_compiled_and_compiles_nothing() -> None:
    backend = Counting()
    compiled = framelift.compile(scaled, backend=backend)
    only = framelift.run(compiled)
    assert torch.equal(only(X, 2), X * 2) and graphs(compiled) == 0
    compiled(X, 2)
    assert torch.equal(only(X, 2), X * 2) and torch.equal(only(X, 3), X * 3)
    assert (backend.runs, graphs(compiled)) == (2, 1) and only.__name__ == "scaled"
    compiled(X, 3)
    assert graphs(compiled) == 2  # n == 2, and then n == 3


def test_run_holds_in_its_thread_and_for_the_time_of_the_call() -> None:
    compiled = framelift.compile(scaled, backend="eager")

    @framelift.disable
    def in_another_thread() -> None:
        thread = threading.Thread(target=compiled, args=(X, 2))
        thread.start()
        thread.join()

    def outer(x: torch.Tensor) -> torch.Tensor:
        in_another_thread()
        return x + 1

    only = framelift.run(framelift.compile(outer, backend="eager"))
    assert torch.equal(only(X), X + 1) and graphs(compiled) == 1 and graphs(only) == 0
    compiled(X, 3)
    assert graphs(compiled) == 2  # n == 2, and then n == 3


def test_run_is_no_error_where_the_stance_says_that_compiling_is_one() -> None:
    only = framelift.run(framelift.compile(scaled, backend="eager"))
    with framelift.set_stance("fail_on_recompile"):
        assert torch.equal(only(X, 2), X * 2)


def test_run_takes_modules_and_methods_and_may_stand_in_a_compiled_function() -> None:
    class Scaler:
        @framelift.compile(backend="eager")
        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    linear = torch.nn.Linear(2, 2)
    only = framelift.run(framelift.compile(linear, backend="eager"))
    assert torch.equal(only(X), linear(X))
    assert torch.equal(framelift.run(Scaler().scale)(X), X * 2)
    outer = framelift.compile(lambda x: only(x) + 1, backend="eager")
    for _ in range(2):
        assert torch.equal(outer(X), linear(X) + 1)


def test_run_in_a_compiled_function_is_a_part_of_it() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        print("here")
        return x * 3

    inner, broken, linear = map(framelift.run, (lambda x: x * 2, noisy, torch.nn.Linear(2, 2)))
    check(lambda x: inner(x) + linear(x), X, calls=2)
    check(lambda x: inner(x) + broken(x), X, calls=2, fullgraph=False)


def test_run_wants_a_function() -> None:
    with pytest.raises(TypeError, match="takes a function, not a int"):
        framelift.run(3)
