"""Breaks and exceptions in a trace: whose they are, and who may see them."""

from __future__ import annotations

import contextlib
from types import CodeType, FunctionType, TracebackType
from typing import Any

from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

from framelift import _frame
from framelift.core import breaks, policy
from framelift.core.breaks import Break, refuse
from framelift.graph.recorder import Recorder
from framelift.graph.symbols import data_errors
from framelift.interpreter.frame import Frame
from framelift.interpreter.lookups import class_attribute
from framelift.interpreter.pending import opened
from framelift.trace import faults
from framelift.trace.part import Part
from framelift.trace.shadows import own_dictionary


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

    def refuses_failing_call(self) -> bool:
        """Whether a call that may fail ends the trace: it can't be made as if nothing had been done, and the
        program may do something about its error."""
        recorder = self.world.recorder
        if recorder.builder.in_body or not recorder.has_effect():
            return False
        return self.has_handler() and recorder.has_lasting_effect()  # which goes through all inputs

    def has_handler(self) -> bool:
        """Whether a statement around the place where the program stands may handle an error, or do anything
        before it goes on."""
        machine = self.world.machine
        frame = None if machine is None else machine.frame
        while frame is not None:
            library = str(frame.globals.get("__name__")).partition(".")[0] in LIBRARIES
            if not library and handles_errors(frame):
                return True
            frame = frame.back
        return False

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
        elif self.broken is None and (faults.is_own(error) or self.denies_attribute(error)):
            self.broken = faults.as_break(error)
            self.broken.stack = self.world.places.stack()
        elif self.broken is None and (handler := faults.failed_handler(error)) is not None:
            self.broken = faults.as_failed_handler(handler, error)
            self.broken.stack = self.world.places.stack()
        elif self.broken is None and is_of_fakes(error):
            self.broken = Break(breaks.UNSUPPORTED_FAKE, first_line(error), self.world.places.stack())
        if self.broken is not None:
            return False
        if came_through(error.__traceback__, OPERATING) or tells_of_fakes(error):
            self.operator_errors[id(error)] = error
        return not self.is_users_interrupt(error)

    def denies_attribute(self, error: BaseException) -> bool:
        """Whether an object from outside has what was not found on what stands for it."""
        if type(error) is not AttributeError or error.name is None or faults.is_raised_by_program(error):
            return False
        world, obj, name = self.world, error.obj, error.name
        if world.identity.source_of(obj) is None:
            return False
        real, shadow = world.addresses.real(obj), world.containers.shadows.get(id(obj))
        view = world.attributes.views.get(id(real))
        changed = view is not None and (view.complete or name in view.written)
        changed = changed or id(own_dictionary(real)) in world.inputs.known  # opened as a value
        if changed or (shadow is not None and name in (shadow.attributes or ())):
            return False  # the program has deleted it
        plain = class_attribute(type(real), "__getattribute__")
        return type(plain) is not FunctionType and name in (own_dictionary(real) or ())

    def is_users_interrupt(self, error: BaseException) -> bool:
        """Whether a signal's handler raised, or it came from the keyboard: a KeyboardInterrupt that the
        program raises is its own."""
        if _frame.interrupted():
            return True
        return isinstance(error, KeyboardInterrupt) and id(error) not in self.own_interrupts

    def catching(self, error: BaseException) -> None:
        self.world.recorder.builder.tape.spoil(type(error))
        if not self.catches_operator_errors:
            self.looking_at(error)

    def looking_at(self, error: BaseException) -> None:
        """Before anything but the class of an error is looked at."""
        if id(error) in self.operator_errors:
            refuse(breaks.OPERATOR_ERROR, type(error).__qualname__)


LIBRARIES = frozenset({"torch", "numpy", "framelift"})
"""Whose code does nothing about an error but undo what it has set."""


def handles_errors(frame: Frame[Any]) -> bool:
    """Whether a `try`, or a `with` of something that is not torch's, is around the place where a frame is."""
    entry, code = frame.code.handler_at(frame.ip), frame.code
    while entry is not None:
        names = [instruction.opname for instruction in code.instructions[entry.target : entry.target + 2]]
        if names[0] == "PUSH_EXC_INFO":
            leaving = frame.stack[entry.depth - 1] if names[1] == "WITH_EXCEPT_START" else None
            manager = getattr(opened(leaving), "__self__", None)
            is_torchs = type(manager).__module__.partition(".")[0] in LIBRARIES
            if manager is None or not (is_torchs or type(manager) is contextlib.nullcontext):
                return True
        entry = code.handler_at(entry.target)
    return False


def is_of_fakes(error: BaseException) -> bool:
    """Whether what makes fakes of tensors has raised an error that operators do not have: a real tensor got
    in there, say."""
    if isinstance(error, FAKE_ERRORS + data_errors()):
        return True
    if not isinstance(error, Exception) or type(error) in ERRORS_OF_OPERATORS:
        return False
    at = faults.innermost(error)
    module = "" if at is None else at.tb_frame.f_globals.get("__name__") or ""
    return policy.within(module, MAKING_FAKES)


FAKE_ERRORS = (
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.DataDependentOutputException,
)

ERRORS_OF_OPERATORS = frozenset({RuntimeError, IndexError, ValueError})
"""Of which some come out of what makes fakes, for real tensors of other devices or wrong sizes."""

MAKING_FAKES = "torch._subclasses", "torch.fx.experimental", "sympy"


def first_line(error: BaseException) -> str:
    text = next((arg for arg in error.args if type(arg) is str), "")
    return f"{type(error).__name__}: {text.partition(chr(10))[0]}"


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
