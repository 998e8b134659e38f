"""Blocks that a graph repeats: what calls of equal modules have recorded, such as a transformer's layers.

Calls of modules are known of each node (`nn_module_stack`), so that candidates are found at once: calls of
one class, at one depth. That proves nothing. Two calls are copies of one block only if their nodes are the
same one by one: functions, constants to the bit, wiring, and all that is known of every value (`signature`).
The largest blocks are taken: a layer rather than the norms in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

Node = torch.fx.Node
Signature = tuple[Any, ...]

LEAST_NODES = 8
"""A block of fewer operators is not worth a call: what fuses with its neighbours is faster."""


class Block(NamedTuple):
    """What one call of a module has recorded."""

    nodes: list[Node]
    inputs: list[Node]
    """What it uses from around it, in the order of first use."""
    outputs: list[Node]
    """What is used behind it."""


class BlockCalls:
    """The calls of modules in a graph, from the outermost in. `may_repeat` says of a node whether it can
    stand in a block at all.

    >>> class Layer(torch.nn.Module):
    ...     pass
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> BlockCalls(graph, lambda node: True).repeated()
    []
    """

    def __init__(self, graph: torch.fx.Graph, may_repeat: Callable[[Node], bool]) -> None:
        self.may_repeat = may_repeat
        self.numbers = numbers_of_inputs(graph)
        """They stand in front of all blocks."""
        calls = [node for node in graph.nodes if node.op not in ("placeholder", "output", "get_attr")]
        self.position = {node: n for n, node in enumerate(n for n in calls if n not in self.numbers)}
        self.taken: set[Node] = set()

    def repeated(self, is_block: Callable[[Block], bool] = lambda block: True) -> list[list[Block]]:
        """The blocks with all of their copies, largest first. `is_block` has the last word: it is asked of
        one copy, and where it says no, smaller blocks are looked for within."""
        found = []
        for calls in self.by_depth():
            same: defaultdict[Signature, list[Block]] = defaultdict(list)
            for candidates in calls.values():
                for block in map(self.block, candidates if len(candidates) > 1 else ()):
                    if block is not None:
                        same[signature(block)].append(block)
            for copies in same.values():
                if len(copies) > 1 and is_block(copies[0]):
                    found.append(copies)
                    self.taken.update(node for copy in copies for node in copy.nodes)
        return found

    def by_depth(self) -> Iterable[dict[type, list[list[Node]]]]:
        """For each depth: class -> the nodes of each call."""
        stacks = {node: list(node.meta.get("nn_module_stack", {}).items()) for node in self.position}
        for depth in range(max(map(len, stacks.values()), default=0)):
            calls: dict[str, tuple[type, list[Node]]] = {}
            for node, stack in stacks.items():
                if depth < len(stack) and node not in self.taken:
                    key, (_, cls) = stack[depth]
                    calls.setdefault(key, (cls, []))[1].append(node)
            found: defaultdict[type, list[list[Node]]] = defaultdict(list)
            for cls, nodes in calls.values():
                found[cls].append(nodes)
            yield found

    def block(self, nodes: list[Node]) -> Block | None:
        """None: these nodes can't be one."""
        if len(nodes) < LEAST_NODES or self.position[nodes[-1]] - self.position[nodes[0]] >= len(nodes):
            return None
        if not all(map(self.may_repeat, nodes)):
            return None
        within = set(nodes)
        inputs = dict.fromkeys(
            given for node in nodes for given in node.all_input_nodes if given not in within
        )
        outputs = [node for node in nodes if any(user not in within for user in node.users)]
        is_whole = all(isinstance(value_of(node), FakeTensor) for node in outputs) and bool(outputs)
        return Block(nodes, list(inputs), outputs) if is_whole else None


def numbers_of_inputs(graph: torch.fx.Graph) -> set[Node]:
    """Nodes that compute numbers of the sizes of inputs alone. Each stands in the graph once, where it was
    first needed, which may be within one of several copies."""
    found: set[Node] = set()
    for node in graph.nodes:
        is_number = node.op == "call_function" and type(value_of(node)) in NUMBERS
        if is_number and all(given.op == "placeholder" or given in found for given in node.all_input_nodes):
            found.add(node)
    return found


NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


def value_of(node: Node) -> Any:
    """What stood for its result in the trace."""
    return node.meta.get("example_value")


# ---- what has to be the same


def signature(block: Block) -> Signature:
    """Equal for copies, and for nothing else: one walk over the nodes."""
    number = {node: n for n, node in enumerate((*block.inputs, *block.nodes))}
    nodes = tuple(
        (node.op, node.target, described(node.args, number), described(node.kwargs, number))
        for node in block.nodes
    )
    values = tuple(look(value_of(node)) for node in number)
    return nodes, values, memory_shared(block.inputs), tuple(number[node] for node in block.outputs)


def described(value: Any, number: dict[Node, int]) -> Any:
    """An argument as something that can be compared: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, Node):
        return Node, number[value]
    if isinstance(value, tuple | list):
        return type(value), tuple(described(item, number) for item in value)
    if isinstance(value, dict):
        return dict, tuple((key, described(item, number)) for key, item in value.items())
    if isinstance(value, slice):
        return slice, *(described(part, number) for part in (value.start, value.stop, value.step))
    if type(value) in (int, float, complex, bool, str, bytes):
        return type(value), repr(value)
    return type(value), Same(value)


class Same:
    """An object that equals itself alone: a data type, a device, None, or what nobody knows here."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return NotImplemented
        is_device = type(self.value) is torch.device is type(other.value)
        return self.value is other.value or (is_device and self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value) if type(self.value) is torch.device else id(self.value)


def look(value: Any) -> Any:
    """All that a compiler may rely on of a value. Sizes that vary are equal as expressions."""
    if isinstance(value, torch.Tensor):
        sizes = (*value.shape, *value.stride(), value.storage_offset())
        facts = (value.requires_grad, value.is_conj(), value.is_neg(), value.is_inference())
        return type(value), value.dtype, value.device, value.dim(), tuple(map(number_text, sizes)), facts
    if isinstance(value, tuple | list):
        return type(value), tuple(map(look, value))
    return type(value), number_text(value)


def number_text(value: Any) -> str:
    return str(value.node.expr) if isinstance(value, NUMBERS[:3]) else repr(value)


def memory_shared(inputs: list[Node]) -> tuple[int, ...]:
    """For each input the first one that lies in the same memory, as far as the trace knows."""
    first: dict[int, int] = {}
    values = [value_of(node) for node in inputs]
    return tuple(
        first.setdefault(value.untyped_storage()._cdata, n) if isinstance(value, torch.Tensor) else n
        for n, value in enumerate(values)
    )
