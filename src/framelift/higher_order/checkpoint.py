"""`torch.utils.checkpoint.checkpoint`: the function becomes a body that is run again for its gradients.

AOTAutograd is given torch's own operator for it, which has it recomputed by the partitioner.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import checkpoint as checkpoints

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.higher_order.bodies import OPERATORS, unchanged_operands, without_effects
from framelift.interpreter.calls import call
from framelift.interpreter.frame import Frame
from framelift.interpreter.tracing import calls_back, serve
from framelift.tensors.torch_state import autograd
from framelift.world.draws import tensors_in
from framelift.world.pending import opened

SETTINGS = {
    name: parameter.default
    for name, parameter in inspect.signature(checkpoints.checkpoint).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}
SETTINGS["preserve_rng_state"] = True
IGNORED = frozenset({"determinism_check", "debug", "early_stop"})
"""Settings that change nothing about results."""


def checkpointed(body: Any, *operands: Any) -> Any:
    """What the graph holds."""
    if detect_fake_mode(operands) is not None:  # which a compiler traces
        return tag_activation_checkpoint(body, *operands, use_reentrant=False)
    return checkpoints.checkpoint(body, *operands, use_reentrant=False)


@serve(checkpoints.checkpoint)
@calls_back
def serve_checkpoint(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    function, *given = args
    settings = {name: opened(kwargs.pop(name)) for name in list(kwargs) if name in SETTINGS}
    for name, value in settings.items():
        if name == "use_reentrant" and value is False:
            continue
        if value is not SETTINGS[name] and name not in IGNORED:
            raise Break(breaks.INTERNAL, f"checkpoint() with {name}={value!r}")
    if settings.get("use_reentrant") is not False:
        raise Break(breaks.INTERNAL, "checkpoint() without use_reentrant=False")
    disabled = autograd._saved_tensors_hooks_get_disabled_error_message()
    if disabled is not None:
        raise RuntimeError(disabled)  # it is made of such hooks
    if not torch.is_grad_enabled():
        return call(f, function, given, kwargs)
    return recorded(world, opened(function), given, kwargs)


def recorded(world: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    recorder, what = world.recorder, "a checkpointed function"
    with recorder.body() as body, unchanged_operands(recorder, body, what), without_effects(world, what):
        out = world.invoke(function, *args, **kwargs)
        tensors = list({id(value): value for value in tensors_in(world.for_torch(out))}.values())
        outputs = tuple(recorder.argument(function, tensor) for tensor in tensors)
        if calls_operators(body.graph, body.modules):
            raise Break(breaks.INTERNAL, "checkpoint() of a function that calls torch.cond, or the like")
        module = recorder.body_module(body, outputs, grad=True, prune=True)
    operands = [around for _, _, around in body.operands]
    given = (recorder.add_module("checkpointed", module), *operands)
    node = recorder.add_node("call_function", checkpointed, given)
    node.meta["stack_trace"] = recorder.where()
    recorder.calls += 1
    if not recorder.impure.isdisjoint(body.graph.nodes):
        recorder.impure.add(node)
        recorder.redrawn = what
    recorder.name_outputs(tuple(tensors), node)
    return out


def calls_operators(graph: torch.fx.Graph, modules: dict[str, Any]) -> bool:
    """Whether there are operators that torch's own checkpoints know nothing of."""
    inner = [calls_operators(module.graph, dict(module.named_children())) for module in modules.values()]
    return any(inner) or any(node.target in OPERATORS for node in graph.nodes if node.op == "call_function")
