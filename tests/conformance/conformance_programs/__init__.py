"""Small programs over the Python language and its library, one module per chapter, a tensor going through each.

A program is a function of a tensor, and of what `given` makes for it:

    @program                                captured whole
    @program(breaks="run-time effect")      broken, for that reason (a name from `framelift.core.breaks`)
    @program(given=lambda: ([1, 2], {}))    called with these too: made once for each run, shared by its calls
    @program(given=..., then=change)        `change(n, *given)` is called after call n; what it returns is given next

Chapters that are made from tables call `add` for each row. What starts with an underscore serves the
programs of its module. `test_conformance.py` runs each program eagerly and compiled, and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    fn: Callable[..., Any]
    given: Callable[[], tuple[Any, ...]]
    breaks: frozenset[str]
    """The names of the reasons for which it breaks; none if it is captured whole."""
    then: Callable[..., tuple[Any, ...] | None] | None = None
    """What happens between the calls."""
    each: Callable[[], tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any] | None]] | None = None
    """Makes function, arguments and `then` anew for each run: for programs with state in globals and cells."""

    def made(self) -> tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any] | None]:
        return self.each() if self.each is not None else (self.fn, self.given(), self.then)


CATALOGUE: dict[str, Program] = {}
"""By `chapter::program`."""


def program(fn: Callable[..., Any] | None = None, **expected: Any) -> Any:
    if fn is None:
        return lambda fn: program(fn, **expected)
    add(f"{fn.__module__.rpartition('.')[2]}::{fn.__name__}", fn, **expected)
    return fn


def add(
    name: str,
    fn: Callable[..., Any],
    *,
    given: Callable[[], tuple[Any, ...]] = tuple,
    breaks: str | tuple[str, ...] = (),
    then: Callable[..., Any] | None = None,
    each: Callable[[], Any] | None = None,
) -> None:
    assert name not in CATALOGUE, f"two programs are called {name}"
    reasons = frozenset((breaks,) if isinstance(breaks, str) else breaks)
    CATALOGUE[name] = Program(fn, given, reasons, then, each)


def error_of(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `call` raises, as data; or what it returns, marked as such."""
    try:
        return "no error", call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


GENERATED: list[tuple[str, str]] = []
"""(program, its source), of those that tables have written."""


def add_source(name: str, source: str, *, breaks: str | tuple[str, ...] = (), **names: Any) -> None:
    """The program `f` that the source defines; what it is called with is made by the source's `given`."""
    scope: dict[str, Any] = {"__name__": sys._getframe(1).f_globals["__name__"], **names}
    exec(compile(source, f"<{name}>", "exec"), scope)
    GENERATED.append((name, source))
    add(name, scope["f"], given=scope.get("given", tuple), breaks=breaks)


def compiled_from(source: str, **names: Any) -> Any:
    """The function `f` that the source defines, for programs that are written by a table."""
    scope: dict[str, Any] = {"__name__": sys._getframe(1).f_globals["__name__"], **names}
    exec(compile(source, f"<{scope['__name__']}>", "exec"), scope)
    return scope["f"]
