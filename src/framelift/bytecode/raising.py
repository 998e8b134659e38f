"""Which branches lead to nothing but an exception: `assert`, and `if` with a `raise` behind it.

From an instruction all that may come after it is followed, into handlers of exceptions too. Where none of
the ways returns or yields, the program raises. What it does before that does not matter here.
"""

from __future__ import annotations

import dis
from typing import NamedTuple

from framelift.bytecode.decode import Decoded, ExceptionEntry

COMES_BACK = frozenset({"RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "RETURN_GENERATOR"})
RAISES = frozenset({"RAISE_VARARGS", "RERAISE"})
ALWAYS_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
BRANCHES = {
    "POP_JUMP_IF_FALSE": False,
    "POP_JUMP_FORWARD_IF_FALSE": False,
    "POP_JUMP_BACKWARD_IF_FALSE": False,
    "POP_JUMP_IF_TRUE": True,
    "POP_JUMP_FORWARD_IF_TRUE": True,
    "POP_JUMP_BACKWARD_IF_TRUE": True,
}
"""Instruction that asks for the truth of a value -> the answer with which it jumps."""


class RaisingBranch(NamedTuple):
    """A branch of which one side raises."""

    expected: bool
    """The truth of the value with which the program goes on."""
    raises_at: int
    """Where the other side begins."""


def branch_at(code: Decoded, at: int) -> RaisingBranch | None:
    """The branch at an instruction; None: there is none, or not just one of its sides raises."""
    if code.instructions[at].opname == "TO_BOOL":
        at += 1
    jumps_with = BRANCHES.get(code.instructions[at].opname)
    if jumps_with is None:
        return None
    target: int = code.ops[at][1]
    jump_raises, stay_raises = always_raises(code, target), always_raises(code, at + 1)
    if jump_raises == stay_raises:
        return None
    return RaisingBranch(not jumps_with, target) if jump_raises else RaisingBranch(jumps_with, at + 1)


def always_raises(code: Decoded, at: int) -> bool:
    """Whether the frame is left by an exception, and by nothing else, wherever the program goes from here."""
    seen: set[int] = set()
    waiting, raises = [at], False
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        name = code.instructions[at].opname
        if name in COMES_BACK:
            return False
        if name in RAISES:
            raises = True
            handler = try_around(code, at)
            waiting += [] if handler is None else [handler.target]
            continue
        if code.instructions[at].opcode in JUMPS:
            waiting.append(code.ops[at][1])
        if name not in ALWAYS_JUMPS:
            waiting.append(at + 1)
    return raises


def is_with(code: Decoded, entry: ExceptionEntry) -> bool:
    """Whether a handler is that of a `with` statement, which an exception goes through as a rule."""
    names = [instruction.opname for instruction in code.instructions[entry.target : entry.target + 2]]
    return names == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]


def try_around(code: Decoded, at: int) -> ExceptionEntry | None:
    """The handler of the `try` around an instruction."""
    entry = code.handler_at(at)
    while entry is not None and is_with(code, entry):
        entry = code.handler_at(entry.target)
    return entry


def goes_on_after_error(code: Decoded, at: int) -> bool:
    """Whether a `try` around an instruction may handle an exception that comes from there."""
    entry = try_around(code, at)
    return entry is not None and not always_raises(code, entry.target)
