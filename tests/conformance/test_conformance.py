"""Python as its reference describes it: every program of `conformance_programs/`, eagerly and compiled.

A program is called three times with tensors of different values. After each call all that can be seen of it
is compared: result, exception, output, warnings, arguments. One that is expected to be captured whole runs
with `fullgraph=True`; one that is expected to break must break for the reasons it names, and no others.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import importlib
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from conformance_programs import (  # noqa: E402
    CATALOGUE,
    GENERATED,
    Program,
    _tables,
    builtins_exceptions,
    builtins_functions,
)

import framelift  # noqa: E402
from check import entries, reasons  # noqa: E402
from sameness import DRAINED, Sameness  # noqa: E402

for path in sorted((HERE / "conformance_programs").glob("[!_]*.py")):
    importlib.import_module(f"conformance_programs.{path.stem}")

KNOWN: dict[str, str] = {}
"""Program -> how it differs today."""


# Running


@dataclass
class Outcome:
    result: Any
    error: BaseException | None
    printed: str
    warned: list[tuple[type, str]]


class Side:
    """One run of a program: its function, and arguments of its own."""

    def __init__(self, program: Program, wrap: Callable[[Any], Any] = lambda fn: fn) -> None:
        fn, self.given, self.then = program.made()
        self.fn = wrap(fn)
        self.calls: list[tuple[torch.Tensor, Outcome]] = []

    def call(self, x: torch.Tensor) -> None:
        printed, result, error = io.StringIO(), None, None
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = self.fn(x, *self.given)
            except Exception as raised:
                error = raised
        told = [(w.category, str(w.message)) for w in warned]
        notices = [each for each in told if not each[1].startswith("Framelift ")]  # its own, to the user
        self.calls.append((x, Outcome(result, error, printed.getvalue(), notices)))

    def go_on(self) -> None:
        """What happens between two calls."""
        if self.then is not None:
            self.given = self.then(len(self.calls) - 1, *self.given) or self.given

    def seen(self) -> Any:
        return [(x, vars(outcome)) for x, outcome in self.calls], self.given


def tensors() -> list[torch.Tensor]:
    rows = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, -0.5, 0.0])
    return [torch.tensor(row) for row in rows]


def lockstep(program: Program) -> Side:
    """Runs the program both ways, compares after each call, and gives the compiled side, which keeps alive
    what its entries are about."""
    compile = lambda fn: framelift.compile(fn, backend="eager", fullgraph=not program.breaks)
    eager, other = Side(program), Side(program, compile)
    for n, (x, y) in enumerate(zip(tensors(), tensors(), strict=True)):
        eager.call(x)
        other.call(y)
        expected, found = eager.calls[-1][1], other.calls[-1][1]
        if expected.error is None and found.error is not None:
            raise found.error
        Sameness().same(eager.seen(), other.seen(), f"after call {n}: (calls, given)")
        eager.go_on()
        other.go_on()
    return other


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    framelift.reset()
    yield
    framelift.reset()
    DRAINED.clear()


# The programs


def marked() -> list[Any]:
    failing = lambda name: [pytest.mark.xfail(reason=KNOWN[name])] if name in KNOWN else []
    return [pytest.param(name, marks=failing(name)) for name in CATALOGUE]


@pytest.mark.parametrize("name", marked())
def test_compiled_as_eagerly(name: str) -> None:
    program = CATALOGUE[name]
    side = lockstep(program)
    compiled = side.fn
    assert set(reasons(compiled)) == program.breaks
    assert entries(compiled), "the function has no graph"


# The catalogue

SPECIAL_NAMES = """
    new init del repr str bytes format lt le eq ne gt ge hash bool getattr getattribute setattr delattr dir
    get set delete set_name objclass slots init_subclass mro_entries prepare instancecheck subclasscheck
    class_getitem call len length_hint getitem setitem delitem missing iter next reversed contains add sub mul
    matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul rtruediv rfloordiv
    rmod rdivmod rpow rlshift rrshift rand rxor ror iadd isub imul imatmul itruediv ifloordiv imod ipow
    ilshift irshift iand ixor ior neg pos abs invert complex int float index round trunc floor ceil enter exit
    match_args await aiter anext aenter aexit copy deepcopy reduce reduce_ex getstate setstate getnewargs
    getnewargs_ex fspath class dict doc name qualname module mro bases annotations subclasshook sizeof
"""
"""Chapter 3 of the language reference, and what `copy`, `abc`, `os` and `sys` ask for."""

LIBRARIES = {
    "itertools": "lib_itertools",
    "functools": "lib_functools",
    "operator": "lib_operator",
    "math": "lib_math",
    "cmath": "lib_math",
    "collections": "lib_collections",
    "bisect": "lib_collections",
    "heapq": "lib_collections",
    "copy": "lib_runtime",
    "statistics": "lib_numbers",
    "contextlib": "lib_runtime",
}
"""Module of the library -> chapter that uses all of its public names."""


def text_of(chapters: str) -> str:
    """The source of some chapters, with what their tables have written."""
    modules = (HERE / "conformance_programs").glob(f"{chapters}.py")
    written = [source for name, source in GENERATED if Path(name.partition("::")[0]).match(chapters)]
    return "\n".join([*(path.read_text() for path in modules), *written])


def test_every_special_method_is_used() -> None:
    used = set(re.findall(r"\b__[a-z_]+__\b", text_of("model_*") + text_of("lib_runtime")))
    assert {f"__{name}__" for name in SPECIAL_NAMES.split()} <= used, "some are not"


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_public_name_is_used(library: str) -> None:
    module = importlib.import_module(library)
    public = getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")])
    used = set(re.findall(r"\w+", text_of(LIBRARIES[library])))
    assert {name for name in public if not name.startswith("_")} <= used


def test_size_of_the_catalogue() -> None:
    chapters = collections.Counter(name.partition("::")[0] for name in CATALOGUE)
    assert sum(chapters.values()) >= 4000, chapters
    assert set(KNOWN) <= set(CATALOGUE)


@pytest.mark.parametrize("cls", _tables.TYPES, ids=lambda cls: cls.__name__)
def test_every_name_of_a_builtin_type_has_a_program(cls: type) -> None:
    missing = set(dir(cls)) - _tables.TYPES[cls]
    assert not missing, f"{cls.__name__} has {sorted(missing)} too"


def test_every_builtin_type_has_a_table() -> None:
    listed = (str, bytes, bytearray, memoryview, list, tuple, range, slice, dict, set, frozenset)
    listed += (int, float, complex, bool, object, type, property, classmethod, staticmethod)
    assert set(listed) | {type({}.keys()), type({}.values()), type({}.items())} <= set(_tables.TYPES)


def test_every_builtin_has_a_program() -> None:
    functions, exceptions = builtins_functions, builtins_exceptions
    known = {*functions.TABLE, *functions.EXERCISED, *exceptions.EXCEPTIONS, *exceptions.OUTERMOST}
    aliases = {"EnvironmentError", "IOError"}  # of OSError
    left = {name for name in dir(builtins) if name not in known | aliases}
    assert not left - {"_"}, f"builtins has {sorted(left)} too"
    missing = [
        place
        for place in functions.EXERCISED.values()
        if place.isidentifier() and not any(name.endswith(f"::{place}") for name in CATALOGUE)
    ]
    assert set(missing) <= {"constants"}, missing
