"""Where the frames of a trace stand when it ends, in the terms of the code that they run."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, NamedTuple

from framelift.bytecode import slot_names
from framelift.bytecode.decode import version
from framelift.bytecode.extend import SUSPENDING, Body
from framelift.bytecode.liveness import dead_slots
from framelift.bytecode.resume import LastInstruction, Origin, Point, body_of, origin_of
from framelift.bytecode.stack_effects import COPY_OF, HANDLING, NOTHING, UNBOUND, VALUE
from framelift.core.sentinels import MISSING, NULL, UNSET
from framelift.interpreter.frame import AtReturn, Frame, Handling
from framelift.interpreter.frame_locals import has_more_than_variables

RESUME = dis.opmap["RESUME"]


class NoPointError(Exception):
    """The frame can't be left where it stands."""


class Standing(NamedTuple):
    """A frame that is left: where, and what is in its slots (None where nothing is) and on its stack."""

    point: Point
    slots: list[Any]
    stack: list[Any]


def chain(frame: Frame | None) -> list[Frame]:
    """A frame and those that wait for it, the outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.back
    return frames[::-1]


def standing(frame: Frame, steps: bool) -> Standing:
    """With `steps`, the frame's instruction will be done for it."""
    code = frame.code.code
    if code.co_flags & SUSPENDING:
        raise NoPointError("the beginning of a generator")
    if has_more_than_variables(frame) or (version.LOCALS_WRITE_THROUGH and "f_locals" in code.co_names):
        raise NoPointError("a function that looks at the variables of frames")  # which go on as other frames
    origin = origin_of(code)
    body = body_of(code) if origin is None else origin.body
    if origin is not None and origin.behind_body(frame.ip) and frame is frame.machine.stopped:
        raise NoPointError("the beginning of a resumed function")  # it does not wait for a call yet
    at = number(origin, frame.ip)
    if at < body.opcodes.index(RESUME):
        raise NoPointError("the beginning of a function")  # its cells would be made a second time
    if not steps and frame.kwnames:
        # the names belong to the call that follows, and are forgotten in between
        while body.name(at) != "KW_NAMES":
            at -= 1
    if body.name(at) == "SET_FUNCTION_ATTRIBUTE" and type(frame.stack[-1]) is CodeType:
        at -= 1  # the function is not made yet
    takes_free = frame.world.functions.is_made_inside(frame.func) if origin is None else origin.takes_free
    return held(frame, body, at, takes_free, origin)


def standing_generator(frame: Frame, started: bool) -> Standing:
    """A generator's frame, at the `yield` where it is suspended; if it has not started, where it begins."""
    at = frame.ip - 1 if started else frame.ip + 1
    return held(frame, body_of(frame.code.code), at, frame.world.functions.is_made_inside(frame.func), None)


def held(frame: Frame, body: Body, at: int, takes_free: bool, origin: Origin | None) -> Standing:
    """What is in a frame that goes on at an instruction."""
    free = len(body.code.co_freevars)
    own = len(slot_names(body.code)) - free
    dead = dead_slots(body, at)
    missed = frame.world.lifetimes.may_be_missed
    unbound = frozenset(
        slot
        for slot in range(own)
        if frame.fast[slot] is UNSET or (slot in dead and not missed(frame.fast[slot], frame.stack))
    )
    slots = [None if slot in unbound else frame.fast[slot] for slot in range(own)]
    if takes_free:
        slots += frame.fast[len(frame.fast) - free :]
    kinds: list[int] = []
    values: list[Any] = []
    for item in frame.stack:
        kind, value = place(item, origin)
        if kind == HANDLING:
            first = next(n for n, other in enumerate(frame.stack) if other is item)
            kind = HANDLING if first == len(kinds) else COPY_OF - first
        kinds.append(kind)
        if kind in (VALUE, HANDLING):
            values.append(value)
    return Standing(Point(body, at, unbound, tuple(kinds), takes_free), slots, values)


def made_for(frame: Frame, callee: Frame) -> Any:
    """The new object that a frame waits for its callee to initialise; MISSING if that is no such call."""
    origin = origin_of(frame.code.code)
    if origin is None or origin.made is None or not origin.behind_body(frame.ip):
        return MISSING if type(callee.instead) is AtReturn else callee.instead
    return frame.fast[origin.made]


def number(origin: Origin | None, at: int) -> int:
    """The number of an instruction in the original code."""
    found = at if origin is None else origin.number(at)
    if found is None:
        raise NoPointError("the beginning of a resumed function")
    return found


def place(item: Any, origin: Origin | None) -> tuple[int, Any]:
    """What is in a place of the stack."""
    kind = type(item)
    if item is NULL:
        return NOTHING, None
    if item is UNSET:
        return UNBOUND, None
    if kind is Handling:
        return (VALUE, None) if item.over else (HANDLING, item.error)
    if kind is LastInstruction:
        return number(origin, item.number), None
    return VALUE, item
