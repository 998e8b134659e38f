"""Gradients that a program takes of its own functions (`torch.func.grad`, `vjp`, and what is made of these),
written out as the operators that compute them.

The tracer of `torch.export` stands above these transforms, and no more knows the tensors that come in: what
it makes has constants in the place of arguments. Traced beneath them a gradient is operators like any others.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from framelift.core.errors import Unsupported
from framelift.features.higher_order import transforms, vmap

DIFFERENTIATE = frozenset({transforms.gradients, transforms.pull_back})
ABOVE_TRACERS = DIFFERENTIATE | {transforms.push_forward}
"""Of which the second torch's tracer knows by itself, if nothing is around it."""
CALL_A_BODY = ABOVE_TRACERS | {transforms.apply, vmap.mapped}

PLACE = ("nn_module_stack", "source_fn_stack", "stack_trace")
"""What is said of a node about where it comes from."""


def write_out(graph: torch.fx.Graph, modules: Mapping[str, Any]) -> None:
    """Writes out the gradients in a graph and in those within it, which are its `modules`."""
    for node in list(graph.nodes):
        if node.op == "get_attr":
            inner = modules.get(str(node.target))
            calls = any(user.target in CALL_A_BODY for user in node.users)
            if isinstance(inner, torch.fx.GraphModule) and not calls and has_any(inner):
                write_out(inner.graph, inner._modules)
                inner.recompile()
        elif node.target in DIFFERENTIATE or (
            node.target in CALL_A_BODY and has_any(modules[str(node.args[0].target)])
        ):
            write_out_call(node, modules)


def has_any(body: torch.fx.GraphModule) -> bool:
    """Whether a graph has transforms that stand above tracers, or one within it does."""
    return any(node.target in ABOVE_TRACERS for node in body.graph.nodes) or any(
        has_any(inner) for inner in body._modules.values() if isinstance(inner, torch.fx.GraphModule)
    )


def write_out_call(node: torch.fx.Node, modules: Mapping[str, Any]) -> None:
    """Puts operators in the place of a call of a transform."""
    body, *values = node.args
    assert isinstance(body, torch.fx.Node)
    called: Any = node.target
    called_body, settings = modules[str(body.target)], node.kwargs
    nodes = [value for value in values if isinstance(value, torch.fx.Node)]
    given = [example(value) for value in nodes]
    modes = [value.fake_mode for value in given if isinstance(value, FakeTensor)]

    def run(*known: Any) -> Any:
        left = list(known)
        all_values = [left.pop(0) if isinstance(value, torch.fx.Node) else value for value in values]
        return tuple(called(called_body, *all_values, **settings))

    with modes[0] if modes else contextlib.nullcontext(), torch.enable_grad():
        traced = make_fx(run, _allow_non_fake_inputs=True)(*given)
    known = dict(zip(traced.graph.find_nodes(op="placeholder"), nodes, strict=True))
    put_in_place(node, traced, known)
    if not body.users:
        node.graph.erase_node(body)


def example(node: torch.fx.Node) -> Any:
    """What a node gives. Those of sizes and of what is made of sizes do not say."""
    if "example_value" in node.meta:
        return node.meta["example_value"]
    called: Any = node.target
    return called(*torch.fx.map_arg(node.args, example))


def put_in_place(node: torch.fx.Node, traced: torch.fx.GraphModule, known: dict[Any, Any]) -> None:
    """Puts the nodes of a graph in the place of a node of which only the items are used."""
    graph = node.graph
    results: Any = ()
    with graph.inserting_before(node):
        for each in traced.graph.nodes:
            if each.op == "get_attr":
                value = getattr(traced, each.target)
                made = known[each] = graph.call_function(
                    torch.tensor, (numbers(value),), {"dtype": value.dtype}
                )
            elif each.op == "output":
                results = torch.fx.map_arg(each.args[0], known.__getitem__)
                break
            elif each.op != "placeholder":
                made = known[each] = graph.node_copy(each, known.__getitem__)
            else:
                continue
            made.meta = {key: node.meta[key] for key in PLACE if key in node.meta}
            made.meta["example_value"] = each.meta.get("val")
    for user in list(node.users):
        assert user.target is operator.getitem
        user.replace_all_uses_with(results[user.args[1]])
        user.graph.erase_node(user)
    graph.erase_node(node)


def numbers(value: torch.Tensor) -> Any:
    """Those of a tensor that was made of numbers on the way."""
    if isinstance(value, FakeTensor) or value.device.type != "cpu":
        raise Unsupported("A gradient by torch.func that takes tensors of its own can't be exported.")
    return value.tolist()
