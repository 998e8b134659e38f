"""From a graph that a backend computes wrongly to the first operation that shows it, and to the smallest part
of the graph that still does.

A *part* is a stretch of the graph's calls: what comes in from before are its inputs, with the values that
they have when the calls before are done as they are; what is used later are its outputs. The first wrong
operation is looked for among parts that begin where the graph begins, by halving; then the beginning of
the part that ends there is moved up, by halving too. Each part is compiled by the backend on its own, so
what is found is shown by what was run, whatever the backend does with the rest.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from framelift.debugging.comparing import COARSE, TOLERANCES, Difference, Rules, difference
from framelift.debugging.inputs import as_float64, clone_inputs
from framelift.dispatch.backends import run_backend
from framelift.dispatch.compile_contexts import Backend, Graph
from framelift.dispatch.random_states import save_rng_state
from framelift.graph.body import copy_nodes, graph_module
from framelift.graph.torch_flags import TorchState

Node = torch.fx.Node


@dataclass(frozen=True)
class SuspectBackend:
    """A backend that is under suspicion."""

    backend: Backend
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def difference(self, graph: Graph, inputs: list[Any]) -> Difference | None:
        """Between what the backend makes of a graph and the graph. A part that can't be compiled, or run on
        its own, shows nothing."""
        try:
            given = copy_graph(graph), clone_inputs(inputs)
            compiled = run_backend(self.backend, self.name, *given, **self.options)
            return compare_with_graph(graph, compiled, inputs)
        except Exception:
            return None


@dataclass(frozen=True)
class Culprit:
    """What was found."""

    node: Node
    """The first operation that shows the difference."""
    graph: Graph
    """The part that does."""
    inputs: list[Any]
    difference: Difference


def copy_graph(graph: Graph) -> Graph:
    """Backends may change the graph that they are given."""
    made = torch.fx.Graph()
    made.output(made.graph_copy(graph.graph, {}))
    children: dict[str, Any] = dict(graph.named_children())
    bodies = {name: copy_graph(each) for name, each in children.items() if isinstance(each, Graph)}
    return graph_module(made, children | bodies)


# ---- running a graph both ways


def compare_with_graph(graph: Graph, compiled: Callable[..., Any], inputs: list[Any]) -> Difference | None:
    """How what was compiled differs from the graph: in results, gradients, and what becomes of the inputs.

    All runs have copies of the inputs and the same random numbers; nothing of the program's is changed.
    """
    restore = save_rng_state()
    try:
        with TorchState():
            plain = graph.forward  # a call of the module would print the errors that it raises
            expected, with_gradients = run_with_gradients_if_possible(plain, inputs, restore)
            found = run_graph(compiled, inputs, with_gradients, restore)
            rules = Rules(at_least=coarsest_tolerance(graph))
            if difference(expected, found, rules=rules) is None:
                return None
            again = run_graph(plain, inputs, with_gradients, restore)
            if difference(expected, again, rules=rules) is not None:
                return None  # it is not the same from one time to the next: there is nothing to compare with
            known = None
            with contextlib.suppress(Exception):  # the same in double precision, if the graph can be run so
                precise, wider = in_double_precision(graph).forward, as_float64(inputs)
                known = run_graph(precise, wider, with_gradients, restore)
            return difference(expected, found, known, rules)
    finally:
        restore()


def run_with_gradients_if_possible(
    plain: Callable[..., Any], inputs: list[Any], restore: Callable[[], None]
) -> tuple[GraphRun, bool]:
    """With gradients, if that is possible: copies of inputs are leaves, which can't be written to."""
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
        try:
            return run_graph(plain, inputs, True, restore), True
        except RuntimeError:
            pass
    return run_graph(plain, inputs, False, restore), False


@dataclass
class GraphRun:
    """What a run of a graph came to."""

    results: list[Any]
    inputs: list[Any]
    """What became of them."""
    gradients: list[Any] | None


def run_graph(
    run: Callable[..., Any], inputs: list[Any], gradients: bool, restore: Callable[[], None]
) -> GraphRun:
    given = clone_inputs(inputs) if gradients else without_history(clone_inputs(inputs))
    restore()
    results = list(run(*given))
    computed = compute_gradients(results, given) if gradients else None
    return GraphRun(detach_all(results), detach_all(given), computed)


def without_history(values: list[Any]) -> list[Any]:
    return [x.detach() if isinstance(x, torch.Tensor) else x for x in values]


def detach_all(values: list[Any]) -> list[Any]:
    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in values]


def compute_gradients(results: list[Any], inputs: list[Any]) -> list[torch.Tensor | None]:
    """What comes to the inputs if each element of the results has a weight of its own."""
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf]
    ends = [x for x in results if isinstance(x, torch.Tensor) and x.grad_fn is not None]
    if not leaves or not ends:
        return []
    return list(torch.autograd.grad(ends, leaves, list(map(weights, ends)), allow_unused=True))


def weights(of: torch.Tensor) -> torch.Tensor:
    """One for each element, no two the same."""
    return torch.linspace(0.5, 1.5, of.numel(), device=of.device).to(of.dtype).reshape(of.shape)


def coarsest_tolerance(graph: Graph) -> float:
    """The tolerance for what is computed by way of the coarsest numbers in a graph."""
    found = [node.meta.get("example_value") for node in graph.graph.nodes]
    dtypes = {value.dtype for value in found if isinstance(value, torch.Tensor)}
    floats = [dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex]
    return max((TOLERANCES.get(dtype, COARSE) for dtype in floats), default=0.0)


def in_double_precision(graph: Graph) -> Graph:
    """The same with double precision wherever the program names another one."""
    made = copy_graph(graph)
    for node in made.graph.nodes:
        if node.op == "call_method" and node.target in ("float", "half", "bfloat16"):
            node.target = "double"
        if node.op.startswith("call"):
            node.args, node.kwargs = (pytree.tree_map(wide, each) for each in (node.args, node.kwargs))
    made.recompile()
    return made


def wide(value: Any) -> Any:
    if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
        return torch.complex128 if value.is_complex else torch.float64
    return value


# ---- parts


class Parts:
    """The parts of one graph, for one set of inputs."""

    def __init__(self, graph: Graph, inputs: list[Any]) -> None:
        self.graph, self.inputs = graph, inputs
        self.nodes = [node for node in graph.graph.nodes if node.op.startswith("call")]
        self.number = {node: n for n, node in enumerate(self.nodes)}

    def __len__(self) -> int:
        return len(self.nodes)

    def values_at(self, begin: int) -> dict[Node, Any]:
        """What every node before a place holds when that place is come to."""
        restore = save_rng_state()
        run = Until(self.graph, self.nodes[begin] if begin < len(self) else None)
        try:
            with TorchState():
                run.run(*clone_inputs(self.inputs))
        except RuntimeError:  # copies are leaves, which can't be written to if they require gradients
            restore()
            with TorchState():
                run.run(*without_history(clone_inputs(self.inputs)))
        finally:
            restore()
        return run.env

    def part(self, begin: int, end: int) -> tuple[Graph, list[Any]] | None:
        """Calls `begin` to `end`, that one included; None if something comes in that is no input."""
        values = self.values_at(begin)
        inside = self.nodes[begin : end + 1]
        used = dict.fromkeys(node for each in inside for node in each.all_input_nodes)
        needed = [n for n in used if self.number.get(n, -1) < begin and n.op != "get_attr"]
        if not all(isinstance(values[node], (torch.Tensor, int, float)) for node in needed):
            return None
        made, known = copy_nodes(needed, inside)
        made.output(tuple(self.outputs(made, known, inside, end)))
        inputs = clone_inputs([values[node] for node in needed])  # together: they may share memory
        return graph_module(made, dict(self.graph.named_children())), inputs  # type: ignore[arg-type]

    def outputs(
        self, made: torch.fx.Graph, known: dict[Node, Node], inside: list[Node], end: int
    ) -> list[Node]:
        """What is used later; of a tuple its elements."""
        found: list[Node] = []
        after = self.values_at(end + 1)
        for node in inside:
            if all(self.number.get(user, len(self)) <= end for user in node.users) and node is not inside[-1]:
                continue
            value = after.get(node)
            if isinstance(value, torch.Tensor):
                found.append(known[node])
            elif isinstance(value, (tuple, list)):
                tensors = [n for n, each in enumerate(value) if isinstance(each, torch.Tensor)]
                found += [made.call_function(operator.getitem, (known[node], n)) for n in tensors]
        return found


class Until(torch.fx.Interpreter):
    """Runs a graph up to a node; `env` is what there is then."""

    def __init__(self, graph: Graph, end: Node | None) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.end = end

    def run(self, *inputs: Any) -> None:  # type: ignore[override]
        self.env.clear()
        self.args_iter = iter(inputs)
        for node in self.graph.find_nodes(op="placeholder"):  # which need not stand first
            self.env[node] = self.run_node(node)
        for node in self.graph.nodes:
            if node is self.end or node.op == "output":
                break
            if node not in self.env:
                self.env[node] = self.run_node(node)


# ---- looking


def find_culprit(suspect: SuspectBackend, graph: Graph, inputs: list[Any]) -> Culprit | None:
    """None if the backend does it right for the graph on its own, with these inputs."""
    whole = suspect.difference(graph, inputs)
    if whole is None:
        return None
    parts = Parts(graph, inputs)
    if not len(parts):
        return None
    wrong: dict[tuple[int, int], tuple[Graph, list[Any], Difference] | None] = {}

    def shows(begin: int, end: int) -> bool:
        made = parts.part(begin, end)
        found = None if made is None else suspect.difference(*made)
        wrong[begin, end] = None if made is None or found is None else (*made, found)
        return found is not None

    last = len(parts) - 1
    if not shows(0, last):
        return Culprit(parts.nodes[last], graph, inputs, whole)
    end = first_true(lambda n: shows(0, n), 0, last)
    begin = end - first_true(lambda n: shows(end - n, end), 0, end)
    found = wrong.get((begin, end)) or wrong[0, end]
    assert found is not None
    return Culprit(parts.nodes[end], *found)


def first_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The number from which on something holds; it is known to for `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
