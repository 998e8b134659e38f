"""Graphs of a model in `DistributedDataParallel`, in parts: communication overlaps with backward.

DDP sums gradients over the ranks bucket by bucket, each bucket as soon as its gradients are there. One graph
has one backward, which gives all gradients at its end: nothing would overlap. So a graph that is captured
within a DDP's forward is cut where buckets end: going from the last node to the first, which is the order in
which gradients appear, each part takes as many parameters as a bucket does. The backend compiles each
part on its own, and autograd runs their backwards one after the other, with DDP's hooks in between.

What must stay together is found by running the graph once on fakes: all nodes that touch memory which
one of them writes to, what runs under a switch that the graph throws, and results that no graph can give.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from framelift.core.config import config
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import Graph
from framelift.dispatch.examples import Given, make_fakes, mode_for
from framelift.dispatch.extensions import GraphCompiler, RunningCompilation
from framelift.features.hooks.module_hooks import HookOfBodies
from framelift.graph.body import copy_nodes, graph_module
from framelift.graph.functions import CONTEXTS
from framelift.graph.symbols import Symbols
from framelift.graph.terms import DATA_DEPENDENT
from framelift.graph.torch_flags import TorchState

Node = torch.fx.Node

log = logging.getLogger("framelift.graph")

FIRST_BUCKET = 1 << 20
"""How many bytes DDP's first bucket has unless it is told: few, so that communication begins early."""


class CanNotCutError(Exception):
    """Why a graph is compiled in one part."""


@dataclass
class GraphPart:
    """A stretch of the graph, as a graph of its own. Values are known by where they are kept in a run."""

    module: Graph
    takes: list[int]
    gives: list[int]
    examples: list[Any]
    """Fakes that stand for what it takes."""
    last_use_of: list[int]
    """What no later part takes, nor the graph gives."""


def cut_along_buckets(
    compile: GraphCompiler, compilation: RunningCompilation, capture: Capture
) -> GraphCompiler:
    """Within a DDP's forward, graphs are compiled in parts."""
    if capture.run_as_captured is not None:
        return compile

    known = Given(capture.symbols, written=capture.written_inputs)

    def compile_cut(graph: Graph, inputs: list[Any], fakes: FakeTensorMode | None) -> Callable[..., Any]:
        made, ddp = None, DDP._get_active_ddp_module()
        if ddp is not None and config.optimize_ddp and torch.is_grad_enabled():
            made = compile_in_parts(ddp, graph, inputs, known, compile)
        return made or compile(graph, inputs, fakes)

    return compile_cut


def compile_in_parts(
    ddp: DDP, graph: Graph, inputs: list[Any], known: Given, compile_part: GraphCompiler
) -> Callable[..., Any] | None:
    """What runs the parts of the graph, one after the other. None: it is better compiled whole."""
    try:
        mode, parts, outputs = cut(ddp, graph, inputs, known)
    except CanNotCutError as error:
        log.info("a graph in a DistributedDataParallel is compiled whole: %s", error)
        return None
    if len(parts) < 2:
        return None
    log.info("a graph in a DistributedDataParallel is compiled in %d parts, one for each bucket", len(parts))
    compiled = [(compile_part(p.module, p.examples, mode), p.takes, p.gives, p.last_use_of) for p in parts]
    count = 1 + max(slot for part in parts for slot in (*part.takes, *part.gives, *outputs))

    def run(*given: Any) -> tuple[Any, ...]:
        values: list[Any] = [*given, *[None] * (count - len(given))]
        for call, takes, gives, done in compiled:
            results = call(*[values[slot] for slot in takes])
            for slot, result in zip(gives, results, strict=True):
                values[slot] = result
            for slot in done:
                values[slot] = None
        return tuple([values[slot] for slot in outputs])

    return run


def cut(
    ddp: DDP, graph: Graph, inputs: list[Any], known: Given
) -> tuple[FakeTensorMode, list[GraphPart], list[int]]:
    """The parts, the mode of their examples, and where the graph's outputs are."""
    check(graph, inputs, known.symbols)
    nodes = list(graph.graph.nodes)
    sizes = trained(ddp, nodes, inputs)
    if len(sizes) < 2:
        return FakeTensorMode(), [], []
    observed = Observed(graph)
    with TorchState():
        try:
            mode = mode_for(known.symbols)
            fakes = make_fakes(mode, graph, inputs, known)
            with mode:
                observed.run(*fakes)
        except Exception as error:
            raise CanNotCutError(f"it could not be run on fakes ({type(error).__name__}: {error})") from error
    places = cuts(first_uses(nodes, sizes), limits(ddp), observed.kept_together(nodes))
    slots = {node: n for n, node in enumerate(nodes)}
    outputs = [slots[node] for node in nodes[-1].args[0]]
    return mode, list(parts(graph, nodes, places, slots, observed.values)), outputs


def check(graph: Graph, inputs: list[Any], symbols: Symbols | None) -> None:
    """Raises CanNotCutError for what can't be had in parts at all."""
    for node in graph.graph.nodes:
        if node.target is torch.autograd.grad:
            raise CanNotCutError("it asks for gradients, which go through all of it")
        if node.target is HookOfBodies:
            raise CanNotCutError("a module in it has backward hooks, which know both ends of it")
        if DATA_DEPENDENT in node.meta:
            raise CanNotCutError("there are sizes or numbers in it that only the data decides")
    if symbols is not None and any(type(entry.real) is float for entry in symbols.inputs):
        raise CanNotCutError("it takes floats that may vary")
    if any(isinstance(x, torch.Tensor) and is_traceable_wrapper_subclass(x) for x in inputs):
        raise CanNotCutError("it takes tensors that wrap others")


# ---- where


def trained(ddp: DDP, nodes: list[Node], inputs: list[Any]) -> dict[Node, int]:
    """The inputs of which DDP reduces the gradient, with their sizes in bytes."""
    reduced = {id(parameter) for parameter in ddp._module_parameters if parameter.requires_grad}
    taken = zip((node for node in nodes if node.op == "placeholder"), inputs, strict=True)
    return {node: x.numel() * x.element_size() for node, x in taken if id(x) in reduced}


def first_uses(nodes: list[Node], sizes: dict[Node, int]) -> list[int]:
    """At each node, how many bytes of parameters are used there first: the gradient of one is complete when
    backward has come to its first use."""
    found, seen = [], set()
    for node in nodes:
        fresh = [used for used in node.all_input_nodes if used in sizes and used not in seen]
        seen.update(fresh)
        found.append(sum(sizes[used] for used in fresh))
    return found


def limits(ddp: DDP) -> list[int]:
    """How many bytes its buckets have, in the order in which they are filled; the last is for all others."""
    buckets = getattr(ddp, "_bucket_config", None)  # torch 2.13's
    if buckets is not None:
        return list(buckets.per_bucket_bytes_caps) or [buckets.first_bucket_bytes_cap, ddp.bucket_bytes_cap]
    first = FIRST_BUCKET if getattr(ddp, "bucket_bytes_cap_default", False) else ddp.bucket_bytes_cap
    return [first, ddp.bucket_bytes_cap]


def cuts(bytes_at: list[int], limits: list[int], forbidden: set[int]) -> list[int]:
    """In front of which nodes to cut: there is something to train on both sides of each."""
    found: list[int] = []
    size, left = 0, sum(bytes_at)
    for at in range(len(bytes_at) - 1, -1, -1):
        size += bytes_at[at]
        left -= bytes_at[at]
        full = size >= limits[min(len(found), len(limits) - 1)]
        if full and left and at not in forbidden:
            found.append(at)
            size = 0
    return found[::-1]


class Observed(torch.fx.Interpreter):
    """Runs a graph on fakes, and notes which nodes have to do with each other by more than what they give."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.began = TorchState()
        self.contexts = 0
        self.values: dict[Node, Any] = {}
        self.touched: dict[int, list[Node]] = {}
        """Memory -> the nodes that take or give a tensor in it. Values are kept, so that ids stay theirs."""
        self.written: set[int] = set()
        self.switched: list[Node] = []
        """Nodes after which a switch of torch's, or a context, is another than at the beginning."""

    def run_node(self, n: Node) -> Any:
        if n.op == "placeholder" or n.op == "output":
            self.values[n] = super().run_node(n)
            return self.values[n]
        taken = [self.env[node] for node in n.all_input_nodes]
        before = [(tensor, tensor._version) for tensor in tensors_in(taken)]
        self.values[n] = result = super().run_node(n)
        for tensor in (*tensors_in(taken), *tensors_in(result)):
            self.touched.setdefault(memory_of(tensor), []).append(n)
        by_name = named_in_place(n)
        self.written |= {memory_of(x) for x, version in before if by_name or x._version != version}
        self.contexts += (n.target in CONTEXTS) - (n.target in CONTEXTS.values())
        if self.contexts or self.began.changed():
            self.switched.append(n)
        return result

    def kept_together(self, nodes: list[Node]) -> set[int]:
        """In front of which nodes there is no cut."""
        at = {node: n for n, node in enumerate(nodes)}
        stretches = [[at[node] for node in self.touched.get(memory, ())] for memory in self.written]
        for node, value in self.values.items():
            if node.op != "output" and not isinstance(value, (torch.Tensor, int, torch.SymInt)):
                stretches.append([at[node], *(at[user] for user in node.users)])
        forbidden = {at[node] + 1 for node in self.switched}
        for stretch in stretches:
            forbidden.update(range(min(stretch, default=0) + 1, max(stretch, default=0) + 1))
        return forbidden


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def memory_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def named_in_place(node: Node) -> bool:
    """Whether a function changes its argument by its name: what autograd knows of it has no version."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


# ---- parts


def parts(
    graph: Graph, nodes: list[Node], places: list[int], slots: dict[Node, int], values: dict[Node, Any]
) -> Iterator[GraphPart]:
    """The graph, cut at some places."""
    given: Any = nodes[-1].args[0]
    bodies: dict[str, Any] = dict(graph.named_children())
    ends = [*places, len(nodes) - 1]
    for begin, end in zip([0, *places], ends, strict=True):
        inside = [node for node in nodes[begin:end] if node.op not in ("placeholder", "get_attr")]
        known = set(inside)
        used = dict.fromkeys(node for each in inside for node in each.all_input_nodes)
        takes = [node for node in used if node not in known and node.op != "get_attr"]
        later = {*nodes[end:]}
        gives = [node for node in inside if any(user in later for user in node.users)]
        done = [node for node in (*takes, *gives) if node not in given and not later & node.users.keys()]
        made, copies = copy_nodes(takes, inside)
        made.output(tuple([copies[node] for node in gives]))
        yield GraphPart(
            graph_module(made, bodies),
            [slots[node] for node in takes],
            [slots[node] for node in gives],
            [as_leaf(values[node]) for node in takes],
            [slots[node] for node in done],
        )


def as_leaf(value: Any) -> Any:
    """What stands for a value that another part gives: it has no history of its own."""
    if not isinstance(value, FakeTensor) or value.is_leaf:
        return value
    return value.detach().requires_grad_(value.requires_grad)
