"""The programs of `programs/`, and what can be seen of one that is run."""

from __future__ import annotations

import contextlib
import dis
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(HERE))

Program = Callable[[], object]


# Collecting


def chapters() -> Iterator[ModuleType]:
    for path in sorted(PROGRAMS.glob("[!_]*.py")):
        if path.stem.startswith("python3") and path.stem > "python{}{}".format(*sys.version_info):
            continue
        yield importlib.import_module(f"programs.{path.stem}")


def programs_of(chapter: ModuleType) -> Iterator[tuple[str, Program]]:
    for name, value in vars(chapter).items():
        if inspect.isfunction(value) and value.__module__ == chapter.__name__ and not name.startswith("_"):
            yield f"{chapter.__name__.rpartition('.')[2]}::{name}", value


CATALOGUE: dict[str, Program] = {
    name: program for chapter in chapters() for name, program in programs_of(chapter)
}

each_program = pytest.mark.parametrize("program", CATALOGUE.values(), ids=CATALOGUE.keys())


# Observing


@dataclass(frozen=True)
class Outcome:
    """All that can be seen of a program from outside. `value` and `raised` are descriptions, see below."""

    value: object
    printed: str
    raised: object


def observe(run: Program) -> Outcome:
    printed = io.StringIO()
    value = raised = None
    with contextlib.redirect_stdout(printed):
        try:
            value = run()
        except BaseException as error:
            raised = error
    return Outcome(described(value), printed.getvalue(), raised and exception_described(raised))


PLAIN = (type(None), type(...), type(NotImplemented), bool, int, str, bytes, bytearray, range, slice)


def described(value: object) -> object:
    """`value` as nested tuples, equal only for equal data of equal types (1 is not True, 0.0 is not -0.0)."""
    kind = type(value)
    if kind in PLAIN:
        return kind.__name__, value if kind is not slice else repr(value)
    if kind in (float, complex):
        return kind.__name__, repr(value)
    if kind in (list, tuple):
        return kind.__name__, *map(described, value)
    if kind in (set, frozenset):
        return kind.__name__, frozenset(map(described, value))
    if kind is dict:
        return kind.__name__, *((described(key), described(item)) for key, item in value.items())
    raise TypeError(f"a program returns plain data, not {kind.__qualname__}")


def exception_described(error: BaseException | None, above: tuple[BaseException, ...] = ()) -> object:
    """The exception and all it leads to: its notes, cause, context, and the members of a group."""
    if error is None:
        return None
    if any(error is seen for seen in above):
        return "cycle", len(above)
    above = (*above, error)
    return (
        type(error).__qualname__,
        str(error),
        tuple(
            exception_described(arg, above) if isinstance(arg, BaseException) else repr(arg)
            for arg in error.args
            if not isinstance(error, BaseExceptionGroup)
        ),
        ("name", getattr(error, "name", None)),
        ("notes", tuple(getattr(error, "__notes__", ()))),
        ("cause", exception_described(error.__cause__, above)),
        ("context", exception_described(error.__context__, above)),
        ("suppress context", error.__suppress_context__),
        ("members", tuple(exception_described(member, above) for member in getattr(error, "exceptions", ()))),
    )


# Opcodes

NOT_EMITTED = {
    "CACHE": "inline cache entries, which dis hides",
}
if sys.version_info >= (3, 12):
    NOT_EMITTED |= {
        "INTERPRETER_EXIT": "only in the entry frame that CPython makes itself",
        "RESERVED": "the specialising interpreter's, never in code",
        "ENTER_EXECUTOR": "written over other opcodes by the compiler to machine code",
        "EXIT_INIT_CHECK": "only in a frame that CPython makes itself, to call `__init__`",
    }
    NOT_EMITTED = {name: why for name, why in NOT_EMITTED.items() if name in dis.opmap}
    NOT_EMITTED |= {
        name: "written over other opcodes by sys.monitoring"
        for name in dis.opmap
        if name.startswith("INSTRUMENTED_")
    }
    NOT_EMITTED |= {
        name: "a pseudo-opcode, which the assembler resolves"
        for name, number in dis.opmap.items()
        if number > 255
    }
"""Opcode -> why no program contains it."""
