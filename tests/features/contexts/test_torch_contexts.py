"""Contexts of torch's around tensor code: captured, and open across a break as anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import framelift
from check import capture, why_not

F = torch.nn.functional
KERNELS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def seen() -> Any:
    """The switches, as a program sees them."""
    c = torch._C
    return (
        *(torch.is_grad_enabled(), torch.get_default_dtype().itemsize, torch.is_anomaly_enabled()),
        *(c._get_math_sdp_enabled(), c._get_flash_sdp_enabled(), c._get_mem_efficient_sdp_enabled()),
    )


def attention(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        first = F.scaled_dot_product_attention(x, x, x)
        inside = between()
        second = F.scaled_dot_product_attention(first, x, x)
    return first, second, inside, between()


def priorities(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    with sdpa_kernel(KERNELS, set_priority=True):
        inside = between()
        return F.scaled_dot_product_attention(x, x, x), inside, torch._C._get_sdp_priority_order()


def default_dtype(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    inside = between()
    made = torch.ones(3)
    torch.set_default_dtype(before)
    return made, inside, torch.zeros(2), x * 2, between()


def left_switched(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    torch.set_default_dtype(torch.float64)
    return torch.ones(3), between(), x + 1


def anomalies(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        inside = between(), torch.is_anomaly_check_nan_enabled()
        y = x * 2
    return y, inside, between()


def ranges(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    with torch.profiler.record_function("outer"), torch.autograd.profiler.record_function("inner"):
        y = x * 2
        inside = between()
    return y, inside


@torch.profiler.record_function("decorated")
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def ranges_as_decorators(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    return decorated(x), between()


def both(x: torch.Tensor, between: Callable[[], Any]) -> Any:
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), torch.profiler.record_function("range"):
        y = F.scaled_dot_product_attention(x, x, x)
        inside = between()
    return y, inside, x * 2


PROGRAMS = [
    *(attention, priorities, default_dtype, left_switched, anomalies, ranges, ranges_as_decorators, both),
]

BREAKING = [default_dtype]
"""Compilers leave it to the call of the graph of which dtype new tensors are: it has one default."""


@framelift.disable
def stop() -> Any:
    return seen()


def outcome(fn: Callable[..., Any], between: Callable[[], Any]) -> Any:
    x = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    try:
        result = fn(x, between)
        return result, seen(), result[0].requires_grad
    finally:
        torch.set_default_dtype(torch.float32)


def compared(fn: Callable[..., Any], compiled: Callable[..., Any], between: Callable[[], Any]) -> None:
    before = seen()
    for _ in range(2):
        torch.testing.assert_close(outcome(compiled, between), outcome(fn, between), check_dtype=True)
        assert seen() == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_captured_whole(fn: Callable[..., Any], backend: str) -> None:
    compared(fn, framelift.compile(fn, backend=backend, fullgraph=fn not in BREAKING), lambda: None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_open_across_a_break(fn: Callable[..., Any], backend: str) -> None:
    compared(fn, framelift.compile(fn, backend=backend), stop)


def test_a_call_in_another_state_is_another_case() -> None:
    compiled = capture(lambda x: F.scaled_dot_product_attention(x, x, x))
    x = torch.randn(1, 2, 3, 4)
    compiled(x)
    with sdpa_kernel(KERNELS, set_priority=True):
        compiled(x)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        compiled(x)
    assert why_not(compiled) is None
    record = next(iter(compiled._framelift_context.code_states.values()))
    assert len(record.entries) == 3  # plainly, and in each of the two contexts


def test_the_transformer_layers_of_torch_are_captured_whole() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    x = torch.randn(2, 3, 8)
    for training in (True, False):
        layer.train(training)
        layer.dropout.p = layer.dropout1.p = layer.dropout2.p = layer.self_attn.dropout = 0.0
        compiled = framelift.compile(layer, backend="eager", fullgraph=True)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                torch.testing.assert_close(compiled(x), layer(x))
