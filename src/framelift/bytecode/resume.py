"""The functions that go on where a captured stretch of code ended.

A frame that is to go on somewhere else is a `Point`: its code, the instruction at which it stands, and
which of its slots and of its stack there is something in. From a point are made

- a *resume function*: takes what is in slots and stack, and goes on at that instruction. A frame that
  waits for a call is resumed by calling the resume function of the callee in the place of that call;
- a *step function*: does that one instruction, and gives back what it leaves on the stack and where
  to go on, or the exception and where that is handled. A frame that waits for a call calls the step
  function of the callee, so that whoever looks at the stack meanwhile finds the frames that belong there.

Both have the name, the lines and the variables of the original.
"""

from __future__ import annotations

import dis
import sys
import threading
import weakref
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from framelift.bytecode.decode import version
from framelift.bytecode.extend import FREE, Assembler, Body, Label, TooLargeError
from framelift.bytecode.stack_effects import (
    COPY_OF,
    HANDLING,
    NOTHING,
    UNBOUND,
    VALUE,
    how_it_ends,
    pushes_null,
    target_of,
)
from framelift.core.weakly import ENDED, PerCode

__all__ = ["Done", "Origin", "Point", "TooLargeError", "origin_of"]

RAISED = -1
"""The outcome of a step that was an exception which the frame handles."""

INNER = ".inner"
MADE = ".made"


class LastInstruction(int):
    """Which instruction raised, as a handler finds it on the stack: to CPython a unit, to others `number`."""

    number: int


def last_instruction(unit: int, number: int) -> LastInstruction:
    made = LastInstruction(unit)
    made.number = number
    return made


@dataclass(frozen=True)
class Point:
    """Where a frame stands, and what it hands over."""

    body: Body
    at: int
    """The number of the instruction."""
    unbound: frozenset[int]
    stack: tuple[int, ...]
    takes_free: bool
    """The cells of the enclosing functions are arguments too: the function was made by the program."""

    @property
    def code(self) -> CodeType:
        return self.body.code

    def __hash__(self) -> int:
        return hash((id(self.body), self.at, self.unbound, self.stack))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Point)
            and self.body is other.body
            and (self.at, self.unbound, self.stack, self.takes_free)
            == (other.at, other.unbound, other.stack, other.takes_free)
        )


class Callee(weakref.ref[FunctionType]):
    """Stands among the constants of a code for a function that it calls, which has globals and a closure.

    The collector does not look into code objects, so what one held could be part of a cycle that is never
    found. Functions with such a code hold on to the function (`calling`).

    `~callee` is the function. A call would do, but behind a call CPython looks for signals, and what a
    handler raises belongs to the innermost frame.
    """

    __invert__ = weakref.ref.__call__


class Like:
    """What a function that goes on has of another one: not that one itself, which may be one of many."""

    __slots__ = ("__closure__", "__globals__", "__name__")

    def __init__(self, function: FunctionType, closure: bool) -> None:
        self.__globals__ = function.__globals__
        self.__name__ = function.__name__
        self.__closure__ = function.__closure__ if closure else None


@dataclass(frozen=True)
class Origin:
    """Where a resume function comes from."""

    body: Body
    shift: int
    """How many instructions come before those of the body."""
    at: int
    takes_free: bool
    waits: bool
    """Its suffix calls another resume function, in the place of the call `at`."""
    made: int | None = None
    """The slot of the new object that the called one initialises."""
    callee: Callee | None = None

    def number(self, at: int) -> int | None:
        """Which of the original's instructions the resume function's instruction `at` is."""
        if self.shift <= at < self.shift + len(self.body.opcodes):
            return at - self.shift
        return self.at if self.waits and self.behind_body(at) else None

    def behind_body(self, at: int) -> bool:
        return at >= self.shift + len(self.body.opcodes)


_origins: PerCode[Origin] = PerCode()
_bodies: PerCode[Body] = PerCode()
_functions: PerCode[weakref.WeakValueDictionary[Any, FunctionType]] = PerCode()


def body_of(code: CodeType) -> Body:
    return _bodies.get(code) or _bodies.set(code, Body(code))


origin_of = _origins.get


# ---- resume functions


_making = threading.RLock()


@dataclass(frozen=True)
class Done:
    """The instruction that was done by itself before a frame goes on, and whether it raised."""

    at: int
    raised: bool

    def handler(self, body: Body) -> Any:
        """The exception table's entry for what a signal's handler raises now, before anything else is done:
        it is as if the instruction had raised it, or what it has entered. Behind it is too late: CPython
        looks for no signals between the end of a `with` statement's body and the call of `__exit__`."""
        enters = body.name(self.at) == "BEFORE_WITH" and not self.raised
        return body.handler_of(self.at + 1 if enters else self.at)


def resume_code(
    point: Point, inner: FunctionType | None = None, made: bool = False, done: Done | None = None
) -> CodeType:
    """With `inner` the frame waits for that function; if `made`, the call gives not what that returns but
    the object that it has initialised, which is handed over too. Signals are looked for if it is known what
    was done before."""
    handler = None if done is None else done.handler(point.body)
    catches = handler and (handler.target, handler.depth, handler.lasti)
    looks = None if done is None else (catches, done.raised)
    key = (point.at, point.unbound, point.stack, point.takes_free, id(inner), made, looks)
    code = point.body.made.get(key)
    if code is None or called_by(code) is not inner:
        with _making:  # another thread may be at the same point: all get the same code
            code = point.body.made.get(key)
            if code is None or called_by(code) is not inner:
                code = point.body.made[key] = assemble_resume(point, inner, made, done)
    return code


def called_by(code: CodeType) -> FunctionType | None:
    """The function that a resume function calls in the place of the call that it waits for."""
    origin = origin_of(code)
    return None if origin is None or origin.callee is None else origin.callee()


def stands_in_loop(code: CodeType) -> bool:
    """Whether a resume function, or one that it calls, begins within a loop: the program comes by there with
    other values in one call."""
    origin, called = origin_of(code), called_by(code)
    begins_there = origin is not None and origin.body.is_in_loop(origin.at)
    return begins_there or (called is not None and stands_in_loop(called.__code__))


def assemble_resume(point: Point, inner: FunctionType | None, made: bool, done: Done | None) -> CodeType:
    extra = stack_names(point.stack)
    if inner is not None:
        extra += [INNER, MADE] if made else [INNER]
    asm = Assembler(point.body, extra, point.takes_free)
    restore_slots(asm, point)
    taken, pushed = 0, 0
    if done is not None:
        handler = done.handler(point.body)
        # an exception comes in the place of the one that was raised
        pushed = handler.depth if done.raised else len(point.stack)
        taken = push_stack(asm, point.stack[:pushed], 0)
        asm.look_for_signals(handler)
    taken = push_stack(asm, point.stack, taken, pushed)
    callee = None if inner is None else Callee(inner, ENDED)
    if callee is None:
        ask_for_truth(asm, point)
        asm.go_on(point.at)
    else:
        call_inner(asm, point, callee, taken, made)
        asm.go_on(point.at + 1)
    code = asm.finish(point.at)
    initialised = asm.extra_slot(taken + 1) if made else None
    origin = Origin(
        point.body, asm.prefix_length, point.at, point.takes_free, inner is not None, initialised, callee
    )
    _origins.set(code, origin)
    return code


def stack_names(stack: tuple[int, ...]) -> list[str]:
    return [f".stack{n}" for n, kind in enumerate(stack) if kind in (VALUE, HANDLING)]


def restore_slots(asm: Assembler, point: Point) -> None:
    for slot in range(asm.own):
        if slot in point.unbound:
            asm.emit("DELETE_FAST", slot)
        elif asm.names[slot] in point.code.co_cellvars:
            # the argument is the cell: there is nothing to do, but for whoever interprets this
            asm.emit(version.LOAD_CELL, slot)
            asm.emit("STORE_FAST", slot)


def push_stack(asm: Assembler, stack: tuple[int, ...], taken: int, pushed: int = 0) -> int:
    """Restores the stack from the further arguments, from the place `pushed` on; gives how many of those have
    been taken."""
    for depth, kind in enumerate(stack[pushed:], pushed):
        if kind <= COPY_OF:
            asm.emit("COPY", depth - (COPY_OF - kind))
        elif kind == NOTHING:
            asm.emit("PUSH_NULL")
        elif kind == UNBOUND:
            push_unbound(asm)
        elif kind >= 0:
            asm.load_const(last_instruction(asm.shift + asm.body.at_unit(kind), kind + asm.prefix_length))
        else:
            asm.take(taken)
            taken += 1
            if kind == HANDLING:
                asm.emit("PUSH_EXC_INFO")
                asm.emit("POP_TOP")
    return taken


def push_unbound(asm: Assembler) -> None:
    """NULL too, but not to whoever interprets this."""
    for _ in range(2):
        asm.emit("LOAD_FAST_AND_CLEAR", 0)
    asm.emit("SWAP", 2)
    asm.emit("STORE_FAST", 0)


def call_inner(asm: Assembler, point: Point, inner: Callee, argument: int, made: bool) -> None:
    """In the place of the call that the frame waits for: what is raised is handled as it would be there."""
    push_callee(asm, inner)
    asm.take(argument)
    first = asm.restored()
    call_unpacked(asm)
    if made:
        check_initialised(asm, argument + 1)
    handle_as(asm, point, first)


def handle_as(asm: Assembler, point: Point, first: int) -> None:
    """What is raised from `first` on is handled as it would be where the frame stands."""
    handler = point.body.handler_of(point.at)
    if handler is not None:
        asm.handled.append((first, len(asm.units), handler, handler.depth))


def ask_for_truth(asm: Assembler, point: Point) -> None:
    """Of the value that the frame goes on with, if its instruction takes nothing but truth values."""
    if point.body.name(point.at) in version.ASKS_FOR_TRUTH:
        first = asm.restored()
        asm.emit("TO_BOOL")
        handle_as(asm, point, first)


INIT_RETURNED = "__init__() should return None, not '{}'"


def check_initialised(asm: Assembler, made: int) -> None:
    good = Label()
    asm.emit("COPY", 1)
    asm.jump(JUMP_IF_NONE, good)
    push_callable(asm, wrong_init)
    for n in (3, 2, 3, 2):  # the result goes on top
        asm.emit("SWAP", n)
    call(asm, 1)
    asm.emit("RAISE_VARARGS", 1)
    asm.label(good)
    asm.emit("POP_TOP")
    asm.take(made)


def wrong_init(result: Any) -> TypeError:
    return TypeError(INIT_RETURNED.format(type(result).__name__))


def call_unpacked(asm: Assembler) -> None:
    """Calls what lies below a tuple with what that holds."""
    for name in version.NO_KEYWORDS:
        asm.emit(name)
    asm.emit("CALL_FUNCTION_EX", 0)


def call(asm: Assembler, count: int) -> None:
    if "PRECALL" in dis.opmap:
        asm.emit("PRECALL", count)
    asm.emit("CALL", count)


JUMP_IF_NONE = "POP_JUMP_FORWARD_IF_NONE" if "POP_JUMP_FORWARD_IF_NONE" in dis.opmap else "POP_JUMP_IF_NONE"


def push_callee(asm: Assembler, callee: Callee) -> None:
    push_callable(asm, callee, "UNARY_INVERT")


def push_callable(asm: Assembler, constant: Any, *instructions: str) -> None:
    """A constant, or what instructions make of it, and the NULL that belongs to a callable."""
    if not version.CALLABLE_FIRST:
        asm.emit("PUSH_NULL")
    asm.load_const(constant)
    for name in instructions:
        asm.emit(name)
    if version.CALLABLE_FIRST:
        asm.emit("PUSH_NULL")


def resume_function(code: CodeType, like: FunctionType | Like) -> FunctionType:
    """The function with a resume function's code and the globals and closure of another one; always the
    same one, since the code that calls it has it among its constants."""
    key = (id(like.__globals__), tuple(map(id, closure_of(code, like) or ())))
    functions = _functions.get(code)
    if functions is None:
        functions = _functions.set(code, weakref.WeakValueDictionary())
    made = functions.get(key)
    if made is None:
        made = functions[key] = calling(called_by(code), code, like)
    return made


def calling(callee: FunctionType | None, code: CodeType, like: FunctionType | Like) -> FunctionType:
    """A function like another one with a code that calls a third, if it does, which lives as long as it."""
    made = FunctionType(code, like.__globals__, like.__name__, None, closure_of(code, like))
    if callee is not None:
        vars(made)["callee"] = callee
    return made


EMPTY = CellType()


def closure_of(code: CodeType, like: FunctionType | Like) -> tuple[CellType, ...] | None:
    """Where the cells of the free variables are handed over, the function's own are not looked at."""
    return (EMPTY,) * len(code.co_freevars) if f"{FREE}0" in code.co_varnames else like.__closure__


# ---- generators


def generator_code(point: Point, started: bool) -> CodeType:
    """A generator that stands where another one does: at its beginning, or, once it has been advanced for
    the first time, at a YIELD_VALUE."""
    asm = Assembler(point.body, stack_names(point.stack), point.takes_free, keeps_kind=True)
    restore_slots(asm, point)
    push_stack(asm, point.stack, 0)
    if started:
        asm.load_const(None)
    asm.go_on(point.at)
    return asm.finish(point.at)


# ---- step functions


def step_code(point: Point, level: int) -> CodeType:
    """Does the instruction; gives (what it pushed, level, which of its outcomes)."""
    looks, outcomes = how_it_ends(point.body, point.at, len(point.stack))
    base = len(point.stack) - looks
    below = tuple(kind for kind in point.stack[:base] if kind == HANDLING)
    there = (*below, *point.stack[base:])
    asm = Assembler(point.body, stack_names(there), point.takes_free)
    restore_slots(asm, point)
    push_stack(asm, there, 0)
    jumped, raised = Label(), Label()
    first = asm.restored()
    do(asm, point, jumped)
    last = len(asm.units)
    for n, outcome in enumerate(outcomes):
        if n == 1:
            asm.label(jumped)
            if point.body.name(point.at) == "FOR_ITER":
                for name in version.LOOP_ENDS_WITH:
                    asm.emit(name)
        left = len(below) + outcome.keeps - base
        if HANDLING in outcome.pushes:
            push_handled(asm, len(outcome.pushes))
            left += 1
        give_back(asm, there[:left], outcome.values, level, n)
    if point.body.handler_of(point.at) is not None:
        # as much of the stack is left as it takes to undo what was pushed there
        depth = max((n + 1 for n, kind in enumerate(there) if kind == HANDLING), default=0)
        asm.handled.append((first, last, raised, depth))
        asm.label(raised)
        give_back(asm, there[:depth], 1, level, RAISED)
    return asm.finish(point.at)


def push_handled(asm: Assembler, depth: int) -> None:
    """The exception that is handled now, which an instruction has changed, below the others it gives."""
    push_callable(asm, sys.exception)
    call(asm, 0)
    for n in range(depth, 1, -1):
        asm.emit("SWAP", n)


def waiting_step_code(point: Point, inner: FunctionType, level: int) -> CodeType:
    """Calls the step function of the callee, and gives what that gives."""
    below = tuple(kind for kind in point.stack if kind == HANDLING)
    asm = Assembler(point.body, [*stack_names(below), INNER], point.takes_free)
    restore_slots(asm, point)
    push_stack(asm, below, 0)
    push_callee(asm, Callee(inner, ENDED))
    asm.take(len(below))
    first = asm.restored()
    call_unpacked(asm)
    last = len(asm.units)
    drop(asm, below)
    asm.emit("RETURN_VALUE")
    if point.body.handler_of(point.at) is not None:
        raised = Label()
        asm.handled.append((first, last, raised, len(below)))
        asm.label(raised)
        give_back(asm, below, 1, level, RAISED)
    return asm.finish(point.at)


def give_back(asm: Assembler, stack: tuple[int, ...], count: int, level: int, outcome: int) -> None:
    asm.emit("BUILD_TUPLE", count)
    drop(asm, stack)
    asm.load_const(level)
    asm.load_const(outcome)
    asm.emit("BUILD_TUPLE", 3)
    asm.emit("RETURN_VALUE")


def drop(asm: Assembler, stack: tuple[int, ...]) -> None:
    """Takes what is left of the stack from below its top."""
    for kind in reversed(stack):
        asm.emit("SWAP", 2)
        if kind in (NOTHING, UNBOUND):
            asm.emit("STORE_FAST", asm.extra_slot(0))  # POP_TOP takes values only
        else:
            asm.emit("POP_EXCEPT" if kind == HANDLING else "POP_TOP")


def do(asm: Assembler, point: Point, jumped: Label) -> None:
    """The instruction itself."""
    body, at = point.body, point.at
    name, argument = body.name(at), body.arguments[at]
    if name in version.ASKS_FOR_TRUTH:
        asm.emit("TO_BOOL")
    if name == "CALL":
        before = at - 1 if body.name(at - 1) != "PRECALL" else at - 2
        if body.name(before) == "KW_NAMES":
            asm.copy(before)
        call(asm, argument)
    elif target_of(body, at) is not None:
        asm.jump(name.replace("BACKWARD", "FORWARD"), jumped)
    elif name == "LOAD_METHOD":
        asm.emit("LOAD_ATTR", argument)
    elif pushes_null(name, argument):
        asm.emit(name, argument & ~1)
    else:
        asm.copy(at)
