"""`torch.nn.attention.flex_attention`: the functions that change a score, and that mask one, are bodies.

torch's own Python around the operator is interpreted: it checks what it is given and makes block masks. Each
body has operands of its own, which torch calls its buffers. An index that a body is given stands for many,
so `bias[q_idx]` looks no number up: the operator runs the body where torch sees to that, by a mode of its
compiler's, which a program enters to make a mask.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx.traceback
from torch._higher_order_ops.flex_attention import flex_attention
from torch.nn.attention import flex_attention as torchs

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.functions import element
from framelift.graph.recorder import Recorder
from framelift.graph.symbols import settled
from framelift.interpreter.pending import opened
from framelift.trace.bodies import Traced, captures, disagree, fresh, traced
from framelift.trace.callable_rules import BY_NAME, serve
from framelift.trace.world import TraceWorld

# it says nothing where something is compiled
serve(torchs._warn_once)(lambda f, /, *args, **kwargs: None)

NAME = "flex_attention"


@captures(flex_attention)
def serve_flex_attention(
    world: TraceWorld,
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: Any,
    scale: Any,
    kernel_options: Any,
    score_mod_other_buffers: Any = (),
    mask_mod_other_buffers: Any = (),
) -> Any:
    recorder, shown = world.recorder, world.materialize.for_torch
    query, key, value, scale, options = map(shown, (query, key, value, scale, kernel_options))
    *blocks, mask_mod = shown(block_mask)
    buffers = [shown(given) for given in (score_mod_other_buffers, mask_mod_other_buffers)]
    score = fresh(recorder, query, ())
    changed = modification(world, "score_mod", score_mod, [score, *indices(recorder, query)], buffers[0])
    masked = modification(world, "mask_mod", mask_mod, indices(recorder, query), buffers[1])
    with torch._C.DisableTorchFunction():
        if masked.tensors[0].dtype is not torch.bool:
            raise disagree(masked, f"it gives a tensor of dtype {masked.tensors[0].dtype}, not of torch.bool")
    bodies = {"score_mod": changed.body.module(), "mask_mod": masked.body.module()}
    own = [tuple(one.body.operand_values) for one in (changed, masked)]
    args = (query, key, value, bodies["score_mod"], (*blocks, bodies["mask_mod"]), settled(scale), options)
    out, logsumexp, highest = recorder.higher_order.call(flex_attention, bodies, (*args, *own), {})
    return out, logsumexp, highest


def indices(recorder: Recorder, query: Any) -> list[Any]:
    """Stand-ins for the indices of batch, head, query and key."""
    with torch._C.DisableTorchFunction(), recorder.fakes:
        return [torch.empty((), dtype=torch.int32, device=query.device) for _ in range(4)]


def modification(world: TraceWorld, role: str, fn: Any, inputs: list[Any], buffers: Any) -> Traced:
    before = world.recorder.index_by(torch.Tensor.__getitem__)
    try:
        body = traced(world, NAME, role, fn, [*inputs, *buffers], inputs, bare=True, aliases=True)
    finally:
        world.recorder.index_by(before)
    if body.body.draws:
        raise Break(breaks.RANDOM, body.name)
    if len(body.leaves) != 1 or not body.tensors:
        raise disagree(body, "it must give one tensor")
    with torch._C.DisableTorchFunction():
        if shape := tuple(body.tensors[0].shape):
            raise disagree(body, f"it gives a tensor of shape {shape}, not one element")
    return body


def keep_static(world: TraceWorld, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """`mark_static` while tracing: the sizes are relied on."""
    named = {**dict(zip(("t", "index"), args, strict=False)), **kwargs}
    given = {name: world.materialize.for_torch(value) for name, value in named.items()}
    index = given.get("index")
    sizes = given["t"].shape
    for dim in range(len(sizes)) if index is None else [index] if isinstance(index, int) else index:
        settled(sizes[dim])


MARKING = ("torch._dynamo.decorators", "mark_static")  # by its name: torch's flex_attention calls it
BY_NAME[MARKING] = keep_static


class Elements:
    """What stands for torch's mode while tracing: the graph looks elements up by a function of its own."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.before = recorder, recorder.indexing

    def __reduce__(self) -> Any:
        raise TypeError("a mode in the middle of a trace can't be made again")

    def __enter__(self) -> None:
        raise NotImplementedError("only a trace calls this")

    def __exit__(self, *raised: Any) -> None:
        raise NotImplementedError("only a trace calls this")


@captures(Elements.__enter__)
def serve_enter(world: TraceWorld, mode: Any) -> None:
    world.recorder.index_by(element)


@captures(Elements.__exit__)
def serve_exit(world: TraceWorld, mode: Any, *raised: Any) -> None:
    world.recorder.index_by(opened(mode).before)


# by its name: torch's flex_attention enters it
MODE = ("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex")
BY_NAME[MODE] = lambda world, cls, args, kwargs: Elements(world.recorder)
