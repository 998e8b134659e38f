"""The names of a frame's variables, as the user has given them.

A resume function is handed what was on the stack and what its inner frames had beside its own variables:
all of it is an argument to CPython, and a variable of some function to the user.
"""

from __future__ import annotations

from types import CodeType

from framelift.bytecode import slot_names
from framelift.bytecode.extend import FREE
from framelift.bytecode.resume import INNER, MADE, Origin, called_by, origin_of

STACK = ".stack"


class Variable(str):
    """The name of something that a resume function is handed."""

    __slots__ = ("function", "inner")

    function: str
    """Whose variable it is, if that is an inner frame's."""
    inner: tuple[Variable, ...]
    """For all that an inner frame is handed, which is a tuple: the names of the items."""


def make(name: str, function: str, inner: tuple[Variable, ...] = ()) -> Variable:
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
        return make(f"<variables of {whose}>", function, names)
    if name.startswith(FREE):
        name = origin.body.code.co_freevars[int(name[len(FREE) :])]
    elif name == MADE:
        name = "<new object>"
    elif name.startswith(STACK):
        name = about_to_be_stored(code, origin, name) or f"<unnamed value {name.removeprefix(STACK)}>"
    return make(name, function)


def about_to_be_stored(code: CodeType, origin: Origin, name: str) -> str | None:
    """The variable that takes what is on top of the stack: of a loop, say, whose next round begins."""
    top = [name for name in slot_names(code) if name.startswith(STACK)][-1]
    body, at = origin.body, origin.at
    if name != top or origin.waits or body.name(at) not in ("STORE_FAST", "STORE_DEREF"):
        return None
    return slot_names(body.code)[body.arguments[at]]
