"""Where an outside value can be found again: a path of accesses from the frame.

A source is a node of a tree: its base, how to get from the base to it, and a key. It renders itself
as the Python expression a user would write, and each kind of access has a native counterpart of the
same name in `framelift._guards` (`ACCESS_<NAME>`).
"""

from __future__ import annotations

import enum
from typing import Any


class Access(enum.Enum):
    """How a value is reached; the text renders it from its base `b` and key `k`."""

    ARG = "{k[1]}"
    FUNC = "{k}"
    GLOBALS = "globals()"
    CONST = "{k[0]}"
    ATTR = "{b}.{k}"
    DICT = "{b}.__dict__"
    KEY = "{b}[{k!r}]"
    ITEM = "{b}[{k}]"
    DEQUE_ITEM = "{b}[{k}]"
    SLOT = "{b}.{k.__name__}"
    CELL = "{k[1]}"
    CELL_OBJECT = "{b}.__closure__[{k}]"
    CONTENTS = "{b}.cell_contents"
    TYPE = "type({b})"
    DEFAULT = "{b}.__defaults__[{k}]"
    KWDEFAULT = "{b}.__kwdefaults__[{k!r}]"
    SELF = "{b}.__self__"
    METHOD_FUNC = "{b}.__func__"
    GRAD = "{b}.grad"
    NATIVE_ATTR = "{b}.{k}"


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
        index = (access, key if key.__hash__ else id(key), type(key))
        found = self.children.get(index)
        if found is None:
            found = self.children[index] = Source(self, access, key)
        return found

    @property
    def operand(self) -> Any:
        """What the native access takes."""
        return self.key[0] if self.access in (Access.ARG, Access.CELL) else (
            self.key[1] if self.access is Access.CONST else self.key
        )

    def __str__(self) -> str:
        base = self.base
        if self.access is Access.KEY and base is not None and is_namespace(base):
            # a global, or a module's attribute: as the user writes it
            return self.key if base.access is Access.GLOBALS else f"{base.key[0]}.{self.key}"
        return self.access.value.format(b=base, k=self.key)

    def __repr__(self) -> str:
        return f"<source {self}>"


def is_namespace(source: Source) -> bool:
    return source.access is Access.GLOBALS or (
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
        """An object that the entry itself holds on to: its identity is fixed by other guards."""
        index = ("constant", id(value))
        found = self.top.children.get(index)
        if found is None:
            found = self.top.children[index] = Source(None, Access.CONST, (name, value))
        return found
