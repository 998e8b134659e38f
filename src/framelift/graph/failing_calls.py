"""The calls of a trace that may fail for what is in their arguments, and what was done before them.

A call may be left out of a graph where nobody uses its result only if it can't fail and draws no random
numbers. That the graph keeps it is not enough: AOTAutograd and code generators leave out what nobody uses
too. So what such a call gives is an output of the graph, which the region throws away
(`FailingCalls.witnesses`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.functions import describe
from framelift.graph.op_memory import storage
from framelift.graph.origins import ORIGIN

if TYPE_CHECKING:
    from framelift.graph.body import GraphBody
    from framelift.graph.builder import GraphBuilder

Tensor = torch.Tensor


class FailingCalls:
    """The calls of one trace that may fail on other data, and what they must not come after.

    Calls are numbered as they are recorded. A graph whose last failing call comes before anything that can't
    be undone has done nothing yet where it fails.
    """

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.nodes: set[torch.fx.Node] = set()
        self.drawing: set[torch.fx.Node] = set()
        """Nodes that draw random numbers: whoever draws next gets others if these are left out."""
        self.writes: dict[torch.fx.Node, list[Tensor]] = {}
        """Node that writes to tensors -> these."""
        self.last = 0
        """The number of the last one."""
        self.first_effect: int | None = None
        """The number of the first call that must not be made twice."""
        self.is_refused: Callable[[], bool] = lambda: False
        """Whether a call that may fail ends the trace here, for what was done before."""
        self.wraps: Callable[[Tensor], bool] = lambda tensor: False
        """Whether a tensor is one around others, of a class that may do no more than the program asks for."""
        self.fails_always: Callable[[Any, Any, Any], bool] = lambda func, args, kwargs: False
        """Whether a call fails on data that is the same in every call."""

    def note_effect(self) -> None:
        """The next call must not be made twice."""
        if self.first_effect is None:
            self.first_effect = self.builder.calls + 1

    def check(self, func: Any) -> None:
        """Before a call that may fail is recorded."""
        if self.is_refused():
            raise Break(breaks.ERROR_AFTER_EFFECT, describe(func))

    def check_data(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """The same, where it is known what the call is given."""
        if self.fails_always(func, args, kwargs):  # compilers that compute with constants fail on them too
            raise Break(breaks.OPERATOR_ERROR, f"{describe(func)}, which fails in every call")

    def has(self, graph: torch.fx.Graph) -> bool:
        """Whether there is one in a body."""
        return any(node in self.nodes for node in graph.nodes)

    def add(self, node: torch.fx.Node) -> None:
        """A call that may fail was recorded."""
        self.nodes.add(node)
        self.builder.impure.add(node)
        self.last = self.builder.calls

    def copy(self, node: torch.fx.Node, made: torch.fx.Node) -> None:
        """A node does in one graph what another did in a body of it."""
        if node in self.nodes:
            self.nodes.add(made)
        if node in self.drawing:
            self.drawing.add(made)
        if node in self.writes:
            self.writes[made] = self.writes[node]

    # ---- what compilers would leave out

    def witnesses(self, outputs: tuple[torch.fx.Node, ...]) -> list[torch.fx.Node]:
        """What must be outputs too, so that no compiler leaves out calls that fail or draw."""
        body = self.builder.body
        here = [node for node in self.nodes | self.drawing if node.graph is body.graph]
        if not here:
            return []
        with torch._C.DisableTorchFunction():
            unused = self.unused(body.graph, outputs, here)
            return [made for node in unused for made in self.results(node)]

    def refuse_unused(self, body: GraphBody, outputs: Any) -> None:
        """An operator that is given a body takes just what that gives: there is no place for a witness."""
        here = [node for node in self.nodes | self.drawing if node.graph is body.graph]
        if not here:
            return
        found: list[torch.fx.Node] = []
        torch.fx.map_arg(outputs, found.append)
        with torch._C.DisableTorchFunction():
            unused = self.unused(body.graph, tuple(found), here, body.given)
        if unused:
            does = "may fail" if unused[-1] in self.nodes else "draws random numbers"
            why = f"{name_of(unused[-1])}, which {does}, and nobody uses what it gives, in an operator's body"
            raise Break(breaks.BODIES, why)

    def unused(
        self,
        graph: torch.fx.Graph,
        outputs: tuple[torch.fx.Node, ...],
        kept_calls: list[torch.fx.Node],
        given: list[Any] | None = None,
    ) -> list[torch.fx.Node]:
        """Those of the calls whose data nothing that lives on depends on, the last first. `given`: what a
        body is given, if it is one."""
        tensors = [entry.stand_in for entry in self.builder.inputs.entries] if given is None else given
        inputs = {storage(tensor) for tensor in tensors if type(tensor) is FakeTensor}
        kept = {
            node: {storage(tensor) for tensor in tensors}
            for node, tensors in self.writes.items()
            if node.graph is graph
        }
        follows_memory = any(not where & inputs for where in kept.values())
        live = set(inputs)
        if follows_memory:
            live |= {where for node in outputs for where in memory_of(node)}
        needed, found, missing = set(outputs), [], set(kept_calls)
        for node in reversed(graph.nodes):
            if node.op == "placeholder":
                continue
            written = kept.get(node)
            is_needed = node in needed or (written is not None and not live.isdisjoint(written))
            if node in missing:
                if not is_needed and (written is not None or node.users or memory_of(node)):
                    found.append(node)
                elif has_body(node) and given is None:
                    # of which compilers keep as much as what is used depends on; within bodies there are no
                    # witnesses, and transforms leave results of transforms unused
                    found += [part for part in node.users if part not in needed]
                is_needed = True
            if is_needed:
                if written is not None and follows_memory:
                    live -= filled_by(node, self.writes[node])
                used = looked_at(node)
                if node.target is torch.autograd.grad and given is None:
                    # gradients depend on what was kept for them, not on what is differentiated
                    unneeded = [each for each in differentiated_by(node) if each not in needed]
                    found += [each for each in unneeded if comes_of(each, missing)]
                needed.update(used)
                if follows_memory:
                    live.update(where for each in used for where in memory_of(each))
        return found

    def results(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """What a call gives or writes to, as it is then, without its history."""
        written = {storage(tensor) for tensor in self.writes.get(node, ())}
        if written:
            given = [each for each in node.all_input_nodes if written & set(memory_of(each))]
        else:
            given = tensors_in(node)
        later = {storage(tensor) for tensors in self.writes.values() for tensor in tensors}
        made = []

        def add_node(op: str, target: Any, args: tuple[torch.fx.Node]) -> torch.fx.Node:
            added = self.builder.body.add_node(op, target, args)
            if (origin := node.meta.get(ORIGIN)) is not None:
                added.meta[ORIGIN] = origin.of_item(-1)
            return added

        for each in given:
            after = node if written else each
            changes = bool(later & set(memory_of(each)))
            with node.graph.inserting_after(after):
                example = each.meta["example_value"]
                if example.requires_grad and not self.wraps(example):
                    each = after = add_node("call_method", "detach", (each,))
            with node.graph.inserting_after(after):
                made.append(add_node("call_function", torch.clone, (each,)) if changes else each)
        return made


LIKE = ("zeros", "ones", "empty", "full", "rand", "randn", "randint")
NEW = ("zeros", "ones", "empty", "full", "tensor", "empty_strided")
AS_ANOTHER = ("expand_as", "view_as", "reshape_as", "type_as", "resize_as_", "to")
FILLED = (
    *("zero_", "fill_", "copy_", "set_", "uniform_", "normal_", "exponential_", "random_", "bernoulli_"),
    *("cauchy_", "geometric_", "log_normal_"),
)
NOT_LOOKED_AT = {
    **dict.fromkeys([f"{name}_like" for name in LIKE] + [f"new_{name}" for name in NEW], 0),
    **dict.fromkeys(AS_ANOTHER, 1),
    **dict.fromkeys(FILLED, 0),
}
"""Function -> the place of the argument of which only the metadata or the memory is used, not the data."""

ONE_BY_ONE = ("broadcast_tensors", "meshgrid")
"""Functions of several tensors that give as many, each with the data of one."""


def looked_at(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes whose data decides what a call gives."""
    found: list[torch.fx.Node] = []
    if node.target is operator.getitem:
        given, at = cast(tuple[Any, Any], node.args)
        if isinstance(given, torch.fx.Node) and name_of(given) in ONE_BY_ONE:
            torch.fx.map_arg(given.args, found.append)
            return [found[at]]
    left_out = NOT_LOOKED_AT.get(name_of(node))
    if left_out is None and "out" not in node.kwargs:
        return node.all_input_nodes
    args = [value for n, value in enumerate(node.args) if n != left_out]
    kwargs = {name: value for name, value in node.kwargs.items() if name != "out"}
    torch.fx.map_arg((args, kwargs), found.append)
    return found


def filled_by(node: torch.fx.Node, written: list[Tensor]) -> set[int]:
    """The memory that a call writes all of, whatever was there before."""
    if name_of(node) not in FILLED and "out" not in node.kwargs:
        return set()
    return {storage(tensor) for tensor in written if fills_its_memory(tensor)}


def fills_its_memory(tensor: Tensor) -> bool:
    if tensor.layout is not torch.strided or any(type(size) is not int for size in tensor.shape):
        return False
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def comes_of(node: torch.fx.Node, calls: set[torch.fx.Node]) -> bool:
    """Whether calls, but for those that differentiate, lead to what a node gives."""
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop()
        if each in calls and each.target is not torch.autograd.grad:
            return True
        above = [given for given in each.all_input_nodes if given not in seen]
        seen.update(above)
        waiting += above
    return False


def differentiated_by(node: torch.fx.Node) -> list[torch.fx.Node]:
    found: list[torch.fx.Node] = []
    torch.fx.map_arg(node.args[0], found.append)
    return found


def has_body(node: torch.fx.Node) -> bool:
    return any(each.op == "get_attr" for each in node.all_input_nodes)


def name_of(node: torch.fx.Node) -> str:
    target = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def memory_of(node: torch.fx.Node) -> tuple[int, ...]:
    value = node.meta.get("example_value")
    return (storage(value),) if type(value) is FakeTensor else ()


def tensors_in(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes of the tensors that a call gives."""
    value = node.meta.get("example_value")
    if type(value) is FakeTensor:
        return [node] if value.layout is torch.strided else []
    parts = [user for user in node.users if user.target is operator.getitem]
    return [found for part in parts for found in tensors_in(part)]
