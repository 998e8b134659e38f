"""Decodes a code object once into what the interpreter's loop wants.

An instruction becomes a pair `(handler, argument)`: the handler is the function that implements
the opcode, the argument is already what it needs (a name, a constant, a slot number, the index of
the jump target). Inline caches and EXTENDED_ARG are gone; indices count real instructions.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NamedTuple

from framelift.core.breaks import CodeName, Place
from framelift.core.sentinels import Sentinel

if sys.version_info >= (3, 14):
    from framelift.bytecode import python314 as version
elif sys.version_info >= (3, 13):
    from framelift.bytecode import python313 as version
elif sys.version_info >= (3, 12):
    from framelift.bytecode import python312 as version
else:
    from framelift.bytecode import python311 as version

Handler = Callable[[Any, Any], Any]

OPTIMIZED, VARARGS, VARKEYWORDS = 0x01, 0x04, 0x08
parse_exception_table: Callable[[CodeType], list[Any]] = vars(dis)["_parse_exception_table"]
TRACEBACK_CODE = 1 << 30
"""The flag by which code that only names a frame in a traceback is told from all other code."""


class ExceptionEntry(NamedTuple):
    """A row of the exception table: instructions `start <= i < end` are handled at `target`."""

    start: int
    end: int
    target: int
    depth: int
    push_lasti: bool


RETURNED = Sentinel("RETURNED")
"""What becomes of a value that the frame returns."""


STORES = {
    "STORE_FAST": lambda names: [names],
    "STORE_DEREF": lambda names: [names],
    "STORE_FAST_LOAD_FAST": lambda names: [names[0]],
    "STORE_FAST_STORE_FAST": lambda names: [*names],
}
"""Instruction -> the variables that it stores in."""


def stored_in(instruction: dis.Instruction) -> list[str | None]:
    """The variables that values from the stack are stored in; [None]: in something else."""
    names = STORES.get(instruction.opname)
    return [None] if names is None else names(instruction.argval)


class Decoded:
    """A code object ready to be interpreted."""

    __slots__ = (
        "argcount",
        "exceptions",
        "for_tracebacks",
        "instructions",
        "n_fast",
        "name",
        "names",
        "ops",
        "original",
        "places",
        "positions",
        "results",
        "simple",
        "texts",
    )

    def __init__(self, code: CodeType, handlers: Mapping[str, Handler]) -> None:
        self.original = weakref.ref(code)
        self.name = CodeName.of(code)
        raw = version.instructions(code)
        self.instructions = [i for i in raw if i.opname not in ("CACHE", "EXTENDED_ARG")]
        index = {instruction.offset: n for n, instruction in enumerate(self.instructions)}
        following = index[len(code.co_code)] = len(self.instructions)
        for instruction in reversed(raw):
            # the offset of a prefix or of a cache stands for the instruction that follows it
            following = index.setdefault(instruction.offset, following)
        self.names = slot_names(code)
        self.n_fast = len(self.names)
        flags = code.co_flags
        self.argcount = code.co_argcount
        self.simple = flags & (OPTIMIZED | VARARGS | VARKEYWORDS) == OPTIMIZED and not code.co_kwonlyargcount
        self.ops: list[tuple[Handler, Any]] = []
        for instruction in self.instructions:
            name, argument = version.normalise(instruction, code, index)
            if argument == "tb_frame" and name == "LOAD_ATTR":
                name = "LOAD_TB_FRAME"
            self.ops.append((handlers[name], argument))
        self.positions: list[Any] | None = None
        """Of each two bytes of code, once someone has asked for one."""
        self.places: dict[int, Place] = {}
        """Those that someone has asked for."""
        self.texts: dict[int, str] = {}
        """The same of their lines of a traceback."""
        self.results: dict[int, Any] = {}
        """The same of what `result_at` gives."""
        self.for_tracebacks: CodeType | None = None
        """Names the code in tracebacks; made when an exception first comes through."""
        self.exceptions = [
            ExceptionEntry(index[e.start], index[e.end], index[e.target], e.depth, e.lasti)
            for e in parse_exception_table(code)
        ]

    @property
    def code(self) -> CodeType:
        """Whoever runs it keeps it alive; that it has been decoded once does not."""
        return self.original()  # type: ignore[return-value]

    def position(self, at: int) -> tuple[int | None, int | None, int | None, int | None]:
        """First and last line of an instruction, first and last column."""
        if self.positions is None:
            self.positions = list(self.code.co_positions())
        return self.positions[self.instructions[at].offset // 2]

    def place(self, at: int) -> Place:
        line, last_line, column, last_column = self.position(at)
        return Place(self.name, line, (column, last_column), last_line)

    def result_at(self, at: int) -> str | tuple[str | None, ...] | Sentinel | None:
        """What becomes of the value that an instruction pushes: the variable that it is stored in, those that
        its items are stored in, RETURNED, or None for all else."""
        try:
            return self.results[at]
        except KeyError:
            found = self.results[at] = self.find_result(at)
            return found

    def find_result(self, at: int) -> str | tuple[str | None, ...] | Sentinel | None:
        following = self.instructions[at + 1 : at + 3]
        if len(following) == 2 and following[0].opname == "COPY" and following[0].arg == 1:
            following = following[1:]  # of two variables, the first
        if not following:
            return None
        first = following[0]
        if first.opname == "RETURN_VALUE":
            return RETURNED
        if first.opname == "UNPACK_SEQUENCE":
            start = self.instructions.index(first) + 1
            stores = self.instructions[start : start + first.argval]
            return tuple([name for store in stores for name in stored_in(store)][: first.argval])
        return stored_in(first)[0]

    def handler_at(self, at: int) -> ExceptionEntry | None:
        """The handler of the instruction `at`; CPython's table holds at most one for each."""
        for entry in self.exceptions:
            if entry.start <= at < entry.end:
                return entry
        return None


def slot_names(code: CodeType) -> list[str]:
    """The names of the frame's slots, in order: arguments, locals, cells, free variables."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return [*code.co_varnames, *cells, *code.co_freevars]


def loops(code: CodeType) -> list[tuple[int, int]]:
    """The stretches of offsets that jumps lead back over."""
    jumps = [each for each in dis.get_instructions(code) if each.opcode in JUMPS]
    return [(jump.argval, jump.offset) for jump in jumps if jump.argval <= jump.offset]


JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
