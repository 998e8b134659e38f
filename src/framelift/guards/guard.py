"""Guards as data: a fact about a source that the compiled result relies on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING, Sentinel
from framelift.core.weakly import there, weakly
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.guards.value_texts import full_name, written


@dataclass(slots=True, eq=False)
class Guard:
    source: Source
    check: Check
    expected: Any
    place: Place | None
    caller: Place | None = None
    """The user's line, where `place` is in a library's code."""

    @property
    def user_place(self) -> Place | None:
        return self.caller or self.place

    def let_go(self) -> None:
        """Keeps only what messages need of the operand."""
        keep = self.check.operand.keep
        if keep is not None:
            self.expected = keep(self.expected)

    def __str__(self) -> str:
        """As the user would write it; of a variable of an inner frame, with that function's name."""
        function = self.source.function
        return f"{self.text} (in {function})" if function else self.text

    @property
    def text(self) -> str:
        text = self.check.text
        if is_of_a_number(self.source):
            return text.format(s=self.source.base, e=number(self.source, self.expected))
        if self.check is Check.IS and type(self.expected) is bool:
            text = Check.EQUAL.text
        return text.format(s=self.source, e=self.check.operand.text(self.expected))


def is_of_a_number(source: Source) -> bool:
    """Whether it is the bytes that one of NumPy's numbers is made of."""
    return source.access is Access.BYTES and source.key is not None


def number(source: Source, data: bytes) -> Any:
    import numpy

    return numpy.frombuffer(data, source.key)[0]


class Described(str):
    """What is kept of an object that was found on a class."""


CONSTANTS = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class ClassGuard:
    """A class lookup the trace relied on: `name` on `cls` finds this very object (or nothing)."""

    cls: Any
    name: str
    found: Any

    def let_go(self) -> None:
        object.__setattr__(self, "cls", weakly(self.cls))
        if type(self.found) not in (*CONSTANTS, Sentinel):
            object.__setattr__(self, "found", Described(written(self.found)))

    @property
    def place(self) -> str:
        return full_name(there(self.cls))

    def __str__(self) -> str:
        if self.found is MISSING:
            return f"{self.place} has no attribute {self.name!r}"
        found = self.found if type(self.found) is Described else written(self.found)
        return f"{self.place}.{self.name} is {found}"


VARIES = "varies"
"""In the place of a value that a capture relies on: it was a symbol already."""


def relied_on(guards: Iterable[Guard]) -> dict[str, Any]:
    """The sizes and numbers that a capture was made for, by where they were found."""
    found: dict[Source, Any] = {}
    for guard in guards:
        if guard.check is Check.TENSOR:
            found[guard.source] = guard.expected.sizes
        elif guard.check is Check.EQUAL and type(guard.expected) in (int, float):
            found[guard.source] = guard.expected
        elif guard.check is Check.TYPE and (guard.expected is int or guard.expected is float):
            found.setdefault(guard.source, VARIES)
    return {str(source): value for source, value in found.items()}
