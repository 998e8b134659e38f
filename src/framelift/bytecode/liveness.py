"""Which local variables are read again: what need not be handed over to the rest of a function."""

from __future__ import annotations

import dis

from framelift.bytecode.extend import Body
from framelift.bytecode.stack_effects import target_of

READS, WRITES = True, False
ACCESSES = {
    dis.opmap[name]: accesses
    for name, accesses in {
        "LOAD_FAST": (READS,),
        "LOAD_FAST_BORROW": (READS,),
        "LOAD_FAST_CHECK": (READS,),
        "LOAD_FAST_AND_CLEAR": (READS,),
        "DELETE_FAST": (READS,),
        "STORE_FAST": (WRITES,),
        "LOAD_FAST_LOAD_FAST": (READS, READS),
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (READS, READS),
        "STORE_FAST_LOAD_FAST": (WRITES, READS),
        "STORE_FAST_STORE_FAST": (WRITES, WRITES),
    }.items()
    if name in dis.opmap
}
"""What instructions do with slots, in that order. The numbers of two are packed into one operand."""
ENDS = {
    dis.opmap[name]
    for name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
    if name in dis.opmap
}
JUMPS = {dis.opmap[name] for name in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")}
LOOKS_AT_FRAMES = frozenset(
    [
        "locals",
        "vars",
        "dir",
        "eval",
        "exec",
        "super",
        "breakpoint",
        "_getframe",
        "currentframe",
        "stack",
        "set_trace",
        "trace",
    ]
)
"""Names of what may read variables, or show them, without an instruction that says so."""


def live_slots(body: Body, at: int) -> int:
    """The slots that are read from an instruction on before they are written, as bits."""
    if body.live is None:
        body.live = analyse(body)
    return body.live[at]


def dead_slots(body: Body, at: int) -> frozenset[int]:
    """The variables that nobody reads any more; cells stay, others may have them."""
    live = live_slots(body, at)
    code = body.code
    return frozenset(
        slot
        for slot, name in enumerate(code.co_varnames)
        if not live >> slot & 1 and name not in code.co_cellvars
    )


def analyse(body: Body) -> list[int]:
    count = len(body.opcodes)
    if not LOOKS_AT_FRAMES.isdisjoint(body.code.co_names):
        return [-1] * count
    follows = successors(body)
    live = [0] * count
    changed = True
    while changed:
        changed = False
        for at in range(count - 1, -1, -1):
            needed = 0
            for after in follows[at]:
                needed |= live[after]
            accesses = ACCESSES.get(body.opcodes[at])
            if accesses is not None:
                needed = needed_before(accesses, body.arguments[at], needed)
            if needed != live[at]:
                live[at] = needed
                changed = True
    return live


def needed_before(accesses: tuple[bool, ...], argument: int, needed: int) -> int:
    """The slots that are needed in front of an instruction, given those that are needed behind it."""
    slots = (argument,) if len(accesses) == 1 else (argument >> 4, argument & 15)
    for slot, reads in zip(reversed(slots), reversed(accesses), strict=True):
        needed = needed | 1 << slot if reads else needed & ~(1 << slot)
    return needed


def successors(body: Body) -> list[list[int]]:
    """What may come after each instruction, handlers of exceptions included."""
    found = []
    for at, opcode in enumerate(body.opcodes):
        after = []
        if opcode not in ENDS and opcode not in JUMPS and at + 1 < len(body.opcodes):
            after.append(at + 1)
        target = target_of(body, at)
        if target is not None:
            after.append(target)
        handler = body.handler_of(at)
        if handler is not None:
            after.append(body.instruction_at(handler.target // 2))
        found.append(after)
    return found
