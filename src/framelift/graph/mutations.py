"""Which tensors the operators of a trace write to."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import GraphBuilder
from framelift.graph.op_memory import Keys, storage


class Mutations:
    """The writes to tensors in one trace. A body knows those within it too (`GraphBody.changed`)."""

    def __init__(self, builder: GraphBuilder, keys: Keys) -> None:
        self.builder = builder
        self.keys = keys
        self.changed: dict[int, FakeTensor] = {}
        """id of a fake that was written to -> the fake."""
        self.in_storage: dict[int, list[FakeTensor]] = {}
        """Storage -> the fakes in it, as far as the builder's have been gone through."""
        self.indexed = 0

    def note(self, written: list[torch.Tensor], tensors: list[torch.Tensor]) -> bool:
        """Whether any of the `tensors` was written to. That concerns all that lies in the same memory."""
        storages = {storage(tensor) for tensor in written}
        changed = {where for where in map(storage, tensors) if where in storages}
        builder = self.builder
        for fake in builder.kept[self.indexed :]:
            self.add_to_storage(fake)
        self.indexed = len(builder.kept)
        place = builder.place() if changed and builder.in_body else None
        for where in changed:
            for fake in self.in_storage.get(where, ()):
                self.keys.forget(fake)
                self.changed[id(fake)] = fake
                builder.body.changed[id(fake)] = place
        return bool(changed)

    def add_to_storage(self, fake: FakeTensor) -> None:
        """A tensor lies in the memory that it lies in now."""
        self.in_storage.setdefault(storage(fake), []).append(fake)

    @property
    def of_inputs(self) -> bool:
        """Whether any input was written to."""
        return any(id(entry.stand_in) in self.changed for entry in self.builder.inputs.entries)

    def refuse_overlap(self) -> None:
        """Whether a NumPy array from outside shares memory with another input is not guarded: that does not
        matter as long as nobody writes there."""
        inputs = self.builder.inputs
        if inputs.arrays and len(inputs.entries) > 1 and self.of_inputs:
            raise Break(breaks.NUMPY, "an input changes, with which an array from outside may share memory")
