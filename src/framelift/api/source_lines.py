"""The program's lines, each with what became of it: captured, broken, or run as plain Python."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from framelift.core.breaks import Break
from framelift.core.policy import OWN_FILES
from framelift.dispatch.compilation import NOTHING_CAPTURED
from framelift.dispatch.compile_contexts import CodeState, CompiledEntry

SIGNS = {"captured": "+", "broken": "!", "plain": "-", None: " "}


@dataclass
class SourceLine:
    number: int
    text: str
    mark: str | None
    """`captured`: something in it is in a graph; `broken`: a capture ended there; `plain`: it runs, if it
    does, as plain Python. None: there is nothing in it to capture, or it was not come to."""
    graphs: list[int] = field(default_factory=list)
    """Which graphs have something of it."""

    def __str__(self) -> str:
        return f"{self.number:5} {SIGNS[self.mark]} {self.text}".rstrip()


@dataclass
class FunctionLines:
    name: str
    filename: str
    lines: list[SourceLine] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([f"{self.name} ({self.filename})", *map(str, self.lines)])


Lines = set[tuple[str, int]]


def marked_functions(
    originals: list[CodeState], found: list[Break], compiled: list[CompiledEntry]
) -> list[FunctionLines]:
    """The functions that were looked at whole; then lines of others, as far as something is in them."""
    captured: Lines = set().union(*(one.capture.lines or () for one in compiled))
    broken = {(at.code.co_filename, at.line or 0) for each in found for at in each.stack}
    users = sorted((each for each in originals if is_users(each.filename)), key=lambda each: each.number)
    functions = [
        function_lines(state, captured, broken) for state in users if state.skipped != NOTHING_CAPTURED
    ]
    shown = {(function.filename, line.number) for function in functions for line in function.lines}
    left = {(filename, line) for filename, line in (captured | broken) - shown if is_users(filename)}
    functions += others(left, broken)
    note_graphs(functions, compiled)
    return functions


def note_graphs(functions: list[FunctionLines], compiled: Iterable[CompiledEntry]) -> None:
    graphs = [one.capture.lines or set() for one in compiled if one.capture.graph is not None]
    for function in functions:
        for line in function.lines:
            at = (function.filename, line.number)
            line.graphs = [n for n, lines in enumerate(graphs) if at in lines]


LIBRARIES = (str(Path(torch.__file__).parent) + os.sep, OWN_FILES + os.sep)


def is_users(filename: str) -> bool:
    """Whether the lines of a file are of interest: those of torch's modules are the same for everyone."""
    return not filename.startswith(LIBRARIES)


def function_lines(state: CodeState, captured: Lines, broken: Lines) -> FunctionLines:
    function = FunctionLines(state.name, state.filename)
    code = state.code
    executable = set() if code is None else set(executable_lines(code))
    plain = executable & set(plain_from(state, executable))
    for number in block(code, executable):
        at = (state.filename, number)
        mark = "broken" if at in broken else "captured" if at in captured else None
        text = linecache.getline(state.filename, number).rstrip("\n")
        function.lines.append(SourceLine(number, text, mark or ("plain" if number in plain else None)))
    return function


def plain_from(state: CodeState, executable: set[int]) -> Iterator[int]:
    """The lines of a function that is left alone, or of the rest of it that is."""
    for each in (state, *state.resumes.values()):
        if each.skipped is not None:
            yield from (line for line in executable if line >= (each.line or 0))


def executable_lines(code: CodeType) -> Iterator[int]:
    """But for the first, on which a function is defined."""
    for _, _, line in code.co_lines():
        if line is not None and line > 0 and (line != code.co_firstlineno or is_one_line(code)):
            yield line
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from executable_lines(inner)


def is_one_line(code: CodeType) -> bool:
    return {line for _, _, line in code.co_lines() if line} == {code.co_firstlineno}


def block(code: CodeType | None, executable: set[int]) -> list[int]:
    """The numbers of a function's lines; those known to be code if there is no source."""
    if code is None:
        return []
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return sorted(executable)
    return list(range(first, first + len(lines)))


def others(left: Lines, broken: Lines) -> list[FunctionLines]:
    """Functions that others have called: they are part of the callers' graphs."""
    called: dict[tuple[str, str, int], FunctionLines] = {}
    for filename, number in sorted(left):
        name, lines = enclosing(filename, number)
        key = (filename, name, lines.start)
        if key not in called:
            texts = ((n, linecache.getline(filename, n).rstrip("\n")) for n in lines)
            called[key] = FunctionLines(name, filename, [SourceLine(n, text, None) for n, text in texts])
        for line in called[key].lines:
            if line.number == number:
                line.mark = "broken" if (filename, number) in broken else "captured"
    return list(called.values())


def enclosing(filename: str, number: int) -> tuple[str, range]:
    """The innermost function that a line is of, and where that stands; the line alone if it is of none."""
    functions = defined("".join(linecache.getlines(filename)))
    around = [function for function in functions if number in function[1]]
    return max(around, key=lambda function: function[1].start, default=(OUTSIDE, range(number, number + 1)))


OUTSIDE = "outside of functions"


@functools.lru_cache(maxsize=16)
def defined(source: str) -> list[tuple[str, range]]:
    """Functions in a text: qualified name, and lines from the first decorator on."""
    found: list[tuple[str, range]] = []

    def look(node: ast.AST, within: str) -> None:
        for inner in ast.iter_child_nodes(node):
            name = within
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([inner.lineno, *(each.lineno for each in inner.decorator_list)])
                found.append((within + inner.name, range(first, (inner.end_lineno or inner.lineno) + 1)))
                name = f"{within}{inner.name}.<locals>."
            elif isinstance(inner, ast.ClassDef):
                name = f"{within}{inner.name}."
            look(inner, name)

    try:
        look(ast.parse(source), "")
    except (SyntaxError, ValueError, RecursionError):  # of a file that is no longer what was run
        return []
    return found


def data(functions: list[FunctionLines]) -> list[dict[str, Any]]:
    line = lambda each: {"line": each.number, "text": each.text, "mark": each.mark, "graphs": each.graphs}
    return [{"name": fn.name, "file": fn.filename, "lines": list(map(line, fn.lines))} for fn in functions]
