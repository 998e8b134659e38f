"""Writes random programs from the grammar of an area."""

from __future__ import annotations

import ast
import collections
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from grammar.area import KINDS, Area, Entry, Node

CALLS = 3
"""How often a program is called, unless its options say otherwise."""

HOLE = re.compile(r"<([+=:*]?)([A-Za-z])(\d?)>")


@functools.cache
def needs(text: str) -> list[tuple[str, str]]:
    """The holes that can be filled only where there is a variable of the kind: (mark, kind)."""
    found, known = [], set()
    for mark, kind, number in HOLE.findall(text):
        given = (number and kind.upper() + number in known) or mark in ("+", "*")
        if not given and (mark or kind.islower()):
            found.append((mark, kind.upper()))
        known.add(kind.upper() + number)
    return found


@functools.cache
def is_primary(entry: str) -> bool:
    """Whether an operator or a trailer next to the expression can't tear it apart."""
    flat, before = re.sub(r"f?\"[^\"]*\"", "s", entry), ""
    while flat != before:
        flat, before = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", flat), flat
    return " " not in flat and not flat.startswith("-")


@dataclass
class Program:
    source: str
    """Defines AREA, OPTIONS, `program`, its helpers, and perhaps `between`, done between calls."""
    area: str
    options: dict[str, Any]
    constructs: Counter[str] = field(default_factory=Counter)


class Writer:
    """Writes one program; `pick(n)`, a number below n, is the only source of chance.

    `statement` chooses an entry, `emit` writes its lines, `fill` fills the holes in one, `expression` a hole.
    """

    def __init__(self, pick: Callable[[int], int], area: Area) -> None:
        self.pick = pick
        self.area = area
        self.lines: list[str] = []
        self.constructs: Counter[str] = Counter()
        self.names: dict[str, list[str]] = {}
        """Kind -> the variables there are, at this point; not changed in place."""
        self.owned: set[str] = set()
        """What the function being written may assign."""
        self.context: frozenset[str] = frozenset()
        self.result = "R"
        self.helping = False
        self.indent = self.loops = self.frozen = self.fresh = self.budget = 0
        self.calm = (12, 30, 60)[pick(3)]
        """One expression in so many breaks."""

    def one(self, choices: Any) -> Any:
        return choices[self.pick(len(choices))]

    def say(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    # ---- names

    def new(self, kind: str) -> str:
        self.fresh += 1
        return f"{'left' if kind == 'Z' else kind.lower()}{self.fresh}"

    def bind(self, kind: str, name: str) -> None:
        for k in "MT" if kind == "M" else kind:
            self.names = {**self.names, k: [*self.names[k], name]}

    def unbind(self, gone: list[str]) -> None:
        self.names = {kind: [n for n in names if n not in gone] for kind, names in self.names.items()}

    def assignable(self, kind: str, mark: str) -> list[str]:
        """What a statement or a walrus may assign. Not just any tensor may be changed in place afterwards."""
        names = [n for n in self.names[kind] if kind != "T" or n not in self.names["M"]]
        if mark == ":":
            return [] if self.frozen else [n for n in names if n in self.owned]
        return [n for n in names if n in self.owned or n in self.area.globals or n[-1] == "]" or "." in n]

    def possible(self, text: str) -> bool:
        """Whether there are variables for all holes that need one."""
        for mark, kind in needs(text):
            known = self.assignable(kind, mark) if mark else self.names[kind] or self.area.constants.get(kind)
            if not known:
                return False
        return not ("<h>" in text and self.loops and self.helping)  # or it would take too long

    # ---- expressions

    def fill(self, text: str, shared: dict[str, str], depth: int = 0) -> tuple[str, list[tuple[str, str]]]:
        """The text with its holes filled, and the variables it binds."""
        bound: list[tuple[str, str]] = []
        targets = collections.deque(self.targets(text, shared))

        def hole(found: re.Match[str]) -> str:
            mark, kind, number = found.groups()
            key = kind.upper() + number
            if number and key in shared:
                return shared[key]
            if mark == "*":
                return targets.popleft()
            if mark == "+":
                filled = self.new(kind)
                bound.append((kind, filled))
            elif mark:
                filled = self.one(self.assignable(kind, mark))
            elif kind.islower():
                filled = self.one([*self.names[key[0]], *self.area.constants.get(key[0], [])])
            else:
                filled = self.expression(kind, depth + 1)
            if number:
                shared[key] = filled
            return filled

        return HOLE.sub(hole, text), bound

    def targets(self, text: str, shared: dict[str, str]) -> Iterator[str]:
        """Names for parameters and targets; uses of them may stand before them."""
        for mark, kind, number in HOLE.findall(text):
            if mark == "*" and kind + number not in shared:
                name = self.new(kind)
                self.bind(kind, name)
                if number:
                    shared[kind + number] = name
                else:
                    yield name

    def expression(self, kind: str, depth: int) -> str:
        if kind == "R":
            kind = self.result
        entries = self.area.expressions.get(kind, []) if depth < 4 and self.pick(depth + 1) < 2 else []
        entry = self.one([entry for entry in entries if self.possible(entry)] or self.area.leaves[kind])
        names, frozen = self.names, self.frozen
        self.frozen += "lambda" in entry or " for " in entry  # a comprehension may iterate over no walrus
        text, _ = self.fill(entry, {}, depth)
        self.names, self.frozen = names, frozen
        if kind == "V":
            return text
        text = text if is_primary(entry) else f"({text})"
        if kind in "TIFBCLNDUOS" and self.area.wrappers and self.pick(self.calm) == self.calm - 1:
            return self.one(self.area.wrappers) % text
        return text

    # ---- statements

    def statement(self) -> None:
        self.budget -= 1
        simple = self.indent > 3 or self.budget <= 0
        entry = self.one([
            entry for entry in self.catalogue()
            if (entry.tag is None or entry.tag in self.context)
            and not (simple and "..." in entry.text)
            and not (entry.loops and self.loops > (not self.helping))
            and self.possible(entry.text)
        ])  # fmt: skip
        self.constructs[entry.name] += 1
        self.emit(entry.nodes, {})

    def catalogue(self) -> list[Entry]:
        background = self.area.background
        return background if background and self.pick(3) == 2 else self.area.statements

    def block(self, size: int) -> None:
        names = self.names
        for _ in range(size):
            self.statement()
        self.names = names

    def emit(self, nodes: list[Node], shared: dict[str, str]) -> None:
        for line, under in nodes:
            if line == "...":
                self.block(1 + self.pick(3 if self.indent < 3 else 2))
            elif under:
                self.compound(line, under, shared)
            else:
                self.simple(line, shared)

    def simple(self, line: str, shared: dict[str, str]) -> None:
        text, bound = self.fill(line, shared)
        self.say(text)
        self.own(bound)
        if re.fullmatch(r"del [\w, ]+", text):
            self.unbind(text[4:].split(", "))

    def own(self, bound: list[tuple[str, str]]) -> None:
        for kind, name in bound:
            self.bind(kind, name)
        self.owned = self.owned | {name for _, name in bound}

    def compound(self, line: str, under: list[Node], shared: dict[str, str]) -> None:
        """A line with a block under it; what is bound there is not used after it, for it may not have run."""
        names, context, loops, frozen = self.names, self.context, self.loops, self.frozen
        text, bound = self.fill(line, shared)
        self.say(text)
        self.indent += 1
        word = line.split()[0]
        if word == "def":
            parameters = {n for kind in KINDS for n in self.names[kind][len(names[kind]) :]}
            self.function(line, parameters, under, shared)
        else:
            self.own(bound)
            self.context |= {"for": {"loop"}, "while": {"loop"}, "except": {"handler"}}.get(word, set())
            self.loops += word in ("for", "while")
            self.frozen += word == "class"
            self.emit(under, shared)
        self.indent -= 1
        self.names, self.context, self.loops, self.frozen = names, context, loops, frozen
        if word == "def":
            for kind, name in bound:
                self.bind(kind, name)

    def function(self, line: str, parameters: set[str], under: list[Node], shared: dict[str, str]) -> None:
        """Its own variables are its parameters, and those of the function around it that it declares."""
        owned, result = self.owned, self.result
        self.owned, self.context = parameters, frozenset()
        self.result = {"P": "I", "Y": "X"}.get(line[6], "T")
        self.say_globals()
        if owned and self.pick(2):
            chosen = sorted({self.one(sorted(owned)) for _ in range(1 + self.pick(3))})
            self.say(f"nonlocal {', '.join(chosen)}")
            self.owned = parameters | set(chosen)
        self.emit(under, shared)
        self.owned, self.result = owned, result

    # ---- programs

    def say_globals(self) -> None:
        if self.area.globals:
            self.say(f"global {', '.join(self.area.globals)}")

    def helper(self, name: str, helpers: list[str]) -> None:
        self.names = {kind: [] for kind in KINDS} | self.area.helper_variables | {"H": helpers}
        self.owned, self.context = {"t", "n"}, frozenset()
        self.result, self.helping, self.budget = "T", True, 4
        self.say(f"def {name}(t, n=1, *, items, box, depth={self.pick(3)}):")
        self.indent = 1
        self.say_globals()
        self.say("t = t + 0.5")
        if self.pick(2):
            self.say("if depth > 0:")
            self.say(f"    t = {name}(t, n, items=items, box=box, depth=depth - 1) - t")
        self.block(1 + self.pick(4))
        self.say(f"return {self.expression('T', 0)}")
        self.indent = 0

    def edits(self, calls: int) -> None:
        """What is done between calls; it is no part of what is compiled."""
        self.names = {kind: [] for kind in KINDS} | self.area.variables
        self.owned, self.context = set(), frozenset()
        chosen = {
            call: [self.one(self.area.edits) for _ in range(self.pick(3))]
            if self.area.edits and self.pick(3)
            else []
            for call in range(calls)
        }
        if self.area.starts:
            chosen[0] = [self.one(self.area.starts), *chosen[0]]
        if not any(chosen.values()) and not self.area.always:
            return
        self.say("def between(call):")
        self.indent = 1
        self.say_globals()
        self.edit(self.area.always)
        for call, entries in chosen.items():
            if entries:
                self.say(f"if call == {call}:")
                self.indent = 2
                self.edit(entries)
                self.indent = 1
        self.indent = 0

    def edit(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.constructs[f"edit: {entry.name}"] += 1
            self.emit(entry.nodes, {})

    def write(self) -> Program:
        options = dict(self.one(self.area.options))
        calls = options.get("calls", CALLS)
        self.say(f"AREA = {self.area.name!r}")
        self.say(f"OPTIONS = {options!r}")
        helpers = [f"helper{n}" for n in range(1, 1 + self.pick(self.area.helpers + 1))]
        for n, name in enumerate(helpers):
            self.helper(name, helpers[:n])
        self.names = {kind: [] for kind in KINDS} | self.area.variables | {"H": helpers}
        self.owned, self.context = self.area.arguments.keys() - {"w"}, frozenset({"program"})
        least, most = self.area.size
        self.result, self.helping, self.budget = "R", False, 2 * most
        self.say(f"def program({', '.join(self.area.arguments)}):")
        self.indent = 1
        self.say_globals()
        for _ in range(least + self.pick(most - least + 1)):
            self.statement()
        results = [self.expression("R", 1) for _ in range(1 + self.pick(3))]
        self.say(f"return ({', '.join(results)}, {self.expression('T', 0)})")
        self.indent = 0
        self.edits(calls)
        return Program(trimmed("\n".join(self.lines)), self.area.name, options, self.constructs)


def trimmed(source: str) -> str:
    """The program without parameters that it does not use, and without needless declarations."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef):
            trim_globals(node)
            if node.name == "program":
                used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                used |= {
                    name for one in ast.walk(node) if isinstance(one, ast.Nonlocal) for name in one.names
                }
                node.args.args = [argument for argument in node.args.args if argument.arg in used]
    return ast.unparse(tree) + "\n"


def trim_globals(function: ast.FunctionDef) -> None:
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    for declared in [node for node in function.body if isinstance(node, ast.Global)]:
        declared.names = [name for name in declared.names if name in stored]
        if not declared.names:
            function.body.remove(declared)
    function.body = function.body or [ast.Pass()]
