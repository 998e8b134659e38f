"""Where in a line something stands, and how tensors are written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Data = dict[str, Any]

PHASES = ("repeated", "trace", "generate", "backend", "rest", "backward")
"""Of a compilation, in the order in which they come."""


def is_empty(record: Data) -> bool:
    """Whether a compilation found nothing to capture: no tensor operations."""
    found = record["nodes"] or record["failed"] or record["ended_by"]
    return record["kind"] == "forward" and not found


@dataclass(frozen=True)
class Span:
    """A part of a line that has to do with a break."""

    number: int
    """Which break, from 1."""
    name: str
    is_innermost: bool
    """Whether it is what could not be captured, or a call on the way to it."""
    begin: int | None
    """In bytes of UTF-8, as Python counts; None: from the first character that is not blank, to the last."""
    end: int | None
    is_last: bool

    def columns(self, text: str) -> tuple[int, int]:
        """In characters."""
        encoded = text.encode()
        indent = len(text) - len(text.lstrip())
        begin = indent if self.begin is None else len(encoded[: self.begin].decode(errors="replace"))
        end = len(text.rstrip()) if self.end is None else len(encoded[: self.end].decode(errors="replace"))
        return begin, min(end, len(text))


def spans(breaks: list[Data]) -> dict[tuple[str, int], list[Span]]:
    """By file and line."""
    found: dict[tuple[str, int], list[Span]] = {}
    for number, each in enumerate(breaks, 1):
        for at in each["stack"]:
            is_innermost = at is each["stack"][-1]
            for line, begin, end in extents(at):
                is_last = line == (at["end_line"] or at["line"])
                span = Span(number, each["name"], is_innermost, begin, end, is_last)
                found.setdefault((at["file"], line), []).append(span)
    return found


def extents(at: Data) -> Iterator[tuple[int, int | None, int | None]]:
    """Of an expression on each of its lines."""
    if at["line"] is None:
        return
    (begin, end), last = at["columns"], at["end_line"] or at["line"]
    for line in range(at["line"], last + 1):
        yield line, begin if line == at["line"] else None, end if line == last else None


def pieces(text: str, spans: list[Span]) -> list[tuple[str, list[Span]]]:
    """A line cut where spans begin and end, with those that each piece is in."""
    columns = [(span, *span.columns(text)) for span in spans]
    cuts = sorted({0, len(text), *(cut for _, begin, end in columns for cut in (begin, end))})
    return [
        (text[begin:end], [span for span, first, last in columns if first <= begin and end <= last])
        for begin, end in itertools.pairwise(cuts)
    ]


def basename(filename: str) -> str:
    return re.split(r"[/\\]", filename)[-1]


def short_name(text: str) -> str:
    """A name that has a file in it, `forward (/a/b/c.py:3)`, without the folders."""
    name, bracket, rest = text.rpartition(" (")
    return f"{name}{bracket}{basename(rest)}" if bracket else text


DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b8"}


def kind(node: Data) -> str:
    """A tensor's dtype and shape as graphs have them: `f32[2, 3]`; of others the type, if it is known."""
    if node["shape"] is None:
        return node["type"] or ""
    name = node["dtype"].removeprefix("torch.")
    letters = name.rstrip("0123456789")
    short = DTYPES[letters] + name.removeprefix(letters) if letters in DTYPES else name
    return f"{short}[{', '.join(map(str, node['shape']))}]"
