"""Where an outside value can be found again: a path of accesses from the frame.

A source is a node of a tree: its base, how to get from the base to it, and a key. It renders itself
as the Python expression a user would write, and each kind of access has a native counterpart of the
same name in `framelift._guards` (`ACCESS_<NAME>`).
"""

from __future__ import annotations

import enum
from typing import Any

from framelift.core.weakly import there, weakly
from framelift.world.hashing import COMMON_KEYS, hashes_itself


class Access(enum.Enum):
    """How a value is reached."""

    ARG = enum.auto()
    FUNC = enum.auto()
    GLOBALS = enum.auto()
    SCOPE = enum.auto()
    CONST = enum.auto()
    ATTR = enum.auto()
    DICT = enum.auto()
    KEY = enum.auto()
    ITEM = enum.auto()
    DEQUE_ITEM = enum.auto()
    SLOT = enum.auto()
    CELL = enum.auto()
    CELL_OBJECT = enum.auto()
    CONTENTS = enum.auto()
    TYPE = enum.auto()
    DEFAULT = enum.auto()
    KWDEFAULT = enum.auto()
    SELF = enum.auto()
    METHOD_FUNC = enum.auto()
    GRAD = enum.auto()
    NATIVE_ATTR = enum.auto()


TEXTS = {
    Access.ARG: "{k[1]}",
    Access.FUNC: "{k}",
    Access.GLOBALS: "globals()",
    Access.SCOPE: "{k}",
    Access.CONST: "{k[0]}",
    Access.ATTR: "{b}.{k}",
    Access.DICT: "{b}.__dict__",
    Access.KEY: "{b}[{k!r}]",
    Access.ITEM: "{b}[{k}]",
    Access.DEQUE_ITEM: "{b}[{k}]",
    Access.SLOT: "{b}.{k.__name__}",
    Access.CELL: "{k[1]}",
    Access.CELL_OBJECT: "{b}.__closure__[{k}]",
    Access.CONTENTS: "{b}.cell_contents",
    Access.TYPE: "type({b})",
    Access.DEFAULT: "{b}.__defaults__[{k}]",
    Access.KWDEFAULT: "{b}.__kwdefaults__[{k!r}]",
    Access.SELF: "{b}.__self__",
    Access.METHOD_FUNC: "{b}.__func__",
    Access.GRAD: "{b}.grad",
    Access.NATIVE_ATTR: "{b}.{k}",
}
"""How each access is written, from its base `b` and key `k`."""


ROOTS = frozenset({Access.ARG, Access.FUNC, Access.GLOBALS, Access.CONST})


class Source:
    """One outside place. Sources are unique within a world: compare them by identity."""

    __slots__ = ("access", "base", "children", "key")

    def __init__(self, base: Source | None, access: Access, key: Any) -> None:
        self.base = base
        self.access = access
        self.key = key
        self.children: dict[Any, Source] = {}

    def child(self, access: Access, key: Any = None) -> Source:
        """The source reached from this one; the same one each time."""
        cls = type(key)
        if cls not in COMMON_KEYS and (key.__hash__ is None or hashes_itself(key)):
            index = (access, id(key), cls)
        else:
            index = (access, key, cls)
        found = self.children.get(index)
        if found is None:
            found = self.children[index] = Source(self, access, key)
        return found

    @property
    def root(self) -> Source:
        """The argument, function, namespace or constant that the path begins at."""
        found = self
        while found.access not in ROOTS and found.base is not None:
            found = found.base
        return found

    @property
    def operand(self) -> Any:
        """What the native access takes."""
        return (
            self.key[0]
            if self.access in (Access.ARG, Access.CELL)
            else (self.key[1] if self.access is Access.CONST else self.key)
        )

    def let_go(self) -> None:
        """What is kept of it is for people to read."""
        self.children = {}
        if self.access is Access.CONST:
            self.key = (self.key[0], weakly(self.key[1]))
        elif self.access is Access.KEY:
            self.key = weakly(self.key)
        elif self.access is Access.SLOT:
            self.key = MemberName(self.key.__name__)

    def __str__(self) -> str:
        base = self.base
        if self.access is Access.KEY and base is not None and is_namespace(base):
            # a global, or a module's attribute: as the user writes it
            return self.key if base.access is Access.GLOBALS else f"{base}.{self.key}"
        return TEXTS[self.access].format(b=base, k=there(self.key))

    def __repr__(self) -> str:
        return f"<source {self}>"


class MemberName:
    """What is kept of the descriptor of a slot, which has its class."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def is_namespace(source: Source) -> bool:
    return source.access in (Access.GLOBALS, Access.SCOPE) or (
        source.access is Access.CONST and isinstance(source.key[1], dict)
    )


class Root:
    """Makes the sources that start a path; one per world."""

    def __init__(self) -> None:
        self.top = Source(None, Access.GLOBALS, None)

    def argument(self, index: int, name: str) -> Source:
        return self.top.child(Access.ARG, (index, name))

    def function(self, name: str) -> Source:
        return self.top.child(Access.FUNC, name)

    def constant(self, value: Any, name: str) -> Source:
        """An object that the entry itself knows: its identity is fixed by other guards."""
        index = ("constant", id(value))
        found = self.top.children.get(index)
        if found is None:
            found = self.top.children[index] = Source(None, Access.CONST, (name, value))
        return found
