"""What the operators of a trace do beside computing: they write to tensors, and draw random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import GraphBuilder
from framelift.graph.functions import describe, is_custom
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


class RandomNumbers:
    """What one trace does with torch's generator. A body knows what it draws too (`GraphBody.draws`)."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.generator_set = False
        """Whether the program has set the generator after operators drew from it: then no other may."""

    @property
    def drawn(self) -> bool:
        """Whether any operator has drawn, or may have."""
        return any(body.draws for body in self.builder.bodies)

    def note(self, func: Any) -> None:
        """An operator has drawn from torch's generator, or is the program's own and may have."""
        if torch._C._are_functorch_transforms_active():
            raise Break(breaks.RANDOM, f"{describe(func)}, within a transform of torch.func around the call")
        if self.generator_set:
            raise Break(breaks.RANDOM, f"{describe(func)}, after seeding between operators that draw")
        self.builder.body.draws = True
        if is_custom(func):
            self.builder.run_once()

    def set_generator(self) -> bool:
        """The program sets the generator. Gives whether operators have drawn before: then none may after."""
        self.generator_set = self.generator_set or self.drawn
        return self.generator_set
