"""`torch.utils.checkpoint.checkpoint`: the function becomes a body that is run again for its gradients.

Backends are given torch's own operator for it, which AOTAutograd has recomputed by the partitioner. What is
kept and what is computed again (`context_fn`) changes no result: the function that decides it goes with the
body, and is called where the graph runs, or is compiled.
"""

from __future__ import annotations

import functools
from types import CellType, FunctionType
from typing import Any

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import checkpoint as checkpoints

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.functions import tensors_of
from framelift.graph.torch_flags import autograd
from framelift.graph.torch_forms import Call, form_of
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.bodies import body, breaks_named
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.world import TraceWorld

CACHING = vars(checkpoints)["_CachingTorchDispatchMode"]
"""The mode in which a checkpoint is traced: operators that can be recomputed say what they do in it."""
REENTRANT = "checkpoint() with use_reentrant=True, and no argument that requires grad"

CONTEXT = "_checkpoint_context_fn"
"""The key under which torch's operator looks for the `context_fn` of a body."""


def checkpointed(body: Any, *operands: Any) -> Any:
    """What the graph calls."""
    context = body.meta.get(CONTEXT, checkpoints.noop_context_fn)
    return checkpoints.checkpoint(body, *operands, use_reentrant=False, context_fn=context)


@form_of(checkpointed)
def write_checkpointed(call: Call) -> Any:
    return call.operator(tag_activation_checkpoint, tuple(call.args), use_reentrant=False)


@serve(checkpoints.checkpoint)
@calls_back
def serve_checkpoint(
    f: TraceFrame,
    /,
    function: Any,
    *args: Any,
    use_reentrant: Any = None,
    preserve_rng_state: Any = True,
    context_fn: Any = checkpoints.noop_context_fn,
    determinism_check: Any = "default",
    debug: Any = False,
    early_stop: Any = True,
    **kwargs: Any,
) -> Any:
    """The last three settings change no result."""
    use_reentrant, preserve_rng_state = opened(use_reentrant), opened(preserve_rng_state)
    if use_reentrant is None:
        raise Break(breaks.CHECKPOINT, "checkpoint() without use_reentrant=False")
    if use_reentrant is not False and (kwargs or not any(requires_grad(f, arg) for arg in args)):
        # which is an error, or gives what has no gradients, and says so
        raise Break(breaks.CHECKPOINT, REENTRANT)
    if preserve_rng_state is not True:
        raise Break(breaks.CHECKPOINT, f"checkpoint() with preserve_rng_state={preserve_rng_state!r}")
    disabled = autograd._saved_tensors_hooks_get_disabled_error_message()
    if disabled is not None:
        raise RuntimeError(disabled)  # it is made of such hooks
    if not torch.is_grad_enabled():
        return call(f, function, list(args), kwargs)
    return recorded(f.world, opened(function), args, kwargs, standing(f.world, context_fn))


def requires_grad(f: TraceFrame, value: Any) -> bool:
    value = opened(value)
    return isinstance(value, torch.Tensor) and bool(f.world.attributes.load(value, "requires_grad"))


def standing(world: TraceWorld, value: Any) -> Any:
    """A `context_fn`, with all that it refers to, as it can be called when the trace is over."""
    value = opened(value)
    if type(value) is functools.partial:
        func, *args = [standing(world, part) for part in (value.func, *value.args)]
        kwargs = {name: standing(world, part) for name, part in value.keywords.items()}
        return functools.partial(func, *args, **kwargs)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([standing(world, item) for item in value])
    if type(value) is dict:
        return {standing(world, key): standing(world, item) for key, item in value.items()}
    if type(value) is FunctionType and id(value) in world.functions.inside:
        cells = tuple([CellType(standing(world, cell.cell_contents)) for cell in value.__closure__ or ()])
        made = FunctionType(value.__code__, value.__globals__, value.__name__, closure=cells)
        made.__defaults__ = standing(world, value.__defaults__)
        return made
    if not callable(value) and type(value) not in op_memory.ATOMS:
        what = f"checkpoint() with a context_fn that refers to a {type(value).__name__}"
        raise Break(breaks.CHECKPOINT, what)
    return value


def recorded(world: TraceWorld, function: Any, args: Any, kwargs: dict[str, Any], context: Any) -> Any:
    recorder, what = world.recorder, "a checkpointed function"
    with body(world, what, floats=True) as made:
        with breaks_named(what):
            out = world.calls.invoke(function, *args, **kwargs)
        tensors = list({id(value): value for value in tensors_of(world.materialize.for_torch(out))}.values())
        outputs = tuple(recorder.builder.argument(function, tensor) for tensor in tensors)
        if calls_operators(made.graph, made.bodies):
            raise Break(breaks.CHECKPOINT, "checkpoint() of a function that calls torch.cond, or the like")
        recorder.higher_order.close(made, outputs, grad=True)
    module = made.module()
    if context is not checkpoints.noop_context_fn:
        module.meta[CONTEXT] = context
    pure = recorder.builder.impure.isdisjoint(made.graph.nodes)
    if not pure:  # AOTAutograd sees to that only between a graph and its backward graph
        why = f"gradients through {what}, which draws random numbers"
        recorder.histories.refuse_gradients(breaks.RANDOM, why)
    given = (recorder.builder.body.add_module("wrap_body", module), *made.outer_nodes)
    recorder.builder.add_call(checkpointed, given, tuple(tensors), pure=pure)
    return out


def calls_operators(graph: torch.fx.Graph, modules: dict[str, Any]) -> bool:
    """Whether a graph calls operators that torch's checkpoints can't recompute: all but those that are plain
    functions of Python's, and only call what they are given."""
    inner = [calls_operators(module.graph, dict(module.named_children())) for module in modules.values()]
    targets = [node.target for node in graph.nodes if isinstance(node.target, HigherOrderOperator)]
    tables = [target.python_key_table for target in targets]
    return any(inner) or any(FakeTensorMode in table and CACHING not in table for table in tables)
