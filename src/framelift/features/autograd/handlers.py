"""Gradients asked for inside a compiled function: `torch.autograd.grad`, `backward()`, and where they go."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.world import TraceWorld

Tensor = torch.Tensor


@serve(torch.autograd.grad)
@calls_back
def serve_grad(
    f: TraceFrame,
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    only_inputs: Any = True,
    allow_unused: Any = None,
    is_grads_batched: Any = False,
    materialize_grads: Any = False,
) -> Any:
    if opened(is_grads_batched):
        raise Break(breaks.GRADIENTS, "torch.autograd.grad with is_grads_batched")
    roots, by, given = (listed(f.world, values) for values in (outputs, inputs, grad_outputs))
    f.world.overrides.refuse("torch.autograd.grad", roots, by, given)
    settings = {"grad_outputs": given, "retain_graph": retain_graph, "create_graph": create_graph}
    settings |= {"allow_unused": allow_unused, "materialize_grads": materialize_grads}
    settings = {name: opened(value) for name, value in settings.items()}
    histories = f.world.recorder.histories
    histories.refuse_retained(roots)
    return histories.gradients(roots, by, settings)


@serve(Tensor.backward)
@calls_back
def serve_tensor_backward(
    f: TraceFrame,
    self: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    inputs: Any = None,
) -> Any:
    given = listed(f.world, gradient)
    f.world.overrides.refuse("Tensor.backward", opened(self))
    backward(f.world, [opened(self)], given, opened(retain_graph), opened(create_graph), inputs)


@serve(torch.autograd.backward)
@calls_back
def serve_backward(
    f: TraceFrame,
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> Any:
    if opened(grad_variables) is not None:
        raise Break(breaks.GRADIENTS, "torch.autograd.backward with grad_variables")
    roots, given = listed(f.world, tensors), listed(f.world, grad_tensors)
    f.world.overrides.refuse("torch.autograd.backward", roots)
    backward(f.world, roots, given, opened(retain_graph), opened(create_graph), inputs)


def backward(
    world: TraceWorld, roots: list[Any], gradients: Any, retain_graph: Any, create_graph: Any, inputs: Any
) -> None:
    """Computes gradients of the leaves behind the roots, and accumulates them in their `.grad`."""
    recorder = world.recorder
    leaves = recorder.histories.leaves_behind(roots)
    if (given := listed(world, inputs)) is not None:
        wanted = set(map(id, given))
        if not wanted <= set(map(id, leaves)):
            raise Break(breaks.GRADIENTS, "backward() with inputs that are no leaves, or not reached")
        leaves = [leaf for leaf in leaves if id(leaf) in wanted]
    else:
        outside = [leaf for leaf in leaves if id(leaf) in recorder.inputs.index_of]
        if not all(world.attributes.load(leaf, "is_leaf") for leaf in outside):
            raise Break(breaks.GRADIENTS, "backward() into what was computed before the function")
    if not leaves:  # which autograd may say an error of
        raise Break(breaks.GRADIENTS, "backward() that reaches no leaf")
    settings = {"retain_graph": retain_graph, "create_graph": create_graph}
    settings |= {"grad_outputs": gradients, "allow_unused": True}
    found = recorder.histories.gradients(roots, leaves, settings)
    for leaf, grad in zip(leaves, found, strict=True):
        if grad is not None:
            accumulate(world, leaf, grad, differentiable=bool(create_graph))


def accumulate(world: TraceWorld, leaf: Any, grad: Any, differentiable: bool) -> None:
    """What autograd does with a gradient that has come to a leaf."""
    recorder = world.recorder
    before = opened(world.attributes.load(leaf, "grad"))
    if before is not None:
        if differentiable or id(leaf) in recorder.histories.retained:
            world.attribute_writes.store(leaf, "grad", recorder.call(torch.add, (before, grad), {}))
        elif world.attributes.load(before, "requires_grad"):
            raise Break(breaks.GRADIENTS, "a gradient added to one that requires grad")
        else:
            recorder.call(Tensor.add_, (before, grad), {})
        return
    if id(leaf) in recorder.histories.retained:
        recorder.histories.share_gradient(grad)  # it goes on through the history
    layout = recorder.histories.layout_of_grad(leaf, grad)
    if layout is not None:
        made = recorder.call(torch.empty_strided, *layout)
        grad = recorder.call(Tensor.copy_, (made, grad), {})
    elif id(grad) in recorder.histories.view_gradients:
        grad = recorder.call(Tensor.detach, (grad,), {})
    world.attribute_writes.store(leaf, "grad", grad)


@serve(Tensor.retain_grad)
def serve_retain_grad(f: TraceFrame, tensor: Any, /) -> Any:
    world, tensor = f.world, opened(tensor)
    world.overrides.refuse("Tensor.retain_grad", tensor)
    if not world.attributes.load(tensor, "requires_grad"):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if world.attributes.load(tensor, "is_leaf"):
        return None
    if id(tensor) in world.recorder.inputs.index_of:
        raise Break(breaks.EFFECT, "Tensor.retain_grad on a tensor from outside")
    world.recorder.histories.retain_grad(tensor)


def listed(world: TraceWorld, value: Any) -> Any:
    """One tensor, or several, as a list; None stays that."""
    value = opened(value)
    if value is None:
        return None
    items = [value] if isinstance(value, Tensor) else world.containers.elements(value)
    found = [opened(item) for item in items]
    if not all(x is None or type(x) is FakeTensor for x in found):
        raise Break(breaks.GRADIENTS, "gradients of something that is no tensor")
    return found
