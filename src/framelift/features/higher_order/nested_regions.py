"""`torch.compiler.nested_compile_region`: each call is an `invoke_subgraph`, and calls that do the same share
one body under one name, so that a compiler sees it once.

A region may do anything that a function may. Where what it does is no body - it changes something, gives back
what it is given, draws numbers - the graph around it does it instead, as without the mark.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.invoke_subgraph import (
    invoke_subgraph,
    invoke_subgraph_placeholder,
    mark_compile_region,
)
from torch.utils import _pytree as pytree

from framelift.core.breaks import Break
from framelift.features.hooks.tensor_hooks import hook_gradient
from framelift.graph import op_memory
from framelift.graph.recorder import Recorder
from framelift.interpreter.pending import Pending
from framelift.trace.bodies import Traced, Unchanged, captures, interpret, refuse_aliases, refuse_writes
from framelift.trace.world import TraceWorld

interpret(mark_compile_region, torch.compiler.nested_compile_region)

NAME = "nested_compile_region"


@captures(invoke_subgraph_placeholder)
def serve_nested_compile_region(world: TraceWorld, func: Any, *args: Any, **kwargs: Any) -> Any:
    recorder = world.recorder
    builder, grad, state = recorder.builder, torch.is_grad_enabled(), recorder.flags.state
    bare = all(around.is_region for around in builder.bodies[1:])  # transforms have no rule for the operator
    unchanged = Unchanged(world, NAME, (func, args, kwargs))
    with recorder.higher_order.body(is_region=bare) as made:
        out = world.calls.invoke(func, *args, **kwargs)
        region = Traced(NAME, "fn", made, *pytree.tree_flatten(out))
        outputs = builder.argument(func, tuple(region.tensors))
        is_body = holds(unchanged.check) and holds(refuse_writes, made, NAME)
        is_body = is_body and holds(refuse_aliases, region)
        is_body &= bare and consists_of_tensors(region) and not has_hooks(region)
        is_body &= recorder.flags.state == state and not made.draws
        if is_body:
            recorder.higher_order.close(made, outputs, grad)
    if is_body:
        invoke(recorder, region, grad)
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
    others = [type(leaf) for leaf in region.leaves if not is_tensor(leaf)]
    return bool(region.tensors) and all(kind is Pending or kind in op_memory.ATOMS for kind in others)


def has_hooks(region: Traced) -> bool:
    """Whether hooks are registered on its tensors."""
    return any(node.target is hook_gradient for node in region.body.graph.nodes)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def invoked(body: Any, name: str, *operands: Any) -> Any:
    """What the graph calls. Torch's operator is for compilers: what it does for gradients takes fakes."""
    if detect_fake_mode(operands) is not None:
        return invoke_subgraph(body, name, *operands)
    return body(*operands)


def invoke(recorder: Recorder, region: Traced, grad: bool) -> None:
    """Records the call. Its results are those that the body gave when it was traced."""
    made, builder = region.body, recorder.builder
    with torch._C.DisableTorchFunction():
        what, names = (grad, *signature(made.graph, made.modules)), builder.region_names
        name = names.setdefault(what, f"subgraph_{len(names)}")
    given = (builder.body.share_module(name, made), name, *made.outer_nodes)
    builder.add_call(invoked, given, tuple(region.tensors))


def signature(graph: torch.fx.Graph, modules: dict[str, Any]) -> tuple[Any, ...]:
    """A key that is the same for graphs that do the same with operands that look the same."""
    number = {node: n for n, node in enumerate(graph.nodes)}
    found = []
    for node in graph.nodes:
        if node.op == "placeholder":
            found.append(looks(node.meta["example_value"]))
        elif node.op == "get_attr":
            inner = modules[str(node.target)]
            found.append(signature(inner.graph, dict(inner.named_children())))
        else:
            args = torch.fx.map_arg((node.args, node.kwargs), lambda one: RegionPlace(number[one]))
            found.append((node.op, node.target, repr(args)))
    return tuple(found)


class RegionPlace(int):
    def __repr__(self) -> str:
        return f"%{int(self)}"


def looks(value: Any) -> Any:
    if not is_tensor(value):
        return str(value)
    look = (value.dtype, value.device, value.layout, value.requires_grad, type(value))
    return (*look, str(value.shape), str(value.stride()) if value.layout is torch.strided else "")
