"""Data reassignment: tensors that are given the memory of others (`x.data = y`, `x.set_(y)`).

From there on a tensor is, to the graph, what lies in the other's memory. If it came in, the region gives the
real one that memory when the graph has run. What would be differentiated up to it after that ends the trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import increment_version

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.fakes import PLAIN_CLASSES, nbytes
from framelift.graph.functions import describe
from framelift.graph.op_memory import DETACHES, storage

if TYPE_CHECKING:
    from framelift.graph.recorder import Recorder

Tensor = torch.Tensor
Setter = Callable[[Any, Any], Any]
DATA: Any = Tensor.data.__get__  # type: ignore[attr-defined]
UNDIFFERENTIATED = DETACHES | {DATA, Tensor.requires_grad_}
"""What may be done with a tensor that requires grad, and gives none that is differentiated up to it."""


class DataReassignment:
    """The reassignments of one trace."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.builder = recorder.builder
        self.reassigned: set[int] = set()
        """ids of inputs that require grad, and lie in other memory by now."""
        self.aliases: dict[int, FakeTensor] = {}
        """id of a tensor -> the alias of another one that it is from now on."""
        self.rewritten: set[int] = set()
        """ids of those aliases that were written to as that tensor, to which its version is due."""
        self.resized: set[int] = set()
        """ids of tensors that stand for nothing but the memory of one that was resized."""

    def assign(self, fake: FakeTensor, other: Any, how: str, setter: Setter) -> FakeTensor:
        """Has a tensor lie where another one does. What it is from now on: an alias of the other."""
        recorder, builder, class_of = self.recorder, self.builder, self.recorder.subclasses.class_of
        if type(other) is not FakeTensor or other is fake or builder.in_body:
            raise Break(breaks.EFFECT, f"{how}: of something else than a tensor, or in an operator's body")
        if class_of(fake) not in PLAIN_CLASSES or class_of(other) not in PLAIN_CLASSES:
            raise Break(breaks.TENSOR_KIND, f"{how} of a tensor subclass")
        nodes, leaves = builder.body.nodes, recorder.histories.leaves
        before = nodes[id(fake)]
        inside = id(fake) not in builder.inputs.index_of
        if inside and fake.requires_grad and (before.users or not any(leaf is fake for leaf in leaves)):
            raise Break(breaks.TENSOR_MEMORY, f"{how} of a tensor made inside that is differentiated")
        if fake.device != other.device or fake.layout is not other.layout:
            raise Break(breaks.EFFECT, f"{how}, to another device or layout")
        alias: FakeTensor = recorder.call(DATA, (other,), {})
        with torch._C.DisableTorchFunction():
            setter(fake, alias)
            increment_version(fake)  # what was found out about its values is no longer so
            recorder.mutations.add_to_storage(fake)
        fake.constant = None
        recorder.keys.forget(fake)
        if before.users:
            why = f"gradients after {how}, which histories may hold"
            recorder.histories.refuse_gradients(breaks.TENSOR_MEMORY, why)
        node = nodes[id(alias)]
        if fake.requires_grad and inside:
            node = builder.body.add_node("call_method", "requires_grad_", (node,))
            builder.impure.add(node)
        elif fake.requires_grad:
            self.reassigned.add(id(fake))
            builder.check_uses(self.check_use)
        nodes[id(fake)] = node
        self.aliases[id(fake)] = alias
        return alias

    def resize(self, fake: FakeTensor, sizes: tuple[Any, ...]) -> FakeTensor:
        """`Tensor.resize_`: memory that is too small is exchanged for larger one, with the same in it."""
        call = self.recorder.call
        with torch._C.DisableTorchFunction():
            if tuple(fake.shape) == sizes:
                return fake
            is_input = id(fake) in self.builder.inputs.index_of
            if is_input or fake.requires_grad or self.shares_memory(fake):
                raise Break(breaks.TENSOR_MEMORY, f"{RESIZING} from outside, differentiated, or with views")
            if fake.storage_offset() or not fake.is_contiguous():
                raise Break(breaks.TENSOR_MEMORY, f"{RESIZING} that does not fill its memory")
            held = nbytes(fake) // fake.element_size()
        if math.prod(sizes) <= held:
            made = call(torch.as_strided, (fake, sizes, contiguous(sizes)), {})
        else:
            made = call(torch.empty, (sizes,), {"dtype": fake.dtype, "device": fake.device})
            old, new = (call(torch.as_strided, (each, (held,), (1,)), {}) for each in (fake, made))
            call(Tensor.copy_, (new, old), {})
            self.resized.add(id(new))
        alias = self.assign(fake, made, RESIZING, set_data)
        self.resized |= {id(made), id(alias)}
        return fake

    def shares_memory(self, fake: FakeTensor) -> bool:
        where = storage(fake)
        others = (known for known in self.builder.kept if known is not fake and id(known) not in self.resized)
        return any(isinstance(known, Tensor) and storage(known) == where for known in others)

    def note_written(self, written: list[Tensor]) -> None:
        """What is written to a reassigned tensor counts up its version."""
        for tensor in written if self.aliases else ():
            alias = self.aliases.get(id(tensor._base if tensor._is_view() else tensor))
            if alias is not None:
                self.rewritten.add(id(alias))

    def check_use(self, func: Any, fake: FakeTensor) -> None:
        """Breaks if a call would be differentiated up to a tensor that lies in other memory by now."""
        if id(fake) in self.reassigned and torch.is_grad_enabled() and func not in UNDIFFERENTIATED:
            raise Break(
                breaks.TENSOR_MEMORY, f"{describe(func)} of a tensor after its data was set, differentiated"
            )


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
