"""`requires_grad` set on tensors that came in, or that the trace has made.

A compiler must know before a graph runs which inputs are differentiated. So one that the program makes a leaf
on the way is made one before the graph runs, and the graph uses what is detached from it wherever the program
used it before; one that is no longer differentiated is detached from there on. The region has the last word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import GraphBuilder
from framelift.graph.history import Histories
from framelift.graph.op_memory import Keys
from framelift.graph.wrappers import Wrappers

Tensor = torch.Tensor
Run = Callable[[Any, Any, dict[str, Any]], Any]
"""Runs an operator on fakes."""


class FlaggedInput(NamedTuple):
    fake: FakeTensor
    tensor: Tensor
    requires_grad: bool
    """What the program has set last."""


class RequiresGrad:
    """`Tensor.requires_grad_` in one trace."""

    def __init__(
        self, builder: GraphBuilder, keys: Keys, histories: Histories, wrappers: Wrappers, run: Run
    ) -> None:
        self.builder = builder
        self.run = run
        self.keys = keys
        self.histories = histories
        self.wrappers = wrappers
        self.flagged: dict[int, FlaggedInput] = {}
        """Inputs on which the program has set `requires_grad`, by the id of what stands for them."""

    def set(self, fake: Any, requires_grad: bool = True) -> Any:
        """`Tensor.requires_grad_`."""
        if fake.requires_grad is bool(requires_grad):
            return fake
        inputs = self.builder.inputs
        at = inputs.index_of.get(id(fake))
        if any(follows(known, fake) for known in self.builder.kept):
            raise Break(breaks.EFFECT, "Tensor.requires_grad_ on a tensor of which there are views")
        if at is None:
            self.set_inside(fake, requires_grad)
        else:
            self.set_input(fake, *inputs.entries[at][:2], requires_grad)
        return fake

    def set_inside(self, fake: FakeTensor, requires_grad: bool) -> None:
        builder = self.builder
        if not requires_grad and builder.body.nodes[id(fake)].users:
            raise Break(breaks.GRADIENTS, "Tensor.requires_grad_(False) on a tensor that is differentiated")
        self.set_flag(fake, requires_grad)
        if requires_grad:
            builder.record(Tensor.requires_grad_, (fake,), {}, fake, pure=False)
            self.histories.add_leaf(fake)
        else:
            self.histories.remove_leaf(fake)
            self.detach_from_here(fake, builder.body.nodes[id(fake)])

    def set_input(self, fake: FakeTensor, node: torch.fx.Node, tensor: Tensor, requires_grad: bool) -> None:
        if self.builder.in_body or id(fake) in self.wrappers.behind:
            raise Break(
                breaks.EFFECT, "Tensor.requires_grad_ on a tensor from outside, in an operator's body"
            )
        self.builder.inputs.note_fact("is_leaf", fake)
        self.set_flag(fake, requires_grad)
        if not requires_grad:
            self.detach_from_here(fake, node)
        else:
            self.builder.body.nodes[id(fake)] = node
            if id(fake) not in self.flagged:
                self.detach_up_to_here(node)
                self.histories.make_leaf(fake, node)
        self.flagged[id(fake)] = FlaggedInput(fake, tensor, requires_grad)

    def set_flag(self, fake: FakeTensor, requires_grad: bool) -> None:
        self.run(Tensor.requires_grad_, (fake, requires_grad), {})
        self.keys.forget(fake)

    def detach_from_here(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        body = self.builder.body
        body.nodes[id(fake)] = body.add_node("call_method", "detach", (node,))

    def detach_up_to_here(self, node: torch.fx.Node) -> None:
        """What has used an input so far uses what is detached from it."""
        used, body = list(node.users), self.builder.body
        if used:
            with body.graph.inserting_after(self.builder.inputs.entries[-1].node):
                detached = body.add_node("call_method", "detach", (node,))
            for user in used:
                user.replace_input_with(node, detached)

    def check(self) -> None:
        """What is written to a tensor that was detached has no way to its history."""
        for found in self.flagged.values():
            if not found.fake.is_leaf:
                raise Break(breaks.EFFECT, "a tensor that is no leaf any more, after Tensor.requires_grad_")

    def check_outputs(self, outputs: list[Any]) -> None:
        """A view of a flagged tensor can't live on."""
        for found in self.flagged.values():
            for output in outputs:
                if follows(output, found.fake):
                    raise Break(breaks.UNREBUILDABLE, FOLLOWING, culprit=output)


def follows(known: Any, base: FakeTensor) -> bool:
    """Whether something is a view without a history of its own: it requires grad if its base does."""
    if not (type(known) is FakeTensor and known._is_view() and known._base is base):
        return False
    try:
        return known.is_leaf
    except RuntimeError:  # autograd no longer vouches for it
        return True


FOLLOWING = "a view of a tensor that Tensor.requires_grad_ was called on: it requires grad as that does"
