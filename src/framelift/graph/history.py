"""Histories: what autograd would know of the tensors of a trace.

Fakes that the op memory makes only look as if they had a history. When the program asks for gradients, the
graph so far is replayed on fakes that have real ones, and autograd is asked about those: which tensors
get a gradient, of what kind, and what it has to complain about. The graph itself gets one call of
`torch.autograd.grad`, which backends trace through.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad, grad_mode, set_multithreading_enabled
from torch.autograd.graph import get_gradient_edge
from torch.utils import _pytree as pytree

from framelift import _guards
from framelift.core import breaks
from framelift.core.breaks import Break, Reason
from framelift.graph.builder import GraphBuilder, as_input
from framelift.graph.front_end import load_symbolic_shapes
from framelift.graph.op_memory import storage
from framelift.graph.terms import DATA_DEPENDENT
from framelift.graph.torch_flags import TorchFlags, TorchState, plain_engine

Tensor = torch.Tensor


class Histories:
    """What autograd knows of one trace, and the gradients that the program asks for."""

    def __init__(self, builder: GraphBuilder, flags: TorchFlags) -> None:
        self.builder = builder
        self.inputs = builder.inputs
        self.flags = flags
        self.replayed: dict[torch.fx.Node, Any] = {}
        """What the nodes of the graph gave when they were replayed."""
        self.leaves: list[FakeTensor] = []
        """Tensors that the trace has made, and that gradients are accumulated in."""
        self.leaf_inputs: dict[int, torch.fx.Node] = {}
        """id of an input that is made a leaf before the graph runs -> its placeholder."""
        self.retained: dict[int, FakeTensor] = {}
        """Tensors that are no leaves, and are to have their gradients all the same."""
        self.watches_all = False
        """Whether the program looks at the gradients of any result of the graph."""
        self.freed: set[Any] = set()
        """Autograd's nodes that have let go of what they need."""
        self.refused: tuple[Reason, str] | None = None
        """Why no gradients can be computed any more."""
        self.hooks: set[Any] = set()
        """Nodes of hooks that make something of a gradient of zeros."""
        self.has_hooks = False
        self.hook_functions: dict[torch.fx.Node, Any] = {}
        """Node of a hook -> the program's function, which a result can be given as well."""
        self.hooked_results: dict[int, tuple[FakeTensor, list[Any]]] = {}
        """id of a result -> it, and the hooks that it is given when the graph has run."""
        self.dual_level = False
        """Whether the program is between the begin and the end of a level of dual tensors."""
        self.run_as_captured: str | None = None
        """Why the graph is not for a backend, if it is not."""
        self.ended: dict[int, tuple[Callable[..., Any], list[FakeTensor]]] = {}
        """id of a tensor that lives on, without its history -> what gives it the look of one again, and the
        inputs that it is derived from."""
        self.view_gradients: set[int] = set()
        """ids of gradients that are views to autograd, as none is that it accumulates."""
        self.shared_gradients: set[int] = set()
        """ids of gradients that something else has too, or that lie in the memory of something else: nothing
        is accumulated in them."""

    def retain_grad(self, fake: FakeTensor) -> None:
        self.retained[id(fake)] = fake

    def share_gradient(self, grad: FakeTensor) -> None:
        """Something else has a gradient too, so none may be accumulated in it."""
        self.shared_gradients.add(id(grad))

    def add_hook(self, node: torch.fx.Node, makes_something: bool) -> None:
        """`makes_something`: of a gradient of zeros."""
        self.has_hooks = True
        if makes_something:
            self.hooks.add(node)

    def hooked(self) -> set[Any]:
        """The nodes of tensors with hooks."""
        nodes = self.builder.body.graph.nodes if self.has_hooks else ()
        return {node.args[0] for node in nodes if node.target in HOOKING}

    def remove_hook(self, node: torch.fx.Node) -> None:
        self.hooks.discard(node)
        self.hook_functions.pop(node, None)

    def hooks_of(self, fake: FakeTensor) -> list[torch.fx.Node]:
        """The nodes of the hooks of a tensor that nothing but these uses: it may as well be given them when
        the graph has run, as a compiler has no place for them."""
        node = self.builder.body.nodes[id(fake)]
        users = list(node.users)
        if not self.has_hooks or self.freed or self.leaves or not is_differentiated(fake):
            return []
        known = all(user in self.hook_functions and user.args[0] is node for user in users)
        return users if known else []

    def hook_result(self, fake: FakeTensor, hooks: list[torch.fx.Node]) -> None:
        """Has a result given its hooks by the region."""
        functions = [self.hook_functions[node] for node in hooks]
        self.hooked_results.setdefault(id(fake), (fake, []))[1].extend(functions)
        for node in reversed(hooks):
            self.remove_hook(node)
            self.builder.remove(node)

    def refuse_gradients(self, reason: Reason, why: str) -> None:
        """From here on gradients are a break."""
        self.refused = reason, why

    def make_leaf(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        """An input is made a leaf before the graph runs."""
        self.leaf_inputs[id(fake)] = node
        if node in self.replayed:
            with self.real_histories():
                self.replayed[node].requires_grad_()

    def as_graph_input(self, node: torch.fx.Node, given: Any) -> Any:
        """What a graph is given for an input, which may be made a leaf before."""
        return given.detach().requires_grad_() if node in self.leaf_inputs.values() else given

    # ---- replaying the graph

    def replay(self) -> None:
        """Runs what has not been replayed yet."""
        if self.builder.in_body:
            raise Break(breaks.GRADIENTS, "gradients within a function that an operator is given")
        if any(node.target is forward_ad.enter_dual_level for node in self.builder.body.graph.nodes):
            raise Break(breaks.GRADIENTS, "gradients beside forward differentiation")
        with self.real_histories():
            self.flags.began.restore()
            torch.set_anomaly_enabled(False)  # there are no values to look at
            for node in self.builder.body.graph.nodes:
                if node not in self.replayed:
                    self.replayed[node] = self.replay_node(node)
            self.flags.began = TorchState()

    def tangent_of(self, fake: FakeTensor) -> Any:
        """What stands for the tangent of a dual tensor; None: it has none. The whole graph is run for it,
        since dual tensors last no longer than their level."""
        before, self.replayed = self.replayed, {}
        try:
            with self.real_histories():
                self.flags.began.restore()
                for node in self.builder.body.graph.nodes:
                    self.replayed[node] = self.replay_node(node)
                tangent = forward_ad.unpack_dual(self.with_history(fake), level=0).tangent
                if tangent is None:
                    return None
                known = self.same_memory(tangent)
                return gradient_fake(tangent) if known is None else known
        finally:
            if forward_ad._current_level >= 0:
                forward_ad.exit_dual_level(level=0)
            self.replayed = before

    def same_memory(self, tangent: Tensor) -> FakeTensor | None:
        """An alias of the tensor that became a tangent as it was."""
        looks = lambda one: (storage(one), one.shape, one.stride(), one.storage_offset())
        for known in self.builder.kept:
            node = self.builder.body.nodes.get(id(known))
            value = self.replayed.get(node) if node is not None else None
            if not isinstance(value, Tensor) or storage(value) != storage(tangent):
                continue
            if looks(value) != looks(tangent):
                raise Break(breaks.GRADIENTS, "a tangent that lies in the memory of something else")
            return known.view_as(known)
        return None

    def with_history(self, fake: FakeTensor) -> Any:
        """A tensor of the trace as it was replayed."""
        return self.replayed[self.builder.body.nodes[id(fake)]]

    @contextlib.contextmanager
    def real_histories(self) -> Iterator[None]:
        with (
            self.builder.fakes.unwatched(),
            self.builder.fakes,
            torch._C.DisableTorchFunction(),
            TorchState(),
            set_multithreading_enabled(False),
            plain_engine(),
        ):
            yield

    def replay_node(self, node: torch.fx.Node) -> Any:
        if node.op == "placeholder":
            return self.replay_input(node)
        if node.op == "get_attr":
            return self.builder.body.modules[str(node.target)]
        if node.target is torch.set_anomaly_enabled:
            return None
        if node.target is grad_mode._enter_inference_mode or DATA_DEPENDENT in node.meta:
            raise Break(breaks.GRADIENTS, f"gradients after {node.target}")
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.replayed.__getitem__)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def replay_input(self, node: torch.fx.Node) -> Any:
        value = next(entry.value for entry in self.inputs.entries if entry.node is node)
        if id(value) in self.inputs.objects:
            return value
        symbols = self.builder.symbols
        entry = next((entry for entry in symbols.inputs if entry.node is node), None) if symbols else None
        if symbols is None or entry is None:
            found: Any = self.builder.fakes.of(as_input(value))
        else:
            found = symbols.stand_in(self.builder.fakes, entry, as_input(value))
        return found.requires_grad_() if node in self.leaf_inputs.values() else found

    # ---- what the history of a tensor leads to

    def inputs_reached(self, nodes: set[Any]) -> list[FakeTensor]:
        """The inputs among what was reached: what autograd knows of those was done outside."""
        pairs = [(self.replayed.get(node), fake) for node, _, fake in self.inputs.entries]
        found = [(made, fake) for made, fake in pairs if isinstance(made, Tensor) and made.requires_grad]
        return [fake for made, fake in found if history_of(made) in nodes]

    def leaves_reached(self, nodes: set[Any]) -> list[FakeTensor]:
        """The leaves among it that the trace has made, but for those that bodies have for themselves."""
        there = [leaf for leaf in self.leaves if id(leaf) in self.builder.body.nodes]
        return [leaf for leaf in there if history_of(self.with_history(leaf)) in nodes]

    def leaves_behind(self, tensors: list[Any]) -> list[FakeTensor]:
        """What gets gradients: inputs, leaves that the trace has made, tensors that retain theirs. What is no
        longer differentiated gets none."""
        self.replay()
        with self.real_histories():
            nodes = reached(map(self.with_history, tensors))
            retained = [t for t in self.retained.values() if history_of(self.with_history(t)) in nodes]
            found = self.inputs_reached(nodes) + self.leaves_reached(nodes) + retained
        hooked = self.hooked() if retained else ()
        if any(self.builder.body.nodes[id(tensor)] in hooked for tensor in retained):
            why = "a gradient that is retained behind hooks"  # torch gives the one before them
            raise Break(breaks.GRADIENTS, why)
        return [fake for fake in found if fake.requires_grad]

    def refuse_retained(self, tensors: list[Any]) -> None:
        """Where gradients are asked for, tensors on the way retain theirs too."""
        if not self.retained:
            return
        self.replay()
        with self.real_histories():
            nodes = reached(map(self.with_history, tensors))
            on_the_way = any(history_of(self.with_history(t)) in nodes for t in self.retained.values())
        if on_the_way:
            raise Break(breaks.GRADIENTS, "torch.autograd.grad through a tensor that retains its gradient")

    # ---- gradients

    def gradients(self, outputs: list[Any], inputs: list[Any], settings: dict[str, Any]) -> tuple[Any, ...]:
        """`torch.autograd.grad`, recorded."""
        if self.refused is not None:
            raise Break(*self.refused)
        if torch.is_anomaly_enabled():
            raise Break(breaks.DATA_DEPENDENT_VALUE, "gradients in anomaly mode, which looks at all of them")
        load_symbolic_shapes()  # which autograd asks about gradients that it is given
        self.replay()
        of: Any = lambda values: [v if v is None else self.with_history(v) for v in values]
        given = settings.get("grad_outputs")
        with self.real_histories():
            roots = of(outputs)
            nodes = reached(roots)
            self.check_outside(nodes, inputs)
            replayed = {**settings, "grad_outputs": None if given is None else of(given)}
            found = torch.autograd.grad(roots, of(inputs), **replayed)
            if not all(grad is None or is_dense(grad) for grad in found):
                raise Break(breaks.TENSOR_KIND, "a sparse gradient")
            grads = [grad for grad in found if grad is not None]
            made = {id(grad): gradient_fake(grad) for grad in grads}
            shared = shared_memory(grads, pytree.tree_leaves(list(self.replayed.values())))
            self.view_gradients |= {id(made[id(grad)]) for grad in grads if grad._is_view()}
        if not (settings["create_graph"] if settings["retain_graph"] is None else settings["retain_graph"]):
            self.freed |= {node for node in nodes if keeps_for_once(node)}
        results = tuple(None if grad is None else made[id(grad)] for grad in found)
        self.shared_gradients |= {id(made[grad]) for grad in shared}
        self.add_grad_call(outputs, inputs, settings, results, found)
        return results

    def add_grad_call(self, outputs: Any, inputs: Any, settings: Any, results: Any, replayed: Any) -> None:
        builder = self.builder
        given = {name: value for name, value in settings.items() if value}
        node = builder.node(torch.autograd.grad, (outputs, inputs), given)
        self.replayed[node] = replayed
        builder.note_call(node, results)

    def layout_of_grad(self, leaf: FakeTensor, grad: FakeTensor) -> tuple[Any, dict[str, Any]] | None:
        """How autograd would copy a gradient for `leaf.grad`: what `torch.empty_strided` is given. None: not.

        It is to lie in memory as the leaf does, unless that has holes."""
        with self.builder.fakes, torch._C.DisableTorchFunction():
            if grad.layout is not torch.strided:
                return None
            like = torch.empty_like(leaf, requires_grad=False)
            if like.stride() != leaf.stride():
                like = torch.empty_like(like, memory_format=torch.contiguous_format)
            if grad.stride() == like.stride() and id(grad) not in self.shared_gradients:
                return None
            return (tuple(grad.shape), like.stride()), {"dtype": grad.dtype, "device": grad.device}

    def check_outside(self, nodes: set[Any], wanted: list[Any]) -> None:
        """What lies behind an input is not known. It does not matter if the gradients end there."""
        outside = self.inputs_reached(nodes)
        for fake in outside:
            self.inputs.note_fact("is_leaf", fake)
            self.inputs.note_fact("no_hooks", fake)
            if _guards.has_hooks(self.inputs.entries[self.inputs.index_of[id(fake)]].value):
                raise Break(breaks.EFFECT, "hooks of a tensor from outside, which gradients run")
        asked = [fake for fake in wanted if id(fake) in self.inputs.index_of]
        beyond = {id(fake) for fake in outside if not fake.is_leaf}
        if beyond and asked and len(beyond | set(map(id, asked))) > 1:
            raise Break(breaks.GRADIENTS, "gradients that flow into what was computed before the function")

    # ---- what lives on

    def prepare(self, outputs: list[Any]) -> None:
        """Of what lives on, what has a history that a graph can't give it."""
        if self.hooks and len({id(output) for output in outputs if is_differentiated(output)}) > 1:
            # to a backward graph, an output that nobody uses has a gradient: its hooks would be called
            self.run_as_captured = SEVERAL_OUTPUTS
        elif (self.retained or self.watches_all) and self.feeds_others(outputs):
            self.run_as_captured = RESULTS_OF_RESULTS
        elif self.has_hooks and self.hooks_results(outputs):
            self.run_as_captured = HOOKED_RESULT
        if not (self.freed or self.leaves):
            return
        self.replay()
        tensors = [output for output in outputs if is_differentiated(output)]
        with self.real_histories():
            for fake in tensors:
                self.prepare_output(fake, tensors)

    def hooks_results(self, outputs: list[Any]) -> bool:
        """Whether a result has a hook: to a backward graph it comes after all that others do with what it
        gives, and not in its turn."""
        hooked = self.hooked()
        return any(self.builder.body.nodes[id(fake)] in hooked for fake in filter(is_differentiated, outputs))

    def feeds_others(self, outputs: list[Any]) -> bool:
        """Whether a tensor whose gradient is looked at is one that another result is computed from: to a
        backward graph all results are alike, and none gets the gradients of another."""
        tensors = [output for output in outputs if is_differentiated(output)]
        results = {self.builder.body.nodes[id(tensor)] for tensor in tensors}
        watched = [tensor for tensor in tensors if self.watches_all or id(tensor) in self.retained]
        pending = [user for tensor in watched for user in self.builder.body.nodes[id(tensor)].users]
        seen: set[torch.fx.Node] = set()
        while pending:
            node = pending.pop()
            if node in results:
                return True
            if node not in seen:
                seen.add(node)
                pending += node.users
        return False

    def prepare_output(self, fake: FakeTensor, outputs: list[FakeTensor]) -> None:
        if fake.is_inference():  # it has no history, but may be said to want gradients
            self.ended[id(fake)] = Tensor.requires_grad_, []
            return
        nodes = reached([self.with_history(fake)])
        inside = self.leaves_reached(nodes)
        if not self.freed.isdisjoint(nodes):
            self.ended[id(fake)] = _guards.spent_history, self.inputs_reached(nodes)
        elif any(leaf is fake for leaf in inside):
            self.ended[id(fake)] = Tensor.requires_grad_, []
        elif any(leaf is output for leaf in inside for output in outputs):
            raise Break(breaks.UNREBUILDABLE, LEAF_INSIDE, culprit=inside[0])
        elif inside and not self.inputs_reached(nodes):
            self.ended[id(fake)] = _guards.lost_history, []

    def output_node(self, fake: FakeTensor) -> torch.fx.Node:
        body = self.builder.body
        node = body.nodes[id(fake)]
        return body.add_node("call_method", "detach", (node,)) if id(fake) in self.ended else node

    def clear(self) -> None:
        """Lets go of what was replayed."""
        self.replayed.clear()
        self.freed.clear()


SEVERAL_OUTPUTS = "a hook that gives a gradient where none came, and several differentiated results"
RESULTS_OF_RESULTS = "a result whose gradient is looked at, and that another is computed from"
HOOKED_RESULT = "a result with a hook, behind which others may look at its gradient"
LEAF_INSIDE = "a tensor that is differentiated up to one made inside, which lives on"


HOOKING: set[Any] = set()
"""Functions that register hooks on their first argument."""


def history_of(tensor: Any) -> Any:
    """Autograd's node that a tensor comes from; of a leaf, that which its gradients end in. None for a tensor
    of inference mode."""
    with torch.enable_grad():
        return None if tensor.is_inference() else get_gradient_edge(tensor).node


def reached(roots: Iterable[Any]) -> set[Any]:
    """Autograd's nodes behind some tensors."""
    pending = [history_of(root) for root in roots if root.requires_grad]
    found: set[Any] = set()
    while pending:
        node = pending.pop()
        if node is not None and node not in found:
            found.add(node)
            pending += [following for following, _ in node.next_functions]
    return found


def gradient_fake(grad: Any) -> Any:
    """What stands for a gradient in the trace: not what stands for it when the graph is replayed."""
    made = torch.empty_strided(grad.shape, grad.stride(), dtype=grad.dtype, device=grad.device)
    return _guards.fake_history(made) if grad.requires_grad else made


def shared_memory(grads: list[Any], values: list[Any]) -> set[int]:
    """ids of gradients that share memory with one another, or with a tensor among some values."""
    there = [value for value in values if type(value) is FakeTensor]
    count = collections.Counter(storage(tensor) for tensor in (*grads, *there) if is_dense(tensor))
    return {id(grad) for grad in grads if is_dense(grad) and count[storage(grad)] > 1}


def is_differentiated(value: Any) -> bool:
    return type(value) is FakeTensor and value.requires_grad


def keeps_for_once(node: Any) -> bool:
    """Whether one of autograd's nodes lets go of what it needs when gradients have been computed."""
    kind: Any = type(node)
    return not hasattr(node, "variable") and kind_keeps_for_once(kind)


@functools.cache
def kind_keeps_for_once(kind: Any) -> bool:
    is_operators = (
        kind.__module__ == "builtins" and re.fullmatch(r"\w+Backward\d+", kind.__name__) is not None
    )
    return not is_operators or any(name.startswith("_raw_saved_") for name in dir(kind))


def is_dense(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided
