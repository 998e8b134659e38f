"""Breaks and exceptions in a trace: whose they are, and who may see them."""

from __future__ import annotations

from types import CodeType, TracebackType

from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break, refuse
from framelift.graph.recorder import Recorder
from framelift.trace import faults
from framelift.trace.part import Part


class Errors(Part):
    """Decides what the program's handlers may see of an exception."""

    def start(self) -> None:
        self.broken: Break | None = None
        """What ends the trace."""
        self.lost = False
        """Something could not be captured in a place that the program does not come to by itself."""
        self.operator_errors: dict[int, BaseException] = {}
        """Errors that came from operators on fakes: they are eager's but for what they say."""
        self.own_interrupts: dict[int, BaseException] = {}
        """Those KeyboardInterrupts that the program has raised itself."""
        self.catches_operator_errors = True
        """Whether the program may handle these; if not, the operators fail for real."""

    def raising(self, error: BaseException) -> None:
        if id(error) in self.world.inputs.known:
            refuse(breaks.OUTSIDE_EXCEPTION, type(error).__qualname__)
        if isinstance(error, KeyboardInterrupt):
            self.own_interrupts[id(error)] = error

    def catchable(self, error: BaseException) -> bool:
        if _frame.interrupted():
            return False
        if isinstance(error, Break) and self.broken is None:
            self.broken = error
            error.stack = error.stack or self.world.places.stack()
        elif self.broken is None and faults.is_own(error):
            self.broken = faults.as_break(error)
            self.broken.stack = self.world.places.stack()
        if self.broken is not None:
            return False
        if came_through(error.__traceback__, OPERATING) or tells_of_fakes(error):
            self.operator_errors[id(error)] = error
        return not self.is_users_interrupt(error)

    def is_users_interrupt(self, error: BaseException) -> bool:
        """Whether a signal's handler raised, or it came from the keyboard: a KeyboardInterrupt that the
        program raises is its own."""
        if _frame.interrupted():
            return True
        return isinstance(error, KeyboardInterrupt) and id(error) not in self.own_interrupts

    def catching(self, error: BaseException) -> None:
        if not self.catches_operator_errors:
            self.looking_at(error)

    def looking_at(self, error: BaseException) -> None:
        """Before anything but the class of an error is looked at."""
        if id(error) in self.operator_errors:
            refuse(breaks.OPERATOR_ERROR, type(error).__qualname__)


def tells_of_fakes(error: BaseException) -> bool:
    """Whether C names the class of what stands for a tensor, as it does where it can't add two things."""
    return any(type(arg) is str and FakeTensor.__name__ in arg for arg in error.args)


def came_through(traceback: TracebackType | None, codes: frozenset[CodeType]) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


OPERATING = frozenset({Recorder.call.__code__, Recorder.__torch_function__.__code__})
"""What an operator on fakes is called by."""
