"""Histories: what autograd would know of the tensors of a trace.

Fakes that the op memory makes only look as if they had a history. When the program asks for gradients, the
graph so far is run once more on fakes that have real ones, and autograd is asked about those: which tensors
get a gradient, of what kind, and what it has to complain about. The graph itself gets one call of
`torch.autograd.grad`, which backends trace through.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import grad_mode, set_multithreading_enabled
from torch.autograd.graph import get_gradient_edge
from torch.utils import _pytree as pytree

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import op_memory
from framelift.graph.builder import GraphWriter, as_input
from framelift.graph.fakes import Fakes
from framelift.graph.torch_flags import TorchState, plain_engine

Tensor = torch.Tensor


class Histories(GraphWriter):
    """The part of a recorder that knows of gradients."""

    began: TorchState
    """Torch's switches when the part of the graph begins that has not been run again."""
    fakes: Fakes
    input_of: dict[int, int]
    note_fact: Callable[[str, Any], None]
    record_call: Callable[[Any, Any, dict[str, Any]], Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.again: dict[torch.fx.Node, Any] = {}
        """What the nodes of the graph gave when they were run again."""
        self.leaves: list[FakeTensor] = []
        """Tensors that the trace has made, and that gradients are accumulated in."""
        self.retained: dict[int, FakeTensor] = {}
        """Tensors that are no leaves, and are to have their gradients all the same."""
        self.gone: set[Any] = set()
        """Autograd's nodes whose saved tensors have been let go."""
        self.redrawn: str | None = None
        """What draws random numbers that must be the same ones when it is run again for gradients."""
        self.hooked: set[Any] = set()
        """Nodes of hooks that make something of a gradient of zeros."""
        self.run_as_captured: str | None = None
        """Why the graph is not for a backend, if it is not."""
        self.later = False
        """Whether what is being traced runs when gradients are computed, and not before."""
        self.ended: dict[int, Callable[[Any], Any]] = {}
        """id of a tensor that lives on, without its history -> what gives it the look of one again."""
        self.viewing: set[int] = set()
        """ids of gradients that are views to autograd, as none is that it accumulates."""
        self.borrowed: set[int] = set()
        """ids of gradients that something else has too, or that lie in the memory of something else."""

    # ---- running the graph again

    def lived(self, fake: FakeTensor) -> Any:
        """A tensor of the trace, with its history."""
        self.live_again()
        return self.again[self.nodes[id(fake)]]

    def live_again(self) -> None:
        if len(self.bodies) > 1:
            raise Break(breaks.INTERNAL, "gradients within a function that an operator is given")
        with self.real_histories():
            self.began.restore()
            torch.set_anomaly_enabled(False)  # there are no values to look at
            for node in self.graph.nodes:
                if node not in self.again:
                    self.again[node] = self.run_again(node)
            self.began = TorchState()

    @contextlib.contextmanager
    def real_histories(self) -> Iterator[None]:
        written, random = self.fakes.written, self.fakes.drew_random
        try:
            with (
                self.fakes,
                torch._C.DisableTorchFunction(),
                TorchState(),
                set_multithreading_enabled(False),
                plain_engine(),
            ):
                yield
        finally:
            self.fakes.written, self.fakes.drew_random = written, random

    def run_again(self, node: torch.fx.Node) -> Any:
        if node.op == "placeholder":
            return self.input_again(node)
        if node.op == "get_attr":
            return self.modules[str(node.target)]
        if node.target is torch.set_anomaly_enabled:
            return None
        if node.target is grad_mode._enter_inference_mode or "unbacked_bindings" in node.meta:
            raise Break(breaks.INTERNAL, f"gradients after {node.target}")
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.again.__getitem__)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def input_again(self, node: torch.fx.Node) -> Any:
        value = next(value for place, value, _ in self.inputs if place is node)
        if id(value) in self.objects:
            return value
        entry = None
        if self.symbols is not None:
            entry = next((entry for entry in self.symbols.inputs if entry.node is node), None)
        if self.symbols is None or entry is None:
            return self.fakes.of(as_input(value))
        return self.symbols.stand_in(self.fakes, entry, as_input(value))

    # ---- what the history of a tensor leads to

    def reached(self, roots: Iterable[Any]) -> set[Any]:
        """Autograd's nodes behind some tensors."""
        pending = [behind(root) for root in roots if root.requires_grad]
        found: set[Any] = set()
        while pending:
            node = pending.pop()
            if node is not None and node not in found:
                found.add(node)
                pending += [following for following, _ in node.next_functions]
        return found

    def inputs_reached(self, nodes: set[Any]) -> list[FakeTensor]:
        """The inputs among what was reached: what autograd knows of those was done outside."""
        found = []
        for node, _, fake in self.inputs:
            again = self.again.get(node)
            if isinstance(again, Tensor) and again.requires_grad and behind(again) in nodes:
                found.append(fake)
        return found

    def leaves_behind(self, tensors: list[Any]) -> list[FakeTensor]:
        """What gets gradients: inputs, leaves that the trace has made, tensors that retain theirs."""
        again = [self.lived(tensor) for tensor in tensors]
        with self.real_histories():
            nodes = self.reached(again)
            made = (*self.leaves, *self.retained.values())
            reached = [fake for fake in made if behind(self.again[self.nodes[id(fake)]]) in nodes]
            return self.inputs_reached(nodes) + reached

    # ---- gradients

    def gradients(self, outputs: list[Any], inputs: list[Any], settings: dict[str, Any]) -> tuple[Any, ...]:
        """`torch.autograd.grad`, recorded."""
        if self.redrawn is not None:  # AOTAutograd sees to that only between a graph and its backward graph
            raise Break(breaks.RANDOM, f"gradients through {self.redrawn}, which draws random numbers")
        if torch.is_anomaly_enabled():
            raise Break(breaks.DATA_DEPENDENT_VALUE, "gradients in anomaly mode, which looks at all of them")
        self.live_again()
        of: Any = lambda values: [v if v is None else self.again[self.nodes[id(v)]] for v in values]
        given = settings.get("grad_outputs")
        with self.real_histories():
            roots = of(outputs)
            nodes = self.reached(roots)
            self.check_outside(nodes, inputs)
            again = {**settings, "grad_outputs": None if given is None else of(given)}
            found = torch.autograd.grad(roots, of(inputs), **again)
            if not all(grad is None or is_dense(grad) for grad in found):
                raise Break(breaks.TENSOR_KIND, "a sparse gradient")
            made = {id(grad): self.fake_of(grad) for grad in found if grad is not None}
            shared = self.shared(found)
            self.viewing |= {id(made[id(grad)]) for grad in found if grad is not None and grad._is_view()}
        if not (settings["create_graph"] if settings["retain_graph"] is None else settings["retain_graph"]):
            self.gone |= {node for node in nodes if not is_accumulator(node)}
        self.only_once = True  # what it goes through may be freed
        node = self.node(torch.autograd.grad, (outputs, inputs), {k: v for k, v in settings.items() if v})
        node.meta["stack_trace"] = self.where()
        self.calls += 1
        self.again[node] = found
        results = tuple(None if grad is None else made[id(grad)] for grad in found)
        self.borrowed |= {id(made[grad]) for grad in shared}
        self.name_outputs(results, node)
        return results

    def shared(self, found: tuple[Any, ...]) -> set[int]:
        """ids of gradients that share memory with one another, or with a tensor that is there anyway."""
        grads = [grad for grad in found if grad is not None]
        there = [t for t in pytree.tree_leaves(list(self.again.values())) if type(t) is FakeTensor]
        count = collections.Counter(op_memory.storage(t) for t in (*grads, *there) if is_dense(t))
        return {id(grad) for grad in grads if is_dense(grad) and count[op_memory.storage(grad)] > 1}

    def fake_of(self, grad: Any) -> Any:
        """What stands for a gradient in the trace: not what stands for it when the graph is run again."""
        made = torch.empty_strided(grad.shape, grad.stride(), dtype=grad.dtype, device=grad.device)
        return _guards.fake_history(made) if grad.requires_grad else made

    def layout_of_grad(self, leaf: FakeTensor, grad: FakeTensor) -> tuple[Any, dict[str, Any]] | None:
        """How autograd would copy a gradient for `leaf.grad`: what `torch.empty_strided` is given. None: not.

        It is to lie in memory as the leaf does, unless that has holes."""
        with self.fakes, torch._C.DisableTorchFunction():
            if grad.layout is not torch.strided:
                return None
            like = torch.empty_like(leaf, requires_grad=False)
            if like.stride() != leaf.stride():
                like = torch.empty_like(like, memory_format=torch.contiguous_format)
            if grad.stride() == like.stride() and id(grad) not in self.borrowed:
                return None
            return (tuple(grad.shape), like.stride()), {"dtype": grad.dtype, "device": grad.device}

    def check_outside(self, nodes: set[Any], wanted: list[Any]) -> None:
        """What lies behind an input is not known. It does not matter if the gradients end there."""
        outside = self.inputs_reached(nodes)
        for fake in outside:
            self.note_fact("is_leaf", fake)
            self.note_fact("no_hooks", fake)
            if _guards.has_hooks(self.inputs[self.input_of[id(fake)]][1]):
                raise Break(breaks.EFFECT, "hooks of a tensor from outside, which gradients run")
        asked = [fake for fake in wanted if id(fake) in self.input_of]
        beyond = {id(fake) for fake in outside if not fake.is_leaf}
        if beyond and asked and len(beyond | set(map(id, asked))) > 1:
            raise Break(breaks.INTERNAL, "gradients that flow into what was computed before the function")

    # ---- what lives on

    def prepare(self, outputs: list[Any]) -> None:
        """Of what lives on, what has a history that a graph can't give it."""
        if self.hooked and len({id(output) for output in outputs if is_differentiated(output)}) > 1:
            # to a backward graph, an output that nobody uses has a gradient: its hooks would be called
            self.run_as_captured = SEVERAL_OUTPUTS
        if not (self.gone or self.leaves):
            return
        self.live_again()
        tensors = [output for output in outputs if is_differentiated(output)]
        with self.real_histories():
            for fake in tensors:
                self.prepare_output(fake, tensors)

    def prepare_output(self, fake: FakeTensor, outputs: list[FakeTensor]) -> None:
        nodes = self.reached([self.again[self.nodes[id(fake)]]])
        inside = [leaf for leaf in self.leaves if behind(self.again[self.nodes[id(leaf)]]) in nodes]
        if not self.gone.isdisjoint(nodes):
            self.ended[id(fake)] = _guards.spent_history
        elif any(leaf is fake for leaf in inside):
            self.ended[id(fake)] = Tensor.requires_grad_
        elif any(leaf is output for leaf in inside for output in outputs):
            raise Break(breaks.UNREBUILDABLE, LEAF_INSIDE, culprit=inside[0])
        elif inside and not self.inputs_reached(nodes):
            self.ended[id(fake)] = _guards.lost_history

    def output_of(self, fake: FakeTensor) -> torch.fx.Node:
        node = super().output_of(fake)
        return self.add_node("call_method", "detach", (node,)) if id(fake) in self.ended else node


SEVERAL_OUTPUTS = "a hook that gives a gradient where none came, and several differentiated results"
LEAF_INSIDE = "a tensor that is differentiated up to one made inside, which lives on"


def behind(tensor: Any) -> Any:
    """Autograd's node that a tensor comes from; of a leaf, that which its gradients end in."""
    return get_gradient_edge(tensor).node


def is_differentiated(value: Any) -> bool:
    return type(value) is FakeTensor and value.requires_grad


def is_accumulator(node: Any) -> bool:
    return hasattr(node, "variable")


def is_dense(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided
