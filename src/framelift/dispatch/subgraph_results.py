"""Results of subgraphs that share memory.

AOTAutograd's forward part of a subgraph gives what its backward part needs beside its results: inputs, views
of them, views of results. Inductor takes all results of a call (`invoke_subgraph`) for tensors of their own,
and uses the memory of one for something else when it thinks that it is not needed any more; the other one
then has wrong values. So each subgraph gives just one tensor per memory, none of an input's, and whoever
calls it makes the views.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch.utils._pytree import tree_leaves

Node = torch.fx.Node
Graph = torch.fx.GraphModule


def calls_subgraphs(module: Graph) -> bool:
    return bool(module.graph.find_nodes(op="call_function", target=invoke_subgraph))


def separate_results(module: Graph) -> None:
    """Changes a graph that AOTAutograd has made, and the subgraphs that it calls."""
    calls: defaultdict[int, list[Node]] = defaultdict(list)
    bodies: dict[int, Graph] = {}
    for node in module.graph.find_nodes(op="call_function", target=invoke_subgraph):
        body = getattr(module, node.args[0].target)
        bodies[id(body)] = body
        calls[id(body)].append(node)
    for key, body in bodies.items():
        separate_results(body)
        results = Results(body)
        if results.shared:
            for call in calls[key]:
                results.make_at(call)
            results.drop_shared()
    if bodies:
        module.recompile()


class Results:
    """What a subgraph gives, and what of that its callers make instead."""

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.output = body.graph.output_node()
        given: Any = self.output.args[0]
        self.nodes: list[Node | None] = list(given)
        self.inputs = body.graph.find_nodes(op="placeholder")
        self.missing: dict[int, int] = {}
        """Place of a result that is None -> its place from now on."""
        self.kept: dict[Node, int] = {}
        """The results that remain -> their places."""
        self.shared: dict[int, Node] = {}
        """Place of a result until now -> what it is."""
        self.sort()

    def sort(self) -> None:
        """Decides what becomes of each result."""
        taken = {memory for node in self.inputs for memory in memories(node)}
        together: defaultdict[int, list[int]] = defaultdict(list)
        for n, node in enumerate(self.nodes):
            for memory in () if node is None else memories(node):
                together[memory].append(n)
        for memory, numbers in together.items():
            if memory in taken:
                self.shared |= {n: node for n in numbers if (node := self.nodes[n]) is not None}
            elif len(numbers) > 1:
                self.share(memory, numbers)
        kept: list[Node | None] = []
        for n, node in enumerate(self.nodes):
            if n in self.shared:
                continue
            if node is None:
                self.missing[n] = len(kept)
            else:
                self.kept.setdefault(node, len(kept))
            kept.append(node)
        for owner in [node for node in self.kept if self.kept[node] < 0]:
            self.kept[owner] = len(kept)
            kept.append(owner)
        self.remaining = kept

    def share(self, memory: int, numbers: list[int]) -> None:
        """All but one of these are made by the callers, of the one that owns the memory."""
        node = self.nodes[numbers[0]]
        assert node is not None
        while (before := self.made_of(node, memory)) is not None:
            node = before
        owners = [n for n in numbers if self.nodes[n] is node]
        self.shared |= {
            n: other for n in numbers if n not in owners[:1] and (other := self.nodes[n]) is not None
        }
        if not owners:
            self.kept[node] = -1  # its place comes behind all others

    def made_of(self, node: Node, memory: int) -> Node | None:
        """The value that a node gives a view of. Items of what an operator gives are no views of that."""
        for given in node.all_input_nodes:
            if memory in memories(given):
                if node.target is operator.getitem and not any(
                    memory in memories(each) for each in given.all_input_nodes
                ):
                    return None
                return given
        return None

    # ---- what callers make

    def make_at(self, call: Node) -> None:
        """Makes the shared results behind a call, for whoever uses them."""
        graph = call.graph
        users, after = list(call.users), call.next
        while after in call.users:
            after = after.next
        copies: dict[Node, Any] = dict(zip(self.inputs, call.args[2:], strict=True))
        with graph.inserting_before(after):
            for owner, number in self.kept.items():
                item = copies[owner] = graph.call_function(operator.getitem, (call, number))
                item.meta = dict(owner.meta)
            for user in users:
                place: Any = user.args[1]
                if (node := self.nodes[place]) is None:
                    user.args = (call, self.missing[place])
                else:
                    user.replace_all_uses_with(self.copied(node, graph, copies))
                    graph.erase_node(user)
        call.meta["val"] = tuple(None if node is None else node.meta["val"] for node in self.remaining)

    def copied(self, node: Node, graph: torch.fx.Graph, copies: dict[Node, Any]) -> Any:
        """What a node gives, where the call stands."""
        if node not in copies:
            is_view = any(self.made_of(node, memory) is not None for memory in memories(node))
            if not is_view and not isinstance(node.meta.get("val"), NUMBERS):
                raise NotImplementedError(f"a subgraph gives a view that only {node.target} can make")
            for given in node.all_input_nodes:
                self.copied(given, graph, copies)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        return copies[node]

    def drop_shared(self) -> None:
        """The subgraph gives what remains."""
        self.output.args = (tuple(self.remaining),)
        if VISIBLE in self.output.meta:
            self.output.meta[VISIBLE] = [n for n, node in enumerate(self.remaining) if node is not None]
        self.body.recompile()


VISIBLE = "user_visible_output_idxs"
"""Where Inductor notes the results whose strides are not its own to choose."""
NUMBERS = (int, torch.SymInt)


def memories(node: Node) -> set[int]:
    """Where the tensors lie that a node gives."""
    values = [value for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]
    return {value.untyped_storage()._cdata for value in values if value.layout is torch.strided}
