"""The memory of tensors as an object: `tensor.untyped_storage()`.

In a trace it is the storage of the fake, on the meta device, of which only the size is true. The size of an
input's is guarded once it is asked for. The region asks the real tensor for its storage where that lives on.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.fakes import PLAIN_CLASSES, nbytes
from framelift.graph.op_memory import storage
from framelift.graph.symbols import settled
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame
from framelift.trace.part import Part
from framelift.trace.type_rules import Rebuilder, type_rule

Storage = torch.UntypedStorage
RESIZE = torch.ops.inductor.resize_storage_bytes_.default
"""What torch's compilers know the resizing of a tensor's storage as."""


class Storages(Part):
    """The storages that the program has asked for."""

    def start(self) -> None:
        self.tensors: dict[int, tuple[Storage, FakeTensor]] = {}
        """id of a storage -> it, and a tensor that lies in it."""
        self.resized: set[int] = set()
        """Those that the graph resizes."""

    def of(self, tensor: FakeTensor) -> Storage:
        recorder = self.world.recorder
        if recorder.subclasses.class_of(tensor) not in PLAIN_CLASSES or recorder.builder.in_body:
            raise Break(breaks.IDENTITY, "Tensor.untyped_storage of a subclass, or in an operator's body")
        with torch._C.DisableTorchFunction():
            if tensor.layout is not torch.strided:
                raise Break(breaks.IDENTITY, "Tensor.untyped_storage of a sparse tensor")
            for size in (*tensor.shape, *tensor.stride()):
                settled(size)
            recorder.inputs.note_fact("storage", tensor)
            found = tensor.untyped_storage()
        self.tensors[id(found)] = found, tensor
        return found

    def resize(self, tensor: FakeTensor, size: int) -> None:
        """Torch's compilers know of memory that is given to an input before it is written to, and of memory
        that is taken from one that was not written to; what else they do may crash the program."""
        recorder = self.world.recorder
        with torch._C.DisableTorchFunction():
            place, inside = storage(tensor), not recorder.inputs.have_memory_of(tensor)
            whole = max(nbytes(tensor), tensor.numel() * tensor.element_size())
            differentiated = tensor.requires_grad
        if inside or differentiated or size not in (0, whole):
            what = "a storage of a tensor made inside, or differentiated, or of which a part is left"
            raise Break(breaks.TENSOR_MEMORY, f"{what}, is resized")
        if place in self.resized or place in recorder.mutations.first_written:
            raise Break(breaks.TENSOR_MEMORY, "a storage is resized that was resized, or written to, before")
        self.resized.add(place)
        recorder.call_opaque(RESIZE, (tensor, size), {}, effect=True, writes=[tensor])

    def size(self, tensor: FakeTensor) -> int:
        """A fake whose sizes were symbols knows only how much it takes itself."""
        inputs = self.world.recorder.inputs
        with torch._C.DisableTorchFunction():
            place = storage(tensor)
            for n in inputs.index_of.values() if place not in self.resized else ():
                if storage(inputs.entries[n].stand_in) == place:
                    return nbytes(inputs.entries[n].value)
            return int(settled(nbytes(tensor)))

    def tensor_in(self, given: Any) -> FakeTensor | None:
        """None: it is not the storage of a tensor of the trace."""
        _, tensor = self.tensors.get(id(given), (None, None))
        return tensor


@serve(torch.Tensor.untyped_storage)
def serve_storage(f: TraceFrame, tensor: Any, /) -> Any:
    given = opened(tensor)
    if type(given) is not FakeTensor:
        return f.world.calls.native(f, torch.Tensor.untyped_storage, [tensor], None)
    f.world.overrides.refuse("Tensor.untyped_storage", given)
    return f.world.feature(Storages).of(given)


def serve_size(function: Any) -> None:
    @serve(function)
    def serve_it(f: TraceFrame, given: Any, /) -> Any:
        storages = f.world.feature(Storages)
        tensor = storages.tensor_in(opened(given))
        return f.world.calls.native(f, function, [given], None) if tensor is None else storages.size(tensor)


for _function in (Storage.nbytes, Storage.size, Storage.__len__):
    serve_size(_function)


@serve(Storage.resize_)
def serve_resize(f: TraceFrame, given: Any, size: Any, /) -> Any:
    tensor, length = f.world.feature(Storages).tensor_in(opened(given)), opened(size)
    if tensor is None or type(length) is not int:
        return f.world.calls.native(f, Storage.resize_, [given, size], None)
    f.world.feature(Storages).resize(tensor, length)
    return given


def rebuild_storage(r: Rebuilder, value: Any) -> str:
    tensor = r.world.feature(Storages).tensor_in(value)
    if tensor is None:
        raise Break(breaks.UNREBUILDABLE, "the storage of a tensor that is not known", culprit=value)
    return r.variable(f"{r.expression(tensor)}.untyped_storage()", value)


type_rule(Storage, rebuild=rebuild_storage)
