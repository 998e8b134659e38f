"""`Module.register_full_backward_hook` and its kin: a module's hooks become bodies that gradients go through.

Torch's own class sees to it that they are called: `BackwardHook` stands between a module and what is around
it, and knows the gradients on both sides. The graph has one too, which is given bodies in the place of the
program's hooks, so that a compiler that traces the backward pass finds them there.

A hook that does more than compute gradients - keep one, count, print - can't be one of them. Then the trace
ends in front of the module, torch sets up the hook for real, and the module's inside is a graph of its own.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils import _pytree as pytree
from torch.utils.hooks import BackwardHook

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.hooks.tensor_hooks import errors_as_breaks
from framelift.features.hooks.zero_preserving import is_zero_preserving
from framelift.interpreter.pending import opened
from framelift.trace.bodies import Traced, fresh, interpret, traced
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.world import TraceWorld

UNDEFINED = "A backward hook of a module was compiled for a gradient of its output, and there is none."
NO_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
    "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
    "#torch.nn.Module.register_full_backward_hook for more details."
)

# ---- what the graph holds


class HookOfBodies(BackwardHook):
    """Calls bodies in the place of hooks. It knows of tensors only, in the order of the arguments."""

    def __init__(self) -> None:
        super().__init__(None, [], [])
        self.seen: tuple[Any, ...] = ()
        """The gradients of the outputs, as the pre-hooks have left them, for the hooks to see."""

    def calls(self, before: Any, after: Any) -> None:
        self.before, self.after = before, after
        self.is_alone = self.input_tensors_index is None
        if self.is_alone:
            self.input_tensors_index: Any = []  # or torch's class warns, of fakes too
        self.user_pre_hooks = [self.call_before]
        self.user_hooks = [self.call_after] if after is not None else []

    def call_before(self, module: None, grad_outputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        self.seen = tuple(grad for grad in grad_outputs if grad is not None)
        if not self.seen:
            raise RuntimeError(UNDEFINED)
        if self.is_alone:
            warn_of_inputs(self.seen)
        if self.before is None:
            return None
        body, operands, are_seen, are_gradients = self.before
        found = body(*self.seen, *operands)
        self.seen = found[:are_seen]
        return placed(are_gradients, found[are_seen:])

    def call_after(self, module: None, grad_inputs: tuple[Any, ...], _: Any) -> tuple[Any, ...]:
        body, operands, are_gradients = self.after
        seen, self.seen = self.seen, ()
        return placed(are_gradients, body(*grad_inputs, *seen, *operands))


def warn_of_inputs(grads: tuple[Any, ...]) -> None:
    """Warns as torch's class does where no input is differentiated: when gradients are computed. Of a
    backward pass that a compiler traces, that is when it does so; other runs on fakes warn of nothing."""
    if get_proxy_mode() is not None or not any(map(is_fake, grads)):
        warnings.warn(NO_INPUTS, stacklevel=7)


def placed(are_tensors: list[bool], tensors: Any) -> tuple[Any, ...]:
    left = iter(tensors)
    return tuple(next(left) if is_tensor else None for is_tensor in are_tensors)


def hook_inputs(hook: HookOfBodies, *tensors: torch.Tensor) -> tuple[Any, ...]:
    found: tuple[Any, ...] = hook.setup_input_hook(tensors)
    return found


def hook_outputs(hook: HookOfBodies, before: Any, after: Any, *tensors: torch.Tensor) -> tuple[Any, ...]:
    hook.calls(before, after)
    found: tuple[Any, ...] = hook.setup_output_hook(tensors)
    return found


# ---- what the bodies are traced from: what torch's class does with hooks


def through_pre_hooks(module: Any, hooks: Any, grads: Any, places: Any) -> Any:
    expected = len(grads)
    for hook in hooks:
        found = hook(module, grads)
        if found is None:
            continue
        if len(found) != expected:
            raise RuntimeError("a backward pre-hook gives another number of gradients")
        grads = found
    return grads, tuple([grads[place] for place in places])


def through_hooks(module: Any, hooks: Any, grads: Any, grad_outputs: Any, places: Any) -> Any:
    for hook in hooks:
        found = hook(module, grads, grad_outputs)
        if found is None:
            continue
        if len(found) != len(grads):
            raise RuntimeError("a backward hook gives another number of gradients")
        grads = found
    return tuple([grads[place] for place in places])


def without_inputs(module: Any, hooks: Any, grads: Any, grad_outputs: Any, places: Any) -> Any:
    for hook in hooks:
        found = hook(module, grads, grad_outputs)
        if found is not None and not (isinstance(found, tuple) and all([one is None for one in found])):
            raise RuntimeError("a backward hook gives gradients where no input has one")
    return ()


interpret(through_pre_hooks, through_hooks, without_inputs)
# what torch's class registers with autograd, which a captured backward pass calls
interpret(BackwardHook._set_user_hook, BackwardHook.setup_output_hook)
interpret(BackwardHook._pack_with_none, BackwardHook._unpack_none)
interpret(HookOfBodies.call_before, HookOfBodies.call_after, placed)


# ---- what a trace has


class TracedHook(BackwardHook):
    """What stands for a `BackwardHook` while its module is traced."""

    node: torch.fx.Node
    inputs: list[Any]
    """What the module was called with."""
    places: list[int] | None
    """The places of tensors among them; None if none is differentiated."""


@serve(BackwardHook)
def serve_backward_hook(f: TraceFrame, module: Any, user_hooks: Any, user_pre_hooks: Any) -> Any:
    builder = f.world.recorder.builder
    if builder.in_body:
        raise Break(breaks.GRADIENTS, "backward hooks of a module in a function that an operator is given")
    found = TracedHook(module, user_hooks, user_pre_hooks)
    found.node = builder.body.add_node("call_function", HookOfBodies, ())
    builder.failing.note_effect()
    return found


@serve(BackwardHook.setup_input_hook)
def serve_setup_input_hook(f: TraceFrame, self: Any, args: Any) -> Any:
    world, hook, given = f.world, traced_hook(self), opened(args)
    hook.inputs = [opened(value) for value in world.containers.elements(given)]
    hook.places = places = differentiated(world, hook.inputs)
    if places is None:
        return given
    tensors = [hook.inputs[place] for place in places]
    return put_back(world, given, hook.inputs, places, record(world, hook, hook_inputs, (), tensors))


@serve(BackwardHook.setup_output_hook)
@calls_back
def serve_setup_output_hook(f: TraceFrame, self: Any, args: Any) -> Any:
    world, hook, given = f.world, traced_hook(self), opened(args)
    several = isinstance(given, tuple)
    outputs = [opened(value) for value in world.containers.elements(given)] if several else [given]
    places = differentiated(world, outputs)
    if places is None:
        return given
    tensors = [outputs[place] for place in places]
    if sum(tensor.requires_grad for tensor in tensors) > 1:
        what = f"backward hooks of {name_of(hook)}, of which several outputs are differentiated"
        raise Break(breaks.GRADIENTS, what)
    found = record(world, hook, hook_outputs, bodies_of(world, hook, outputs, places), tensors)
    return put_back(world, given, outputs, places, found) if several else found[0]


def traced_hook(hook: Any) -> TracedHook:
    hook = opened(hook)
    if type(hook) is not TracedHook:
        raise Break(breaks.EFFECT, f"backward hooks of {name_of(hook)}")
    return hook


def name_of(hook: BackwardHook) -> str:
    return f"a module of class {type(opened(hook.module)).__qualname__}"


def differentiated(world: TraceWorld, values: list[Any]) -> list[int] | None:
    """The places of tensors among values; None if no gradients go through them."""
    places = [n for n, value in enumerate(values) if type(value) is FakeTensor]
    requiring = any(world.attributes.load(values[place], "requires_grad") for place in places)
    return places if requiring and torch.is_grad_enabled() else None


def put_back(world: TraceWorld, given: Any, values: list[Any], places: list[int], tensors: Any) -> Any:
    made = list(values)
    for place, tensor in zip(places, tensors, strict=True):
        made[place] = tensor
    return tuple(made) if type(given) is tuple else world.calls.invoke(type(given), *made)


def record(world: TraceWorld, hook: TracedHook, function: Any, bodies: Any, tensors: list[Any]) -> Any:
    recorder, builder = world.recorder, world.recorder.builder
    with torch._C.DisableTorchFunction():
        found = recorder.run(BackwardHookFunction.apply, tensors, {})
    builder.add_call(function, (hook.node, *bodies, *map(builder.node_of, tensors)), found)
    return found


def bodies_of(
    world: TraceWorld, hook: TracedHook, outputs: list[Any], places: list[int]
) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """What the graph's hook calls before and after the module's gradients are computed."""
    grads: list[Any] = [None] * len(outputs)
    for place in places:
        if outputs[place].requires_grad:
            grads[place] = fresh(world.recorder, outputs[place], requires_grad=False)
    before, seen = traced_before(world, hook, tuple(grads), places)
    return before, traced_after(world, hook, seen)


def traced_before(
    world: TraceWorld, hook: TracedHook, grads: tuple[Any, ...], places: list[int]
) -> tuple[tuple[Any, ...] | None, Any]:
    """The body of the pre-hooks, and the gradients that they give, which the hooks see."""
    if not world.operators.truth(hook.user_pre_hooks):
        return None, grads
    given = [hook.module, hook.user_pre_hooks, grads, places]
    found = body_of(world, "register_full_backward_pre_hook", through_pre_hooks, given, tensors_in(grads))
    note_if_it_matters(world, hook, found)
    seen, gradients = found.result(fresh(world.recorder, tensor) for tensor in found.tensors)
    return (*as_arguments(world, found), len(tensors_in(seen)), are_tensors(gradients)), seen


def traced_after(world: TraceWorld, hook: TracedHook, seen: Any) -> tuple[Any, ...] | None:
    if not world.operators.truth(hook.user_hooks):
        return None
    places = hook.places
    grads: list[Any] = [None] * len(hook.inputs)
    for place in places or ():
        grads[place] = fresh(world.recorder, hook.inputs[place], requires_grad=False)
    function = without_inputs if places is None else through_hooks
    given = [hook.module, hook.user_hooks, tuple(grads), seen, places or []]
    found = body_of(world, "register_full_backward_hook", function, given, tensors_in((grads, seen)))
    if places is None:  # nothing comes of it
        return None
    note_if_it_matters(world, hook, found)
    return (*as_arguments(world, found), are_tensors(found.result(found.tensors)))


def body_of(world: TraceWorld, operator: str, function: Any, given: list[Any], inputs: list[Any]) -> Traced:
    settings: dict[str, Any] = {"grad": False, "aliases": True, "in_backward": True}
    with errors_as_breaks(f"hook of {operator}"):
        return traced(world, operator, "hook", function, given, inputs, **settings)


def note_if_it_matters(world: TraceWorld, hook: TracedHook, found: Traced) -> None:
    if not is_zero_preserving(found.body):
        world.recorder.histories.add_hook(hook.node, makes_something=True)


def as_arguments(world: TraceWorld, found: Traced) -> tuple[Any, tuple[Any, ...]]:
    module = world.recorder.builder.body.add_module("hook", found.body.module())
    return module, tuple(found.body.outer_nodes)


def are_tensors(gradients: tuple[Any, ...]) -> list[bool]:
    if not all(grad is None or type(grad) is FakeTensor for grad in gradients):
        raise Break(breaks.BODIES, "a backward hook that gives something else than gradients")
    return [grad is not None for grad in gradients]


def tensors_in(value: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(value) if type(leaf) is FakeTensor]
