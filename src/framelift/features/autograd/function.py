"""`torch.autograd.Function.apply`: forward and backward become bodies of one operator in the graph.

Forward is traced with a context that is an object like any other. Backward is traced as if it stood inside of
forward: what it uses from there is what must be saved for it, and what it uses from further out comes in
through forward's operands. The graph holds a call of torch's own `autograd_function_apply`, which AOTAutograd
knows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.autograd.function import FunctionCtx, _is_setup_context_defined

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.body import GraphBody
from framelift.graph.op_memory import ATOMS
from framelift.interpreter.pending import opened
from framelift.trace.bodies import body, interpret
from framelift.trace.callable_rules import BY_TYPE, control_of, serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.world import TraceWorld


class FunctionContext(FunctionCtx):
    """What forward and backward are given as `ctx` while they are traced."""

    to_save: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.to_save


APPLY: Any = torch.autograd.Function.apply


@serve(APPLY.__func__)
def serve_apply(f: TraceFrame, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    cls = opened(cls)
    if (allowed := control_of(cls)) is not None:  # `allow_in_graph`: not looked into
        return allowed(f.world, cls, list(args), kwargs)
    if kwargs or torch._C._are_functorch_transforms_active():
        what = f"{cls.__qualname__}.apply with keywords, or within a transform of torch.func"
        raise Break(breaks.AUTOGRAD_FUNCTION, what)
    return Application(f.world, cls, [opened(arg) for arg in args]).result()


class Application:
    """One call of `apply`."""

    def __init__(self, world: TraceWorld, cls: Any, args: list[Any]) -> None:
        self.world, self.recorder, self.cls, self.args = world, world.recorder, cls, args
        self.ctx = FunctionContext()
        self.ctx.needs_input_grad = tuple(is_tensor(arg) and arg.requires_grad for arg in args)

    @calls_back
    def result(self) -> Any:
        if not (torch.is_grad_enabled() and any(self.ctx.needs_input_grad)):
            with self.recorder.flags.grad_mode(False):
                return self.apart(self.forward())
        builder = self.recorder.builder
        with self.recorder.higher_order.body() as forward:
            for tensor in filter(is_tensor, self.args):
                builder.node_of(tensor)  # to be an operand, used or not: it may get a gradient
            with self.recorder.flags.grad_mode(False):
                out = self.forward()
                backward = self.backward(forward, as_tuple(out))
            given = out if is_tensor(out) else tensors_in(out)
            outputs = (builder.argument(self.cls, given), backward.outer_nodes)
            self.recorder.higher_order.close(forward, outputs, grad=False, prune=False)
        return self.call(forward, backward, out)

    # ---- forward

    def forward(self) -> Any:
        cls, ctx, world = self.cls, self.ctx, self.world
        if not _is_setup_context_defined(cls.setup_context):
            return self.checked(world.calls.invoke(world.attributes.load(cls, "forward"), ctx, *self.args))
        out = world.calls.invoke(world.attributes.load(cls, "forward"), *self.args)
        world.calls.invoke(world.attributes.load(cls, "setup_context"), ctx, tuple(self.args), out)
        return self.checked(out)

    def checked(self, out: Any) -> Any:
        """Results may be tensors and constants. Where gradients are not to be filled up with zeros, which of
        several tensors get one is known in the backward pass only; a single one does, or there is none."""
        out = self.world.materialize.for_torch(out)
        found = as_tuple(out)
        if not all(is_tensor(one) or type(one) in ATOMS for one in found):
            what = "forward gives more than tensors and constants"
            raise Break(breaks.AUTOGRAD_FUNCTION, f"{self.cls.__qualname__}.{what}")
        if not getattr(self.ctx, "materialize_grads", True) and len(tensors_in(out)) != 1:
            raise Break(breaks.AUTOGRAD_FUNCTION, "ctx.set_materialize_grads(False) with several results")
        return out

    def apart(self, out: Any) -> Any:
        """An argument that forward returns becomes a view of it, unless forward has changed it."""
        given = {id(arg) for arg in self.args} - {id(arg) for arg in self.dirty}

        def view(tensor: Any) -> Any:
            if id(tensor) not in given:
                return tensor
            return self.recorder.call(torch.Tensor.view_as, (tensor, tensor), {})

        return tuple(map(view, out)) if isinstance(out, tuple) else view(out)

    @property
    def dirty(self) -> tuple[Any, ...]:
        return getattr(self.ctx, "dirty_tensors", None) or ()

    # ---- backward

    def backward(self, forward: GraphBody, outputs: tuple[Any, ...]) -> GraphBody:
        """Gives a gradient, or None, for each operand of forward."""
        what = f"{self.cls.__qualname__}.backward"
        recorder, world = self.recorder, self.world
        with body(world, what, may_write=True) as made:
            given = [
                recorder.builder.operator_input(recorder.call(torch.empty_like, (out,), {}))
                if is_tensor(out)
                else None
                for out in outputs
            ]
            found = world.calls.invoke(world.attributes.load(self.cls, "backward"), self.ctx, *given)
            found = list(as_tuple(world.materialize.for_torch(found)))
            while len(found) > len(self.args) and found[-1] is None:
                found.pop()  # as torch does
            if len(found) != len(self.args):  # which autograd says in the backward pass
                told = (f"{self.cls.__name__}Backward", len(self.args), len(found))
                recorder.builder.add_call(refuse_gradients, told, None, pure=False)
                found = [None] * len(self.args)
            grads: dict[int, Any] = {}
            for arg, grad in zip(self.args, found, strict=True):
                if grad is not None and is_tensor(arg):
                    before = grads.get(id(arg))
                    grads[id(arg)] = grad if before is None else recorder.call(torch.add, (before, grad), {})
            gradients = {key: recorder.builder.argument(self.cls, grad) for key, grad in grads.items()}
            outputs_of = tuple(gradients.get(id(value)) for value in forward.operand_values)
            recorder.higher_order.close(made, outputs_of, grad=False)
        return made

    # ---- the call

    def call(self, forward: GraphBody, backward: GraphBody, out: Any) -> Any:
        indices = lambda values, those: [n for n, v in enumerate(values) if any(v is one for one in those)]
        outputs = tensors_in(out)
        settings = {
            "non_differentiable_idx": indices(outputs, getattr(self.ctx, "non_differentiable", None) or ()),
            "saved_for_backward_idx": indices(backward.operand_values, self.ctx.to_save),
            "dirty_idx": indices(outputs, self.dirty),
        }
        bodies = {"forward": forward.module(), "backward": backward.module()}
        args = (*bodies.values(), *forward.operand_values)
        found = self.recorder.higher_order.call(autograd_function_apply, bodies, args, settings)
        if is_tensor(out):
            return found
        results = iter(found)
        return tuple([next(results) if is_tensor(one) else one for one in out])


def refuse_gradients(name: str, expected: int, found: int) -> None:
    """What a graph calls in the place of a backward that does not fit its forward."""
    count = f"(expected {expected}, got {found})"
    raise RuntimeError(f"function {name} returned an incorrect number of gradients {count}")


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def tensors_in(out: Any) -> tuple[Any, ...]:
    return tuple(filter(is_tensor, as_tuple(out)))


interpret(torch.autograd.Function.__init__)


@calls_back
def make_function(world: TraceWorld, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`MyFunction()`: an instance is of no use but for its class, as torch warns."""
    made = cls.__new__(cls)
    world.calls.invoke(cls.__init__, made, *args, **kwargs)
    return made


BY_TYPE[type(torch.autograd.Function)] = make_function
