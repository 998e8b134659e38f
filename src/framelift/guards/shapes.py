"""Facts about sizes and numbers: in words for people, and as native expressions.

A fact is an expression over what is read of the inputs (`graph.symbols`). The native walk evaluates it with
64-bit integers and doubles; where that is not exact, the fact does not hold, and the call is looked at anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from framelift import _guards
from framelift.core import causes
from framelift.core.breaks import Place
from framelift.core.causes import Cause
from framelift.graph.symbols import Fact, Read, Symbols
from framelift.graph.terms import UnknownTerm, fold
from framelift.guards.sources import Source

Step = tuple[str, Any]


@dataclass(frozen=True)
class ReadKind:
    """What can be read of an input."""

    code: int
    text: str
    """As a user writes it, with the input and the dimension."""
    subject: str
    """What causes are about, with the same."""
    cause: Cause


SIZE_TEXT = "{0}.shape[{1}]"
READS = {
    "number": ReadKind(_guards.READ_NUMBER, "{0}", "{0}", causes.INT),
    "size": ReadKind(_guards.READ_SIZE, SIZE_TEXT, SIZE_TEXT, causes.SIZE),
    "stride": ReadKind(_guards.READ_STRIDE, "{0}.stride()[{1}]", "{0}", causes.STRIDE),
}


@dataclass(frozen=True)
class NamedRead:
    """What is read of an input, in words."""

    text: str
    subject: str
    cause: Cause


def named(read: Read, sources: list[Source]) -> NamedRead:
    kind, place = READS[read.kind], (sources[read.input], read.dim)
    return NamedRead(kind.text.format(*place), kind.subject.format(*place), kind.cause)


def steps_of(text: str) -> list[Step]:
    """An expression in postfix form. Raises UnknownTerm where there is no native operation."""

    def apply(operation: str, operands: list[list[Step]]) -> list[Step]:
        return [*(step for operand in operands for step in operand), (operation, None)]

    def constant(value: int | float) -> list[Step]:
        if type(value) is int and value.bit_length() > 63:
            raise UnknownTerm(str(value))
        return [("constant", int(value) if type(value) is bool else value)]

    return fold(text, constant, lambda name: [("read", int(name[1:]))], apply)


def in_words(text: str, sources: list[Source], reads: list[Read]) -> str:
    """A fact as the user would write it."""

    def name(match: re.Match[str]) -> str:
        read = reads[int(match[1])]
        return named(read, sources).text

    return re.sub(r"\br(\d+)\b", name, text)


def checkable(reads: list[Read], facts: list[Fact], symbols: Symbols) -> list[tuple[Fact, list[Step]]]:
    """The facts with their native form; where one has none, all must be just as it was."""
    try:
        return [(fact, steps_of(fact.text)) for fact in facts]
    except UnknownTerm:
        exact = [Fact(f"r{n} == {symbols.value(read)}", None) for n, read in enumerate(reads)]
        return [(fact, steps_of(fact.text)) for fact in exact]


def definite(fact: Fact, reads: list[Read]) -> Read | None:
    """What the fact leaves only one value for."""
    found = re.fullmatch(r"r(\d+) == -?[\d.e+-]+", fact.text)
    read = reads[int(found[1])] if found else None
    return None if read is None or read.kind == "stride" else read


def violations(symbols: Symbols, sources: list[Source]) -> str:
    """Which marked dimensions may not be all that they are marked to be, and what in the program says so."""
    lines = []
    for n, entry in enumerate(symbols.inputs):
        for dim, constraint in enumerate(entry.context.constraint_sizes if entry.context else ()):
            if constraint is None:
                continue
            needs = symbols.needs(entry, dim)
            if needs:
                lines.append(f"{sources[n]}.shape[{dim}] is marked dynamic{allowed(constraint)}, but:")
                lines += [f"  the program needs {text}{origin(place)}" for text, place in needs]
    return "\n".join(lines)


def allowed(constraint: Any) -> str:
    limits = getattr(constraint, "vr", None)
    return "" if limits is None else f" (from {limits.lower} to {limits.upper})".replace("int_oo", "any size")


def origin(place: Place | None) -> str:
    if place is None:
        return ""
    expression = place.expression
    return f"    # {place.code.co_filename}:{place.line}" + (f": {expression}" if expression else "")
