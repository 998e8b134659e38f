"""What happens where a region ends in the middle of its frames.

The region has brought the program's state up to date and hands over what is in each frame, from the
outermost in. The step functions do the instruction that could not be captured (`framelift.bytecode.resume`),
all frames being on the stack as they should be. Then the resume function of the outermost frame is called,
which calls that of the next one, and so on: to whoever captures it the rest of all of them is one frame.
"""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from framelift import _frame
from framelift.bytecode.liveness import dead_slots
from framelift.bytecode.resume import (
    HANDLING,
    RAISED,
    VALUE,
    Done,
    Like,
    Outcome,
    Point,
    calling,
    how_it_ends,
    resume_code,
    resume_function,
    step_code,
    waiting_step_code,
)
from framelift.interpreter.lookups import RELIED_ON, has_finaliser, is_watched


@dataclass(frozen=True)
class Activation:
    """One of the frames that a region stops in."""

    point: Point
    function: Like | None
    """Whose globals and closure it has; the outermost frame's are known when it runs."""
    initialises: bool = False
    """The frame that it waits for is an `__init__`, whose object it gets."""


State = tuple[tuple[Any, ...], tuple[Any, ...], Any]
"""What is in a frame: its slots, the places of its stack that have something, and the new object that the
frame it waits for initialises."""


class Plan:
    def __init__(self, frames: list[Activation], step: bool) -> None:
        """Without a step the innermost frame goes on at its instruction itself."""
        self.frames = frames
        self.outcomes: list[Outcome] = []
        self.step: Any = None
        self.callee: FunctionType | None = None
        """The step function of the next frame, which the outermost one calls."""
        self.resumes: dict[tuple[int, int, frozenset[int]], tuple[Any, list[int], FunctionType | None]] = {}
        self.dead: dict[tuple[int, int], frozenset[int]] = {}
        """The variables that are not read again, wherever it goes on."""
        if step:
            self.plan_step()

    # ---- the step

    def plan_step(self) -> None:
        last = len(self.frames) - 1
        inner = self.frames[last]
        looks, self.outcomes = how_it_ends(inner.point.body, inner.point.at, len(inner.point.stack))
        self.looks = len(inner.point.stack) - looks
        code = step_code(inner.point, last)
        _frame.set_decision(code, _frame.STEP if last else _frame.SKIP, _frame.LEAF)
        for level in range(last - 1, -1, -1):
            self.callee = calling(self.callee, code, self.like(level + 1))
            code = waiting_step_code(self.frames[level].point, self.callee, level)
            _frame.set_decision(code, _frame.SKIP, _frame.LEAF)
        self.step = code

    def like(self, level: int) -> Like:
        found = self.frames[level].function
        assert found is not None
        return found

    def stop(self, function: FunctionType, states: tuple[State, ...]) -> _frame.Stop:
        """What the region returns."""
        if self.step is None:
            return _frame.Stop(None, (), functools.partial(self.go_on, function, states))
        args = self.step_arguments(states)
        *outer, (slots, stack, made) = states
        kept = max([outcome.keeps for outcome in self.outcomes] + [self.handler_depth()])
        count = values_in(self.frames[-1].point.stack[:kept])
        left = (*outer, (slots, stack[:count], made))
        step = calling(self.callee, self.step, function)
        return _frame.Stop(step, args, functools.partial(self.go_on, function, left))

    def handler_depth(self) -> int:
        point = self.frames[-1].point
        handler = point.body.handler_of(point.at)
        return 0 if handler is None else handler.depth

    def step_arguments(self, states: tuple[State, ...]) -> tuple[Any, ...]:
        point = self.frames[-1].point
        slots, stack, _ = states[-1]
        below = values_in(point.stack[: self.looks])
        args = (*slots, *handled(point.stack[: self.looks], stack), *stack[below:])
        for frame, state in zip(self.frames[-2::-1], states[-2::-1], strict=True):
            args = (*state[0], *handled(frame.point.stack, state[1]), args)
        return args

    # ---- what comes after it

    def go_on(
        self, function: FunctionType, states: tuple[State, ...], done: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        """The function that goes on, and its arguments."""
        values, level, outcome = ((), len(self.frames) - 1, 0) if done is None else done
        slots, stack, _ = states[level]
        dead = self.dead.get((level, outcome))
        if dead is None:
            dead = self.dead[level, outcome] = self.dead_after(level, outcome)
        kept = frozenset([slot for slot in dead if is_missed(slots[slot])])
        made = self.resumes.get((level, outcome, kept))
        if made is None:
            made = self.resumes[level, outcome, kept] = self.plan_resume(level, outcome, dead - kept)
        code, taken, callee = made
        depth = values_in(self.after(level, outcome)[1])
        args = (*taken_from(slots, taken), *stack[:depth], *values)
        for n in range(level - 1, -1, -1):
            frame, state = self.frames[n], states[n]
            args = (*state[0], *state[1], args)
            if frame.initialises:
                args = (*args, state[2])
        return calling(callee, code, function), args

    def after(self, level: int, outcome: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Where a frame goes on, what is left of its stack, and what comes onto it."""
        point = self.frames[level].point
        if outcome == RAISED:
            handler = point.body.handler_of(point.at)
            pushed = (point.at, VALUE) if handler.lasti else (VALUE,)
            return point.body.instruction_at(handler.target // 2), point.stack[: handler.depth], pushed
        if self.step is None:
            return point.at, point.stack, ()
        ending = self.outcomes[outcome]
        return ending.at, point.stack[: ending.keeps], ending.pushes

    def dead_after(self, level: int, outcome: int) -> frozenset[int]:
        point = self.frames[level].point
        return dead_slots(point.body, self.after(level, outcome)[0]) - point.unbound

    def plan_resume(
        self, level: int, outcome: int, dead: frozenset[int]
    ) -> tuple[Any, list[int], FunctionType | None]:
        point = self.frames[level].point
        at, kept, pushed = self.after(level, outcome)
        then = Point(point.body, at, point.unbound | dead, (*kept, *pushed), point.takes_free)
        done = None if self.step is None else Done(point.at, outcome == RAISED)
        code, inner = decided(resume_code(then, done=done), point), None
        for n in range(level - 1, -1, -1):
            frame = self.frames[n]
            inner = resume_function(code, self.like(n + 1))
            code = decided(resume_code(frame.point, inner, frame.initialises), frame.point)
        return code, sorted(dead), inner


def decided(code: CodeType, point: Point) -> CodeType:
    """What was decided of a function holds for the rest of it."""
    original = point.body.original()
    decision = _frame.get_decision(original) if original is not None else ()
    if decision and all(decision):
        _frame.set_decision(code, *decision)
    return code


def is_missed(value: Any) -> bool:
    """Whether somebody would notice that an object is gone."""
    if issubclass(type(value), RELIED_ON) or has_finaliser(value):
        return True
    return is_watched(type(value)) and weakref.getweakrefcount(value) > 0


def taken_from(slots: tuple[Any, ...], dead: list[int]) -> list[Any]:
    left = list(slots)
    for slot in dead:
        left[slot] = None
    return left


def values_in(stack: tuple[int, ...]) -> int:
    """How many values are handed over for a stack."""
    return sum(kind in (VALUE, HANDLING) for kind in stack)


def handled(kinds: tuple[int, ...], values: tuple[Any, ...]) -> list[Any]:
    """Of the values of a stack, the exceptions that are being handled."""
    there = [kind for kind in kinds if kind in (VALUE, HANDLING)]
    return [value for kind, value in zip(there, values, strict=False) if kind == HANDLING]
