"""Loops over as many things as a size says, in which traces end.

How often such a loop goes round is settled where the trace goes through it. If it ends inside the loop all
the same, the function would be captured for each number of rounds, up to that end. So the trace is made again
and ends in front of the loop, which goes over a real iterator then; what it does in a round is captured once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.bytecode.resume import origin_of
from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.interpreter.frame import Frame
from framelift.interpreter.op_calls import CALL
from framelift.interpreter.op_control import FOR_ITER, GET_ITER
from framelift.interpreter.pending import Pending
from framelift.trace.part import Part

Loop = tuple[str, int, int]
"""A loop: name and first line of its function, and the number of the instruction that begins it."""


WHY = "a loop over a size that varies, in which a trace has ended"


class Begun(NamedTuple):
    """A loop over a size that the trace has come to."""

    code: Any
    begin: int
    end: int
    loop: Loop


class Loops(Part):
    """The loops over sizes of one trace."""

    def start(self) -> None:
        self.begun: list[Begun] = []

    def over(self, value: Any) -> None:
        """An instruction begins a loop, or something else, over a value: a trace that has ended in the loop
        before ends here now."""
        frame = self.world.machine.frame
        if type(value) is Pending:  # what C goes over for real must not be opened: its size would be a guard
            ended_in = self.world.inputs.dynamism.loops
            if ended_in and frame is not None and issubclass(type(value.value), (range, torch.Tensor)):
                found = loop_at(frame, frame.ip)
                if found is not None and found.loop in ended_in:
                    refuse(breaks.OUTSIDE_ITERATOR, WHY)
        elif frame is not None and self.world.may_have_symbols and varies(value):
            self.begin(frame, frame.ip)

    def begin(self, frame: Frame[Any], at: int) -> None:
        """A loop over a size may begin at an instruction."""
        found = loop_at(frame, at)
        if found is None:
            return
        if found.loop in self.world.inputs.dynamism.loops:
            refuse(breaks.OUTSIDE_ITERATOR, WHY)
        self.begun.append(found)

    def note_ended(self, frames: Iterable[Frame[Any]]) -> bool:
        """Whether a trace that ends with these frames ends in such a loop."""
        inside = {
            one.loop
            for frame in frames
            for one in self.begun
            if one.code is frame.code and one.begin < frame.ip < one.end
        }
        ended_in = self.world.inputs.dynamism.loops
        is_new = bool(inside - ended_in)
        ended_in |= inside
        return is_new


def varies(value: Any) -> bool:
    """Whether a tensor has as many rows as a symbol says."""
    if type(value) is not FakeTensor or not value.dim():
        return False
    rows: Any = value.shape[0]
    return type(rows) is torch.SymInt


def loop_at(frame: Frame[Any], at: int) -> Begun | None:
    """The loop that an instruction begins, or that goes over what it calls with the same, as `enumerate`."""
    ops = frame.code.ops
    if ops[at][0] is CALL:
        at += 1
    if at + 1 >= len(ops) or ops[at][0] is not GET_ITER or ops[at + 1][0] is not FOR_ITER:
        return None
    origin = origin_of(frame.code.code)
    number = at if origin is None else origin.number(at)
    if number is None:
        return None
    code = frame.code.code if origin is None else origin.body.code
    return Begun(frame.code, at, ops[at + 1][1], (code.co_qualname, code.co_firstlineno, number))
