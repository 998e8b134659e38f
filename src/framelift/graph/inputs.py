"""The inputs of a graph: placeholders for tensors, numbers and objects that the program came with."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.fx

from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.op_memory import storage
from framelift.graph.subclasses import as_plain

GUARDED_FACTS = frozenset({"is_leaf", "storage_offset", "no_hooks"})
"""What is guarded of an input only if the program has asked for it."""


class GraphInput(NamedTuple):
    node: torch.fx.Node
    value: Any
    """What comes in."""
    stand_in: Any
    """What stands for it in the trace: a fake, a symbol, or the value itself."""


class Inputs:
    """The inputs of one graph, in order."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.entries: list[GraphInput] = []
        self.index_of: dict[int, int] = {}
        """id of what stands for a tensor -> its place among the entries."""
        self.objects: dict[int, torch.fx.Node] = {}
        """id of an object of the program's that the graph is given as it is -> its placeholder."""
        self.facts: dict[tuple[str, int], torch.Tensor] = {}
        """What was asked that is not guarded of every input: (fact, id of the input) -> the input."""
        self.arrays = 0
        """How many of the inputs are NumPy arrays."""

    def placeholder(self) -> torch.fx.Node:
        """A new one, behind all others."""
        with self.graph.inserting_after(self.entries[-1].node if self.entries else None):
            return self.graph.placeholder(f"arg{len(self.entries)}_1")

    def add(self, node: torch.fx.Node, value: Any, stand_in: Any) -> None:
        self.entries.append(GraphInput(node, value, stand_in))

    def add_tensor(self, node: torch.fx.Node, tensor: torch.Tensor, fake: Any) -> None:
        self.index_of[id(fake)] = len(self.entries)
        self.add(node, tensor, fake)

    def add_object(self, value: Any) -> None:
        node = self.objects[id(value)] = self.placeholder()  # which must not keep it alive
        self.add(node, value, value)

    def note_array(self) -> None:
        """The next input is a NumPy array."""
        self.arrays += 1

    def note_fact(self, name: str, fake: Any) -> None:
        """The program asks something about a tensor: of an input, that is guarded from now on."""
        if name not in GUARDED_FACTS:
            return
        with torch._C.DisableTorchFunction():
            for _, tensor, known in map(self.entries.__getitem__, self.index_of.values()):
                # the offset of a view tells where its base begins
                same_memory = name == "storage_offset" and storage(known) == storage(fake)
                if known is fake or same_memory:
                    self.add_fact(name, tensor)

    def add_fact(self, name: str, tensor: torch.Tensor) -> None:
        self.facts[name, id(tensor)] = tensor

    def drop_unused(self) -> None:
        """What was only looked at is guarded, but no input of the graph."""
        for entry in self.entries:
            if not entry.node.users:
                self.graph.erase_node(entry.node)
        self.entries = [entry for entry in self.entries if entry.node.users]


def as_input(value: Any) -> Any:
    """What a graph is given for an input: code generators know no floats that vary, but tensors."""
    if type(value) is float:
        return torch.scalar_tensor(value, dtype=torch.float64)
    return as_plain(value) if is_converted(value) else value


def is_converted(value: Any) -> bool:
    """Whether a graph is given something else than what came in."""
    return type(value) is float or (isinstance(value, torch.Tensor) and type(value) not in PLAIN_CLASSES)
