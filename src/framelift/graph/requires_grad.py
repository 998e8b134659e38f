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
from framelift.graph import op_memory
from framelift.graph.history import Histories

Tensor = torch.Tensor


class Flagged(NamedTuple):
    fake: FakeTensor
    tensor: Tensor
    requires_grad: bool
    """What the program has set last."""


class Flags(Histories):
    """The part of a recorder that knows of these."""

    keys: op_memory.Keys
    behind: dict[int, Any]
    run: Callable[[Any, Any, dict[str, Any]], Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.flagged: dict[int, Flagged] = {}
        """Inputs on which the program has set `requires_grad`, by the id of what stands for them."""
        self.raised: dict[int, torch.fx.Node] = {}
        """Of these, those that are made leaves before the graph runs -> their placeholders."""

    def require_grad(self, fake: Any, requires_grad: bool = True) -> Any:
        """`Tensor.requires_grad_`."""
        if fake.requires_grad is bool(requires_grad):
            return fake
        at = self.input_of.get(id(fake))
        if any(follows(known, fake) for known in self.kept):
            raise Break(breaks.EFFECT, "Tensor.requires_grad_ on a tensor of which there are views")
        if at is None:
            self.flag_inside(fake, requires_grad)
        else:
            self.flag_input(fake, *self.inputs[at][:2], requires_grad)
        return fake

    def flag_inside(self, fake: FakeTensor, requires_grad: bool) -> None:
        if not requires_grad and self.nodes[id(fake)].users:
            raise Break(breaks.INTERNAL, "Tensor.requires_grad_(False) on a tensor that is differentiated")
        self.run(Tensor.requires_grad_, (fake, requires_grad), {})
        self.keys.forget(fake)
        if requires_grad:
            self.record(Tensor.requires_grad_, (fake,), {}, fake, pure=False)
            self.leaves.append(fake)
        else:
            self.leaves = [leaf for leaf in self.leaves if leaf is not fake]
            self.detach_from_here(fake, self.nodes[id(fake)])

    def flag_input(self, fake: FakeTensor, node: torch.fx.Node, tensor: Tensor, requires_grad: bool) -> None:
        if len(self.bodies) > 1 or id(fake) in self.behind:
            raise Break(
                breaks.EFFECT, "Tensor.requires_grad_ on a tensor from outside, in an operator's body"
            )
        self.note_fact("is_leaf", fake)
        self.run(Tensor.requires_grad_, (fake, requires_grad), {})
        self.keys.forget(fake)
        if not requires_grad:
            self.detach_from_here(fake, node)
        else:
            self.nodes[id(fake)] = node
            if id(fake) not in self.flagged:
                self.detach_up_to_here(node)
                self.raised[id(fake)] = node
        self.flagged[id(fake)] = Flagged(fake, tensor, requires_grad)

    def detach_from_here(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        self.nodes[id(fake)] = self.add_node("call_method", "detach", (node,))

    def detach_up_to_here(self, node: torch.fx.Node) -> None:
        used = list(node.users)
        if node in self.again:
            with self.real_histories():
                self.again[node].requires_grad_()
        if used:
            with self.graph.inserting_after(self.inputs[-1][0]):
                detached = self.add_node("call_method", "detach", (node,))
            for user in used:
                user.replace_input_with(node, detached)

    def input_again(self, node: torch.fx.Node) -> Any:
        found = super().input_again(node)
        return found.requires_grad_() if node in self.raised.values() else found

    def leaves_behind(self, tensors: list[Any]) -> list[FakeTensor]:
        """What is no longer differentiated lets go of what still comes to it."""
        return [fake for fake in super().leaves_behind(tensors) if fake.requires_grad]

    def raised_as_input(self, node: torch.fx.Node, given: Any) -> Any:
        """What a graph is given for an input that is made a leaf before."""
        return given.detach().requires_grad_() if node in self.raised.values() else given

    def check_flags(self) -> None:
        """What is written to a tensor that was detached has no way to its history."""
        for found in self.flagged.values():
            if not found.fake.is_leaf:
                raise Break(breaks.EFFECT, "a tensor that is no leaf any more, after Tensor.requires_grad_")

    def prepare(self, outputs: list[Any]) -> None:
        for found in self.flagged.values():
            for output in outputs:
                if follows(output, found.fake):
                    raise Break(breaks.UNREBUILDABLE, FOLLOWING, culprit=output)
        super().prepare(outputs)


def follows(known: Any, base: FakeTensor) -> bool:
    """Whether something is a view without a history of its own: it requires grad if its base does."""
    if not (type(known) is FakeTensor and known._is_view() and known._base is base):
        return False
    try:
        return known.is_leaf
    except RuntimeError:  # autograd no longer vouches for it
        return True


FOLLOWING = "a view of a tensor that Tensor.requires_grad_ was called on: it requires grad as that does"
