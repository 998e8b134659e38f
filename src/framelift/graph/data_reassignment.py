"""Tensors that are given the memory of others: `x.data = y`, `x.set_(y)`.

From there on a tensor is, to the graph, what lies in the other's memory. If it came in, the region gives the
real one that memory when the graph has run. What would be differentiated up to it after that ends the trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import increment_version

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import describe
from framelift.graph.fakes import nbytes
from framelift.graph.op_memory import DETACHES, storage
from framelift.graph.overrides import PLAIN
from framelift.graph.requires_grad import Flags

Tensor = torch.Tensor
Setter = Callable[[Any, Any], Any]
DATA: Any = Tensor.data.__get__  # type: ignore[attr-defined]
UNDIFFERENTIATED = DETACHES | {DATA, Tensor.requires_grad_}
"""What may be done with a tensor that requires grad, and gives none that is differentiated up to it."""


class Displaced(Flags):
    """The part of a recorder that knows of these."""

    in_storage: dict[int, list[FakeTensor]]
    call: Callable[[Any, Any, dict[str, Any]], Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.used_before: str | None = None
        """What was done to a tensor whose history may hold what was in its memory before."""
        self.aliases: dict[int, FakeTensor] = {}
        """id of a tensor -> the alias of another one that it is from now on."""
        self.rewritten: set[int] = set()
        """ids of those aliases that were written to as that tensor, to which its version is due."""
        self.resized: set[int] = set()
        """ids of tensors that stand for nothing but the memory of one that was resized."""

    def displace(
        self, fake: FakeTensor, other: Any, how: str, setter: Callable[[Any, Any], Any]
    ) -> FakeTensor:
        """Has a tensor lie where another one does. What it is from now on: an alias of the other."""
        if type(other) is not FakeTensor or other is fake or len(self.bodies) > 1:
            raise Break(breaks.EFFECT, f"{how}: of something else than a tensor, or in an operator's body")
        if self.class_of(fake) not in PLAIN or self.class_of(other) not in PLAIN:
            raise Break(breaks.TENSOR_KIND, f"{how} of a tensor subclass")
        before = self.nodes[id(fake)]
        inside = id(fake) not in self.input_of
        if inside and fake.requires_grad and (before.users or not any(leaf is fake for leaf in self.leaves)):
            raise Break(breaks.INTERNAL, f"{how} of a tensor made inside that is differentiated")
        if fake.device != other.device or fake.layout is not other.layout:
            raise Break(breaks.EFFECT, f"{how}, to another device or layout")
        alias: FakeTensor = self.call(DATA, (other,), {})
        with torch._C.DisableTorchFunction():
            setter(fake, alias)
            increment_version(fake)  # what was found out about its values is no longer so
            self.in_storage.setdefault(storage(fake), []).append(fake)
        fake.constant = None
        self.keys.forget(fake)
        if before.users:
            self.used_before = how
        node = self.nodes[id(alias)]
        if fake.requires_grad and inside:
            node = self.add_node("call_method", "requires_grad_", (node,))
            self.impure.add(node)
        elif fake.requires_grad:
            self.displaced.add(id(fake))
        self.nodes[id(fake)] = node
        self.aliases[id(fake)] = alias
        return alias

    def resize(self, fake: FakeTensor, sizes: tuple[Any, ...]) -> FakeTensor:
        """`Tensor.resize_`: memory that is too small is exchanged for larger one, with the same in it."""
        with torch._C.DisableTorchFunction():
            if tuple(fake.shape) == sizes:
                return fake
            if id(fake) in self.input_of or fake.requires_grad or self.shares_memory(fake):
                raise Break(breaks.INTERNAL, f"{RESIZING} from outside, differentiated, or with views")
            if fake.storage_offset() or not fake.is_contiguous():
                raise Break(breaks.INTERNAL, f"{RESIZING} that does not fill its memory")
            held = nbytes(fake) // fake.element_size()
        if math.prod(sizes) <= held:
            made = self.call(torch.as_strided, (fake, sizes, contiguous(sizes)), {})
        else:
            made = self.call(torch.empty, (sizes,), {"dtype": fake.dtype, "device": fake.device})
            old, new = (self.call(torch.as_strided, (each, (held,), (1,)), {}) for each in (fake, made))
            self.call(Tensor.copy_, (new, old), {})
            self.resized.add(id(new))
        alias = self.displace(fake, made, RESIZING, set_data)
        self.resized |= {id(made), id(alias)}
        return fake

    def shares_memory(self, fake: FakeTensor) -> bool:
        where = storage(fake)
        others = (known for known in self.kept if known is not fake and id(known) not in self.resized)
        return any(isinstance(known, Tensor) and storage(known) == where for known in others)

    def note_versions(self, written: list[Tensor]) -> None:
        for tensor in written if self.aliases else ():
            alias = self.aliases.get(id(tensor._base if tensor._is_view() else tensor))
            if alias is not None:
                self.rewritten.add(id(alias))

    def check_displaced(self, func: Any, fake: FakeTensor) -> None:
        if id(fake) in self.displaced and torch.is_grad_enabled() and func not in UNDIFFERENTIATED:
            raise Break(
                breaks.INTERNAL, f"{describe(func)} of a tensor after its data was set, differentiated"
            )

    def gradients(self, outputs: list[Any], inputs: list[Any], settings: dict[str, Any]) -> tuple[Any, ...]:
        if self.used_before is not None:
            raise Break(breaks.INTERNAL, f"gradients after {self.used_before}, which histories may hold")
        return super().gradients(outputs, inputs, settings)


RESIZING = "Tensor.resize_ of a tensor"


def contiguous(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The strides of a dense tensor."""
    return tuple(math.prod(max(size, 1) for size in sizes[n + 1 :]) for n in range(len(sizes)))


def set_data(tensor: Any, other: Any) -> None:
    tensor.data = other


def set_memory(tensor: Any, other: Any) -> None:
    """`Tensor.set_`, whether or not gradients are on: it is done when the graph has run."""
    with torch.no_grad():
        tensor.set_(other)
