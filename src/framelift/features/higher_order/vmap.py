"""`torch.vmap`: the function is a body, traced on one example of what it is mapped over.

torch's own Python around it is interpreted, so that what `torch.vmap(fn)` gives is a function like any other;
only where it would begin to run the function on batched tensors does the graph get a call of `mapped`. For
backends that is written as torch writes it: the body, between calls that begin and end the batch.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._functorch import apis, predispatch
from torch._functorch import vmap as torchs
from torch.utils import _pytree as pytree

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.body import GraphBody
from framelift.graph.recorder import Recorder
from framelift.graph.torch_forms import Call, form_of
from framelift.interpreter.pending import opened
from framelift.trace.bodies import body, breaks_named, captures, interpret
from framelift.trace.world import TraceWorld

interpret(apis.vmap, torchs._check_randomness_arg)


def mapped(
    body: Any,
    *values: Any,
    in_dims: tuple[int | None, ...],
    out_dims: tuple[int | None, ...],
    **settings: Any,
) -> Any:
    """What the graph calls."""
    return torch.vmap(body, in_dims, out_dims, **settings)(*values)  # type: ignore[arg-type]


@form_of(mapped)
def write_mapped(call: Call) -> list[Any]:
    settings: dict[str, Any] = {**DEFAULTS, **call.settings}
    in_dims, out_dims, randomness, chunk = (settings[name] for name in SETTINGS)
    values, size = call.values, batch_size(call, in_dims)
    call.add(predispatch.lazy_load_decompositions)
    if chunk is None:
        return write_batch(call, values, size, in_dims, out_dims, randomness)
    if type(size) is not int:  # how many chunks there are is known where the graph runs
        return call.operator(torchs.vmap_impl, (call.args[0], in_dims, out_dims, randomness, chunk, *values))
    sizes = torchs.get_chunk_sizes(size, chunk)
    ends, pairs = tuple(itertools.accumulate(sizes)), zip(values, in_dims, strict=True)
    split = [
        value if dim is None else call.add(torch.tensor_split, (value, ends), dim=dim) for value, dim in pairs
    ]
    parts = []
    for n, part_size in enumerate(sizes):
        pairs = zip(split, in_dims, strict=True)
        part = [value if dim is None else call.add(operator.getitem, (value, n)) for value, dim in pairs]
        parts.append(write_batch(call, part, part_size, in_dims, out_dims, randomness, whole=False))
    rows = zip(zip(*parts, strict=True), out_dims, strict=True)
    return [call.add(torch.cat, (found,), result=n, dim=dim) for n, (found, dim) in enumerate(rows)]


def batch_size(call: Call, in_dims: tuple[int | None, ...]) -> Any:
    """A number, or the node that computes it."""
    n, dim = next((n, dim) for n, dim in enumerate(in_dims) if dim is not None)
    batch: Any = call.node.args[n + 1]
    size = batch.meta["example_value"].shape[dim]
    if type(size) is int:
        return size
    return call.like(call.add(torch.ops.aten.sym_size.int, (call.values[n], dim)), size)


def write_batch(
    call: Call,
    values: list[Any],
    size: Any,
    in_dims: tuple[int | None, ...],
    out_dims: tuple[int | None, ...],
    randomness: str,
    whole: bool = True,
) -> list[Any]:
    """The body on batched tensors: a batch, or a chunk of it."""
    level = call.add(predispatch._vmap_increment_nesting, (size, randomness))
    inputs = call.body.graph.find_nodes(op="placeholder")
    given = []
    for value, dim, stands in zip(values, in_dims, inputs, strict=True):
        if dim is not None:
            value = call.add(predispatch._add_batch_dim, (value, dim, level))
            call.like(value, stands.meta["example_value"])
        given.append(value)
    results = []
    for n, (found, dim) in enumerate(zip(call.inline(given), out_dims, strict=True)):
        if dim is not None:
            number = n if whole else None
            found = call.add(predispatch._remove_batch_dim, (found, level, size, dim), result=number)
        results.append(found)
    call.add(predispatch._vmap_decrement_nesting)
    return results


def example(recorder: Recorder, batch: Any, dim: int) -> Any:
    """One element of a batch; of an empty batch, a zero."""
    if batch.shape[dim] == 0:
        sizes = [1 if n == dim % batch.dim() else size for n, size in enumerate(batch.shape)]
        zeros = recorder.call(torch.Tensor.new_zeros, (batch, sizes), {})
        batch = recorder.call(torch.cat, ((batch, zeros), dim), {})
    return recorder.call(torch.select, (batch, dim, 0), {})


@captures(torchs.vmap_impl)
def serve_vmap(
    world: TraceWorld,
    func: Any,
    in_dims: Any,
    out_dims: Any,
    randomness: Any,
    chunk_size: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    shown = world.materialize.for_torch
    in_dims, out_dims, randomness, chunk_size = map(shown, (in_dims, out_dims, randomness, chunk_size))
    settings = {"randomness": randomness, "chunk_size": chunk_size}
    try:
        given = tuple(map(shown, args))
        _, dims, leaves, spec = torchs._process_batched_inputs(in_dims, given, opened(func))
    except (TypeError, ValueError) as error:
        raise Break(breaks.OPERATOR_ERROR, f"torch.vmap: {error}") from None
    called = functools.partial(opened(func), **kwargs) if kwargs else func
    made, found = one_of_batch(world, called, leaves, dims, spec, effects=chunk_size is None)
    settings = {name: value for name, value in settings.items() if value != DEFAULTS[name]}
    if settings == {"randomness": "same", "chunk_size": chunk_size} and world.recorder.builder.body.draws:
        # for each chunk torch sets its generator back, which is no operator that a graph could hold
        raise Break(breaks.RANDOM, "torch.vmap of chunks that are to draw the same numbers")
    return over_batch(world, made, found, list(zip(leaves, dims, strict=True)), out_dims, settings)


def one_of_batch(
    world: TraceWorld, func: Any, leaves: list[Any], dims: list[Any], spec: Any, effects: bool
) -> tuple[GraphBody, Any]:
    """Traces the function on one element of each batch: its results are one element too. It may have effects
    where torch calls it once for the whole batch."""
    recorder = world.recorder
    grad = torch.is_grad_enabled()
    pairs = list(zip(leaves, dims, strict=True))
    examples = [leaf if dim is None else example(recorder, leaf, dim) for leaf, dim in pairs]
    mapped_over = [one for one, dim in zip(examples, dims, strict=True) if dim is not None]
    what = "a function that torch.vmap maps"
    with body(world, what, mapped_over, may_write=True, floats=True, effects=effects) as made:
        with breaks_named(what), in_batch(recorder):
            out = world.calls.invoke(func, *pytree.tree_unflatten(examples, spec))
            found = world.materialize.for_torch(out)
        tensors = tuple([leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)])
        if torch.is_grad_enabled() is not grad:
            raise Break(breaks.EFFECT, f"gradients switched in {what}")
        recorder.higher_order.close(made, recorder.builder.argument(func, tensors), grad)
    return made, found


@contextlib.contextmanager
def in_batch(recorder: Recorder) -> Iterator[None]:
    """A number without dimensions that is computed from an element of the batch is many."""
    before, recorder.in_batch = recorder.in_batch, True
    try:
        yield
    finally:
        recorder.in_batch = before


def over_batch(
    world: TraceWorld, made: GraphBody, found: Any, given: list[tuple[Any, Any]], out_dims: Any, settings: Any
) -> Any:
    """Records the call. Results that are no tensors are the same for the whole batch."""
    results, shape = pytree.tree_flatten(found)
    single = isinstance(found, torch.Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1
    dims = list(out_dims) if single else torchs._broadcast_to_and_flatten(out_dims, shape)
    if dims is None:
        raise Break(breaks.OPERATOR_ERROR, "torch.vmap: out_dims that do not fit what the function gives")
    places = [n for n, result in enumerate(results) if isinstance(result, torch.Tensor)]
    if any(dim is not None and n not in places for n, dim in enumerate(dims)):
        raise Break(breaks.OPERATOR_ERROR, "torch.vmap of a function that gives more than tensors")
    own = [(leaf, dim) for leaf, dim in given if dim is not None]
    module = made.module()
    values = (module, *(leaf for leaf, _ in own), *made.operand_values)
    settings["in_dims"] = (*(dim for _, dim in own), *(None for _ in made.operands))
    settings["out_dims"] = tuple(dims[n] for n in places)
    tensors = world.recorder.higher_order.call(mapped, {"mapped": module}, values, settings)
    for n, tensor in zip(places, tensors, strict=True):
        results[n] = tensor
    return pytree.tree_unflatten(results, shape)


DEFAULTS = {"randomness": "error", "chunk_size": None}
SETTINGS = ("in_dims", "out_dims", *DEFAULTS)
