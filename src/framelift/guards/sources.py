"""Where an outside value can be found again: a path of accesses from the frame.

A source is a node of a tree: its base, how to get from the base to it (an `Access`), and a key. It renders
itself as the Python expression that a user would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from framelift.bytecode import slot_names
from framelift.bytecode.extend import FREE
from framelift.bytecode.resume import INNER, MADE, Origin, called_by, origin_of
from framelift.core.weakly import there
from framelift.guards.hashing import COMMON_KEYS, hashes_itself
from framelift.guards.kinds import Access
from framelift.guards.value_texts import written

REGISTRIES = frozenset({"_modules", "_parameters", "_buffers"})
"""Dictionaries in which a module keeps what users write as its attributes and items."""


class Source:
    """One outside place. Sources are unique within a world: compare them by identity."""

    __slots__ = ("access", "base", "children", "is_drawn", "key")

    def __init__(self, base: Source | None, access: Access, key: Any) -> None:
        self.base = base
        self.access = access
        self.key = key
        self.children: dict[Any, Source] = {}
        self.is_drawn: bool = access is Access.DRAWN or (base is not None and base.is_drawn)
        """Whether the region makes it, or its base: it is new in each call, and can't be guarded."""

    def child(self, access: Access, key: Any = None) -> Source:
        """The source reached from this one; the same one each time."""
        cls = type(key)
        by_id = cls not in COMMON_KEYS and (key.__hash__ is None or hashes_itself(key))
        index = (access, id(key) if by_id else key, cls)
        found = self.children.get(index)
        if found is None:
            found = self.children[index] = Source(self, access, key)
        return found

    def path(self) -> Iterator[Source]:
        """This source, its base, the base of that, and so on."""
        at: Source | None = self
        while at is not None:
            yield at
            at = at.base

    @property
    def root(self) -> Source:
        """The argument, function, namespace or constant that the path begins at."""
        found = self
        while not found.access.is_root and found.base is not None:
            found = found.base
        return found

    @property
    def operand(self) -> Any:
        """What the native access takes."""
        at = self.access.operand_at
        return self.key if at is None else self.key[at]

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
        variables = (at.variable for at in self.path())
        return next((variable.function for variable in variables if variable is not None), "")

    def let_go(self) -> None:
        """Keeps only what messages need of the key."""
        self.children = {}
        if self.access.keep is not None:
            self.key = self.access.keep(self.key)

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
        return self.access.text.format(b=base, k=there(self.key))

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


def is_namespace(source: Source) -> bool:
    if source.access is Access.CONST:
        return isinstance(source.key[1], dict)
    return source.access in (Access.GLOBALS, Access.SCOPE)


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
        """The torch function mode with this index, of those entered before the call; the outermost has 0."""
        return self.top.child(Access.MODE, number)

    def asked(self, text: str, fn: Any, args: tuple[Any, ...]) -> Source:
        """What a function of C answers, with constants for arguments; `text` is the call."""
        return self.top.child(Access.ASKED, (text, (fn, *args)))

    def drawn(self, number: int) -> Source:
        return self.top.child(Access.DRAWN, number)

    def late_text(self, number: int) -> Source:
        return self.top.child(Access.DRAWN, f"text {number}")

    def constant(self, value: Any, name: str) -> Source:
        """An object that the entry itself knows: its identity is fixed by other guards."""
        index = ("constant", id(value))
        found = self.top.children.get(index)
        if found is None:
            found = self.top.children[index] = Source(None, Access.CONST, (name, value))
        return found

    def of_class(self, cls: type) -> Source:
        """A class, under its own name and no variable's."""
        index = ("class", id(cls))
        found = self.top.children.get(index)
        if found is None:
            found = self.top.children[index] = Source(None, Access.CONST, (cls.__qualname__, cls))
        return found


STACK = ".stack"


class Variable(str):
    """The name of something that a resume function is handed: what was on the stack, and what its inner
    frames had beside its own variables. All of it is an argument to CPython, and a variable to the user."""

    __slots__ = ("function", "inner")

    function: str
    """Whose variable it is, if that is an inner frame's."""
    inner: tuple[Variable, ...]
    """For all that an inner frame is handed, which is a tuple: the names of the items."""


def make_variable(name: str, function: str, inner: tuple[Variable, ...] = ()) -> Variable:
    made = Variable(name)
    made.function, made.inner = function, inner
    return made


def variables(code: CodeType) -> list[str]:
    """The names of a function's slots."""
    origin = origin_of(code)
    return slot_names(code) if origin is None else list(resumed(code, origin, ""))


def resumed(code: CodeType, origin: Origin, function: str) -> tuple[Variable, ...]:
    return tuple([variable(code, origin, name, function) for name in slot_names(code)])


def variable(code: CodeType, origin: Origin, name: str, function: str) -> Variable:
    called = called_by(code)
    if name == INNER and called is not None:
        inner, whose = origin_of(called.__code__), called.__code__.co_qualname
        names = () if inner is None else resumed(called.__code__, inner, whose)
        return make_variable(f"<variables of {whose}>", function, names)
    if name.startswith(FREE):
        name = origin.body.code.co_freevars[int(name[len(FREE) :])]
    elif name == MADE:
        name = "<new object>"
    elif name.startswith(STACK):
        name = about_to_be_stored(code, origin, name) or f"<unnamed value {name.removeprefix(STACK)}>"
    return make_variable(name, function)


def about_to_be_stored(code: CodeType, origin: Origin, name: str) -> str | None:
    """The variable that takes what is on top of the stack: of a loop, say, whose next round begins."""
    top = [name for name in slot_names(code) if name.startswith(STACK)][-1]
    body, at = origin.body, origin.at
    if name != top or origin.waits or body.name(at) not in ("STORE_FAST", "STORE_DEREF"):
        return None
    return slot_names(body.code)[body.arguments[at]]
