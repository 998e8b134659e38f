"""Contexts of torch's that are open where a graph breaks, or where the function returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import framelift
from check import entries, reasons, why_not

F = torch.nn.functional


@framelift.disable
def stop() -> None:
    pass


@framelift.disable
def fail() -> None:
    raise ValueError("from a break")


def nothing() -> None:
    pass


MANAGERS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "inference_mode": torch.inference_mode,
    "inference_mode_off": lambda: torch.inference_mode(False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast_off": lambda: torch.autocast("cpu", enabled=False),
    "device": lambda: torch.device("meta"),
    "record_function": lambda: torch.profiler.record_function("range"),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "attention": lambda: sdpa_kernel(SDPBackend.MATH),
    "multithreading": lambda: torch.autograd.set_multithreading_enabled(False),
    "view_replay": lambda: torch.autograd._force_original_view_tracking(True),
}
NO_DECORATORS = {"device", "anomalies"}
STAY_LEFT = {"attention"}
"""Managers that are generators: one from before a break is left for real."""


@pytest.fixture(autouse=True)
def switched_back() -> Any:
    """`set_multithreading_enabled` as a decorator switches as it is made."""
    yield
    torch._C._set_multithreading_enabled(True)


def seen() -> Any:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_anomaly_enabled(),
        torch._C._is_multithreading_enabled(),
        torch._C._get_flash_sdp_enabled(),
        len(torch.overrides._get_current_function_mode_stack()),
    )


def entered(make: Callable[[], Any], between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        with make():
            y = torch.mm(x, x)
            made = torch.ones(2)
            between()
            z = torch.mm(y, x) + 1
            inside = torch.zeros(2).device.type, torch.is_grad_enabled()
        return y, made, z, inside, torch.mm(x, x), torch.ones(3), torch.is_grad_enabled()

    return fn


def nested(make: Callable[[], Any], between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        with torch.no_grad():
            with make(), torch.autocast("cpu", dtype=torch.float16), make():
                y = torch.mm(x, x)
                between()
                z = torch.mm(x, x) + 1
            after = torch.mm(x, x)
            between()
        return y, z, after, torch.mm(x, x)

    return fn


def raising(make: Callable[[], Any], between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        y = torch.mm(x, x)
        try:
            with make():
                z = torch.mm(x, x) + 1
                between()
                if x.shape[0]:
                    raise ValueError("from the program")
        except ValueError as error:
            return y, z, str(error), torch.mm(x, x), torch.ones(3)

    return fn


def decorated(make: Callable[[], Any], between: Callable[[], None]) -> Any:
    def plain(x: torch.Tensor) -> Any:
        y = torch.mm(x, x)
        between()
        return y, torch.mm(y, x) + 1

    outside = make()(plain)

    def fn(x: torch.Tensor) -> Any:
        inside = make()(plain)
        return outside(x), inside(x), torch.mm(x, x)

    return fn


def in_turns(make: Callable[[], Any], between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        found = []
        for n in range(3):
            with make():
                found.append(torch.mm(x, x) * n)
                between()
            found.append(torch.mm(x, x) * n)
        return found

    return fn


def compared(
    fn: Any, backend: str, fullgraph: bool = False, dynamic: bool | None = None, sizes: Any = (3, 3)
) -> Any:
    compiled = framelift.compile(fn, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
    before = seen()
    for size in (3, 4) if dynamic else (3, 3):
        x = torch.randn(size, size, generator=torch.Generator().manual_seed(size)).requires_grad_()
        same(compiled(x), fn(x), backend)
        assert seen() == before
    return compiled


def same(found: Any, expected: Any, backend: str) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        facts = [(t.dtype, t.device, t.shape, t.requires_grad) for t in (found, expected)]
        assert facts[0] == facts[1]
        if backend == "eager":
            assert found.is_inference() == expected.is_inference()
        if expected.device.type != "meta":
            assert torch.equal(found, expected)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, backend)
    else:
        assert found == expected


def cases() -> list[Any]:
    """With AOTAutograd, which takes its time, only the plainest of them."""
    return [
        pytest.param(shape, name, backend, id=f"{shape.__name__}-{name}-{backend}")
        for shape in (entered, nested, raising, decorated)
        for name in MANAGERS
        for backend in ("eager", "aot_eager")
        if not (shape is decorated and name in NO_DECORATORS)
        and not (name == "device" and shape is nested)
        and not (backend == "aot_eager" and shape in (raising, decorated))
    ]


@pytest.mark.parametrize(("shape", "name", "backend"), cases())
def test_captured_whole(shape: Any, name: str, backend: str) -> None:
    compiled = compared(shape(MANAGERS[name], nothing), backend, fullgraph=True)
    assert why_not(compiled) is None
    assert entries(compiled) > 0


@pytest.mark.parametrize("name", MANAGERS)
def test_entered_in_each_round_of_a_loop(name: str) -> None:
    compared(in_turns(MANAGERS[name], stop), "eager")


@pytest.mark.parametrize(("shape", "name", "backend"), cases())
def test_open_across_a_break(shape: Any, name: str, backend: str) -> None:
    compiled = compared(shape(MANAGERS[name], stop), backend)
    found = {
        found.describe().split("\n")[0]
        for record in compiled._framelift_context.code_states.values()
        for found in record.breaks
    }
    assert name in STAY_LEFT or all("disabled function" in each for each in found), found


@pytest.mark.parametrize("name", MANAGERS)
def test_left_by_an_exception_from_a_break(name: str) -> None:
    compared(raising(MANAGERS[name], fail), "eager")


@pytest.mark.parametrize("name", ["autocast", "inference_mode", "device", "no_grad"])
def test_with_dynamic_shapes(name: str) -> None:
    compiled = compared(
        entered(MANAGERS[name], nothing), "aot_eager", fullgraph=True, dynamic=True, sizes=(3, 4)
    )
    assert entries(compiled) == 1
    compared(entered(MANAGERS[name], stop), "aot_eager", dynamic=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["autocast", "inference_mode", "device", "no_grad"])
def test_gradients_flow_from_outside_of_it(name: str, backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with MANAGERS[name]():
            y = torch.mm(x, x)
            stop()
            z = y + 1
        return torch.mm(x, x).sum() + z.numel() + y.numel()

    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        grads = []
        for each in (fn, compiled):
            x = torch.arange(9.0).view(3, 3).requires_grad_()
            each(x).backward()
            grads.append(x.grad)
        assert torch.equal(*grads)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["autocast", "inference_mode", "device", "record_function"])
def test_entered_and_not_left(name: str, backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        manager = MANAGERS[name]()
        manager.__enter__()
        return torch.mm(x, x), torch.ones(2), manager

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    before = seen()
    x = torch.randn(3, 3)
    for _ in range(2):
        *expected, manager = fn(x)
        inside = seen()
        manager.__exit__(None, None, None)
        *found, manager = compiled(x)
        assert seen() == inside
        manager.__exit__(None, None, None)
        same(found, expected, backend)
        assert seen() == before


@pytest.mark.parametrize("between", [nothing, stop])
def test_a_graph_that_raises_has_left_its_inference_mode(between: Any) -> None:
    def fn(x: torch.Tensor, at: torch.Tensor) -> Any:
        with torch.inference_mode():
            between()
            with torch.inference_mode(False):
                y = x[at] * 2
        return y

    compiled = framelift.compile(fn, backend="eager")
    compiled(torch.ones(3), torch.tensor([1]))
    try:
        compiled(torch.ones(3), torch.tensor([7]))
    except IndexError as error:
        kept = error
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
    del kept
    assert not torch.is_inference_mode_enabled()
    assert torch.equal(compiled(torch.ones(3), torch.tensor([1])), torch.tensor([2.0]))


def default_dtype(x: torch.Tensor, between: Callable[[], None]) -> Any:
    torch.set_default_dtype(torch.float64)
    made = torch.ones(3) + torch.tensor(1.5), torch.arange(3) * 0.5
    between()
    made += (torch.arange(3) / 2, x * 2)
    torch.set_default_dtype(torch.float32)
    return made


def default_dtype_left(x: torch.Tensor, between: Callable[[], None]) -> Any:
    torch.set_default_dtype(torch.float64)
    between()
    return torch.ones(3), torch.arange(3) / 2


def deterministic(x: torch.Tensor, between: Callable[[], None]) -> Any:
    torch.use_deterministic_algorithms(True, warn_only=True)
    y = x * 2
    between()
    asked = torch.are_deterministic_algorithms_enabled()
    y = y, x * 3
    torch.use_deterministic_algorithms(False)
    return y, asked


def deterministic_left(x: torch.Tensor, between: Callable[[], None]) -> Any:
    torch.use_deterministic_algorithms(True)
    between()
    return x * 2


def single_threaded(x: torch.Tensor, between: Callable[[], None]) -> Any:
    torch.autograd.set_multithreading_enabled(False)
    between()
    return x * 2, torch._C._is_multithreading_enabled()


CALLS = [default_dtype, default_dtype_left, deterministic, deterministic_left, single_threaded]


@pytest.mark.parametrize("between", [nothing, stop])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", CALLS, ids=lambda fn: fn.__name__)
def test_switches_by_calls(fn: Any, backend: str, between: Any) -> None:
    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        outcomes = []
        for each in (fn, compiled):
            try:
                result = each(torch.arange(3.0), between)
                state = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
                outcomes.append((result, (*state, torch._C._is_multithreading_enabled())))
            finally:
                torch.set_default_dtype(torch.float32)
                torch.use_deterministic_algorithms(False)
                torch._C._set_multithreading_enabled(True)
        same(outcomes[1], outcomes[0], backend)
    assert why_not(compiled) is None


def test_operators_under_two_default_dtypes_are_two_graphs() -> None:
    def fn(x: torch.Tensor) -> Any:
        y = torch.full((3,), 0.5)
        torch.set_default_dtype(torch.float64)
        z = torch.full((3,), 0.5)
        torch.set_default_dtype(torch.float32)
        return y, z, x * 2

    compiled = compared(fn, "aot_eager")
    assert set(reasons(compiled)) == {"run-time effect"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_default_dtype_between_operators_that_can_do_without(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = torch.ones(3) + x
        torch.set_default_dtype(torch.float64)
        z = torch.zeros(3), torch.eye(2), torch.ones(2, dtype=torch.int8), x * y - x.sin()
        torch.set_default_dtype(torch.float32)
        return y, z, torch.linspace(0, 1, 3), torch.exp(x)

    compared(fn, backend, fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_determinism_between_operators_that_do_not_ask(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x.cumsum(0)
        torch.use_deterministic_algorithms(True)
        asked = torch.are_deterministic_algorithms_enabled()
        y = torch.exp(y * 2 + x)
        torch.use_deterministic_algorithms(False)
        return y / 2, asked

    compared(fn, backend, fullgraph=True)


@pytest.mark.parametrize("changes", [False, True])
def test_a_graph_that_raises_leaves_its_default_dtype(changes: bool) -> None:
    """To the function, which has set it by then, whatever else the graph has changed."""

    def fn(x: torch.Tensor, at: torch.Tensor) -> Any:
        torch.set_default_dtype(torch.float64)
        if changes:
            x.add_(1)
        y = x[at] + torch.ones(1)
        torch.set_default_dtype(torch.float32)
        return y

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    try:
        assert compiled(torch.ones(3), torch.tensor([0])).dtype is torch.float64
        x = torch.ones(3)
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([9]))
        assert torch.get_default_dtype() is torch.float64
        assert x.tolist() == 3 * [1.0 + changes]
    finally:
        torch.set_default_dtype(torch.float32)


def test_what_leaving_gives_is_guarded() -> None:
    def fn(x: torch.Tensor, cast: Any) -> torch.Tensor:
        y = torch.mm(x, x)
        cast.__exit__(None, None, None)
        return y + torch.mm(x, x).float()

    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 3)
    for outer in (False, True, False):
        results = []
        for each in (fn, compiled):
            with torch.autocast("cpu", dtype=torch.float16, enabled=outer):
                cast = torch.autocast("cpu", dtype=torch.bfloat16)
                cast.__enter__()
                results.append(each(x, cast))
                assert torch.is_autocast_enabled("cpu") is outer
        assert torch.equal(*results)
    assert entries(compiled) == 2  # with autocast around the call, and without


def test_an_inference_mode_from_outside_is_left_for_real() -> None:
    def fn(x: torch.Tensor, mode: Any) -> torch.Tensor:
        y = x * 2
        mode.__exit__(None, None, None)
        return y.clone() + x

    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        mode = torch.inference_mode()
        mode.__enter__()
        assert not compiled(torch.ones(3), mode).is_inference()
        assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("name", ["autocast", "inference_mode", "no_grad"])
def test_a_graph_that_raises_has_left_what_the_function_leaves(name: str) -> None:
    def fn(x: torch.Tensor, at: torch.Tensor) -> Any:
        with MANAGERS[name]():
            stop()
            y = x[at] * 2
        return y, torch.mm(x, x)

    compiled = framelift.compile(fn, backend="eager")
    x = torch.randn(3, 3)
    compiled(x, torch.tensor([1]))
    before = seen()
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([7]))
    assert seen() == before
    compiled(x, torch.tensor([1]))


def test_a_graph_of_nothing_but_switches_is_not_given_to_a_backend() -> None:
    graphs = []

    def fn(x):
        with torch.no_grad():
            framelift.graph_break()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                framelift.graph_break()
                y = x @ x
            z = x * 2
        return y, z, torch.is_grad_enabled()

    compiled = framelift.compile(fn, backend=lambda graph, inputs: graphs.append(graph) or graph)
    x = torch.ones(2, 2, requires_grad=True)
    for _ in range(2):
        want, got = fn(x), compiled(x)
        assert repr(want) == repr(got)
    assert len(graphs) == 1


@pytest.mark.parametrize("inside", [True, False, None])
@pytest.mark.parametrize("before", [False, None])
@pytest.mark.parametrize(
    "name", ["no_grad", "set_grad_enabled", "inference_mode", "inference_mode_off", "autocast"]
)
def test_gradients_switched_around_breaks(name: str, before: bool | None, inside: bool | None) -> None:
    """Leaving some managers puts gradients back as they were when it was entered."""

    def fn(x: Any, breaks: int) -> Any:
        found = []
        if before is not None:
            torch.set_grad_enabled(before)
        if breaks & 1:
            stop()
        with MANAGERS[name]():
            if breaks & 2:
                stop()
            if inside is not None:
                torch.set_grad_enabled(inside)
            if breaks & 4:
                stop()
            y = x * 2
            found += [torch.is_grad_enabled(), y.requires_grad, y.is_inference()]
        if breaks & 8:
            stop()
        z = x * 3
        return found, torch.is_grad_enabled(), z.requires_grad, torch.is_inference_mode_enabled()

    for at_first in (True, False):
        for breaks in (0, 2, 4, 6, 8, 10, 12, 15):
            framelift.reset()
            found = []
            for one in (fn, framelift.compile(fn, backend="eager")):
                with torch.set_grad_enabled(at_first):
                    found.append((one(torch.ones(3, requires_grad=True), breaks), torch.is_grad_enabled()))
            assert found[0] == found[1], (at_first, breaks)
