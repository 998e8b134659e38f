"""An area of the grammar of random programs: a setting, and statements and expressions over it.

`program_writer.Writer` fills the holes of an entry: `<T>` with an expression of kind T (see KINDS), `<t>`
with a variable of that kind, `<+T>` with a new one, `<=T>` with one that may be assigned, `<:T>` with one
that a walrus may assign, `<*T>` with a parameter or the target of a comprehension. `<t1>` is the same
variable wherever it stands in an entry; `...` is a block. So programs are well typed and mostly run to their
end: tensors have three elements and stay tame, lists are never empty, ints stay small, loops count down.
An area may have kinds of other values, if its own expressions are made for them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "T": "tensor of three floats",
    "M": "one that may be changed in place",
    "I": "int",
    "F": "float",
    "B": "bool",
    "C": "condition, maybe on data",
    "L": "list of tensors",
    "N": "list of ints",
    "D": "dict with a tensor at 'a'",
    "K": "key of such a dict",
    "U": "pair of tensor and int",
    "O": "Box, or something like it",
    "G": "function from tensor to tensor",
    "P": "function to int",
    "Q": "function from tensor to float",
    "J": "iterator of tensors",
    "Y": "generator function over a list",
    "S": "str",
    "E": "exception caught",
    "H": "helper function",
    "V": "something that may raise",
    "W": "operator that may fail on its data",
    "A": "NumPy array of three floats",
    "X": "anything",
    "R": "result",
    "Z": "loop's counter",
}

Node = tuple[str, list["Node"]]
"""A line of an entry, and the lines under it."""
Options = dict[str, Any]


@dataclass
class Entry:
    """A statement of the grammar. The tag says where it may stand."""

    name: str
    text: str
    tag: str | None

    @functools.cached_property
    def nodes(self) -> list[Node]:
        return tree(self.text.splitlines())

    @functools.cached_property
    def loops(self) -> bool:
        return bool(re.search(r"^\s*(for|while) ", self.text, re.MULTILINE))


def tree(lines: list[str]) -> list[Node]:
    nodes: list[Node] = []
    while lines:
        head, rest = lines[0], lines[1:]
        under = next((n for n, line in enumerate(rest) if not line.startswith("    ")), len(rest))
        nodes.append((head, tree([line[4:] for line in rest[:under]])))
        lines = rest[under:]
    return nodes


def catalogue(text: str) -> list[Entry]:
    """Statements: `## 3 name [tag]`, then the lines; the number says how often it counts."""
    entries: list[Entry] = []
    for part in text.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        found = re.fullmatch(r"(?:(\d+) )?(.*?)(?: \[(\w+)\])?", title)
        assert found is not None
        weight, name, tag = found.groups()
        entries += [Entry(name, body.strip(), tag)] * int(weight or 1)
    return entries


def table(text: str) -> list[str]:
    """One entry a line; `3*  entry` counts three times."""
    entries: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        weight, _, entry = line.rpartition("*  ")
        entries += [entry] * int(weight or 1)
    return entries


@dataclass(frozen=True)
class Area:
    """What the programs of one area are made of.

    Each side of a comparison runs the header for itself. Before each call the arguments are evaluated there,
    with `call` as the number of the call; `edits` are statements that are done between calls, plainly.
    """

    name: str
    header: str
    arguments: dict[str, str]
    """Parameter of the program -> expression."""
    variables: dict[str, list[str]]
    """Kind -> the variables that there are at the start of a program."""
    expressions: dict[str, list[str]]
    statements: list[Entry]
    leaves: dict[str, list[str]] = field(default_factory=dict)
    """Kind -> expressions that need no others."""
    constants: dict[str, list[str]] = field(default_factory=dict)
    wrappers: list[str] = field(default_factory=list)
    """What may stand around any expression."""
    globals: tuple[str, ...] = ()
    """Global variables that programs assign."""
    edits: list[Entry] = field(default_factory=list)
    starts: list[Entry] = field(default_factory=list)
    """Edits before the first call, of which there is always one."""
    always: list[Entry] = field(default_factory=list)
    """Edits before each call."""
    options: list[Options] = field(default_factory=lambda: [{}])
    """What `compile` may be given; and `calls`, how many there are; others are of `program_runs`."""
    size: tuple[int, int] = (2, 6)
    """How many statements a program has, without those in blocks."""
    helpers: int = 0
    """How many helper functions it has at most."""
    helper_variables: dict[str, list[str]] = field(default_factory=dict)
    background: list[Entry] = field(default_factory=list)
    """Statements of the area it builds on: one in three is of these."""

    def extended(self, name: str, **changes: Any) -> Area:
        """An area that builds on this one: its own entries come first, these are the background."""
        merged = {
            "header": self.header + changes.pop("header", ""),
            "arguments": self.arguments | changes.pop("arguments", {}),
            "variables": joined(self.variables, changes.pop("variables", {})),
            "expressions": joined(self.expressions, times(3, changes.pop("expressions", {}))),
            "leaves": self.leaves | changes.pop("leaves", {}),
        }
        return dataclasses.replace(
            self, name=name, background=self.statements, helpers=0, size=(1, 4), **merged, **changes
        )


def joined(first: dict[str, list[str]], second: dict[str, list[str]]) -> dict[str, list[str]]:
    return {kind: [*first.get(kind, []), *second.get(kind, [])] for kind in {**first, **second}}


def times(count: int, entries: dict[str, list[str]]) -> dict[str, list[str]]:
    return {kind: found * count for kind, found in entries.items()}
