"""`torch.compiler.nested_compile_region`: each call is an `invoke_subgraph`, and calls that do the same share
one body under one name, so that a compiler sees it once.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.invoke_subgraph import (
    invoke_subgraph,
    invoke_subgraph_placeholder,
    mark_compile_region,
)
from torch._higher_order_ops.wrap import wrap

from framelift.features.higher_order.regions import call_region
from framelift.graph.recorder import Recorder
from framelift.graph.torch_forms import Call, form_of
from framelift.trace.bodies import Traced, captures, interpret
from framelift.trace.world import TraceWorld

interpret(mark_compile_region, torch.compiler.nested_compile_region)

NAME = "nested_compile_region"


@captures(invoke_subgraph_placeholder)
def serve_nested_compile_region(world: TraceWorld, func: Any, *args: Any, **kwargs: Any) -> Any:
    def record(region: Traced, grad: bool) -> None:
        invoke(world.recorder, region, grad)

    return call_region(world, NAME, func, args, kwargs, record)


def invoked(body: Any, name: str, *operands: Any) -> Any:
    """What the graph calls."""
    return body(*operands)


@form_of(invoked)
def write_invoked(call: Call) -> Any:
    """A backend may run the graph as it is, and what torch's operator does for gradients takes fakes."""
    body, name, *operands = call.args
    if call.differentiated and not call.writer.for_compiler:
        return call.operator(wrap, (body, *operands))
    return call.operator(invoke_subgraph, (body, name, *operands))


def invoke(recorder: Recorder, region: Traced, grad: bool) -> None:
    """Records the call. Its results are those that the body gave when it was traced."""
    made, builder = region.body, recorder.builder
    with torch._C.DisableTorchFunction():
        what, names = (grad, *signature(made.graph, made.modules)), builder.region_names
        name = names.setdefault(what, f"subgraph_{len(names)}")
    given = (builder.body.share_module(name, made), name, *made.outer_nodes)
    recorder.higher_order.add_region(invoked, given, made, region.tensors)


def signature(graph: torch.fx.Graph, modules: dict[str, Any]) -> tuple[Any, ...]:
    """A key that is the same for graphs that do the same with operands that look the same."""
    number = {node: n for n, node in enumerate(graph.nodes)}
    found = []
    for node in graph.nodes:
        if node.op == "placeholder":
            found.append(looks(node.meta["example_value"]))
        elif node.op == "get_attr":
            inner = modules[str(node.target)]
            is_body = isinstance(inner, torch.fx.GraphModule)
            found.append(signature(inner.graph, vars(inner)["_modules"]) if is_body else inner)
        else:
            args = torch.fx.map_arg((node.args, node.kwargs), lambda one: RegionPlace(number[one]))
            found.append((node.op, node.target, repr(args)))
    return tuple(found)


class RegionPlace(int):
    def __repr__(self) -> str:
        return f"%{int(self)}"


def looks(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return str(value)
    look = (value.dtype, value.device, value.layout, value.requires_grad, type(value))
    return (*look, str(value.shape), str(value.stride()) if value.layout is torch.strided else "")
