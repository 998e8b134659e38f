"""Gradients asked for inside a compiled function: `torch.autograd.grad`, `backward()`, and where they go."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, calls_back

Tensor = torch.Tensor
GRAD = inspect.signature(torch.autograd.grad)
BACKWARD = inspect.signature(torch.autograd.backward)
OF_TENSOR = inspect.signature(Tensor.backward)


@serve(torch.autograd.grad)
@calls_back
def serve_grad(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    given = bound(GRAD, args, kwargs)
    if given.pop("is_grads_batched"):
        raise Break(breaks.GRADIENTS, "torch.autograd.grad with is_grads_batched")
    given.pop("only_inputs")
    outputs, inputs = listed(world, given.pop("outputs")), listed(world, given.pop("inputs"))
    given["grad_outputs"] = listed(world, given["grad_outputs"])
    return world.recorder.histories.gradients(outputs, inputs, given)


@serve(Tensor.backward)
@calls_back
def serve_tensor_backward(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = bound(OF_TENSOR, args, kwargs)
    return backward(f.world, [given["self"]], given, listed(f.world, given["gradient"]))


@serve(torch.autograd.backward)
@calls_back
def serve_backward(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = bound(BACKWARD, args, kwargs)
    if given["grad_variables"] is not None:
        raise Break(breaks.GRADIENTS, "torch.autograd.backward with grad_variables")
    roots, gradients = listed(f.world, given["tensors"]), listed(f.world, given["grad_tensors"])
    return backward(f.world, roots, given, gradients)


def backward(world: Any, roots: list[Any], given: dict[str, Any], gradients: list[Any] | None) -> None:
    """Gradients are asked for, and accumulated in `.grad` of the tensors that history leads to."""
    recorder = world.recorder
    leaves = recorder.histories.leaves_behind(roots)
    if given["inputs"] is not None:
        wanted = {id(tensor) for tensor in listed(world, given["inputs"])}
        if not wanted <= set(map(id, leaves)):
            raise Break(breaks.GRADIENTS, "backward() with inputs that are no leaves, or not reached")
        leaves = [leaf for leaf in leaves if id(leaf) in wanted]
    elif not all(
        world.attributes.load(leaf, "is_leaf") for leaf in leaves if id(leaf) in recorder.inputs.index_of
    ):
        raise Break(breaks.GRADIENTS, "backward() into what was computed before the function")
    settings = {name: given[name] for name in ("retain_graph", "create_graph")}
    settings |= {"grad_outputs": gradients, "allow_unused": True}
    found = recorder.histories.gradients(roots, leaves, settings)
    for leaf, grad in zip(leaves, found, strict=True):
        if grad is not None:
            accumulate(world, leaf, grad, differentiable=bool(given["create_graph"]))


def accumulate(world: Any, leaf: Any, grad: Any, differentiable: bool) -> None:
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
        recorder.histories.shared_gradients.add(id(grad))  # it goes on through the history
    layout = recorder.histories.layout_of_grad(leaf, grad)
    if layout is not None:
        made = recorder.call(torch.empty_strided, *layout)
        grad = recorder.call(Tensor.copy_, (made, grad), {})
    elif id(grad) in recorder.histories.view_gradients:
        grad = recorder.call(Tensor.detach, (grad,), {})
    world.attribute_writes.store(leaf, "grad", grad)


@serve(Tensor.retain_grad)
def serve_retain_grad(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    tensor = opened(args[0])
    if not world.attributes.load(tensor, "requires_grad"):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if world.attributes.load(tensor, "is_leaf"):
        return None
    if id(tensor) in world.recorder.inputs.index_of:
        raise Break(breaks.EFFECT, "Tensor.retain_grad on a tensor from outside")
    world.recorder.histories.retained[id(tensor)] = tensor
    return None


def bound(signature: inspect.Signature, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    return {name: opened(value) for name, value in given.arguments.items()}


def listed(world: Any, value: Any) -> Any:
    """One tensor, or several, as a list; None stays that."""
    value = opened(value)
    if value is None:
        return None
    found = (
        [value] if isinstance(value, Tensor) else [opened(item) for item in world.containers.elements(value)]
    )
    if not all(x is None or type(x) is FakeTensor for x in found):
        raise Break(breaks.GRADIENTS, "gradients of something that is no tensor")
    return found
