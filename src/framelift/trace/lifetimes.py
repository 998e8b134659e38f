"""Objects that the traced program lets go of."""

from __future__ import annotations

import weakref
from types import GeneratorType
from typing import Any

import torch
import torch.fx

from framelift.core import breaks
from framelift.core.breaks import Break, refuse
from framelift.interpreter.lookups import RELIED_ON, is_watched, leave_unwatched
from framelift.interpreter.pending import Pending
from framelift.trace.part import Part

leave_unwatched(torch.Tensor)  # may be large, and it is seldom a variable that keeps one alive


class Lifetimes(Part):
    """Keeps finalisers and weak references as they would be without a trace."""

    @property
    def runs_finalisers(self) -> bool:
        """While the program runs; afterwards what the trace still has is only being thrown away."""
        world = self.__dict__.get("world")  # which a released trace has no more
        machine = None if world is None else world.__dict__.get("machine")
        return machine is not None and machine.__dict__.get("frame") is not None

    def finalise(self, generator: Any) -> None:
        try:
            generator.close()
        except BaseException as error:
            self.world.errors.lost = True  # from here an exception goes nowhere
            self.world.errors.broken = self.world.errors.broken or Break(
                breaks.EFFECT, f"{type(error).__name__} in the end of a generator"
            )

    def dropping(self, value: Any) -> None:
        if issubclass(type(value.value), GeneratorType) and value.value.gi_suspended:
            refuse(breaks.FINALISER, "a generator that is left in the middle")

    def may_be_missed(self, value: Any, stack: list[Any]) -> bool:
        """Whether a weak reference may be left to it, or a part that is in its memory. What would have to be
        made again is not worth it."""
        if type(value) is Pending:
            return is_watched(type(value.value)) or issubclass(type(value.value), RELIED_ON)
        if self.world.inputs.is_opaque(value) and issubclass(type(value), RELIED_ON):
            return True
        if not is_watched(type(value)):
            return False
        return weakref.getweakrefcount(value) > 0 or any(item is value for item in stack)
