"""Signals while functions are compiled and run: what a handler raises arrives, and nothing is left behind.

A timer interrupts at random moments. After each round all of torch's modes and switches, the collector, the
hook and the warnings are what they were, and the same compiled function gives eager's result.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift import _frame


class Limit(Exception):
    """As a time limit raises."""


class Stop(BaseException):
    """As a server raises that is told to end."""


@contextlib.contextmanager
def handling(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


handled: list[int] = []
"""The signals whose handlers have run, since this was cleared."""


def raising(kind: type[BaseException]) -> Callable[..., None]:
    def handle(number: int, frame: Any) -> None:
        handled.append(number)
        raise kind("time is up")

    return handle


def state() -> dict[str, Any]:
    c = torch._C
    return {
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dispatch modes": c._len_torch_dispatch_stack(),
        "function modes": c._len_torch_function_stack(),
        "functorch": c._functorch.peek_interpreter_stack() is None,
        "keys": (repr(c._dispatch_tls_local_include_set()), repr(c._dispatch_tls_local_exclude_set())),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "saved tensors": c._autograd._top_saved_tensors_default_hooks(True),
        "default": (torch.get_default_dtype(), torch.get_default_device()),
        "anomalies": torch.is_anomaly_enabled(),
        "deterministic": (c._get_deterministic_algorithms(), c._get_mkldnn_enabled()),
        "random": torch.get_rng_state().tolist(),
        "compiling": dict(vars(torch._guards._TLS)),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "hook": (_frame.mode(), _frame.active(), _frame.installed(), _frame.interrupted()),
        "warnings": (list(warnings.filters), warnings.showwarning, vars(warnings)["_showwarnmsg"]),
        "fresh": type(torch.ones(1)),
        "handler": signal.getsignal(signal.SIGALRM),
        "main": signal.set_wakeup_fd(signal.set_wakeup_fd(-1)),  # which only the main thread may ask
    }


# ---- programs


def helper(x: torch.Tensor, count: int) -> torch.Tensor:
    for n in range(count):
        x = torch.relu(x) + n
    return x


def whole(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = helper(x @ x, 3)
    parts = [helper(y, 2) for _ in range(2)]
    return sum(sorted(parts, key=lambda part: part.shape[0])) * x


def broken(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    with torch.no_grad():
        print(end="")
        y = y * 2
    try:
        y = y @ x
    finally:
        y = y + 1
    return y


def inner_with(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"), torch.no_grad():
        x = x + 1
        print(end="")
        return x * 2


def nested(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        y = inner_with(x) + 1
    return y.clone() + inner_with(x)


def switching(x: torch.Tensor) -> torch.Tensor:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(4) * x
    torch.set_default_dtype(before)
    return y


PROGRAMS = [whole, broken, nested, switching]
KINDS = {"an exception": Limit, "a base exception": Stop, "from the keyboard": KeyboardInterrupt}


def interrupted(
    compiled: Callable[..., Any], x: torch.Tensor, kind: type[BaseException], delay: float
) -> bool:
    """Whether a call was interrupted, with a timer that goes off after some seconds."""
    try:
        handled.clear()
        signal.setitimer(signal.ITIMER_REAL, delay)
        compiled(x)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sum(range(10))  # where one that has just come is handled
        assert not handled, "the handler has run, and what it raised is lost"
        return False
    except kind as error:
        assert error.args == (() if kind is KeyboardInterrupt else ("time is up",))
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_interrupted_at_a_random_moment(program: Callable[..., Any], kind: type[BaseException]) -> None:
    x, moments = torch.randn(4, 4), random.Random(program.__name__)
    expected = program(x)
    framelift.compile(program, backend="eager")(x)
    handler = signal.default_int_handler if kind is KeyboardInterrupt else raising(kind)
    hits = 0
    with handling(handler):
        before = state()
        for _ in range(25):
            began = time.perf_counter()
            framelift.compile(program, backend="eager", isolate_recompiles=True)(x)
            compiled = framelift.compile(program, backend="eager", isolate_recompiles=True)
            hits += interrupted(compiled, x, kind, 1e-6 + moments.random() * (time.perf_counter() - began))
            assert state() == before
            torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
            assert state() == before
    assert hits > 5


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_interrupted_in_the_midst_of_a_backend(kind: type[BaseException]) -> None:
    x, moments = torch.randn(4, 4, requires_grad=True), random.Random(0)
    expected = broken(x)
    framelift.compile(broken, backend="aot_eager")(x)
    handler = signal.default_int_handler if kind is KeyboardInterrupt else raising(kind)
    with handling(handler):
        before = state()
        for _ in range(10):
            compiled = framelift.compile(broken, backend="aot_eager", isolate_recompiles=True)
            interrupted(compiled, x, kind, 1e-6 + moments.random() * 0.15)
            assert state() == before
        torch.testing.assert_close(compiled(x), expected)


FIRST_USE = """
import signal, sys, torch, framelift

class Limit(Exception):
    pass

def handle(number, frame):
    raise Limit

def f(x):
    return torch.sin(x) + 1

compiled, interrupted = framelift.compile(f, backend="aot_eager"), 0
signal.signal(signal.SIGALRM, handle)
for delay in (0.3, 0.6, 0.2, 0.1):
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        compiled(torch.ones(2))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Limit:
        interrupted += 1
assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
assert len(framelift.entries(compiled)) == 1
print("interrupted:", interrupted > 0)
"""


def test_interrupted_in_the_midst_of_imports() -> None:
    """What torch imports when something is first compiled is not left imported half."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True)
    assert (done.stdout, "mistake" in done.stderr) == ("interrupted: True\n", False), done.stderr[-2000:]


# ---- when compiled code runs


def test_interrupted_while_compiled_code_runs() -> None:
    x, moments = torch.randn(4, 4), random.Random(0)
    handler = raising(Limit)
    hits = 0
    for program in PROGRAMS:
        compiled, expected = framelift.compile(program, backend="eager"), program(x)
        compiled(x)
        with handling(handler):
            before = state()
            for _ in range(150):
                hits += interrupted(compiled, x, Limit, 1e-6 + moments.random() * 0.0003)
                assert state() == before
            torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
    assert hits > 50


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_program_handles_what_interrupts_its_compiled_code(kind: type[BaseException]) -> None:
    def limited(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            with torch.no_grad():
                print(end="")
                y = y * 2
        except kind as error:
            names = [entry.name for entry in traceback.extract_tb(error.__traceback__)]
            return torch.is_grad_enabled(), names[0], len(names)
        return y

    def tripping(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if trips == [number]:
                signal.raise_signal(signal.SIGALRM)
            return graph(*args)

        number = next(numbers)
        return run

    trips: list[int] = []
    numbers, x = itertools.count(), torch.randn(3)
    compiled = framelift.compile(limited, backend=tripping)
    assert torch.equal(compiled(x), limited(x))
    handler = signal.default_int_handler if kind is KeyboardInterrupt else raising(kind)
    with handling(handler):
        trips[:] = [1]
        assert compiled(x) == (True, "limited", 1 if kind is KeyboardInterrupt else 2)
        trips[:] = [0]
        with pytest.raises(kind):
            compiled(x)
    trips.clear()
    assert torch.equal(compiled(x), limited(x))


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, raising(Limit))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_time_limits_within_a_compiled_function() -> None:
    def limited(x: torch.Tensor, seconds: float) -> Any:
        with torch.no_grad():
            try:
                with time_limit(seconds):
                    for _ in range(20):
                        x = helper(x, 40)
                        print(end="")
                return x
            except Limit:
                return "too late"

    x, before = torch.randn(4), state()
    expected = limited(x, 60.0)
    assert limited(x, 0.0001) == "too late"
    for seconds in (0.001, 0.002, 0.005, 0.01, 0.02, 0.03):
        compiled = framelift.compile(limited, backend="eager")
        found = compiled(x, seconds)
        assert isinstance(found, str) or torch.equal(found, expected)
        assert state() == before
    assert torch.equal(compiled(x, 60.0), expected)


# ---- handlers that do not raise


def test_handlers_run_in_the_programs_state() -> None:
    seen: list[Any] = []

    @framelift.compile(backend="eager")
    def other(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def beat(number: int, frame: Any) -> None:
        made = other(torch.ones(2) * 2)
        warnings.warn("a beat", stacklevel=1)
        grads = torch.is_grad_enabled()
        modes = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
        seen.append((type(made), made.tolist(), modes, grads, gc.isenabled()))

    x = torch.randn(4, 4)
    with handling(beat), warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        before = state()
        for program in (whole, nested):
            expected = program(x)
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.001)
            compiled = framelift.compile(program, backend="eager")
            assert torch.equal(compiled(x), expected)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert framelift.entries(compiled)
        after = state()
        assert {**after, "random": 0} == {**before, "random": 0}
    assert {found[0] for found in seen} == {torch.Tensor}
    assert {tuple(found[1]) for found in seen} == {(3.0, 3.0)}


def test_a_handler_that_changes_what_was_read_is_noticed() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        y = x * settings["scale"]
        for _ in range(30):
            y = helper(y, 3)
        return y

    def change(number: int, frame: Any) -> None:
        settings["scale"] = 3

    x, settings = torch.ones(2), {"scale": 2}
    with handling(change):
        compiled = framelift.compile(scaled, backend="eager")
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        compiled(x)
        assert settings["scale"] == 3
        assert torch.equal(compiled(x), scaled(x))


# ---- who else


def test_handlers_of_every_kind_are_known() -> None:
    class Handler:
        def __call__(self, number: int, frame: Any) -> None:
            raise Limit

        def method(self, number: int, frame: Any) -> None:
            raise Limit

    def swallowing(graph: Any, inputs: Any) -> Any:
        with contextlib.suppress(Limit):
            signal.raise_signal(signal.SIGALRM)
            sum(range(3))
        return graph

    x = torch.ones(2)
    for handler in (Handler(), Handler().method, functools.partial(raising(Limit)), raising(Limit)):
        with handling(handler), pytest.raises(Limit):
            framelift.compile(lambda x: x + 1, backend=swallowing, isolate_recompiles=True)(x)


def test_a_failing_backend_that_is_interrupted_does_not_hide_it() -> None:
    def failing(graph: Any, inputs: Any) -> Any:
        try:
            signal.raise_signal(signal.SIGALRM)
            return graph
        except Limit as error:
            raise ValueError from error

    with handling(raising(Limit)), pytest.raises(Limit) as caught:
        framelift.compile(whole, backend=failing)(torch.ones(2, 2))
    frames = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["whole", "handle"]


def test_a_thread_that_waits_for_another_ones_compiler_can_be_interrupted() -> None:
    compiling, leave = threading.Event(), threading.Event()

    def slow(graph: Any, inputs: Any) -> Any:
        compiling.set()
        leave.wait(10)
        return graph

    compiled, x = framelift.compile(helper, backend=slow), torch.ones(2)
    thread = threading.Thread(target=compiled, args=(x, 2))
    thread.start()
    compiling.wait()
    began = time.perf_counter()
    try:
        with handling(raising(Limit)), pytest.raises(Limit):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            compiled(x, 2)
        assert time.perf_counter() - began < 5
    finally:
        leave.set()
        thread.join()
    assert torch.equal(compiled(x, 2), helper(x, 2))


def test_an_interrupt_while_torch_puts_back_what_modules_are_called_by() -> None:
    """Which tracing in torch replaces for a while: the rest of the program would go through its tracer."""
    before = vars(torch.nn.Module)["__call__"]

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        torch.nn.Module.__call__ = lambda self, *args: 1 / 0  # type: ignore[method-assign]
        torch.fx._symbolic_trace.CURRENT_PATCHER = object()
        signal.raise_signal(signal.SIGALRM)

    handler = signal.signal(signal.SIGALRM, raising(Limit))
    try:
        with pytest.raises(Limit):
            framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        assert vars(torch.nn.Module)["__call__"] is before
        assert torch.fx._symbolic_trace.CURRENT_PATCHER is None
    finally:
        torch.fx._symbolic_trace.CURRENT_PATCHER = None
        signal.signal(signal.SIGALRM, handler)
        torch.nn.Module.__call__ = before  # type: ignore[method-assign]
