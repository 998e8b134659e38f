"""`torch.autograd.Function.apply`: forward and backward become bodies of one operator in the graph.

Forward is traced with a context that is an object like any other. Backward is traced as if it stood inside of
forward: what it uses from there is what must be saved for it, and what it uses from further out comes in
through forward's operands. The graph holds a call of torch's own `autograd_function_apply`, which AOTAutograd
knows. That one fills up gradients that there are none of with zeros; where the function does not want that,
its backward is traced once more, for such a gradient, and the graph calls an operator that has both.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.autograd.function import FunctionCtx, _is_setup_context_defined

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.body import GraphBody, share_operands
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
                defined = self.patterns(out)
                backwards = [self.backward(forward, as_tuple(out), pattern) for pattern in defined]
            share_operands(backwards)
            given = out if is_tensor(out) else tensors_in(out)
            outputs = (builder.argument(self.cls, given), backwards[0].outer_nodes)
            self.recorder.higher_order.close(forward, outputs, grad=False, prune=False)
        return self.call(forward, backwards, out, defined)

    # ---- forward

    def forward(self) -> Any:
        cls, ctx, world = self.cls, self.ctx, self.world
        if not _is_setup_context_defined(cls.setup_context):
            return self.checked(world.calls.invoke(world.attributes.load(cls, "forward"), ctx, *self.args))
        out = world.calls.invoke(world.attributes.load(cls, "forward"), *self.args)
        world.calls.invoke(world.attributes.load(cls, "setup_context"), ctx, tuple(self.args), out)
        return self.checked(out)

    def checked(self, out: Any) -> Any:
        """Results may be tensors, and what holds none: that is given as it is. Where gradients are not to be
        filled up with zeros, which of several tensors get one is known in the backward pass only."""
        given = opened(out)
        out = self.world.materialize.for_torch(given)
        if not isinstance(out, tuple):
            found = self.part(out, given)
        else:
            found = tuple(map(self.part, out, given))
        if not self.fills_up and sum(map(is_differentiable, tensors_in(found))) > MOST_RESULTS:
            raise Break(breaks.AUTOGRAD_FUNCTION, "ctx.set_materialize_grads(False) with many results")
        return found

    def part(self, result: Any, given: Any) -> Any:
        """One of the results. `given`: as forward gave it."""
        if is_tensor(result) or type(result) in ATOMS:
            return result
        if not holds_constants(result):
            what = "forward gives tensors in something else than a tuple, or objects"
            raise Break(breaks.AUTOGRAD_FUNCTION, f"{self.cls.__qualname__}.{what}")
        return given

    def patterns(self, out: Any) -> list[tuple[bool, ...]]:
        """Which of the tensors that forward gives may get a gradient at once."""
        tensors = tensors_in(out)
        if self.fills_up:
            return [(True,) * len(tensors)]
        each = [(True, False) if is_differentiable(tensor) else (False,) for tensor in tensors]
        return list(itertools.product(*each))

    @property
    def fills_up(self) -> bool:
        """Whether backward gets zeros in the place of gradients that there are none of."""
        return getattr(self.ctx, "materialize_grads", True)

    def apart(self, out: Any) -> Any:
        """An argument that forward returns becomes a view of it, unless forward has changed it."""
        given = {id(arg) for arg in self.args} - {id(arg) for arg in self.dirty}

        def view(tensor: Any) -> Any:
            if id(tensor) not in given or not is_tensor(tensor):
                return tensor
            return self.recorder.call(torch.Tensor.view_as, (tensor, tensor), {})

        return tuple(map(view, out)) if isinstance(out, tuple) else view(out)

    @property
    def dirty(self) -> tuple[Any, ...]:
        return getattr(self.ctx, "dirty_tensors", None) or ()

    # ---- backward

    def backward(self, forward: GraphBody, outputs: tuple[Any, ...], defined: tuple[bool, ...]) -> GraphBody:
        """Gives a gradient, or None, for each operand of forward. `defined`: which tensors that forward gave
        have got one; for the others there is None."""
        what = f"{self.cls.__qualname__}.backward"
        recorder, world = self.recorder, self.world
        callee = None if self.fills_up else self.ctx  # which would not be the same the second time
        with body(world, what, may_write=True, callee=callee) as made:
            has_gradient = iter(defined)
            given = [
                recorder.builder.operator_input(recorder.call(torch.empty_like, (out,), {}))
                if is_tensor(out) and next(has_gradient)
                else None
                for out in outputs
            ]
            found = self.gradients(given, undefined=not all(defined))
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

    def gradients(self, given: list[Any], undefined: bool) -> list[Any]:
        """What backward gives. Many can't be called with None, which is then an error when they are."""
        world = self.world
        try:
            found = world.calls.invoke(world.attributes.load(self.cls, "backward"), self.ctx, *given)
        except Exception as error:
            if isinstance(error, Break) or not undefined:
                raise
            if type(error) not in ERRORS.values() or not all(type(arg) in ATOMS for arg in error.args):
                what = f"{self.cls.__qualname__}.backward: {type(error).__name__} without a gradient"
                raise Break(breaks.AUTOGRAD_FUNCTION, what) from error
            told = (type(error).__name__, *error.args)
            self.recorder.builder.add_call(raise_error, told, None, pure=False)
            return [None] * len(self.args)
        return list(as_tuple(world.materialize.for_torch(found)))

    # ---- the call

    def call(
        self, forward: GraphBody, backwards: list[GraphBody], out: Any, defined: list[tuple[bool, ...]]
    ) -> Any:
        indices = lambda values, those: [n for n, v in enumerate(values) if any(v is one for one in those)]
        outputs = tensors_in(out)
        settings: dict[str, Any] = {
            "non_differentiable_idx": indices(outputs, getattr(self.ctx, "non_differentiable", None) or ()),
            "saved_for_backward_idx": indices(backwards[0].operand_values, self.ctx.to_save),
            "dirty_idx": indices(outputs, self.dirty),
        }
        modules = [one.module() for one in (forward, *backwards)]
        names = ["forward", "backward", *[f"backward_{n}" for n in range(1, len(backwards))]]
        bodies = dict(zip(names, modules, strict=True))
        args = (*modules, *forward.operand_values)
        operator = autograd_function_apply if self.fills_up else apply_unfilled
        if not self.fills_up:
            settings["defined"] = tuple(defined)
        found = self.recorder.higher_order.call(operator, bodies, args, settings)
        if is_tensor(out):
            return found
        results = iter(found)
        return tuple([next(results) if is_tensor(one) else one for one in out])


def refuse_gradients(name: str, expected: int, found: int) -> None:
    """What a graph calls in the place of a backward that does not fit its forward."""
    count = f"(expected {expected}, got {found})"
    raise RuntimeError(f"function {name} returned an incorrect number of gradients {count}")


ERRORS = {
    kind.__name__: kind for kind in (TypeError, AttributeError, ValueError, RuntimeError, AssertionError)
}


def raise_error(name: str, *args: Any) -> None:
    """What a graph calls in the place of a backward that can't do without a gradient."""
    raise ERRORS[name](*args)


class Unfilled(torch.autograd.Function):
    """What a graph calls for a function that does not want zeros for gradients."""

    @staticmethod
    def forward(ctx: Any, bodies: Any, settings: dict[str, Any], *args: Any) -> Any:
        ctx.set_materialize_grads(False)
        run, *backwards = bodies
        ctx.backwards = dict(zip(map(tuple, settings["defined"]), backwards, strict=True))
        out, saved = run(*args)
        outputs = as_tuple(out)
        ctx.mark_non_differentiable(*[outputs[n] for n in settings["non_differentiable_idx"]])
        if settings["dirty_idx"]:
            ctx.mark_dirty(*[outputs[n] for n in settings["dirty_idx"]])
        checked = settings["saved_for_backward_idx"]
        ctx.save_for_backward(*[saved[n] for n in checked])
        ctx.saved = [None if n in checked else value for n, value in enumerate(saved)]
        ctx.checked = checked
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = list(ctx.saved)
        for n, value in zip(ctx.checked, ctx.saved_tensors, strict=True):
            saved[n] = value
        given = [grad for grad in grads if grad is not None]
        return None, None, *ctx.backwards[tuple([grad is not None for grad in grads])](*given, *saved)


def apply_unfilled(*args: Any, **settings: Any) -> Any:
    """The forward body, a backward body for each of `defined`, and the operands."""
    bodies = 1 + len(settings["defined"])
    return Unfilled.apply(args[:bodies], settings, *args[bodies:])


MOST_RESULTS = 3
"""For so many results, each of which may get a gradient or not, a backward is traced for each case."""


def is_differentiable(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def holds_constants(value: Any) -> bool:
    """Whether it is a container of constants."""
    if type(value) is dict:
        return all(map(holds_constants, (*value, *value.values())))
    if type(value) in (list, tuple, set, frozenset):
        return all(map(holds_constants, value))
    return type(value) in ATOMS


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
