"""`Tensor.register_hook` on tensors of the trace: the hook becomes a body that gradients go through.

A hook that gives nothing back, and does nothing else that could be seen, leaves no trace in the graph. One on
a tensor from outside is registered by the region, when the graph has run: it is called as it is, by autograd,
in backward passes that come later.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.hooks import RemovableHandle

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.hooks.zero_preserving import is_zero_preserving
from framelift.graph.history import HOOKING
from framelift.graph.torch_forms import Call, form_of
from framelift.interpreter.pending import opened
from framelift.trace.bodies import fresh, interpret, traced
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, calls_back, interpreted
from framelift.trace.world import TraceWorld
from framelift.trace.writes import LateCall

Tensor = torch.Tensor


def hook_gradient(tensor: Tensor, hook: Any, *operands: Any) -> None:
    """What the graph calls. The operands are tensors from outside that the hook uses."""
    tensor.register_hook(lambda grad: hook(grad, *operands))


HOOKING.add(hook_gradient)
interpret(hook_gradient)  # whose hook a captured backward pass calls


@form_of(hook_gradient)
def write_hook_gradient(call: Call) -> list[Any]:
    tensor, hook, *operands = call.args
    if operands:
        _, *inputs = call.held(1).graph.find_nodes(op="placeholder")
        named = {str(node.target): operand for node, operand in zip(inputs, operands, strict=True)}
        hook = call.add(functools.partial, (hook,), **named)
    call.add("register_hook", (tensor, hook))
    return []


@contextlib.contextmanager
def errors_as_breaks(what: str) -> Iterator[None]:
    """What a hook raises, it would raise in the backward pass."""
    try:
        yield
    except Exception as error:
        raise Break(breaks.BODIES, f"{what}: it raises {type(error).__name__}: {error}") from error


class Handle(RemovableHandle):
    """What the program gets. It can remove the hook."""

    node: torch.fx.Node | None

    def __init__(self) -> None:
        self.id = RemovableHandle.next_id  # which the one that the graph gets counts up

    def __reduce__(self) -> Any:
        raise TypeError("a handle of a hook can't be made again")


@serve(Tensor.register_hook)
@calls_back
def serve_register_hook(f: TraceFrame, self: Any, hook: Any) -> Any:
    world, tensor = f.world, opened(self)
    if type(tensor) is not FakeTensor:
        raise Break(breaks.EFFECT, "Tensor.register_hook on a tensor that is not known")
    world.overrides.refuse("Tensor.register_hook", tensor)
    if not world.attributes.load(tensor, "requires_grad"):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if id(tensor) in world.recorder.inputs.index_of:
        return registered_later(world, tensor, "register_hook", hook)
    handle = Handle()
    try:
        handle.node = recorded(world, tensor, opened(hook))
    except Break as found:
        found.watches_gradients = True
        raise
    return handle


def recorded(world: TraceWorld, tensor: FakeTensor, hook: Any) -> torch.fx.Node | None:
    recorder, builder = world.recorder, world.recorder.builder
    grad = fresh(recorder, tensor, requires_grad=False)
    settings: dict[str, Any] = {"grad": False, "bare": True, "aliases": True, "in_backward": True}
    with errors_as_breaks("hook of register_hook"):
        found = traced(world, "register_hook", "hook", hook, [grad], [grad], **settings)
    if not found.tensors:
        return None
    if len(found.leaves) > 1:
        raise Break(breaks.BODIES, f"{found.name}: it gives more than one gradient")
    module = builder.body.add_module("hook", found.body.module())
    given = (builder.node_of(tensor), module, *found.body.outer_nodes)
    node: torch.fx.Node = builder.add_call(hook_gradient, given, None, pure=False)
    builder.failing.note_effect()
    recorder.histories.add_hook(node, makes_something=not is_zero_preserving(found.body))
    recorder.histories.hook_functions[node] = hook
    return node


# ---- hooks of tensors from outside


class LateHandle(RemovableHandle):
    """What the program gets for a hook that the region registers, until it has the real one."""

    call: LateCall

    def __init__(self) -> None:
        self.id = RemovableHandle.next_id


@serve(Tensor.register_post_accumulate_grad_hook)
def serve_post_accumulate(f: TraceFrame, self: Any, hook: Any) -> Any:
    world, tensor = f.world, opened(self)
    name = "register_post_accumulate_grad_hook"
    if type(tensor) is not FakeTensor or id(tensor) not in world.recorder.inputs.index_of:
        raise Break(breaks.EFFECT, f"Tensor.{name} on a tensor that the function has made")
    world.overrides.refuse(f"Tensor.{name}", tensor)
    load = world.attributes.load
    if not load(tensor, "requires_grad") or not load(tensor, "is_leaf"):
        raise Break(breaks.EFFECT, f"Tensor.{name} on what is no leaf that requires grad")
    return registered_later(world, tensor, name, hook)


def registered_later(world: TraceWorld, tensor: FakeTensor, method: str, hook: Any) -> LateHandle:
    recorder = world.recorder
    if recorder.builder.in_body:
        raise Break(breaks.EFFECT, f"Tensor.{method} on a tensor from outside, in a function of an operator")
    computed = not world.attributes.load(tensor, "is_leaf")  # hooks are those of the function that did
    if computed and id(tensor) in recorder.builder.body.changed:
        raise Break(breaks.EFFECT, f"Tensor.{method} on a tensor that was written to")
    recorder.histories.refuse_gradients(breaks.GRADIENTS, "gradients behind a hook on a tensor from outside")
    handle = LateHandle()
    handle.call = LateCall(tensor, method, (hook,), handle, computed)
    world.writes.calls.append(handle.call)
    return handle


@serve(RemovableHandle.remove)
def serve_remove(f: TraceFrame, self: Any) -> Any:
    """Removes a hook from the graph, if no gradient has gone through it yet."""
    handle, recorder = opened(self), f.world.recorder
    if type(handle) is LateHandle:
        handle.call.then.append("remove")
        return None
    if type(handle) is not Handle:
        return interpreted(f, RemovableHandle.remove, [self], None)
    if handle.node is not None:
        while handle.node in recorder.builder.moved:
            recorder.histories.remove_hook(handle.node)
            handle.node = recorder.builder.moved[handle.node]
        graph = handle.node.graph
        later = list(graph.nodes)[list(graph.nodes).index(handle.node) :]
        if recorder.histories.replayed or any(node.target is torch.autograd.grad for node in later):
            raise Break(breaks.GRADIENTS, "a hook removed after gradients were computed")
        recorder.histories.remove_hook(handle.node)
        recorder.builder.remove(handle.node)
        handle.node = None
    return None
