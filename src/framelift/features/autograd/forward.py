"""`torch.autograd.forward_ad`: dual tensors of the program's.

The graph has torch's own calls: the level, the dual tensors, what is computed of them, and what they are
taken apart into. Fakes are plain ones, without tangents. What a tangent looks like, or that there is none,
is found by running the graph so far on fakes that have them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.functions import describe
from framelift.interpreter.pending import opened
from framelift.regions.rebuild import Rebuild
from framelift.trace.bodies import interpret
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.type_rules import type_rule

WHAT = "forward differentiation"

interpret(forward_ad._set_fwd_grad_enabled.__init__)
interpret(forward_ad._set_fwd_grad_enabled.__enter__, forward_ad._set_fwd_grad_enabled.__exit__)


def level_now() -> int:
    return forward_ad._current_level


def note_level(level: int) -> None:
    forward_ad._current_level = level


interpret(level_now, note_level)


@serve(forward_ad.dual_level.__enter__)
def serve_enter(f: TraceFrame, self: Any, /) -> Any:
    recorder = f.world.recorder
    around = opened(f.world.calls.invoke(level_now)) >= 0
    if around or recorder.histories.dual_level or recorder.builder.in_body:
        raise Break(breaks.GRADIENTS, f"{WHAT} within another one, or in an operator's body")
    recorder.builder.record(forward_ad.enter_dual_level, (), {}, 0, pure=False)
    recorder.histories.dual_level = True
    f.world.calls.invoke(note_level, 0)
    recorder.histories.refuse_gradients(breaks.GRADIENTS, f"gradients beside {WHAT}")
    return 0


@serve(forward_ad.dual_level.__exit__)
def serve_exit(f: TraceFrame, self: Any, /, *raised: Any) -> Any:
    recorder = f.world.recorder
    if not recorder.histories.dual_level:
        raise Break(breaks.TORCH_STATE, "a level of dual tensors that was entered outside")
    recorder.builder.record(forward_ad.exit_dual_level, (), {"level": 0}, None, pure=False)
    recorder.histories.dual_level = False
    f.world.calls.invoke(note_level, -1)


def rebuild_level(region: Rebuild, value: Any) -> str:
    """A level can't be left open: the trace ends in front of it."""
    raise Break(breaks.TORCH_STATE, "a break between dual tensors and what is made of them", culprit=value)


type_rule(forward_ad.dual_level, rebuild=rebuild_level)


@serve(forward_ad.make_dual)
def serve_make_dual(f: TraceFrame, /, tensor: Any, tangent: Any, *, level: Any = None) -> Any:
    recorder = f.world.recorder
    given = [f.world.materialize.for_torch(value) for value in (tensor, tangent)]
    known = all(type(one) is FakeTensor and is_continuous(one) for one in given)
    if not known or not recorder.histories.dual_level or opened(level) not in (None, 0):
        raise Break(breaks.GRADIENTS, f"{describe(forward_ad.make_dual)} of something else than two tensors")
    with torch._C.DisableTorchFunction():
        made = given[0].view_as(given[0])
    recorder.builder.record(forward_ad.make_dual, tuple(given), {"level": 0}, made, pure=False)
    return made


def is_continuous(fake: FakeTensor) -> bool:
    with torch._C.DisableTorchFunction():
        return fake.is_floating_point() or fake.is_complex()


@serve(forward_ad.unpack_dual)
def serve_unpack_dual(f: TraceFrame, /, tensor: Any, *, level: Any = None) -> Any:
    histories, recorder = f.world.recorder.histories, f.world.recorder
    if not histories.dual_level:
        return interpreted(f, forward_ad.unpack_dual, [tensor], {"level": level})
    dual = f.world.materialize.for_torch(tensor)
    if type(dual) is not FakeTensor or opened(level) not in (None, 0):
        raise Break(breaks.GRADIENTS, f"{describe(forward_ad.unpack_dual)} of something else than a tensor")
    tangent = histories.tangent_of(dual)
    with torch._C.DisableTorchFunction():
        primal = dual.view_as(dual)
    found = forward_ad.UnpackedDualTensor(primal, tangent)
    recorder.builder.record(forward_ad.unpack_dual, (dual,), {"level": 0}, found, pure=False)
    return found
