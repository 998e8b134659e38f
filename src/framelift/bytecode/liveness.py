"""Which local variables are read again: what need not be handed over to the rest of a function."""

from __future__ import annotations

import dis

from framelift.bytecode.extend import Body
from framelift.bytecode.resume import target_of

SLOT_READS = {
    dis.opmap[name]
    for name in ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST")
    if name in dis.opmap
}
SLOT_WRITES = {dis.opmap["STORE_FAST"]}
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
            bit = 1 << body.arguments[at]
            if body.opcodes[at] in SLOT_READS:
                needed |= bit
            elif body.opcodes[at] in SLOT_WRITES:
                needed &= ~bit
            if needed != live[at]:
                live[at] = needed
                changed = True
    return live


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
