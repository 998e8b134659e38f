"""Operators that are given operators, that have effects, or that belong to other tools."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._export.wrappers import _export_tracepoint
from torch._higher_order_ops.effects import _register_effectful_op
from torch._library.effects import EffectType

import framelift
from check import entries, why_not
from framelift.exc import Unsupported
from framelift.testing import EagerAndRecordGraphs

operators = torch.ops.higher_order
STATE = torch.get_rng_state()
NOTED: list[float] = []


@torch.library.custom_op("framelift_tests::note", mutates_args=())
def note(x: torch.Tensor) -> None:
    NOTED.append(x.sum().item())


@note.register_fake
def _(x: torch.Tensor) -> None:
    return None


_register_effectful_op(torch.ops.framelift_tests.note.default, EffectType.ORDERED)


def of_a_dtype(x: Any) -> Any:
    small = x.to(torch.int8)
    return operators.out_dtype(torch.ops.aten.mm.default, torch.int32, small, small.t())


def from_a_state(x: Any) -> Any:
    drawn = operators.run_with_rng_state(STATE, torch.ops.aten.bernoulli.p, x, 0.5)
    return drawn + torch.rand(3)


def traced_point(x: Any) -> Any:
    return _export_tracepoint(x.sin(), kind="module_call_inputs", path="a")[0] + 1


def noted(x: Any) -> Any:
    torch.ops.framelift_tests.note(x)
    y = x * 2
    note(y)
    note(x + 1)
    return y


CAPTURED = [of_a_dtype, from_a_state, traced_point, noted]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", CAPTURED, ids=lambda fn: fn.__name__)
def test_an_operator_is_captured(fn: Callable[..., Any], backend: str) -> None:
    def outcome(call: Any, x: torch.Tensor) -> Any:
        torch.manual_seed(3)
        NOTED.clear()
        return call(x), torch.rand(1), list(NOTED)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in range(2):
        x = torch.arange(9.0).reshape(3, 3) / 9 + n
        torch.testing.assert_close(outcome(compiled, x), outcome(fn, x))
    assert entries(compiled) == 1 and why_not(compiled) is None


def test_an_effect_does_not_happen_while_tracing(capfd: pytest.CaptureFixture[str]) -> None:
    def fn(x: Any) -> Any:
        torch.ops.aten._print("here")
        return x + 1

    framelift.compile(fn, backend="aot_eager", fullgraph=True)(torch.ones(2))
    assert capfd.readouterr().out.count("here") == 1


def test_tracepoints_stand_in_the_graph() -> None:
    kept = EagerAndRecordGraphs()
    framelift.compile(traced_point, backend=kept)(torch.ones(2))
    (node,) = kept.graphs[0].graph.find_nodes(op="call_function", target=_export_tracepoint)
    assert node.kwargs == {"kind": "module_call_inputs", "path": "a"}


class Lowered(torch.nn.Module):
    """What executorch makes has a program to run in here."""

    original_module = types.SimpleNamespace(module=torch.nn.Identity)


QUANTIZED = torch.quantize_per_tensor(torch.ones(3, 3), 0.1, 0, torch.qint8)
PACKED = torch.ops.quantized.linear_prepack(QUANTIZED, None)
REFUSED = {
    "operator without a body: executorch_call_delegate": lambda x: operators.executorch_call_delegate(
        LOWERED, x
    ),
    "opaque object: unpack of a torch.ScriptObject": lambda x: PACKED.unpack()[0].dequantize() + x,
    "opaque object: a torch.ScriptObject": lambda x: torch.ops.quantized.linear_dynamic(x, PACKED),
    "operator without a body: call_torchbind": lambda x: operators.call_torchbind(PACKED, "unpack"),
    "operator without a body: with_effects": lambda x: operators.with_effects(
        x, torch.ops.aten.sin.default, x
    ),
    "operator without a body: run_and_save_rng_state": lambda x: operators.run_and_save_rng_state(
        torch.ops.aten.bernoulli.p, x, 0.5
    ),
    "operator without a body: graphsafe_run_with_rng_state": lambda x: operators.graphsafe_run_with_rng_state(
        torch.ops.aten.bernoulli.p, x, 0.5, rng_state=None
    ),
    "out_dtype: an operand is differentiated": lambda x: operators.out_dtype(
        torch.ops.aten.mul.Tensor, torch.float64, x.requires_grad_(False) + WEIGHT, 2
    ),
}
WEIGHT = torch.ones(3, 3, requires_grad=True)
LOWERED = Lowered()


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_captured_is_named(message: str) -> None:
    fn = REFUSED[message]
    with pytest.raises(Unsupported, match=re.escape(message)) as raised:
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3, 3))
    assert f'File "{__file__}"' in str(raised.value)
