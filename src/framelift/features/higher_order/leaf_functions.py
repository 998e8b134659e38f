"""Leaf functions: `torch._dynamo.decorators.leaf_function` marks a function whose calls are one node of the
graph, which compilers look into neither; it comes with another one that says of fakes what it gives.

The node calls torch's operator for these, with tensors and numbers that the arguments consist of. What these
are made of beside them, modules too, is part of what is called, as with `nonstrict_trace`.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch.utils._pytree as pytree
from torch._higher_order_ops.invoke_leaf_function import _LeafCallable, invoke_leaf_function

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.higher_order.flat_calls import (
    FlatCall,
    ModuleArgument,
    as_target,
    flat_arguments,
    tensors_of_modules,
)
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_MARK, serve
from framelift.trace.machine import TraceFrame

MARK = "_torchdynamo_leaf_"
"""What begins the names of the attributes that torch gives a leaf function."""


def call_leaf(fn: Any, args: Any, kwargs: Any) -> Any:
    """A call as a trace makes it: it is interpreted."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    found, result = call_flat(fn, spec, leaves, tensors_of_modules(leaves))
    return pytree.tree_unflatten(found, result)


_frame.set_decision(call_leaf.__code__, _frame.SKIP, _frame.INTERPRET)

BY_MARK[f"{MARK}real_fn"] = lambda world, fn, args, kwargs: world.calls.invoke(
    call_leaf, fn, tuple(args), kwargs
)


def call_flat(fn: Any, spec: Any, leaves: Any, tensors: Any) -> Any:
    raise NotImplementedError("only a trace calls this")


@serve(call_flat)
def serve_call_flat(
    f: TraceFrame, /, fn: Any, spec: Any, leaves: Any, tensors: Any
) -> tuple[list[Any], pytree.TreeSpec]:
    world: Any = f.world
    fn = opened(fn)
    given, modules, shape = flat_arguments(world, fn, spec, leaves, tensors, "leaf_function")
    marks = {name.removeprefix(MARK): value for name, value in vars(fn).items() if name.startswith(MARK)}
    if marks["fake_fn"] is None:
        raise Break(breaks.UNSUPPORTED_FAKE, f"leaf_function {fn.__name__!r} has no register_fake")
    real = FlatCall(marks["real_fn"], shape, modules, "leaf_function")
    fake = FlatCall(marks["fake_fn"], shape, modules, "leaf_function")
    written = places_written(marks["real_fn"], marks.get("mutates_args") or (), shape, modules)
    target = leaf_call(fn, real, fake, written, marks)
    changed = [given[n] for n in sorted(written)]
    found = world.recorder.call_opaque(target, tuple(given), {}, effect=True, writes=changed)
    real.result = fake.result
    assert fake.result is not None
    return list(found), fake.result


def leaf_call(fn: Any, real: FlatCall, fake: FlatCall, written: set[int], marks: dict[str, Any]) -> Any:
    """What the graph calls, by the name of the function."""
    really, faked = _LeafCallable(flatly(real)), _LeafCallable(flatly(fake))
    if marks.get("hook_fn") is not None:
        hooks: Any = really
        hooks._leaf_hook_real_fn, hooks._leaf_hook_fake_fn = marks["hook_fn"], marks["hook_fake_fn"]
    mutated = ",".join(map(str, sorted(written)))

    def called(leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        spec = pytree.tree_structure((leaves, {}))
        return tuple(invoke_leaf_function(really, faked, spec, mutated, *leaves))

    return as_target(called, fn)


def flatly(call: FlatCall) -> Any:
    return lambda *leaves: call(leaves)


# ---- what is written to


class Place:
    """Stands for what the function is given, while its expressions for what it writes to are evaluated."""


def places_written(
    fn: Any, expressions: Any, spec: pytree.TreeSpec, modules: list[ModuleArgument | None]
) -> set[int]:
    """Which of the tensors that a call is given it writes to, as `mutates_args` says."""
    if not expressions:
        return set()
    at = 0
    leaves: list[Any] = []
    for argument in modules:
        if argument is None:
            leaves.append(at)
            at += 1
            continue
        module = Place()
        for n, name in enumerate(argument.names):
            place(module, name.split("."), at + n)
        leaves.append(module)
        at += len(argument.names)
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    known = dict(inspect.signature(fn).bind(*args, **kwargs).arguments)
    found = set()
    for expression in expressions:
        places = pytree.tree_leaves(eval(expression, {"__builtins__": {}}, known))
        if not all(type(one) is int for one in places):
            raise Break(breaks.GRAPH_ARGUMENT, f"leaf_function: mutates_args {expression!r} is no tensor")
        found.update(places)
    return found


def place(module: Any, path: list[str], at: int) -> None:
    *parts, name = path
    for part in parts:
        module = vars(module).setdefault(part, Place())
    setattr(module, name, at)
