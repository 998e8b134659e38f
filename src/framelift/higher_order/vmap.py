"""`torch.vmap`: the function is a body, traced on one example of what it is mapped over.

torch's own Python around it is interpreted, so that what `torch.vmap(fn)` gives is a function like any other;
only where it would begin to run the function on batched tensors does the graph get a call of `mapped`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch import apis
from torch._functorch import vmap as torchs
from torch.utils import _pytree as pytree

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.higher_order.bodies import interpret, without_effects
from framelift.interpreter.frame import Frame
from framelift.interpreter.tracing import calls_back, serve
from framelift.tensors.recorder import Recorder

interpret(apis.vmap, torchs._check_randomness_arg)


def mapped(body: Any, *values: Any, in_dims: tuple[int | None, ...], out_dims: tuple[int, ...]) -> Any:
    """What the graph calls."""
    return torch.vmap(body, in_dims, out_dims)(*values)


def example(recorder: Recorder, batch: Any, dim: int) -> Any:
    """One of a batch, also of an empty one."""
    if batch.shape[dim] == 0:
        sizes = [1 if n == dim % batch.dim() else size for n, size in enumerate(batch.shape)]
        batch = recorder.call(
            torch.cat, ((batch, recorder.call(torch.Tensor.new_zeros, (batch, sizes), {})), dim), {}
        )
    return recorder.call(torch.select, (batch, dim, 0), {})


@serve(torchs.vmap_impl)
@calls_back
def serve_vmap(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    func, (in_dims, out_dims, randomness, chunk_size) = args[0], map(world.for_torch, args[1:5])
    if randomness != "error" or chunk_size is not None or kwargs:
        raise Break(breaks.INTERNAL, "torch.vmap with random numbers, chunks or keywords")
    try:
        given = tuple([world.for_torch(arg) for arg in args[5:]])
        _, dims, leaves, spec = torchs._process_batched_inputs(in_dims, given, func)
    except (TypeError, ValueError) as error:
        raise Break(breaks.OPERATOR_ERROR, f"torch.vmap: {error}") from None
    recorder = world.recorder
    examples = [
        leaf if dim is None else example(recorder, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)
    ]
    with recorder.body() as body:
        for n, dim in enumerate(dims):
            if dim is not None:
                recorder.handed(examples[n])
        with without_effects(world, "a function that torch.vmap maps"):
            out = world.for_torch(world.invoke(func, *pytree.tree_unflatten(examples, spec)))
        results, shape = pytree.tree_flatten(out)
        found = torchs._broadcast_to_and_flatten(out_dims, shape)
        if found is None or None in found or not all(isinstance(one, torch.Tensor) for one in results):
            raise Break(breaks.INTERNAL, "torch.vmap of a function that gives more than tensors")
        if any(node in recorder.impure for node in body.graph.nodes):
            raise Break(
                breaks.INTERNAL, "torch.vmap of a function that changes tensors or switches something"
            )
        outputs = recorder.argument(func, tuple(results))
        module = recorder.body_module(body, outputs, grad=torch.is_grad_enabled(), prune=True)
    own = [leaf for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    values = (module, *own, *(value for _, value, _ in body.operands))
    settings = {
        "in_dims": (*(dim for dim in dims if dim is not None), *(None for _ in body.operands)),
        "out_dims": tuple(found),
    }
    mapping = recorder.call_with_bodies(mapped, {"mapped": module}, values, settings)
    return pytree.tree_unflatten(list(mapping), shape)
