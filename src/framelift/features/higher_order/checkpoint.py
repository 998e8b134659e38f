"""`torch.utils.checkpoint.checkpoint`: the function becomes a body that is run again for its gradients.

Backends are given torch's own operator for it, which AOTAutograd has recomputed by the partitioner. What is
kept and what is computed again (`context_fn`) changes no result: the function that decides it goes with the
body, and is called where the graph runs, or is compiled.

A reentrant checkpoint calls the function without gradients, and once more with gradients in the backward
pass. The program can tell these calls apart, so the function is traced both ways: both must be one graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any, NamedTuple

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import checkpoint as checkpoints

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.body import GraphBody
from framelift.graph.functions import tensors_of
from framelift.graph.same_graphs import same_bodies
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

CONTEXT = "_checkpoint_context_fn"
"""The key under which torch's operator looks for the `context_fn` of a body."""


def checkpointed(body: Any, *operands: Any) -> Any:
    """What the graph calls."""
    context = body.meta.get(CONTEXT, checkpoints.noop_context_fn)
    return checkpoints.checkpoint(body, *operands, use_reentrant=False, context_fn=context)


@form_of(checkpointed)
def write_checkpointed(call: Call) -> Any:
    """Where nothing is differentiated the function is only called. AOTAutograd refuses to compute again what
    draws numbers, in a graph that has no graph for gradients beside it."""
    if not call.differentiated or not is_differentiated(call.module.graph):
        return call.inline(call.args[1:])
    return call.operator(tag_activation_checkpoint, tuple(call.args), use_reentrant=False)


def is_differentiated(graph: torch.fx.Graph) -> bool:
    """Whether gradients go through what the graph gives, or are asked for within."""
    results: list[torch.fx.Node] = []
    torch.fx.map_arg(graph.output_node().args[0], results.append)
    if any(getattr(node.meta.get("example_value"), "requires_grad", False) for node in results):
        return True
    return any(node.target is torch.autograd.grad for node in graph.nodes)


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
    if use_reentrant is not False and kwargs:
        raise Break(breaks.CHECKPOINT, "checkpoint() with use_reentrant=True, and arguments by keyword")
    disabled = autograd._saved_tensors_hooks_get_disabled_error_message()
    if disabled is not None:
        raise RuntimeError(disabled)  # it is made of such hooks
    function = opened(function)
    if use_reentrant is not False:
        reentrant = Reentrant(f.world, function, args, bool(preserve_rng_state))
        if not any(requires_grad(f, arg) for arg in args):
            return reentrant.result_without_gradients()
        return reentrant.result(standing(f.world, context_fn))
    if not torch.is_grad_enabled():
        return call(f, function, list(args), kwargs)
    context = standing(f.world, context_fn)
    found = traced(f.world, lambda: f.world.calls.invoke(function, *args, **kwargs), grad=True)
    if calls_operators(found.body.graph, found.body.bodies):  # what is saved for gradients changes no result
        return call(f, function, list(args), kwargs)
    add_call(f.world, found, context, bool(preserve_rng_state))
    return found.out


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


WHAT = "a checkpointed function"


def traced(world: TraceWorld, function: Callable[[], Any], grad: bool, callee: Any = None) -> Traced:
    recorder = world.recorder
    with body(world, WHAT, floats=True, grad=grad, callee=callee) as made:
        with breaks_named(WHAT):
            out = function()
        found = world.materialize.for_torch(out)
        tensors = list({id(value): value for value in tensors_of(found)}.values())
        outputs = tuple(recorder.builder.argument(function, tensor) for tensor in tensors)
        recorder.higher_order.close(made, outputs, grad=grad)
    return Traced(made, out, tensors)


def add_call(world: TraceWorld, found: Traced, context: Any, preserves: bool = True) -> None:
    """`preserves`: whether what draws random numbers gives the same ones when it is computed again."""
    recorder, made = world.recorder, found.body
    draws = not recorder.builder.impure.isdisjoint(made.graph.nodes)
    if draws and not preserves:
        raise Break(breaks.CHECKPOINT, "checkpoint() with preserve_rng_state=False of what draws numbers")
    module = made.module()
    if context is not checkpoints.noop_context_fn:
        module.meta[CONTEXT] = context
    if draws:
        # AOTAutograd sees to that only between a graph and its backward graph
        why = f"gradients through {WHAT}, which draws random numbers"
        recorder.histories.refuse_gradients(breaks.RANDOM, why)
    given = (recorder.builder.body.add_module("wrap_body", module), *made.outer_nodes)
    recorder.higher_order.add_region(checkpointed, given, made, found.tensors)


class Traced(NamedTuple):
    """A function that was traced as a body, and what it gives."""

    body: GraphBody
    out: Any
    tensors: list[Any]


class Unused:
    """The context of an `autograd.Function` whose backward is never called."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Nothing is saved."""


_frame.set_decision(Unused.save_for_backward.__code__, _frame.SKIP, _frame.INTERPRET)


class Reentrant:
    """One call of a reentrant checkpoint, which is an `autograd.Function` of torch's: its results are tensors
    and constants, of which each tensor that can be differentiated is."""

    def __init__(self, world: TraceWorld, function: Any, args: Any, preserves: bool) -> None:
        self.world, self.function, self.args, self.preserves = world, function, args, preserves

    def result(self, context: Any) -> Any:
        if not torch.is_grad_enabled():
            out = self.call()
            self.check(out)
            return out
        first = self.traced(grad=False)
        self.check(first.out)
        with torch._C.DisableTorchFunction():
            given = {op_memory.storage(value) for value in tensors_of(first.body.given)}
            gives_views = not given.isdisjoint(map(op_memory.storage, first.tensors))
        if gives_views:
            raise Break(breaks.CHECKPOINT, f"{NOT_NEW}, but views of what it was given")
        try:
            found = self.traced(grad=True)
        except Exception as error:
            if isinstance(error, Break):
                raise
            raise Break(breaks.CHECKPOINT, f"{TOLD_APART}: {type(error).__name__}") from error
        if calls_operators(found.body.graph, found.body.bodies):
            raise Break(breaks.CHECKPOINT, "checkpoint() with use_reentrant=True of what calls torch.cond")
        if not self.is_same(first, found):
            raise Break(breaks.CHECKPOINT, TOLD_APART)
        with torch._C.DisableTorchFunction():
            dtypes = [tensor.dtype for tensor in found.tensors if not tensor.requires_grad]
        if any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
            raise Break(
                breaks.CHECKPOINT, "checkpoint() with use_reentrant=True, and a result without history"
            )
        add_call(self.world, found, context, self.preserves)
        return found.out

    def result_without_gradients(self) -> Any:
        """Nothing is computed again: torch's function warns of that, and calls the program's."""
        forward = checkpoints.CheckpointFunction.forward
        out = opened(self.world.calls.invoke(forward, Unused(), self.function, False, *self.args))
        self.check(out)
        return out

    def call(self) -> Any:
        return self.world.calls.invoke(self.function, *self.args)

    def traced(self, grad: bool) -> Traced:
        return traced(self.world, self.call, grad, callee=(self.function, self.args))

    def check(self, out: Any) -> None:
        """An argument that is a result becomes a view of it; tensors in other structures have no history."""
        parts = list(map(opened, out)) if type(out) is tuple else [opened(out)]
        tensors = [id(part) for part in parts if isinstance(part, torch.Tensor)]
        known = {id(opened(arg)) for arg in self.args}
        atoms = all(isinstance(part, torch.Tensor) or type(part) in op_memory.ATOMS for part in parts)
        if not atoms or len(set(tensors)) < len(tensors) or not known.isdisjoint(tensors):
            raise Break(breaks.CHECKPOINT, NOT_NEW)

    def is_same(self, first: Traced, found: Traced) -> bool:
        """Whether two ways of calling the function give one graph, and the same constants."""
        if type(first.out) is not type(found.out):
            return False
        parts = [one.out if type(one.out) is tuple else (one.out,) for one in (first, found)]
        constants = [
            [None if isinstance(opened(part), torch.Tensor) else repr(opened(part)) for part in each]
            for each in parts
        ]
        return constants[0] == constants[1] and same_bodies(first.body, found.body)


NOT_NEW = "checkpoint() with use_reentrant=True that does not give new tensors and constants"
TOLD_APART = "checkpoint() with use_reentrant=True of a function that asks whether gradients are computed"


def calls_operators(graph: torch.fx.Graph, modules: dict[str, Any]) -> bool:
    """Whether a graph calls operators that torch's checkpoints can't recompute: all but those that are plain
    functions of Python's, and only call what they are given."""
    inner = [calls_operators(module.graph, dict(module.named_children())) for module in modules.values()]
    targets = [node.target for node in graph.nodes if isinstance(node.target, HigherOrderOperator)]
    tables = [target.python_key_table for target in targets]
    return any(inner) or any(FakeTensorMode in table and CACHING not in table for table in tables)
