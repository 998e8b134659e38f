"""Code objects that begin somewhere else: a copy of a code object with instructions of ours around it.

The copy is `prefix + body + suffix`. The body is the original's bytes: its jumps are relative, so it need
not be taken apart and put together again, and can't come out wrong. The prefix jumps to the suffix, which
does what it has to and goes on anywhere in the body. Slots keep their numbers: arguments, locals and cells
are all arguments of the copy, and further arguments come behind them; only the free variables, which
CPython wants last, move up. Their cells are the function's, or are handed over as well.
"""

from __future__ import annotations

import dis
import inspect
import weakref
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from framelift.bytecode.decode import loops, parse_exception_table, slot_names, version

OPS = dis.opmap
CACHES = version.CACHES
EXTENDED = OPS["EXTENDED_ARG"]
UNIT = 2
"""Bytes of a code unit: an opcode and eight bits of its operand."""
PARAMETERS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
SUSPENDING |= inspect.CO_ITERABLE_COROUTINE
FREE_VARIABLES = {OPS[name] for name in ("LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", version.LOAD_CELL)}

FREE = ".free"


class TooLargeError(Exception):
    """An operand has no room for its new value."""


class Label:
    """A place in the suffix that is jumped to."""

    def __init__(self) -> None:
        self.at: int | None = None


class Body:
    """The units of a code object, and where its instructions are, EXTENDED_ARG and caches included."""

    def __init__(self, code: CodeType) -> None:
        self.original = weakref.ref(code)
        self.code = code.replace()
        """An equal one: what is made from a body must not keep the original alive."""
        self.made: weakref.WeakValueDictionary[Any, CodeType] = weakref.WeakValueDictionary()
        """The resume functions' codes that are in use."""
        self.live: list[int] | None = None
        self.loops: list[tuple[int, int]] | None = None
        self.units = code.co_code
        self.starts: list[int] = []
        """Unit at which each instruction begins; one more for the end."""
        self.opcodes: list[int] = []
        self.arguments: list[int] = []
        self.handlers = list(parse_exception_table(code))
        for start, opcode, argument in instructions(self.units):
            self.starts.append(start)
            self.opcodes.append(opcode)
            self.arguments.append(argument)
        self.starts.append(len(self.units) // UNIT)
        self.positions = list(code.co_positions())
        self.last_line = last_line(code)

    def at_unit(self, n: int) -> int:
        """The unit of the instruction itself, behind its prefixes."""
        at = self.starts[n]
        while self.units[at * UNIT] == EXTENDED:
            at += 1
        return at

    def is_in_loop(self, n: int) -> bool:
        """Whether an instruction may be run several times in one call."""
        if self.loops is None:
            self.loops = loops(self.code)
        place = self.at_unit(n) * UNIT
        return any(first <= place <= last for first, last in self.loops)

    def name(self, n: int) -> str:
        return dis.opname[self.opcodes[n]]

    def instruction_at(self, unit: int) -> int:
        """The number of the instruction that begins at a unit, or has its prefixes there."""
        return self.starts.index(unit)

    def bytes_of(self, n: int) -> bytes:
        return self.units[self.starts[n] * UNIT : self.starts[n + 1] * UNIT]

    def handler_of(self, n: int) -> Any:
        """The exception table's entry for an instruction."""
        offset = self.at_unit(n) * UNIT
        for entry in self.handlers:
            if entry.start <= offset < entry.end:
                return entry
        return None


def instructions(units: bytes) -> Iterator[tuple[int, int, int]]:
    """(unit at which it begins, opcode, operand) of each instruction."""
    at, count = 0, len(units) // UNIT
    while at < count:
        start, argument = at, 0
        while units[at * UNIT] == EXTENDED:
            argument = (argument | units[at * UNIT + 1]) << 8
            at += 1
        opcode = units[at * UNIT]
        yield start, opcode, argument | units[at * UNIT + 1]
        at += 1 + CACHES[opcode]


NO_INTERRUPT = 2
"""The operand of a RESUME that looks for no signals, as in the middle of an `await`."""


class Assembler:
    """Puts a code object together. Operands are what the instructions hold: slots, indices, counts."""

    def __init__(self, body: Body, extra: Sequence[str], takes_free: bool, keeps_kind: bool = False) -> None:
        code = body.code
        self.body = body
        self.names = slot_names(code)
        self.free = code.co_freevars
        self.own = len(self.names) - len(self.free)
        """Slots of the original that are arguments of the copy."""
        self.taken = [f"{FREE}{n}" for n in range(len(self.free) if takes_free else 0)]
        """Arguments that are the cells of the free variables."""
        self.extra = [*self.taken, *extra]
        self.keeps_kind = keeps_kind
        self.units = bytearray()
        self.consts = list(code.co_consts)
        self.labels: list[tuple[int, Label]] = []
        self.jumps_back: list[tuple[int, int]] = []
        self.handled: list[tuple[int, int, Label | Any, int]] = []
        """Stretches of the suffix whose exceptions are handled: start, end, where (a label, or as an entry
        of the body's table says), at which depth."""
        self.silent: int | None = None
        """Bytes of the suffix that restore the frame: a tracer is told of no line there."""
        self.prefix = self.made_prefix()
        self.shift = len(self.prefix) // UNIT

    def made_prefix(self) -> bytearray:
        made = bytearray()
        if self.free and not self.taken:
            made += instruction("COPY_FREE_VARS", len(self.free))
        for n in range(len(self.taken)):
            made += instruction(version.LOAD_CELL, self.own + n) + instruction("DELETE_FAST", self.own + n)
            made += instruction("STORE_FAST", self.own + len(self.extra) + n)
        if self.keeps_kind:
            made += instruction("RETURN_GENERATOR") + instruction("POP_TOP")
        # The rest of a frame looks for no signals here: none of its `try` statements would see what one of
        # their handlers raises.
        return (
            made
            + instruction("RESUME", 0 if self.keeps_kind else NO_INTERRUPT)
            + wide("JUMP_FORWARD", len(self.body.units) // UNIT)
        )

    @property
    def prefix_length(self) -> int:
        """Instructions of the prefix."""
        return len(list(instructions(bytes(self.prefix))))

    # ---- writing the suffix

    def restored(self) -> int:
        """What comes now is the program's; gives where that is."""
        first = self.silent = len(self.units)
        # Of a call that it enters without C in between, CPython 3.13 takes the handler of what is before it.
        self.emit("NOP")
        return first

    def emit(self, name: str, argument: int = 0) -> None:
        self.units += instruction(name, argument)

    def copy(self, n: int) -> None:
        """An instruction of the body that does not jump."""
        self.units += self.patched(self.body.bytes_of(n)) if self.free else self.body.bytes_of(n)

    def jump(self, name: str, to: Label) -> None:
        """Forward, within the suffix."""
        self.labels.append((len(self.units), to))
        self.units += wide(name, 0)

    def label(self, label: Label) -> None:
        label.at = len(self.units)

    def go_on(self, n: int) -> None:
        """Jumps to an instruction of the body."""
        self.jumps_back.append((len(self.units), n))
        self.units += wide("JUMP_BACKWARD_NO_INTERRUPT", 0)

    def look_for_signals(self, handler: Any) -> None:
        """CPython looks for them where a jump goes back. What is raised there is handled as an entry of the
        body's table says."""
        first, back, behind = len(self.units), Label(), Label()
        self.jump("JUMP_FORWARD", back)
        landing = len(self.units)
        self.jump("JUMP_FORWARD", behind)
        self.label(back)
        behind_jump = len(self.units) + len(wide("JUMP_BACKWARD", 0))
        self.units += wide("JUMP_BACKWARD", (behind_jump - landing) // UNIT)
        self.label(behind)
        if handler is not None:
            self.handled.append((first, len(self.units), handler, handler.depth))

    def const(self, value: Any) -> int:
        for n, known in enumerate(self.consts):
            if known is value:
                return n
        self.consts.append(value)
        return len(self.consts) - 1

    def load_const(self, value: Any) -> None:
        self.emit("LOAD_CONST", self.const(value))

    def extra_slot(self, n: int) -> int:
        return self.own + len(self.taken) + n

    def take(self, n: int) -> None:
        """Pushes one of the further arguments, which the frame does not hold on to."""
        self.emit("LOAD_FAST", self.extra_slot(n))
        self.emit("DELETE_FAST", self.extra_slot(n))

    # ---- the code object

    def finish(self, at: int) -> CodeType:
        """The suffix is at home where the instruction `at` of the body is."""
        code = self.body.code
        suffix_at = self.shift + len(self.body.units) // UNIT
        for start, label in self.labels:
            assert label.at is not None
            opcode = self.units[start + WIDE - UNIT]
            end = start + WIDE + CACHES[opcode] * UNIT
            set_wide(self.units, start, (label.at - end) // UNIT)
        for start, n in self.jumps_back:
            end = suffix_at + (start + WIDE) // UNIT
            set_wide(self.units, start, end - self.shift - self.body.starts[n])
        moved = self.patched(self.body.units) if self.free and self.extra else self.body.units
        flags = code.co_flags & ~(PARAMETERS | (0 if self.keeps_kind else SUSPENDING))
        names = (*self.names[: self.own], *self.extra)
        return code.replace(
            co_code=bytes(self.prefix) + moved + bytes(self.units),
            co_consts=tuple(self.consts),
            co_varnames=names,
            co_nlocals=len(names),
            co_freevars=self.free,
            co_argcount=len(names),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=flags,
            co_stacksize=code.co_stacksize + len(self.extra) + 12,
            co_linetable=self.line_table(at),
            co_exceptiontable=self.exception_table(suffix_at),
        )

    def patched(self, units: bytes) -> bytes:
        """The free variables' slots lie behind the further arguments."""
        moved = bytearray(units)
        for start, opcode, argument in instructions(units):
            if opcode in FREE_VARIABLES and argument >= self.own:
                operand, at = argument + len(self.extra), start
                while moved[at * UNIT] == EXTENDED:
                    at += 1
                for place in range(at, start - 1, -1):
                    moved[place * UNIT + 1] = operand & 0xFF
                    operand >>= 8
                if operand:
                    raise TooLargeError
        return bytes(moved)

    def exception_table(self, suffix_at: int) -> bytes:
        table = bytearray()
        for entry in self.body.handlers:
            start, end, target = (
                offset // UNIT + self.shift for offset in (entry.start, entry.end, entry.target)
            )
            add_entry(table, start, end - start, target, entry.depth, entry.lasti)
        for first, last, where, depth in self.handled:
            at, length = suffix_at + first // UNIT, (last - first) // UNIT
            if isinstance(where, Label):
                assert where.at is not None
                add_entry(table, at, length, suffix_at + where.at // UNIT, depth, False)
            else:
                add_entry(table, at, length, where.target // UNIT + self.shift, depth, where.lasti)
        return bytes(table)

    def line_table(self, at: int) -> bytes:
        table = bytearray()
        jump = WIDE // UNIT
        add_location(table, self.shift - jump, NO_COLUMNS, 0)
        add_location(table, jump, NOWHERE, 0)
        table += self.body.code.co_linetable
        line, end_line, column, end_column = self.body.positions[self.body.at_unit(at)]
        silent = len(self.units) if self.silent is None else self.silent
        add_location(table, silent // UNIT, NOWHERE, 0)
        count = (len(self.units) - silent) // UNIT
        if line is None:
            add_location(table, count, NOWHERE, 0)
        elif column is None or end_column is None or end_line is None:
            add_location(table, count, NO_COLUMNS, line - self.body.last_line)
        else:
            where = (end_line - line, column + 1, end_column + 1)
            add_location(table, count, WITH_COLUMNS, line - self.body.last_line, where)
        return bytes(table)


# ---- encodings

WIDE = 3 * UNIT
"""Bytes of a jump whose operand has always the same room."""


def instruction(name: str, argument: int = 0) -> bytes:
    made = bytearray()
    for shift in (24, 16, 8):
        if argument >> shift:
            made += bytes((EXTENDED, (argument >> shift) & 0xFF))
    opcode = OPS[name]
    return bytes(made) + bytes((opcode, argument & 0xFF)) + bytes(UNIT * CACHES[opcode])


def wide(name: str, argument: int) -> bytearray:
    opcode = OPS[name]
    made = bytearray((EXTENDED, 0, EXTENDED, 0, opcode, 0)) + bytes(UNIT * CACHES[opcode])
    set_wide(made, 0, argument)
    return made


def set_wide(units: bytearray, start: int, argument: int) -> None:
    if argument >> 24:
        raise TooLargeError
    units[start + 1], units[start + 3] = argument >> 16, (argument >> 8) & 0xFF
    units[start + 5] = argument & 0xFF


def varint(value: int) -> bytes:
    """As the location table has them: six bits at a time, the least significant first."""
    made = bytearray()
    while value >= 64:
        made.append(64 | (value & 63))
        value >>= 6
    made.append(value)
    return bytes(made)


def signed_varint(value: int) -> bytes:
    return varint((-value << 1) | 1 if value < 0 else value << 1)


NO_COLUMNS, WITH_COLUMNS, NOWHERE = 13, 14, 15


def add_location(
    table: bytearray, units: int, form: int, line_delta: int, where: tuple[int, ...] = ()
) -> None:
    while units > 0:
        length = min(units, 8)
        table.append(0x80 | form << 3 | (length - 1))
        if form != NOWHERE:
            table += signed_varint(line_delta)
        for part in where:
            table += varint(part)
        units -= length
        line_delta = 0


def last_line(code: CodeType) -> int:
    """The line that the location table has arrived at behind its last entry."""
    line, table, at = code.co_firstlineno, code.co_linetable, 0
    while at < len(table):
        form = (table[at] >> 3) & 15
        at += 1
        if form in (NO_COLUMNS, WITH_COLUMNS):
            shift = value = 0
            while True:
                byte = table[at]
                value |= (byte & 63) << shift
                shift += 6
                at += 1
                if not byte & 64:
                    break
            line += -(value >> 1) if value & 1 else value >> 1
        elif 10 <= form <= 12:
            line += form - 10
        while at < len(table) and not table[at] & 0x80:
            at += 1
    return line


def add_entry(table: bytearray, start: int, length: int, target: int, depth: int, lasti: bool) -> None:
    """A row of the exception table; the first byte of a row is marked."""
    row = bytearray()
    for value in (start, length, target, depth << 1 | lasti):
        row += exception_varint(value)
    row[0] |= 0x80
    table += row


def exception_varint(value: int) -> bytes:
    """Six bits at a time, the most significant first."""
    parts = [value & 63]
    while value := value >> 6:
        parts.append(64 | (value & 63))
    return bytes(reversed(parts))
