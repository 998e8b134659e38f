"""Guards as data: a fact about a source that the compiled result relies on."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING, Sentinel
from framelift.core.weakly import Weak, is_lasting, there, weakly
from framelift.guards.sources import Access, MemberName, Source, written


class Check(enum.Enum):
    """The kinds of facts; each has a native counterpart `CHECK_<NAME>`."""

    __hash__ = object.__hash__  # Enum's own is Python code that hashes the name

    IS = enum.auto()
    IS_NOT = enum.auto()
    TYPE = enum.auto()
    EQUAL = enum.auto()
    LEN = enum.auto()
    NONEMPTY = enum.auto()
    KEYS = enum.auto()
    HAS_KEY = enum.auto()
    NO_KEY = enum.auto()
    NO_ATTR = enum.auto()
    NO_SLOT = enum.auto()
    ELEMENTS_IN_ORDER = enum.auto()
    CODE = enum.auto()
    EMPTY_CELL = enum.auto()
    TENSOR = enum.auto()
    LEAF = enum.auto()
    NO_HOOKS = enum.auto()
    OFFSET = enum.auto()
    SAME_AS = enum.auto()
    NOT_SAME_AS = enum.auto()


TEXTS = {
    Check.IS: "{s} is {e}",
    Check.IS_NOT: "{s} is not {e}",
    Check.TYPE: "type({s}) is {e.__module__}.{e.__qualname__}",
    Check.EQUAL: "{s} == {e}",
    Check.LEN: "len({s}) == {e}",
    Check.NONEMPTY: "bool({s}) is {e}",
    Check.KEYS: "list({s}) == {e}",
    Check.HAS_KEY: "{e} in {s}",
    Check.NO_KEY: "{e} not in {s}",
    Check.NO_ATTR: "{e} not in vars({s})",
    Check.NO_SLOT: "not hasattr({s}, {e.__name__!r})",
    Check.ELEMENTS_IN_ORDER: "tuple({s}) == {e}",
    Check.CODE: "{s}.__code__ is what it was",
    Check.EMPTY_CELL: "{s} is empty",
    Check.TENSOR: "{s} is {e}",
    Check.LEAF: "{s}.is_leaf is {e}",
    Check.NO_HOOKS: "{s} has no hooks",
    Check.OFFSET: "{s}.storage_offset() == {e}",
    Check.SAME_AS: "{s} is {e}",
    Check.NOT_SAME_AS: "{s} is not {e}",
}
"""How each fact is written, from its source `s` and what is expected `e`."""


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
        """What is kept of it is for people to read."""
        if self.check in OBJECTS:
            if not is_lasting(self.expected):
                self.expected = Weak(self.expected)
        elif self.check in LISTS:
            self.expected = tuple(map(weakly, self.expected))
        elif self.check is Check.NO_SLOT:
            self.expected = MemberName(self.expected.__name__)

    def __str__(self) -> str:
        """As the user would write it; of a variable of an inner frame, with that function's name."""
        function = self.source.function
        return f"{self.text} (in {function})" if function else self.text

    @property
    def text(self) -> str:
        expected, text = self.expected, TEXTS[self.check]
        if is_of_a_number(self.source):
            return text.format(s=self.source.base, e=number(self.source, expected))
        if self.check in LISTS:
            expected = tuple(map(there, expected))
        elif self.check in OBJECTS:
            expected = there(expected)
        if self.check in WRITTEN:
            expected = written(expected)
            if self.check is Check.IS and type(there(self.expected)) is bool:
                text = TEXTS[Check.EQUAL]
        elif self.check is Check.KEYS:
            expected = f"[{', '.join(map(written, expected))}]"
        return text.format(s=self.source, e=expected)


def is_of_a_number(source: Source) -> bool:
    """Whether it is the bytes that one of NumPy's numbers is made of."""
    return source.access is Access.BYTES and source.key is not None


def number(source: Source, data: bytes) -> Any:
    import numpy

    return numpy.frombuffer(data, source.key)[0]


WRITTEN = {Check.IS, Check.IS_NOT, Check.EQUAL, Check.HAS_KEY, Check.NO_KEY, Check.NO_ATTR}
WRITTEN |= {Check.ELEMENTS_IN_ORDER}
"""The checks whose operand is a value of the program's."""


LISTS = frozenset({Check.KEYS, Check.ELEMENTS_IN_ORDER})
OBJECTS = frozenset({Check.IS, Check.IS_NOT, Check.TYPE, Check.CODE, Check.HAS_KEY, Check.NO_KEY})
"""What is expected is a list of objects of the program, or such an object."""


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
        cls = there(self.cls)
        return f"{cls.__module__}.{cls.__qualname__}"

    def __str__(self) -> str:
        if self.found is MISSING:
            return f"{self.place} has no attribute {self.name!r}"
        found = self.found if type(self.found) is Described else written(self.found)
        return f"{self.place}.{self.name} is {found}"
