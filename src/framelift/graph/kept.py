"""A graph as it was before a backend was given it."""

from __future__ import annotations

import torch.fx
from torch.fx.node import map_arg


class KeptGraph:
    """What is needed to make a graph once more, noted in a fraction of the time that a copy takes: a backend
    may change nodes, or take them out, but what arguments consist of can't be changed."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.nodes = [
            (node, node.op, node.target, node.args, node.kwargs, node.name, node.type, node.meta.copy())
            for node in module.graph.nodes
        ]

    def made_again(self) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, torch.fx.Node] = {}
        for node, op, target, args, kwargs, name, of_type, meta in self.nodes:
            new_args, new_kwargs = map_arg((args, kwargs), made.__getitem__)
            one = made[node] = graph.create_node(op, target, new_args, new_kwargs, name, of_type)
            one.meta = meta.copy()
        return torch.fx.GraphModule(self.module, graph)
