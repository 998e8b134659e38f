"""Where an outside value can be found again: a path of accesses from the frame.

A source is a node of a tree: its base, how to get from the base to it, and a key. It renders itself
as the Python expression a user would write, and each kind of access has a native counterpart of the
same name in `framelift._guards` (`ACCESS_<NAME>`).
"""

from __future__ import annotations

import enum
import types
from typing import Any

from framelift.core.weakly import there, weakly
from framelift.guards.hashing import COMMON_KEYS, hashes_itself
from framelift.guards.variables import Variable


class Access(enum.Enum):
    """How a value is reached."""

    __hash__ = object.__hash__  # Enum's own is Python code that hashes the name

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
    VIEWED = enum.auto()
    REFERENT = enum.auto()
    BYTES = enum.auto()
    REGISTRATIONS = enum.auto()
    DECIMAL_CONTEXT = enum.auto()
    MODE = enum.auto()
    DRAWN = enum.auto()
    """Made by the region itself, so no guard is about it."""


TEXTS = {
    Access.ARG: "{k[1]}",
    Access.FUNC: "{k}",
    Access.GLOBALS: "globals()",
    Access.SCOPE: "{k}",
    Access.CONST: "{k[0]}",
    Access.ATTR: "{b}.{k}",
    Access.DICT: "{b}.__dict__",
    Access.KEY: "{b}[{k}]",
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
    Access.VIEWED: "<what {b} is of>",
    Access.REFERENT: "{b}()",
    Access.BYTES: "bytes({b})",
    Access.REGISTRATIONS: "abc.get_cache_token()",
    Access.DECIMAL_CONTEXT: "decimal.getcontext()",
    Access.MODE: "<torch function mode {k}>",
    Access.DRAWN: "<draw {k}>",
}
"""How each access is written, from its base `b` and key `k`."""


REGISTRIES = frozenset({"_modules", "_parameters", "_buffers"})
"""Dictionaries in which a module keeps what users write as its attributes and items."""


ROOTS = frozenset({Access.ARG, Access.FUNC, Access.GLOBALS, Access.CONST, Access.REGISTRATIONS})
ROOTS |= {Access.DECIMAL_CONTEXT, Access.MODE, Access.DRAWN}


class Source:
    """One outside place. Sources are unique within a world: compare them by identity."""

    __slots__ = ("access", "base", "children", "is_drawn", "key")

    def __init__(self, base: Source | None, access: Access, key: Any) -> None:
        self.base = base
        self.access = access
        self.key = key
        self.children: dict[Any, Source] = {}
        self.is_drawn: bool = access is Access.DRAWN or (base is not None and base.is_drawn)
        """Whether the region makes it, or has it from there: what it is anew each time can't be guarded."""

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

    @property
    def variable(self) -> Variable | None:
        """The variable of a resumed function that it is, if it is one."""
        if self.access is Access.ARG:
            name = self.key[1]
            return name if type(name) is Variable else None
        outer = self.base.variable if self.access is Access.ITEM and self.base is not None else None
        return outer.inner[self.key] if outer is not None and self.key < len(outer.inner) else None

    @property
    def function(self) -> str:
        """The function whose variable the path begins at, where that is not the frame's own."""
        at: Source | None = self
        while at is not None:
            variable = at.variable
            if variable is not None:
                return variable.function
            at = at.base
        return ""

    def let_go(self) -> None:
        """What is kept of it is for people to read."""
        self.children = {}
        if self.access is Access.CONST:
            self.key = (self.key[0], weakly(self.key[1]))
        elif self.access is Access.KEY:
            if type(self.key) is not str:
                self.key = weakly(self.key)
        elif self.access is Access.SLOT:
            self.key = MemberName(self.key.__name__)

    def __str__(self) -> str:
        """The expression that a user would write."""
        base = self.base
        variable = self.variable
        if variable is not None:
            return str(variable)
        if self.access is Access.CONTENTS and base is not None and (held := base.variable):
            return str(held)  # the variable lives in a cell
        if self.access is Access.KEY and base is not None:
            if is_namespace(base):
                return self.key if base.access is Access.GLOBALS else f"{base}.{self.key}"
            owner = namespace_owner(base)
            if owner is not None and type(self.key) is str:
                return member(owner, self.key)
            return f"{base}[{written(there(self.key))}]"
        if self.access is Access.ATTR and base is not None:
            return member(base, self.key)
        return TEXTS[self.access].format(b=base, k=there(self.key))

    def __repr__(self) -> str:
        return f"<source {self}>"


def namespace_owner(source: Source) -> Source | None:
    """The object whose attributes are kept in the dictionary that a source is."""
    if source.access is Access.DICT:
        return source.base
    in_dict = source.access is Access.KEY and source.base is not None and source.base.access is Access.DICT
    if (source.access is Access.ATTR or in_dict) and source.key in REGISTRIES:
        return source.base.base if in_dict and source.base is not None else source.base
    return None


def member(owner: Source, name: str) -> str:
    """As it is written for any module, and for those that are containers."""
    if name.isidentifier():
        return f"{owner}.{name}"
    return f"{owner}[{name}]" if name.isdigit() else f"{owner}[{name!r}]"


PLAIN = frozenset({str, int, float, complex, bool, bytes, type(None), type(...), range})
WIDE = 512
NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def written(value: Any) -> str:
    """A value as it is written, or at least what it is: without running code of the program's."""
    cls = type(value)
    if cls is int and value.bit_length() > WIDE:
        return f"<int of {value.bit_length()} bits>"  # of which Python writes down only so many digits
    if cls in PLAIN or (cls.__module__ == "torch" and cls.__name__ in ("dtype", "device", "Size")):
        return repr(value)
    if cls is tuple:
        return f"({', '.join(map(written, value))}{',' * (len(value) == 1)})"
    if issubclass(cls, enum.Enum):
        return f"{cls.__qualname__}.{vars(value).get('_name_', '?')}"  # none while it is being made
    if issubclass(cls, NAMED):
        return f"<{cls.__name__} {getattr(value, '__qualname__', None) or value.__name__}>"
    return f"<{cls.__qualname__} object>"


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

    def registrations(self) -> Source:
        return self.top.child(Access.REGISTRATIONS)

    def decimal_context(self) -> Source:
        return self.top.child(Access.DECIMAL_CONTEXT)

    def mode(self, number: int) -> Source:
        """The torch function mode that was entered so manieth, before the call."""
        return self.top.child(Access.MODE, number)

    def drawn(self, number: int) -> Source:
        return self.top.child(Access.DRAWN, number)

    def constant(self, value: Any, name: str) -> Source:
        """An object that the entry itself knows: its identity is fixed by other guards."""
        index = ("constant", id(value))
        found = self.top.children.get(index)
        if found is None:
            found = self.top.children[index] = Source(None, Access.CONST, (name, value))
        return found
