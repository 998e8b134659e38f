"""A graph within the graph: what a callable becomes that an operator is given (`torch.cond`, a hook).

What the callable uses from around it becomes an operand of the body, each once, in the order of first use.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.fx
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break, Place
from framelift.graph.functions import CONTEXTS, GRAD_SETTERS, describe, tensors_of
from framelift.graph.graph_code import CapturedGraph
from framelift.graph.origins import ORIGIN, Origin, name_after_variables, variable_of

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder

set_member = object.__setattr__
"""Past a node's own way, which takes it out of its graph's table of operators and puts it back."""


class BodyOperand(NamedTuple):
    """What a body uses from around it."""

    node: torch.fx.Node
    """Its placeholder in the body."""
    value: Any
    outer: torch.fx.Node
    """Its node in the graph around the body."""


@dataclass(eq=False)
class GraphBody:
    """The whole graph, or one within it."""

    takes_floats: bool = False
    """Whether a float may be an operand: torch's own operators take none."""
    is_region: bool = False
    """Whether only a compiler differentiates or repeats it, which knows how to."""
    in_backward: bool = False
    """Whether it runs when gradients are computed, and not before."""
    where: Callable[[], Origin | None] = lambda: None
    """Says where the program stands that a new node is for."""
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    nodes: dict[int, torch.fx.Node] = field(default_factory=dict)
    """id of a fake -> its node here."""
    terms: dict[Any, torch.fx.Node] = field(default_factory=dict)
    """Symbolic expression -> its node here."""
    modules: dict[str, Any] = field(default_factory=dict)
    """The bodies within, and other objects that are held, by the names under which nodes refer to them."""
    operands: list[BodyOperand] = field(default_factory=list)
    operator_inputs: list[torch.fx.Node] = field(default_factory=list)
    """Placeholders for what the operator itself gives to the body."""
    draws: bool = False
    """Whether an operator in it draws random numbers, or may."""
    changed: dict[int, Place | None] = field(default_factory=dict)
    """id of a fake that was written to in here -> where last."""

    @property
    def bodies(self) -> dict[str, torch.fx.GraphModule]:
        found = self.modules.items()
        return {name: module for name, module in found if isinstance(module, torch.fx.GraphModule)}

    @property
    def given(self) -> list[Any]:
        """All values that it is run on: from the operator, and from around it."""
        return [node.meta["example_value"] for node in self.operator_inputs] + self.operand_values

    @property
    def operand_values(self) -> list[Any]:
        return [operand.value for operand in self.operands]

    @property
    def outer_nodes(self) -> list[torch.fx.Node]:
        """The nodes of its operands in the graph around it."""
        return [operand.outer for operand in self.operands]

    def placeholder(self, after: list[torch.fx.Node], name: str = "child") -> torch.fx.Node:
        first = next(iter(self.graph.nodes), None)
        with self.graph.inserting_after(after[-1]) if after else self.graph.inserting_before(first):
            return self.noted(named_placeholder(self.graph, name))

    def noted(self, node: torch.fx.Node) -> torch.fx.Node:
        """A node, with where it comes from."""
        origin = self.where()
        if origin is not None:
            node.meta[ORIGIN] = origin
        return node

    def add_operand(self, value: Any, outer: torch.fx.Node) -> torch.fx.Node:
        after = [*self.operator_inputs, *(operand.node for operand in self.operands)]
        made = self.placeholder(after, variable_of(outer))
        made.meta["example_value"] = value
        self.operands.append(BodyOperand(made, value, outer))
        return made

    def add_node(
        self, op: str, target: Any, args: Any, kwargs: dict[str, Any] | None = None
    ) -> torch.fx.Node:
        """As `Graph.create_node` does it, which given the arguments at once would search them for symbolic
        numbers, and given no name would derive it anew; that is two thirds of its time."""
        name = target if op == "call_method" else getattr(target, "__name__", "")
        node = self.graph.create_node(op, target, name=name if name.islower() and name[0] != "_" else None)
        set_member(node, "args", args)
        if kwargs:
            set_member(node, "kwargs", kwargs)
        return self.noted(node)

    def add_module(self, name: str, module: Any) -> torch.fx.Node:
        """A body within, or another object that is held, as an argument of a call."""
        name = next(each for n in itertools.count() if (each := f"{name}_{n}") not in self.modules)
        self.modules[name] = module
        return self.noted(self.graph.create_node("get_attr", name))

    def share_module(self, name: str, body: GraphBody) -> torch.fx.Node:
        """The same under one name for all calls that use it."""
        if name not in self.modules:
            self.modules[name] = body.module()
        return self.noted(self.graph.create_node("get_attr", name))

    def close(self, outputs: Any, impure: set[torch.fx.Node], prune: bool) -> None:
        """Gives it its outputs; `prune` leaves out operands that nobody uses."""
        self.graph.output(outputs)
        drop_unused(self.graph, impure)
        if prune:
            for operand in self.operands:
                if not operand.node.users:
                    self.graph.erase_node(operand.node)
            self.operands = [operand for operand in self.operands if operand.node.users]
        name_after_variables(self.graph)

    def set_operands(self, operands: list[tuple[Any, torch.fx.Node]]) -> None:
        """Has just these operands, in this order: all that it uses, and others that it does not."""
        known = {operand.outer: operand.node for operand in self.operands}
        before, taken = list(self.operator_inputs), []
        for value, outer in operands:
            node = known.get(outer) or self.placeholder(before, variable_of(outer))
            first = next(iter(self.graph.nodes))
            if before:
                before[-1].append(node)
            elif node is not first:
                first.prepend(node)
            node.meta["example_value"] = value
            before.append(node)
            taken.append(BodyOperand(node, value, outer))
        self.operands = taken

    def module(self) -> torch.fx.GraphModule:
        """What runs it, or what a trace of something else comes to: its code is there."""
        made = graph_module(self.graph, self.modules)
        made.make_forward()
        return made


def named_placeholder(graph: torch.fx.Graph, name: str) -> torch.fx.Node:
    """The parameter is called as the node is: a graph's code lets go of it after its last use."""
    node = graph.create_node("placeholder", name, name=name)
    if node.name != name:
        set_member(node, "target", node.name)
    return node


def share_operands(bodies: list[GraphBody]) -> list[Any]:
    """Gives bodies of one operator the same operands: what any of them uses from around, each once, in the
    order of first use. All of them stand in the same graph."""
    shared = {operand.outer: operand.value for body in reversed(bodies) for operand in body.operands}
    order = dict.fromkeys(outer for body in bodies for outer in body.outer_nodes)
    for body in bodies:
        body.set_operands([(shared[outer], outer) for outer in order])
    return [shared[outer] for outer in order]


def drop_unused(graph: torch.fx.Graph, impure: set[torch.fx.Node]) -> None:
    for node in reversed(list(graph.nodes)):
        if not (node.op in ("placeholder", "output") or node.users or node in impure):
            graph.erase_node(node)


def copy_nodes(
    takes: list[torch.fx.Node], nodes: list[torch.fx.Node]
) -> tuple[torch.fx.Graph, dict[torch.fx.Node, torch.fx.Node]]:
    """(a graph of some nodes of another, which takes what others there give; node -> its copy). The outputs
    are yet to be added."""
    made, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in takes:
        copies[node] = made.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        for body in node.all_input_nodes:
            if body not in copies:  # it is fetched, wherever that is done
                copies[body] = made.node_copy(body)
        copies[node] = made.node_copy(node, copies.__getitem__)
    return made, copies


def graph_module(graph: torch.fx.Graph, modules: dict[str, torch.fx.GraphModule]) -> CapturedGraph:
    return CapturedGraph(modules, graph, class_name="GraphModule")


BODY_NAMES = {
    ("cond", "true_fn"): "cond_true",
    ("cond", "false_fn"): "cond_false",
    ("map_impl", "f"): "map_body",
    ("scan", "combine_fn"): "scan_combine_fn",
    ("associative_scan", "combine_fn"): "associative_scan_combine_fn",
    ("strict_mode", "callable"): "strict_mode_body",
    ("hints_wrapper", "body_fn"): "hints_wrapper_body",
    ("flex_attention", "mask_mod"): "mask_fn",
    ("autograd_function_apply", "forward"): "fwd_body",
    ("autograd_function_apply", "backward"): "bwd_body",
}
"""(operator, what the program gives it) -> what tools know the body by, where that is another name."""


class HigherOrder:
    """The bodies of one trace, and the operators that are given them.

    `body` is the whole protocol of recording one: calls go to it, gradients are on or off, and however it is
    left, all is as before. What it draws and writes is kept on it (`GraphBody.draws`, `changed`).
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.builder = recorder.builder

    @contextlib.contextmanager
    def body(
        self,
        grad: bool | None = None,
        takes_floats: bool = False,
        is_region: bool = False,
        in_backward: bool = False,
    ) -> Iterator[GraphBody]:
        """Calls within are recorded in a body, with gradients on or off (None: as around it)."""
        made = GraphBody(takes_floats, is_region, in_backward, self.builder.where)
        with self.builder.nested(made), self.recorder.flags.grad_mode(grad):
            yield made

    def close(self, body: GraphBody, outputs: Any, grad: bool, prune: bool = True) -> None:
        """Gives a body its outputs. `grad`: whether it is run with gradients on; `prune` leaves out operands
        that it does not use."""
        drop_redundant_setters(body.graph, grad)
        self.builder.failing.refuse_unused(body, outputs)
        body.close(outputs, self.builder.impure, prune)

    def call(self, func: Any, bodies: dict[str, Any], args: Any, settings: dict[str, Any]) -> Any:
        """The result of an operator that is given bodies, which are somewhere in its arguments; recorded.
        Other objects among these are attributes of the graph too."""
        recorder, builder, fakes = self.recorder, self.builder, self.recorder.fakes
        if recorder.flags.operator_flags_set:
            recorder.flags.check_operator_flags(func, args, {})
        tensors = tensors_of(args)
        fakes.watch()
        with torch._C.DisableTorchFunction():
            try:
                out = self.run(func, args, settings)
            except Exception as error:
                raise Break(breaks.OPERATOR_ERROR, f"{describe(func)}: {error}") from error
            changed = bool(fakes.written) and recorder.note_changes(fakes.written, tensors)
        if fakes.drew_random:
            recorder.random_numbers.note(func)
        add, operator = builder.body.add_module, getattr(func, "__name__", "")
        modules = {
            id(body): add(BODY_NAMES.get((operator, role), role), body) for role, body in bodies.items()
        }
        given = tuple([self.argument(func, value, modules) for value in args])
        named = {name: self.argument(func, value, modules) for name, value in settings.items()}
        failing = builder.failing
        graphs = [body.graph for body in bodies.values() if isinstance(body, torch.fx.GraphModule)]
        fails = fakes.may_fail or any(map(failing.has, graphs))
        if fails:
            failing.check(func)
        node = builder.add_call(func, given, out, named, pure=not changed and not fakes.drew_random)
        if fails:
            failing.add(node)
        if fakes.drew_random:
            failing.drawing.add(node)
        if changed:
            failing.writes[node] = list(fakes.written)
        if builder.symbols is not None:
            builder.numbers.bind(out, node)
        return out

    def add_region(self, func: Any, given: Any, made: GraphBody, tensors: Any) -> None:
        """Records a call of an operator that only calls its body, and so gives what that gave."""
        builder, failing = self.builder, self.builder.failing
        fails = failing.has(made.graph)
        if fails:
            failing.check(func)
        pure = not made.draws and builder.impure.isdisjoint(made.graph.nodes)
        node = builder.add_call(func, given, tuple(tensors), pure=pure)
        if fails:
            failing.add(node)
        if made.draws:
            failing.drawing.add(node)

    def argument(self, func: Any, value: Any, modules: dict[int, torch.fx.Node]) -> Any:
        if type(value) is tuple:
            return tuple([self.argument(func, item, modules) for item in value])
        return modules.get(id(value)) or self.builder.argument(func, value)

    def run(self, func: Any, args: Any, settings: dict[str, Any]) -> Any:
        """Operators of torch's own say what they give for fakes. Where one of these is differentiated all
        results are, of which a fake has only the look: its true history would take a graph of its own."""
        run = self.recorder.run
        if not isinstance(func, HigherOrderOperator) or FakeTensorMode not in func.python_key_table:
            return run(func, args, settings)
        with torch._C._AutoDispatchBelowAutograd():
            out = run(func, args, settings)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors_of(args)):
            for result in tensors_of(out):
                if result.dtype.is_floating_point or result.dtype.is_complex:
                    _guards.fake_history(result)
        return out


def drop_redundant_setters(graph: torch.fx.Graph, grad: Any) -> None:
    """A setter that the next one overrules, or that says what holds already, does nothing. `grad`: whether
    gradients are on at the beginning."""
    pending: torch.fx.Node | None = None
    for node in list(graph.nodes):
        if node.target in GRAD_SETTERS:
            if pending is not None:
                graph.erase_node(pending)
            pending = node
        elif node.op != "placeholder" and pending is not None:
            if pending.args[0] is grad:
                graph.erase_node(pending)
            grad, pending = pending.args[0], None
        if node.target in CONTEXTS or node.target in CONTEXTS.values():
            grad = None  # inference mode switches gradients too
