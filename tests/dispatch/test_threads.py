"""Several threads, and compiled functions inside compiled functions, backends, generators and coroutines."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import gc
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from check import entries, why_not
from framelift import _frame
from framelift.dispatch import backends

THREADS = 8
PATIENCE_S = 120.0
"""After which threads that wait for each other count as stuck."""


@pytest.fixture(autouse=True)
def threads_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
    assert not _frame.installed() and _frame.active() == 0 and _frame.mode() == _frame.OFF


def together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """work(0), work(1), ... at the same time: their results, or the first exception."""
    start = threading.Barrier(threads)
    done: list[concurrent.futures.Future[Any]] = [concurrent.futures.Future() for _ in range(threads)]

    def run(n: int) -> None:
        start.wait()
        try:
            done[n].set_result(work(n))
        except BaseException as error:
            done[n].set_exception(error)

    for n in range(threads):
        threading.Thread(target=run, args=(n,), daemon=True).start()
    return [future.result(PATIENCE_S) for future in done]


class Counting:
    """A backend that runs graphs as they are, and counts."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.calls: collections.Counter[int] = collections.Counter()

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        number = len(self.graphs)
        self.graphs.append(graph)

        def run(*args: Any) -> Any:
            self.calls[number] += 1
            return graph(*args)

        return run


# ---- one function, many threads


def test_threads_that_need_the_same_entry_compile_it_once() -> None:
    for _ in range(20):
        backend = Counting()

        def fn(x: torch.Tensor) -> torch.Tensor:
            return x.sin() + 1

        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        x = torch.randn(3)
        for result in together(lambda n, compiled=compiled, x=x: compiled(x)):
            assert torch.equal(result, fn(x))
        assert len(backend.graphs) == entries(compiled) == 1


def test_threads_with_different_arguments_compile_each_kind_once() -> None:
    backend = Counting()

    def fn(x: torch.Tensor, scale: int) -> torch.Tensor:
        return x * scale + x.dim()

    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=False)
    kinds = [
        (torch.ones(*[2] * rank).to(dtype), scale)
        for rank in (1, 2)
        for dtype in (torch.float32, torch.float64)
        for scale in (2, 3)
    ]

    def work(n: int) -> None:
        for turn in range(5 * len(kinds)):
            x, scale = kinds[(n + turn) % len(kinds)]
            found, expected = compiled(x, scale), fn(x, scale)
            assert torch.equal(found, expected) and found.dtype == expected.dtype

    together(work)
    assert len(backend.graphs) == entries(compiled) == len(kinds)


def test_threads_have_torch_state_of_their_own() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return x * 2, torch.is_grad_enabled()

    backend = Counting()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    x = torch.ones(2, requires_grad=True)

    def work(n: int) -> None:
        with torch.set_grad_enabled(n % 2 == 0):
            for _ in range(20):
                result, enabled = compiled(x)
                assert (result.requires_grad, enabled) == (n % 2 == 0, n % 2 == 0)

    together(work)
    assert len(backend.graphs) == 2  # with gradients and without


def test_modules_are_shared_by_threads() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.0), torch.nn.Linear(4, 2)).eval()
    backend = Counting()
    compiled = framelift.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(5, 3)
    expected = model(x)
    together(lambda n: [torch.testing.assert_close(compiled(x), expected) for _ in range(20)])
    assert len(backend.graphs) == 1


def test_breaks_in_many_threads() -> None:
    """Resume functions are made when a thread first comes to them: all threads get the same ones."""
    for _ in range(5):
        backend = Counting()

        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            if y.sum() > 0:
                y = y * 2
            print(end="")
            return y - 1

        compiled = framelift.compile(fn, backend=backend)
        inputs = [torch.ones(2), -3 * torch.ones(2)]

        def work(n: int, compiled: Any = compiled, fn: Any = fn, inputs: Any = inputs) -> None:
            for turn in range(10):
                x = inputs[(n + turn) % 2]
                assert torch.equal(compiled(x), fn(x))

        together(work)
        assert len(backend.graphs) == 3  # up to the branch; from there to the break, on one side; the rest


def test_an_exception_in_one_thread_is_that_threads_own() -> None:
    class OddError(Exception):
        pass

    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + n
        if n % 2:
            raise OddError(n)
        return y

    compiled = framelift.compile(fn, backend="eager")

    def work(n: int) -> None:
        for _ in range(20):
            if n % 2:
                with pytest.raises(OddError) as raised:
                    compiled(torch.ones(2), n)
                assert raised.value.args == (n,)
            else:
                assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) + n)

    together(work, threads=4)


def test_a_backend_that_fails_in_one_thread_fails_only_there() -> None:
    failing = threading.local()

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        if getattr(failing, "now", False):
            raise RuntimeError("no")
        return graph.forward

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = framelift.compile(fn, backend=backend)

    def work(n: int) -> str:
        failing.now = n % 2 == 1
        try:
            assert torch.equal(compiled(torch.ones(2)), 2 * torch.ones(2))
        except framelift.exc.BackendCompilerFailed:
            return "failed"
        return "worked"

    outcomes = together(work)
    assert "worked" in outcomes and set(outcomes[::2]) == {"worked"}
    assert entries(compiled) == 1


def test_reset_in_one_thread_while_others_run() -> None:
    """Whatever is being compiled or run goes on with what it has."""

    def whole(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print(end="")
        return y * (2 if y.sum() > 0 else 3)

    functions = [(fn, framelift.compile(fn, backend="eager")) for fn in (whole, broken)]
    stop = threading.Event()

    def work(n: int) -> None:
        if n == 0:
            for _ in range(30):
                framelift.reset()
            stop.set()
        while not stop.is_set():
            for fn, compiled in functions:
                x = torch.full((3,), float(n - 3))
                assert torch.equal(compiled(x), fn(x))

    together(work, threads=4)
    for fn, compiled in functions:
        assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3))) and why_not(compiled) is None


def test_what_is_ruled_out_is_looked_at_again_after_a_reset_in_between() -> None:
    """A frame that turns out not to be worth capturing after everything was forgotten is not marked."""

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        framelift.reset()
        return graph.forward

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = framelift.compile(fn, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), 2 * torch.ones(2))
    assert entries(compiled) == 0
    context = compiled._framelift_context
    assert _frame.get_cache(fn.__code__, context) is None


# ---- backends that compile and call


def test_a_backend_may_wait_for_threads_that_call_compiled_functions() -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        helpers = [framelift.compile(helper, backend="eager", fullgraph=True) for _ in range(2)]
        for result in together(lambda n: helpers[n](torch.ones(2)), threads=2):
            assert torch.equal(result, 3 * torch.ones(2))
        return graph.forward

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for result in together(lambda n: compiled(torch.ones(2)), threads=3):
        assert torch.equal(result, 2 * torch.ones(2))
    assert entries(compiled) == 1


@pytest.mark.parametrize("compile_inside", [framelift.compile, torch.compile], ids=["framelift", "torch"])
def test_a_backend_may_compile_and_call(compile_inside: Any) -> None:
    def scale(x: torch.Tensor, by: int) -> torch.Tensor:
        return x * by

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        inner = compile_inside(scale, backend="eager", fullgraph=True)
        assert torch.equal(inner(torch.ones(2), 3), 3 * torch.ones(2))

        def run(*args: Any) -> Any:
            return tuple(inner(result, 2) for result in graph(*args))

        return run

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for result in together(lambda n: [compiled(torch.ones(2)) for _ in range(5)], threads=3):
        assert all(torch.equal(one, 4 * torch.ones(2)) for one in result), result
    assert entries(compiled) == 1


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.inductor)])
def test_torchs_own_compilers_in_several_threads(backend: str) -> None:
    """Different functions, so that the threads don't wait for each other."""

    def first(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 2).sum()

    def second(x: torch.Tensor) -> torch.Tensor:
        return (x.cos() + 1).prod()

    def third(x: torch.Tensor) -> torch.Tensor:
        return x.exp().mean()

    functions = [first, second, third]
    compiled = [framelift.compile(fn, backend=backend, fullgraph=True) for fn in functions]

    def work(n: int) -> None:
        mine, expected = (torch.ones(3, requires_grad=True) for _ in range(2))
        compiled[n](mine).backward()
        functions[n](expected).backward()
        torch.testing.assert_close(mine.grad, expected.grad)

    together(work, threads=len(functions))
    assert [entries(one) for one in compiled] == [1, 1, 1]


@pytest.mark.parametrize("stance", ["default", "fail_on_recompile"])
def test_switches_that_a_compiler_throws_are_nothing_to_other_threads(stance: Any) -> None:
    """AOTAutograd traces in anomaly mode, which all threads see."""
    inside = threading.Event()

    @backends.on_fakes
    def slow(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.detect_anomaly(check_nan=False):
                inside.set()
                time.sleep(0.3)
        return graph.forward

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    slowly = framelift.compile(fn, backend=slow, fullgraph=True)
    known, new = Counting(), Counting()
    served, captured = (framelift.compile(fn, backend=one, fullgraph=True) for one in (known, new))
    served(torch.ones(2))

    def work(n: int) -> torch.Tensor:
        if n == 0:
            return slowly(torch.ones(2))
        assert inside.wait(PATIENCE_S)
        if n == 1:
            with framelift.set_stance(stance):
                return served(torch.ones(2))
        return captured(torch.ones(2))

    for result in together(work, threads=3 if stance == "default" else 2):
        assert torch.equal(result, 2 * torch.ones(2))
    assert (entries(slowly), entries(served)) == (1, 1)
    assert entries(captured) == (stance == "default")
    assert not torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()


# ---- compiled functions that call compiled functions


def test_a_compilation_that_began_during_another_threads_trace_leaves_the_collector_on() -> None:
    """No garbage is collected during a trace, and the collector is one for all threads."""
    reached, ended = threading.Event(), threading.Event()

    def waits(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        reached.set()
        assert ended.wait(PATIENCE_S)
        return graph

    compiled = framelift.compile(lambda x: x + 1, backend=waits)
    _frame.pause_collector()  # as a trace does
    try:
        other = threading.Thread(target=compiled, args=(torch.ones(2),))
        other.start()
        assert reached.wait(PATIENCE_S) and not gc.isenabled()
    finally:
        _frame.resume_collector()
    ended.set()
    other.join(PATIENCE_S)
    assert gc.isenabled()


def test_nested_compiled_functions_keep_their_own_options() -> None:
    outer_backend, inner_backend = Counting(), Counting()

    @framelift.compile(backend=inner_backend, fullgraph=True)
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def plain(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return inner(x) + 1

    @framelift.compile(backend=outer_backend)
    def outer(x: torch.Tensor) -> torch.Tensor:
        return plain(x + 1) + 1

    together(lambda n: [torch.testing.assert_close(outer(torch.ones(2)), torch.full((2,), 6.0))] * 5)
    assert torch.equal(inner(torch.ones(2)), 2 * torch.ones(2))
    assert len(inner_backend.graphs) == 1


def test_recursion_of_a_compiled_function() -> None:
    @framelift.compile(backend="eager")
    def countdown(x: torch.Tensor, n: int) -> torch.Tensor:
        if n == 0:
            return x
        print(end="")
        return countdown(x + n, n - 1) * 2

    def plain(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else plain(x + n, n - 1) * 2

    together(
        lambda n: [
            torch.testing.assert_close(countdown(torch.ones(2), k), plain(torch.ones(2), k)) for k in (3, 5)
        ],
        threads=4,
    )


def test_mutual_recursion_of_compiled_functions() -> None:
    @framelift.compile(backend="eager")
    def even(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else odd(x + 1, n - 1)

    @framelift.compile(backend="aot_eager")
    def odd(x: torch.Tensor, n: int) -> torch.Tensor:
        print(end="")
        return x if n == 0 else even(x * 2, n - 1)

    def plain(x: torch.Tensor, n: int, is_even: bool = True) -> torch.Tensor:
        if n == 0:
            return x
        return plain(x + 1 if is_even else x * 2, n - 1, not is_even)

    for n in (0, 1, 4, 5):
        assert torch.equal(even(torch.ones(2), n), plain(torch.ones(2), n))


def test_calls_from_a_step_that_could_not_be_captured() -> None:
    """A compiled function is called in the middle of another's break, in that thread and in a new one."""
    inner = framelift.compile(lambda x: x * 2, backend="eager", fullgraph=True)

    def in_thread(x: torch.Tensor) -> torch.Tensor:
        return together(lambda n: inner(x), threads=1)[0] + inner(x)

    @framelift.compile(backend="eager")
    def outer(x: torch.Tensor) -> torch.Tensor:
        return framelift.disable(in_thread)(x + 1) - 1

    for _ in range(3):
        assert torch.equal(outer(torch.ones(2)), 7 * torch.ones(2))


# ---- generators and coroutines


def test_a_generator_that_calls_a_compiled_function() -> None:
    compiled = framelift.compile(lambda x, n: x + n, backend="eager", fullgraph=True, dynamic=False)

    def produce(count: int) -> Iterator[torch.Tensor]:
        for n in range(count):
            yield compiled(torch.ones(2), n % 3)

    def work(n: int) -> None:
        one, other = produce(6), produce(6)
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert torch.equal(a, b) and torch.equal(a, torch.ones(2) + k % 3)

    together(work)
    assert entries(compiled) == 3  # three numbers


def test_a_compiled_function_that_drains_a_generator_which_another_thread_began() -> None:
    def produce() -> Iterator[torch.Tensor]:
        for n in range(4):
            yield torch.ones(2) * n

    @framelift.compile(backend="eager")
    def drain(values: Iterator[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros(2)
        for value in values:
            total = total + value
        return total

    def work(n: int) -> None:
        values = produce()
        next(values)
        assert torch.equal(drain(values), 6 * torch.ones(2))

    together(work, threads=4)


def test_coroutines_share_entries() -> None:
    backend = Counting()
    compiled = framelift.compile(lambda x, n: x * n, backend=backend, fullgraph=True)

    async def one(n: int) -> torch.Tensor:
        await asyncio.sleep(0)
        here = compiled(torch.ones(2), n % 2)
        there = await asyncio.to_thread(compiled, torch.ones(2), n % 2)
        assert torch.equal(here, there)
        return here

    async def everything() -> list[torch.Tensor]:
        return await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(20))), PATIENCE_S)

    results = asyncio.run(everything())
    assert [result[0].item() for result in results] == [float(n % 2) for n in range(20)]
    assert len(backend.graphs) == 2  # two numbers
