"""Operators that are given another operator, or that only mark a place: `out_dtype`, `run_with_rng_state`,
export's tracepoints; and those of other tools, which are breaks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._export.wrappers import _export_tracepoint
from torch._higher_order_ops.effects import with_effects
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.torchbind import call_torchbind
from torch._prims.rng_prims import graphsafe_run_with_rng_state, run_and_save_rng_state, run_with_rng_state

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.functions import tensors_of
from framelift.trace.bodies import captures
from framelift.trace.world import TraceWorld


def refuse_gradients(name: str, given: Any) -> None:
    with torch._C.DisableTorchFunction():
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(given)):
            raise Break(breaks.BODIES, f"{name}: an operand is differentiated, for which torch has no rule")


@captures(out_dtype)
def serve_out_dtype(world: TraceWorld, op: Any, output_dtype: Any, *args: Any) -> Any:
    given = tuple(map(world.materialize.for_torch, (op, output_dtype, *args)))
    refuse_gradients("out_dtype", given)
    return world.recorder.higher_order.call(out_dtype, {}, given, {})


@captures(run_with_rng_state)
def serve_run_with_rng_state(world: TraceWorld, *args: Any, **kwargs: Any) -> Any:
    given = tuple(map(world.materialize.for_torch, args))
    settings = {name: world.materialize.for_torch(value) for name, value in kwargs.items()}
    refuse_gradients("run_with_rng_state", (given, settings))
    return world.recorder.higher_order.call(run_with_rng_state, {}, given, settings)


@captures(_export_tracepoint)
def serve_tracepoint(world: TraceWorld, *args: Any, **kwargs: Any) -> Any:
    """It marks a place in the graph, and gives what it is given."""
    recorder = world.recorder
    given = tuple(map(world.materialize.for_torch, args))
    refuse_gradients("_export_tracepoint", given)
    settings = {name: world.materialize.for_torch(value) for name, value in kwargs.items()}
    recorder.builder.record(_export_tracepoint, given, settings, given, pure=False)
    return given


def refused(operator: Any, why: str) -> None:
    @captures(operator)
    def serve(world: TraceWorld, *args: Any, **kwargs: Any) -> Any:
        raise Break(breaks.OPERATOR_KIND, f"{operator.name()}: {why}")


refused(executorch_call_delegate, "a program that was lowered for another runtime")
refused(call_torchbind, "an object whose methods are in C++")
refused(run_and_save_rng_state, "the state of a generator as a tensor")
refused(graphsafe_run_with_rng_state, "it draws from a generator that a graph can't hold")
refused(with_effects, "tokens are AOTAutograd's, which adds them to operators that have effects")
