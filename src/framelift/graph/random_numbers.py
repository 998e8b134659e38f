"""Random numbers: whether the operators of a trace draw from torch's generator."""

from __future__ import annotations

from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.builder import GraphBuilder
from framelift.graph.functions import describe, is_custom


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
