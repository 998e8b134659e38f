"""Operators that decide, or repeat: `torch.cond`, `while_loop`, `map`, `scan`, `associative_scan`.

torch's own Python around each is interpreted, which flattens what it is given and moves dimensions; served
is the operator itself, whose callables become bodies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch._higher_order_ops import utils
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.utils import _pytree as pytree

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.op_memory import storage
from framelift.graph.recorder import Recorder
from framelift.interpreter.pending import opened
from framelift.trace.bodies import Traced, agree, captures, differentiated, fresh, interpret, record, traced
from framelift.trace.world import TraceWorld

interpret(utils._maybe_compile_and_run_fn)


def given(world: TraceWorld, operator: str, value: Any) -> list[Any]:
    """The operands, as a list."""
    found = world.materialize.for_torch(value)
    if not isinstance(found, (tuple, list)):
        kind = "tensor" if isinstance(found, torch.Tensor) else type(found).__name__
        raise Break(breaks.BODIES, f"{operator}: a {kind} instead of a tuple of operands")
    return list(found)


def dense(recorder: Recorder, tensors: list[Any]) -> list[Any]:
    """Contiguous tensors, as the results of bodies and the examples are."""
    return [t if t.is_contiguous() else recorder.call(torch.Tensor.contiguous, (t,), {}) for t in tensors]


def tensors_only(operator: str, what: str, values: list[Any]) -> None:
    for n, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            raise Break(breaks.BODIES, f"{operator}: {what} {n} is a {type(value).__name__}, not a tensor")


# ---- cond


@captures(cond_op)
def serve_cond(world: TraceWorld, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    pred, args = opened(pred), given(world, "torch.cond", operands)
    if isinstance(pred, (bool, int, float)):
        return world.calls.invoke(true_fn if pred else false_fn, *args)
    if isinstance(pred, torch.Tensor):
        if pred.numel() != 1:
            raise Break(breaks.BODIES, f"torch.cond: a condition of shape {tuple(pred.shape)}")
    elif not isinstance(pred, torch.SymBool):
        raise Break(breaks.BODIES, f"torch.cond: a condition that is a {type(pred).__name__}")
    chosen = traced(world, "torch.cond", "true_fn", true_fn, args)
    other = traced(world, "torch.cond", "false_fn", false_fn, args)
    may_differ = not any(differentiated(one.body) for one in (chosen, other))
    varying = find_varying(chosen, other) if may_differ and chosen.spec == other.spec else {}
    alike = [varying.get(n, leaf) for n, leaf in enumerate(other.leaves)]
    agree(replace(other, leaves=alike), chosen.leaves, "true_fn", chosen.spec)
    if not chosen.tensors and not varying:
        return chosen.result(())  # the same either way
    if not may_differ:
        refuse_numbers(chosen)
    if varying:
        world.recorder.builder.symbolise()
        for branch in (chosen, other):
            give_numbers(branch, varying)
    out = record(world, cond_op, [chosen, other], lambda bodies, values: (pred, *bodies, values))
    results = iter(out)
    given_by = [isinstance(leaf, torch.Tensor) or n in varying for n, leaf in enumerate(chosen.leaves)]
    leaves = [next(results) if given else leaf for given, leaf in zip(given_by, chosen.leaves, strict=True)]
    for n, leaf in varying.items():
        if type(leaf) is int:
            with world.recorder.builder.symbolise().asking_data():
                leaves[n] = world.recorder.call(torch.Tensor.item, (leaves[n],), {})
    return pytree.tree_unflatten(leaves, chosen.spec)


def find_varying(chosen: Traced, other: Traced) -> dict[int, Any]:
    """Numbers that depend on the branch, and tensors of as many dimensions of which sizes do: what comes of
    these only the data decides. Place in the result -> what the first branch has there."""
    found = {}
    with torch._C.DisableTorchFunction():
        for n, (one, two) in enumerate(zip(chosen.leaves, other.leaves, strict=True)):
            if type(one) is type(two) is int:
                is_varying = one != two
            elif isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
                alike = all(getattr(one, name) == getattr(two, name) for name in ("dtype", "device", "ndim"))
                dense = one.layout is torch.strided and one.is_contiguous() and two.is_contiguous()
                is_varying = alike and dense and one.shape != two.shape
            else:
                is_varying = False
            if is_varying:
                found[n] = one
    return found


def give_numbers(branch: Traced, varying: dict[int, Any]) -> None:
    """The body of a branch gives its numbers too, where they depend on the branch: as tensors, since not all
    backends know operators that give numbers."""
    graph = branch.body.graph
    output = graph.output_node()
    outputs: Any = output.args[0]
    tensors, given = iter(outputs), list[Any]()
    for n, leaf in enumerate(branch.leaves):
        if isinstance(leaf, torch.Tensor):
            given.append(next(tensors))
        elif n in varying:
            with graph.inserting_before(output):
                given.append(branch.body.add_node("call_function", torch.full, ((), leaf), NUMBER))
    output.args = (tuple(given),)


NUMBER = {"dtype": torch.int64}


def refuse_numbers(branch: Traced) -> None:
    """torch's rule for gradients expects that each result of a branch has one."""
    with torch._C.DisableTorchFunction():
        for n, tensor in enumerate(branch.tensors):
            if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
                problem = f"output {n} is of dtype {tensor.dtype}, where others are differentiated"
                raise Break(breaks.BODIES, f"{branch.name}: {problem}")


# ---- while_loop


@captures(while_loop_op)
def serve_while_loop(
    world: TraceWorld, cond_fn: Any, body_fn: Any, carried: Any, additional: Any = ()
) -> Any:
    name, recorder = "while_loop", world.recorder
    recorder.builder.symbolise().asks_data = True  # torch's rule for gradients has a tensor for a counter
    start = given(world, name, carried)
    rest = given(world, name, additional)
    for n, one in enumerate(start):
        if not isinstance(one, torch.Tensor) and type(one) not in WHOLE:
            kind = type(one).__name__
            raise Break(breaks.BODIES, f"{name}: carried input {n} is a {kind}, not a tensor or an int")
    start = [one if type(one) in WHOLE else dense(recorder, [one])[0] for one in start]
    rounds = [[carried_on(recorder, one) for one in start] for _ in range(2)]
    test = traced(world, name, "cond_fn", cond_fn, [*rounds[0], *rest], rounds[0], bare=True, numbers=True)
    step = traced(world, name, "body_fn", body_fn, [*rounds[1], *rest], rounds[1], numbers=True)
    if [type(leaf) for leaf in test.leaves] != [torch.SymBool]:
        expected = "a condition, one boolean tensor without dimensions,"
        agree(test.flat(test.leaves), [truth(recorder)], expected)
    agree(step.flat(whole(step.leaves)), whole(start), "what is carried")
    if any(type(one) in WHOLE for one in start) and differentiated(step.body):
        raise Break(breaks.BODIES, f"{name}: a number is carried, where tensors are differentiated")
    arrange = lambda bodies, values: (*bodies, apart(recorder, start, values), values)
    return pytree.tree_unflatten(list(record(world, while_loop_op, [test, step], arrange)), step.spec)


def apart(recorder: Recorder, start: list[Any], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is carried must share no memory with anything else that the operator is given."""
    with torch._C.DisableTorchFunction():
        taken: set[Any] = {storage(value) for value in operands if isinstance(value, torch.Tensor)}
        places = [storage(value) if isinstance(value, torch.Tensor) else None for value in start]
    found = []
    for value, place in zip(start, places, strict=True):
        found.append(recorder.call(torch.clone, (value,), {}) if place in taken else value)
        taken |= {place} - {None}
    return tuple(found)


WHOLE = (int, torch.SymInt)


def carried_on(recorder: Recorder, value: Any) -> Any:
    """What a round is given. A number is an unbacked symbol, since it differs between rounds."""
    if type(value) not in WHOLE:
        return fresh(recorder, value)
    with torch._C.DisableTorchFunction():
        env: Any = recorder.builder.symbolise().env
        with env.ignore_fresh_unbacked_symbols():
            return env.create_unbacked_symint()


def whole(values: list[Any]) -> list[Any]:
    """The values with zero for each number: numbers may change."""
    return [0 if type(value) in WHOLE else value for value in values]


def truth(recorder: Recorder) -> Any:
    with torch._C.DisableTorchFunction(), recorder.fakes:
        return torch.empty((), dtype=torch.bool)


# ---- over the first dimension


def first(recorder: Recorder, batch: Any) -> Any:
    return fresh(recorder, batch, batch.shape[1:])


@captures(map_impl)
def serve_map(world: TraceWorld, fn: Any, xs: Any, args: Any) -> Any:
    name, recorder = "map", world.recorder
    batches, rest = dense(recorder, given(world, name, xs)), given(world, name, args)
    examples = [first(recorder, batch) for batch in batches]
    body = traced(world, name, "f", fn, [*examples, *rest], examples)
    tensors_only(name, "result", body.leaves)
    out = record(world, map_impl, [body], lambda bodies, values: (*bodies, batches, list(values)))
    return body.result(out)


@captures(scan_op)
def serve_scan(world: TraceWorld, combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    name, recorder = "scan", world.recorder
    # the backend gets sizes as they are, for torch's rule for gradients; Inductor makes it a loop that counts
    recorder.builder.symbolise().asks_data = True
    start, batches = (dense(recorder, given(world, name, values)) for values in (init, xs))
    rest = given(world, name, additional_inputs)
    examples = [fresh(recorder, one) for one in start] + [first(recorder, batch) for batch in batches]
    body = traced(world, name, "combine_fn", combine_fn, [*examples, *rest], examples)
    parts = pytree.tree_unflatten(body.leaves, body.spec)
    if not isinstance(parts, (tuple, list)) or len(parts) != 2:
        raise Break(breaks.BODIES, f"{body.name}: it must give a pair: what is carried on, and an output")
    tensors_only(name, "result", body.leaves)
    agree(body.flat(parts[0]), start, "init")
    out = record(world, scan_op, [body], lambda bodies, values: (*bodies, start, batches, values))
    return body.result(out)


@captures(associative_scan_op)
def serve_associative_scan(world: TraceWorld, combine_fn: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    """The function gets two elements, or two batches of elements: it must be elementwise."""
    name, recorder = "associative_scan", world.recorder
    batches, rest = dense(recorder, given(world, name, xs)), given(world, name, additional_inputs)
    examples = [first(recorder, batch) for batch in (*batches, *batches)]
    body = traced(world, name, "combine_fn", combine_fn, [*examples, *rest], examples)
    agree(body.flat(body.leaves), examples[: len(batches)], "xs")
    out = record(world, associative_scan_op, [body], lambda bodies, values: (*bodies, batches, values))
    return body.result(out)
