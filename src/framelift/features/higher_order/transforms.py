"""`torch.func`: `grad`, `grad_and_value`, `vjp`, `jvp`, `linearize`, and what torch builds on them: `jacrev`,
`jacfwd`, `hessian`.

torch's own Python around them is interpreted, as that of `torch.vmap` is. Served are the five that would
begin to differentiate: the function is a body, traced on stand-ins for what it is differentiated by, and the
graph calls torch's transform on that body. All else that the function uses is an operand, and stays as it is.
For backends these calls are written as torch writes them: the body, between calls that begin and end a level.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch import apis, predispatch
from torch._functorch import eager_transforms as torchs
from torch.autograd import forward_ad
from torch.autograd.graph import disable_saved_tensors_hooks
from torch.utils import _pytree as pytree

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.torch_flags import autograd
from framelift.graph.torch_forms import Call, form_of, functorch
from framelift.interpreter.pending import opened
from framelift.trace.bodies import Traced, captures, differentiated, fresh, interpret, structure, traced
from framelift.trace.world import TraceWorld

interpret(apis.grad, apis.grad_and_value)
if hasattr(apis, "_wraps_without_dynamo_attrs"):  # torch 2.11 wraps with functools
    interpret(apis._wraps_without_dynamo_attrs)
interpret(torchs.vjp, torchs.jvp, torchs.jacrev, torchs.jacfwd, torchs.hessian)
interpret(torchs._chunked_standard_basis_for_, torchs._construct_standard_basis_for, torchs.get_chunk_sizes)
interpret(torchs._slice_argnums, torchs._validate_and_wrap_argnum, torchs._validate_and_wrap_argnums)
interpret(torchs._check_unique_non_empty, torchs._safe_zero_index)
interpret(torchs.safe_unflatten, torchs.error_if_complex)
interpret(forward_ad.unpack_dual)  # which gives the tensor itself where nothing is differentiated forwards


LINEARIZE = "torch.func.linearize"


# ---- what the graph calls; `around` is for the forms: what is set there other than by default


def apply(body: Any, *values: Any) -> Any:
    return body(*values)


def gradients(body: Any, *values: Any, primals: int, around: Any = None) -> Any:
    """The gradients of the first result by the first values, then all results."""

    def function(*given: Any) -> Any:
        first, *others = body(*given, *values[primals:])
        return first, others

    by = tuple(range(primals))
    found, (first, others) = torch.func.grad_and_value(function, by, has_aux=True)(*values[:primals])
    return (*found, first, *others)


def pull_back(body: Any, *values: Any, primals: int, outputs: int, around: Any = None) -> Any:
    """The gradients of the primals, for gradients of the first results, which come after the primals."""
    rest = values[primals + outputs :]
    function = lambda *given: tuple(body(*given, *rest)[:outputs])
    _, pull = torch.func.vjp(function, *values[:primals])  # type: ignore[misc]
    return pull(tuple(values[primals : primals + outputs]))


def push_forward(
    body: Any, *values: Any, primals: int, outputs: int, strict: bool = False, around: Any = None
) -> Any:
    """All results, then the tangents of the first ones; those of the primals come after the primals."""
    rest = values[2 * primals :]

    def function(*given: Any) -> Any:
        found = body(*given, *rest)
        return tuple(found[:outputs]), list(found[outputs:])

    given, tangents = tuple(values[:primals]), tuple(values[primals : 2 * primals])
    result: Any = torch.func.jvp(function, given, tangents, strict=strict, has_aux=True)
    found, pushed, others = result
    return (*found, *others, *pushed)


# ---- the same as torch writes it

NO_HOOKS = "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks."
unwrap_for_grad = getattr(predispatch, "_unwrap_for_grad", functorch._unwrap_for_grad)
begin_jvp = getattr(predispatch, "_jvp_increment_nesting", functorch._jvp_increment_nesting)
end_jvp = getattr(predispatch, "_jvp_decrement_nesting", functorch._jvp_decrement_nesting)


def settings_around() -> dict[str, Any]:
    """What is set where the program stands, other than by default, of what the forms set."""
    found = {
        "grad": None if torch.is_grad_enabled() else False,
        "forward": None if torch._C._is_fwd_grad_enabled() else False,
        "hooks": autograd._saved_tensors_hooks_get_disabled_error_message(),
    }
    return {name: value for name, value in found.items() if value is not None}


def call_apply(call: Call) -> Any:
    given: Any = call.node.args[0]
    body = call.here(given)
    return items(call, call.add(operator.call, (body, *call.values)), call.results)


def call_gradients(call: Call) -> Any:
    """`torch.func.grad_and_value` of a function that gives one tensor, and auxiliary results."""
    count, _ = counts(call)
    function = call.function(count, None, call.values[count:])
    transformed = call.add(torch.func.grad_and_value, (function, tuple(range(count)), True))
    found = call.add(operator.call, (transformed, *call.values[:count]))
    grads, (first, others) = parts(call, found, 0), pair(call, parts(call, found, 1))
    results = call.results
    return [
        *items(call, grads, results[:count]),
        call.like(first, results[count]),
        *items(call, others, results[count + 1 :]),
    ]


def call_pull_back(call: Call) -> Any:
    count, outputs = counts(call)
    given, rest = call.values[:count], call.values[count + outputs :]
    function = call.function(count, outputs, rest)
    pull = parts(call, call.add(torch.func.vjp, (function, *given), has_aux=True), 1)
    found = call.add(operator.call, (pull, tuple(call.values[count : count + outputs])))
    return items(call, found, call.results[:count])


def call_push_forward(call: Call) -> Any:
    count, outputs = counts(call)
    given, tangents = call.values[:count], call.values[count : 2 * count]
    function = call.function(count, outputs, call.values[2 * count :])
    strict = bool(call.settings.get("strict", False))
    settings: dict[str, Any] = {"strict": strict, "has_aux": True}
    found = call.add(torch.func.jvp, (function, tuple(given), tuple(tangents)), **settings)
    primals, pushed, others = (parts(call, found, n) for n in range(3))
    results = call.results
    return [
        *items(call, primals, results[:outputs]),
        *items(call, others, results[outputs : len(results) - outputs]),
        *items(call, pushed, results[len(results) - outputs :]),
    ]


def parts(call: Call, node: Any, n: int) -> Any:
    return call.add(operator.getitem, (node, n))


def pair(call: Call, node: Any) -> tuple[Any, Any]:
    return parts(call, node, 0), parts(call, node, 1)


@form_of(apply, in_one_call=call_apply)
def write_apply(call: Call) -> Any:
    return call.inline(call.values)


class GradientLevel:
    """The level at which a body is differentiated by the first values, with gradients on."""

    def __init__(self, call: Call) -> None:
        self.call = call
        around: Any = call.settings.get("around", {})
        self.around: dict[str, Any] = dict(around)
        self.hooks = None
        if "hooks" in self.around:  # they may be disabled, and are to be as they were
            self.hooks = call.add(disable_saved_tensors_hooks, (NO_HOOKS,))
            call.add("__enter__", (self.hooks,))
        else:
            call.add(autograd._saved_tensors_hooks_disable, (NO_HOOKS,))
        self.number = call.add(functorch._grad_increment_nesting)
        self.switch_gradients(True)
        count, _ = counts(call)
        self.primals = list(map(self.wrap, call.values[:count], call.body.graph.find_nodes(op="placeholder")))

    def wrap(self, value: Any, stands: Any) -> Any:
        add = self.call.add
        made = add(functorch._wrap_for_grad, (value, self.number))
        self.call.like(made, stands.meta["example_value"])
        add(functorch.set_inplace_requires_grad_allowed, (True,))
        self.call.like(add(torchs._set_tensor_requires_grad, (made,)), stands.meta["example_value"])
        add(functorch.set_inplace_requires_grad_allowed, (False,))
        return made

    def unwrap(self, value: Any, result: int) -> Any:
        return self.call.add(unwrap_for_grad, (value, self.number), result=result)

    def switch_gradients(self, on: bool) -> None:
        if "grad" in self.around:
            self.call.add(torch._C._set_grad_enabled, (on,))

    def end(self) -> None:
        self.switch_gradients(False)
        self.call.add(functorch._grad_decrement_nesting)
        is_inner = sum(function in (gradients, pull_back) for function in self.call.writer.open) > 1
        if self.hooks is not None:
            self.call.add("__exit__", (self.hooks, None, None, None))
        elif not is_inner:
            self.call.add(autograd._saved_tensors_hooks_enable)


@form_of(gradients, in_one_call=call_gradients)
def write_gradients(call: Call) -> Any:
    level = GradientLevel(call)
    count = len(level.primals)
    outputs = call.inline([*level.primals, *call.values[count:]])
    grads = call.add(torchs._autograd_grad, (outputs[:1], level.primals), create_graph=True)
    found = items(call, grads, call.results[:count])
    results = [level.unwrap(value, n) for n, value in enumerate((*found, *outputs))]
    level.end()
    return results


@form_of(pull_back, in_one_call=call_pull_back)
def write_pull_back(call: Call) -> Any:
    """The gradients are computed where the level has ended, as torch's function does it."""
    level, (count, outputs) = GradientLevel(call), counts(call)
    given = call.values[count : count + outputs]
    found = call.inline([*level.primals, *call.values[count + outputs :]])[:outputs]
    level.end()
    settings = {"retain_graph": True, "create_graph": "grad" not in level.around}
    grads = call.add(torchs._autograd_grad, (list(found), level.primals, given), **settings)
    call.like(grads, call.results[:count])
    return [call.add(operator.getitem, (grads, n), result=n) for n in range(count)]


@form_of(push_forward, in_one_call=call_push_forward)
def write_push_forward(call: Call) -> Any:
    """Nested ones share the dual level that the outermost begins. torch's functions for users begin it: what
    unpacks results that may have no tangent asks them for the level."""
    (count, outputs), is_outermost = counts(call), call.nesting == 1
    around: Any = call.settings.get("around", {})
    level = call.add(begin_jvp)
    call.add(torch._C._set_fwd_grad_enabled, (True,))
    if is_outermost:
        call.add(forward_ad.enter_dual_level)
    call.add(forward_ad._maybe_load_decompositions)
    given = zip(call.values[:count], call.values[count : 2 * count], strict=True)
    duals = [call.add(forward_ad.make_dual, (primal, tangent), level=0) for primal, tangent in given]
    for dual, held in zip(duals, call.body.graph.find_nodes(op="placeholder"), strict=False):
        call.like(dual, held.meta["example_value"])
    found = call.inline([*duals, *call.values[2 * count :]])
    strict = bool(call.settings.get("strict", False))
    unpacked = [call.add(torchs.safe_unpack_dual, (dual, strict)) for dual in found[:outputs]]
    stands = zip(call.results[:outputs], call.results[-outputs:], strict=True)
    pairs = [items(call, pair, stand_ins) for pair, stand_ins in zip(unpacked, stands, strict=True)]
    primals, tangents = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    wrapped = enumerate((*primals, *found[outputs:], *tangents))
    results = [call.add(unwrap_for_grad, (value, level), result=n) for n, value in wrapped]
    if is_outermost:
        call.add(forward_ad.exit_dual_level, level=0)
    call.add(torch._C._set_fwd_grad_enabled, (around.get("forward", True),))
    call.add(end_jvp)
    return results


def items(call: Call, node: Any, stand_ins: tuple[Any, ...]) -> list[Any]:
    """The items of what a node gives; these stand for them."""
    call.like(node, stand_ins)
    return [call.like(call.add(operator.getitem, (node, n)), each) for n, each in enumerate(stand_ins)]


def counts(call: Call) -> tuple[int, int]:
    """How many primals there are, and how many of the results are differentiated."""
    primals: Any = call.settings["primals"]
    outputs: Any = call.settings.get("outputs", 1)
    return primals, outputs


# ---- the function that is differentiated


@dataclass(eq=False)
class Differentiable:
    """A function that was traced as a body, and what it is differentiated by."""

    world: TraceWorld
    body: Traced
    primals: list[Any]
    shape: pytree.TreeSpec
    """How the program sees the primals."""
    output: pytree.TreeSpec
    """Which of its results are differentiated: the others are auxiliary."""

    def __reduce__(self) -> Any:
        raise TypeError("what a function is differentiated by can't be made again")

    def call(self, function: Any, more: tuple[Any, ...] = (), **settings: Any) -> list[Any]:
        module = self.body.body.module()
        around = {} if function is apply else settings_around()
        if around:
            settings["around"] = around
        args = (module, *self.primals, *more, *self.body.body.operand_values)
        return list(self.world.recorder.higher_order.call(function, {"function": module}, args, settings))

    def results(self, tensors: list[Any], has_aux: bool) -> tuple[Any, Any]:
        """Output and auxiliary results, as the program gives them."""
        found = self.body.result(tensors)
        return found if has_aux else (found, None)


def differentiable(
    world: TraceWorld,
    name: str,
    func: Any,
    args: Any,
    argnums: Any,
    has_aux: bool,
    requires_grad: bool | None = True,
) -> Differentiable:
    given = tuple(world.materialize.for_torch(list(args)))
    chosen = given if argnums is None else chosen_of(name, given, argnums)
    primals, shape = pytree.tree_flatten(chosen)
    if not primals or not all(isinstance(primal, torch.Tensor) for primal in primals):
        raise Break(breaks.BODIES, f"{name}: it is differentiated by something else than tensors")
    inputs = [fresh(world.recorder, primal, requires_grad=requires_grad) for primal in primals]
    called = replaced(given, pytree.tree_unflatten(inputs, shape), argnums)
    once = name != "torch.func.vjp"  # which runs it for its results, and again to pull back
    settings: dict[str, Any] = {"grad": requires_grad, "aliases": True, "floats": True, "once": once}
    settings["effects"] = name != LINEARIZE  # others call the function once
    body = traced(world, name, "func", func, called, inputs, **settings)
    output = pytree.tree_unflatten(body.leaves, body.spec)
    if has_aux and not (isinstance(output, tuple) and len(output) == 2):
        raise Break(breaks.BODIES, f"{body.name}: it must give a pair, since has_aux=True")
    leaves, spec = pytree.tree_flatten(output[0] if has_aux else output)
    if not leaves or len(body.tensors) < len(body.leaves):
        raise Break(breaks.BODIES, f"{body.name}: it gives something else than tensors")
    return Differentiable(world, body, primals, shape, spec)


def chosen_of(name: str, args: tuple[Any, ...], argnums: Any) -> Any:
    try:
        return torchs._slice_argnums(args, argnums, as_tuple=False)
    except (RuntimeError, TypeError) as error:
        raise Break(breaks.BODIES, f"{name}: {error}") from None


def replaced(args: tuple[Any, ...], chosen: Any, argnums: Any) -> tuple[Any, ...]:
    if argnums is None:
        return tuple(chosen)
    found = list(args)
    places, values = ((argnums,), (chosen,)) if type(argnums) is int else (argnums, chosen)
    for n, value in zip(places, values, strict=True):
        found[n] = value
    return tuple(found)


# ---- the transforms


@captures(torchs.grad_and_value_impl)
def serve_grad_and_value(
    world: TraceWorld, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any
) -> Any:
    argnums, has_aux, args, kwargs = map(world.materialize.for_torch, (argnums, has_aux, args, kwargs))
    function = functools.partial(opened(func), **kwargs) if kwargs else func
    made = differentiable(world, "torch.func.grad", function, args, argnums, has_aux)
    with torch._C.DisableTorchFunction():
        if made.output != pytree.tree_structure(0) or made.body.tensors[0].dim():
            raise Break(breaks.BODIES, f"{made.body.name}: it must give one tensor without dimensions")
    found = made.call(gradients, primals=len(made.primals))
    output, aux = made.results(found[len(made.primals) :], has_aux)
    grads = pytree.tree_unflatten(found[: len(made.primals)], made.shape)
    return grads, ((output, aux) if has_aux else output)


@captures(torchs.grad_impl)
def serve_grad(world: TraceWorld, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    grads, found = serve_grad_and_value(world, func, argnums, has_aux, args, kwargs)
    return (grads, found[1]) if world.materialize.for_torch(has_aux) else grads


@captures(torchs._vjp_with_argnums)
def serve_vjp(world: TraceWorld, func: Any, *primals: Any, argnums: Any = None, has_aux: Any = False) -> Any:
    argnums, has_aux = map(world.materialize.for_torch, (argnums, has_aux))
    made = differentiable(world, "torch.func.vjp", func, primals, argnums, has_aux)
    output, aux = made.results(made.call(apply), has_aux)
    pull = world.calls.invoke(pulling, made)
    return (output, pull, aux) if has_aux else (output, pull)


def pulling(made: Differentiable) -> Any:
    """Makes what `vjp` gives to the program; both are interpreted."""

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return pulled(made, cotangents, create_graph)

    return pull


interpret(pulling)


def pulled(made: Differentiable, cotangents: Any, create_graph: Any) -> Any:
    raise NotImplementedError("only a trace calls this")


@captures(pulled)
def serve_pulled(world: TraceWorld, made: Differentiable, cotangents: Any, create_graph: Any) -> Any:
    if world.materialize.for_torch(create_graph) is not None:
        raise Break(breaks.BODIES, "torch.func.vjp: create_graph given to the function that it makes")
    made = opened(made)
    given, shape = pytree.tree_flatten(world.materialize.for_torch(cotangents))
    if shape != made.output or not all(isinstance(one, torch.Tensor) for one in given):
        expected = structure(made.output)
        raise Break(breaks.BODIES, f"torch.func.vjp: {structure(shape)} instead of gradients for {expected}")
    found = made.call(pull_back, tuple(given), primals=len(made.primals), outputs=made.output.num_leaves)
    return pytree.tree_unflatten(found, made.shape)


@captures(torchs._jvp_with_argnums)
def serve_jvp(
    world: TraceWorld,
    func: Any,
    primals: Any,
    tangents: Any,
    argnums: Any = None,
    strict: Any = False,
    has_aux: Any = False,
) -> Any:
    shown = world.materialize.for_torch
    primals, tangents, argnums, strict, has_aux = map(shown, (primals, tangents, argnums, strict, has_aux))
    settings: dict[str, Any] = {"strict": True} if strict else {}
    made = differentiable(world, "torch.func.jvp", func, primals, argnums, has_aux, None)
    given = pytree.tree_leaves(tangents)
    if len(given) != len(made.primals) or not all(isinstance(one, torch.Tensor) for one in given):
        raise Break(breaks.BODIES, "torch.func.jvp: tangents that do not fit the primals")
    settings |= {"primals": len(made.primals), "outputs": made.output.num_leaves}
    found = made.call(push_forward, tuple(given), **settings)
    count = len(made.body.tensors)
    output, aux = made.results(found[:count], has_aux)
    pushed = pytree.tree_unflatten(found[count:], pytree.tree_structure(output))
    return (output, pushed, aux) if has_aux else (output, pushed)


@captures(torchs.linearize)
def serve_linearize(world: TraceWorld, func: Any, *primals: Any) -> Any:
    """torch runs the function again for the tangents, and takes all but these for constants."""
    made = differentiable(world, LINEARIZE, func, primals, None, False, None)
    if made.body.body.draws or differentiated(made.body.body):
        raise Break(
            breaks.BODIES, f"{made.body.name}: it draws numbers, or is differentiated by autograd too"
        )
    output, _ = made.results(made.call(apply), False)
    return output, world.calls.invoke(pushing, made)


def pushing(made: Differentiable) -> Any:
    """Makes what `linearize` gives to the program; both are interpreted."""

    def push(*tangents: Any) -> Any:
        return pushed(made, tangents)

    return push


interpret(pushing)


def pushed(made: Differentiable, tangents: Any) -> Any:
    raise NotImplementedError("only a trace calls this")


@captures(pushed)
def serve_pushed(world: TraceWorld, made: Differentiable, tangents: Any) -> Any:
    made = opened(made)
    given, shape = pytree.tree_flatten(world.materialize.for_torch(tangents))
    if shape != made.shape or not all(map(fit, given, made.primals)):
        raise Break(breaks.BODIES, f"{LINEARIZE}: tangents that do not fit the primals")
    counts = {"primals": len(made.primals), "outputs": made.output.num_leaves}
    found = made.call(push_forward, tuple(given), **counts)
    return pytree.tree_unflatten(found[len(made.body.tensors) :], made.output)


def fit(tangent: Any, primal: Any) -> bool:
    look = lambda one: (one.shape, one.dtype, one.device)
    return isinstance(tangent, torch.Tensor) and bool(look(tangent) == look(primal))
