"""What needs a CUDA device: replaying, autocast, devices, streams, events and generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import entries, why_not

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@framelift.disable
def stop() -> None:
    pass


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def random(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).cuda()


# ---- replaying

REPLAYING: list[dict[str, Any]] = [
    {"backend": "cudagraphs"},
    {"backend": "inductor", "mode": "reduce-overhead"},
    {"backend": "inductor", "options": {"triton.cudagraphs": True, "epilogue_fusion": False}},
]
replaying = pytest.mark.parametrize(
    "how", REPLAYING, ids=["cudagraphs", "reduce-overhead", "inductor with options"]
)


@replaying
def test_replayed_without_gradients(how: dict[str, Any]) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.relu(x @ y)
        return z, z.sum(), x.shape[0]

    compiled = framelift.compile(fn, fullgraph=True, **how)
    for seed in range(5):
        x, y = random(4, 4, seed=seed), random(4, 4, seed=seed + 10)
        close(compiled(x, y), fn(x, y))
    assert why_not(compiled) is None
    assert entries(compiled) == 1


@replaying
def test_replayed_while_training(how: dict[str, Any]) -> None:
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()]
    models.append(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda())
    models[1].load_state_dict(models[0].state_dict())
    calls = [models[0], framelift.compile(models[1], fullgraph=True, **how)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for step in range(6):
        losses = []
        for call, optimizer in zip(calls, optimizers, strict=True):
            optimizer.zero_grad()
            loss = call(random(3, 4, seed=step)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
        close(*losses)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        close(one, other)


@replaying
def test_replayed_with_changed_inputs(how: dict[str, Any]) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    compiled = framelift.compile(fn, fullgraph=True, **how)
    for seed in range(4):
        x, y = random(4, seed=seed), random(4, seed=seed + 10)
        xs = x.clone(), x.clone()
        close(compiled(xs[0], y).clone(), fn(xs[1], y))
        close(*xs)


@replaying
def test_replayed_for_several_sizes_and_with_breaks(how: dict[str, Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        stop()
        return y.relu() * x.shape[0]

    compiled = framelift.compile(fn, **how)
    for size in (3, 4, 5, 3, 4):
        x = random(size, seed=size)
        close(compiled(x).clone(), fn(x))


@replaying
def test_a_step_that_the_program_marks_keeps_its_results(how: dict[str, Any]) -> None:
    compiled = framelift.compile(lambda x: x * 2, **how)
    for seed in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        x = random(4, seed=seed)
        one, two = compiled(x), compiled(x + 1)
        close(one + two, x * 2 + (x + 1) * 2)
        del one, two


def test_random_numbers_go_on_from_replay_to_replay() -> None:
    compiled = framelift.compile(lambda x: torch.dropout(x, 0.5, True), backend="cudagraphs")
    x = torch.ones(1000, device="cuda")
    found = {tuple(compiled(x).tolist()) for _ in range(5)}
    assert len(found) == 5


def test_tensors_on_both_devices_are_not_replayed() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2, y.cuda() + x

    compiled = framelift.compile(fn, backend="cudagraphs")
    for _ in range(3):
        x, y = random(3), torch.ones(3)
        close(compiled(x, y), fn(x, y))


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs", "default"])
def test_modes_of_inductor(mode: str) -> None:
    compiled = framelift.compile(lambda x, y: (x @ y).relu(), mode=mode)
    for seed in range(3):
        x, y = random(32, 32, seed=seed), random(32, 32, seed=seed + 1)
        close(compiled(x, y).clone(), (x @ y).relu())


# ---- contexts


CONTEXTS: dict[str, Callable[[], Any]] = {
    "autocast": lambda: torch.autocast("cuda"),
    "autocast to bfloat16": lambda: torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False),
    "autocast off": lambda: torch.autocast("cuda", enabled=False),
    "device": lambda: torch.device("cuda"),
    "number of a device": lambda: torch.cuda.device(0),
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "flags": lambda: torch.backends.cudnn.flags(enabled=False),
}


def in_context(make: Callable[[], Any], between: Callable[[], None]) -> Any:
    def fn(x: torch.Tensor) -> Any:
        with make():
            y = torch.mm(x, x)
            between()
            z = torch.mm(x, x) + 1, torch.ones(2)
        return y, z, torch.mm(x, x), torch.ones(2)

    return fn


@BACKENDS
@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("between", [stop, lambda: None], ids=["across a break", "whole"])
def test_contexts_are_as_eagerly(name: str, between: Any, backend: str) -> None:
    fn = in_context(CONTEXTS[name], between)
    compiled = framelift.compile(fn, backend=backend)
    x = random(4, 4).requires_grad_()
    for _ in range(2):
        found, expected = compiled(x), fn(x)
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2, check_dtype=True)
        assert [t.requires_grad for t in (found[0], found[2])] == [
            t.requires_grad for t in (expected[0], expected[2])
        ]
    assert not torch.is_autocast_enabled("cuda")
    assert not torch.overrides._get_current_function_mode_stack()


def test_autocast_and_devices_around_the_call() -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.mm(x, x), torch.ones(2) + 1

    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    x = random(4, 4)
    for make in (lambda: torch.autocast("cuda"), lambda: torch.device("cuda"), torch.no_grad):
        with make():
            close(compiled(x), fn(x))
    assert entries(compiled) == 3  # one for each context


def test_a_tensor_on_another_device_is_another_case() -> None:
    compiled = framelift.compile(lambda x: x * 2 + torch.ones_like(x), backend="eager", fullgraph=True)
    for x in (random(3), torch.ones(3), random(3)):
        close(compiled(x), x * 2 + 1)
    assert entries(compiled) == 2  # one for each device


@BACKENDS
def test_moving_between_devices(backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x.cuda() * 2
        z = y.to("cpu", non_blocking=False) + x
        return y, z, y.device.type, y.is_cuda, y.get_device()

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3)
        found, expected = compiled(x), fn(x)
        close(found[:2], expected[:2])
        assert found[2:] == expected[2:]


# ---- streams and events


def on_a_stream(x: torch.Tensor) -> Any:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x * 2
        stop()
        z = y + 1
    torch.cuda.current_stream().wait_stream(stream)
    return y, z, z * 2


def with_events(x: torch.Tensor) -> Any:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y = x * 2
    end.record()
    torch.cuda.synchronize()
    return y, start.elapsed_time(end) >= 0, end.query(), y + 1


def on_the_stream_it_is_given(x: torch.Tensor, stream: Any) -> Any:
    with torch.cuda.stream(stream):
        y = x * 2
        current = torch.cuda.current_stream() == stream
    stream.synchronize()
    return y + 1, current


@BACKENDS
def test_streams_and_events(backend: str) -> None:
    stream = torch.cuda.Stream()
    for fn, rest in ((on_a_stream, ()), (with_events, ()), (on_the_stream_it_is_given, (stream,))):
        compiled = framelift.compile(fn, backend=backend)
        for seed in range(2):
            x = random(100, seed=seed)
            close(compiled(x, *rest), fn(x, *rest))
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@BACKENDS
def test_a_call_on_another_stream(backend: str) -> None:
    compiled = framelift.compile(lambda x: x * 2 + 1, backend=backend, fullgraph=True)
    stream = torch.cuda.Stream()
    for _ in range(2):
        x = random(1000)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = compiled(x)
        stream.synchronize()
        close(y, x * 2 + 1)


# ---- random numbers


def test_random_numbers_and_states() -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.dropout(x, 0.5, True), torch.rand(3, device="cuda"), torch.rand(3)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    x = torch.ones(100, device="cuda")
    outcomes = []
    for each in (fn, compiled):
        torch.manual_seed(3)
        outcomes.append((each(x), each(x), torch.cuda.get_rng_state(), torch.get_rng_state()))
    torch.testing.assert_close(*outcomes, rtol=0, atol=0)


def test_seeds_states_and_generators_inside() -> None:
    def fn(x: torch.Tensor) -> Any:
        torch.cuda.manual_seed(5)
        y = x + torch.rand(3, device="cuda")
        state = torch.cuda.get_rng_state()
        z = torch.rand(3, device="cuda")
        torch.cuda.set_rng_state(state)
        generator = torch.Generator(device="cuda").manual_seed(1)
        with torch.random.fork_rng():
            forked = torch.rand(3, device="cuda")
        return y, z, torch.rand(3, device="cuda"), torch.rand(3, device="cuda", generator=generator), forked

    compiled = framelift.compile(fn, backend="eager")
    x = torch.ones(3, device="cuda")
    for _ in range(2):
        outcomes = [(each(x), torch.cuda.get_rng_state()) for each in (fn, compiled)]
        torch.testing.assert_close(*outcomes, rtol=0, atol=0)
