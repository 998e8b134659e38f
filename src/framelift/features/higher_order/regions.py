"""A function that an operator is given only to be called: its graph is a region of the graph around it.

A region may do anything that a function may. Where what it does is no body - it changes something, gives back
what it is given, draws numbers, and the operator can't have that - the graph around it does it instead, as
without the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from framelift.core.breaks import Break
from framelift.features.hooks.tensor_hooks import hook_gradient
from framelift.graph import op_memory
from framelift.interpreter.pending import Pending
from framelift.trace.bodies import Traced, Unchanged, refuse_aliases, refuse_writes
from framelift.trace.world import TraceWorld


def call_region(
    world: TraceWorld,
    name: str,
    func: Any,
    args: Any,
    kwargs: dict[str, Any],
    record: Callable[[Traced, bool], None],
    *,
    grad: bool | None = None,
    for_compilers: bool = True,
    plain: bool = False,
) -> Any:
    """What a call of the function gives. `record` adds the operator to the graph, whose results are those of
    the function; it is told whether gradients are on, as `grad` says or as they are around. Regions
    `for_compilers` are none within other bodies, since transforms have no rule for them. An operator that
    does nothing but call the function is `plain`: results may share memory, and numbers may be drawn, but
    what changes something outside is refused, since the program has asked for the operator."""
    recorder = world.recorder
    builder, state = recorder.builder, recorder.flags.state
    grad = torch.is_grad_enabled() if grad is None else grad
    bare = not for_compilers or all(around.is_region for around in builder.bodies[1:])
    unchanged = Unchanged(world, name, (func, args, kwargs))
    with recorder.higher_order.body(is_region=bare) as made:
        out = world.calls.invoke(func, *args, **kwargs)
        region = Traced(name, "fn", made, *pytree.tree_flatten(out))
        outputs = builder.argument(func, tuple(region.tensors))
        if plain:
            unchanged.check()
            refuse_writes(made, name)
        is_body = plain or (holds(unchanged.check) and holds(refuse_writes, made, name))
        is_body = is_body and (plain or holds(refuse_aliases, region))
        is_body &= bare and consists_of_tensors(region) and not has_hooks(region)
        is_body &= recorder.flags.state == state and (plain or not made.draws)
        if is_body:
            recorder.higher_order.close(made, outputs, grad)
    if is_body:
        record(region, grad)
    else:
        builder.dissolve(made)
    return out


def holds(check: Any, *args: Any) -> bool:
    try:
        check(*args)
    except Break:
        return False
    return True


def consists_of_tensors(region: Traced) -> bool:
    """Whether its result consists of tensors and constants, which hide no other tensors."""
    others = [type(leaf) for leaf in region.leaves if not isinstance(leaf, torch.Tensor)]
    return bool(region.tensors) and all(kind is Pending or kind in op_memory.ATOMS for kind in others)


def has_hooks(region: Traced) -> bool:
    """Whether hooks are registered on its tensors."""
    return any(node.target is hook_gradient for node in region.body.graph.nodes)
