"""Devices, default devices, streams, generators and their states: as in eager code."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from check import Comparison, entries, reasons, why_not

Between = Callable[[], None]


@framelift.disable
def stop() -> None:
    pass


def nothing() -> None:
    pass


@pytest.fixture(autouse=True)
def default_device() -> Iterator[None]:
    yield
    torch.set_default_device(None)


# ---- the default device


def set_and_taken_back(x: torch.Tensor, between: Between) -> Any:
    torch.set_default_device("meta")
    y = torch.ones(3)
    between()
    z = torch.zeros(2)
    torch.set_default_device(None)
    return y.device, z.device, torch.ones(3) + x, torch.get_default_device()


def left_set(x: torch.Tensor, between: Between) -> Any:
    torch.set_default_device("meta")
    between()
    return torch.ones(3).device, x * 2


def set_twice(x: torch.Tensor, between: Between) -> Any:
    y = torch.ones(2)
    torch.set_default_device("cpu")
    between()
    torch.set_default_device(torch.device("meta"))
    return torch.ones(3).device, y.device, x * 2


def around_a_context(x: torch.Tensor, between: Between) -> Any:
    torch.set_default_device("meta")
    with torch.device("cpu"):
        y = torch.ones(3)
        between()
    return y + x, torch.ones(1).device


SETTING = [set_and_taken_back, left_set, set_twice, around_a_context]


def modes() -> Any:
    return [getattr(mode, "device", None) for mode in torch.overrides._get_current_function_mode_stack()]


@pytest.mark.parametrize("between", [nothing, stop])
@pytest.mark.parametrize("before", [None, "cpu", "meta"])
@pytest.mark.parametrize("fn", SETTING, ids=lambda fn: fn.__name__)
def test_the_default_device(fn: Any, before: str | None, between: Between) -> None:
    for backend in ("eager", "aot_eager"):
        compiled = framelift.compile(fn, backend=backend)
        for _ in range(2):
            outcomes = []
            for each in (fn, compiled):
                torch.set_default_device(before)
                result = each(torch.arange(3.0, device="cpu"), between)
                outcomes.append((str(result), modes(), torch.get_default_device()))
                torch.set_default_device(None)
            assert outcomes[0] == outcomes[1]
        assert why_not(compiled) is None
        if between is nothing and not (before and fn is set_and_taken_back):
            assert not reasons(compiled)


# ---- streams, generators, states


def of_the_cpu(x: torch.Tensor) -> Any:
    with torch.cpu.stream(torch.cpu.current_stream()):
        y = x * 2
    torch.cpu.synchronize()
    return y + 1


def facts_of_devices(x: torch.Tensor) -> Any:
    device = torch.device("cpu")
    return (
        x.to(device) * 2,
        device.type,
        device.index,
        str(device),
        x.device == device,
        torch.cuda.is_available(),
    )


def no_stream(x: torch.Tensor) -> Any:
    with torch.cuda.stream(None):
        y = x * 2
    return y + torch.cuda.device_count()


def seeded(x: torch.Tensor) -> Any:
    torch.manual_seed(3)
    return torch.rand(3) + x


def generator(x: torch.Tensor) -> Any:
    made = torch.Generator()
    made.manual_seed(1)
    state = made.get_state()
    first = torch.rand(3, generator=made)
    made.set_state(state)
    return first, torch.rand(3, generator=made), x * 2, torch.default_generator.device


WHOLE = [of_the_cpu, facts_of_devices, no_stream, seeded, generator]


def state_put_back(x: torch.Tensor) -> Any:
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return first, torch.rand(3), x * 2


def seeded_between(x: torch.Tensor) -> Any:
    y = torch.rand(3)
    torch.manual_seed(3)
    return y + torch.rand(3) + x


def forked(x: torch.Tensor) -> Any:
    first = torch.rand(3)
    with torch.random.fork_rng():
        second = torch.rand(3)
    return first, second, torch.rand(3), x * 2


def seeds(x: torch.Tensor) -> Any:
    return x * 2, torch.initial_seed(), torch.Generator().manual_seed(3).initial_seed()


def real_streams(x: torch.Tensor) -> Any:
    made = [torch.Stream, torch.Event]
    return x * 2, len(made), torch.get_num_threads() > 0


WHOLE.append(real_streams)
BREAKING = [state_put_back, seeded_between, forked, seeds]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", WHOLE + BREAKING, ids=lambda fn: fn.__name__)
def test_streams_and_states(fn: Any, backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=fn in WHOLE)
    for _ in range(2):
        outcomes = []
        for each in (fn, compiled):
            torch.manual_seed(0)
            x = torch.arange(3.0)
            outcomes.append((each(x), each(x), torch.get_rng_state()))
        Comparison().same(*outcomes, "result")
    assert why_not(compiled) is None
    assert entries(compiled) > 0
    assert bool(reasons(compiled)) is (fn in BREAKING)


# ---- the current device


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("named", [(), ("cuda",), (None,), ("cuda:0",), (0,), (torch.device("cuda", 0),)])
def test_questions_about_a_device(
    named: tuple[Any, ...], devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is relied on that depends on which of several devices is current."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device=None: types.SimpleNamespace(name="it")
    )

    def fn(x: torch.Tensor) -> Any:
        return x + 1, torch.cuda.get_device_name(*named), x + 2

    compiled = framelift.compile(fn, backend="eager")
    for _ in range(2):
        result, name, other = compiled(torch.ones(2))
        assert name == "it" and torch.equal(result, 2 * torch.ones(2)) and torch.equal(other, result + 1)
    is_whole = devices == 1 or str(*named[:1]) in ("cuda:0", "0")
    assert (not reasons(compiled)) is is_whole


@pytest.mark.parametrize("devices", [0, 2])
def test_what_the_current_device_can_do(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)

    def fn(x: torch.Tensor) -> Any:
        return x + 1, torch.cuda.is_bf16_supported(False)

    compiled = framelift.compile(fn, backend="eager")
    assert compiled(torch.ones(2))[1] is torch.cuda.is_bf16_supported(False)
    assert (not reasons(compiled)) is (devices == 0)
