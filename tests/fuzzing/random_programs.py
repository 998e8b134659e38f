"""Random Python programs that break the capture and change state, run plainly and compiled, and compared.

A program is source text made from `random_grammar`: a function `program` over tensors, numbers, containers,
objects and functions from outside, with helper functions, closures, loops, handlers, managers and generators;
and in the middle of all that, calls that can't be captured. It is called three times with different values on
state of its own; results, exceptions, output and everything that was changed must be eager's.

    python tests/fuzzing/random_programs.py --count 5000 --seed 0   many programs; differences are made small
    python tests/fuzzing/random_programs.py --show 17               the program of one seed
    python tests/fuzzing/random_programs.py --file program.py       a program that was kept
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import faulthandler
import functools
import gc
import io
import itertools
import linecache
import logging
import random
import re
import sys
import tempfile
import textwrap
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from random_grammar import (  # noqa: E402
    CONSTANTS,
    EXPRESSIONS,
    GLOBALS,
    HEADER,
    IN_HELPER,
    IN_PROGRAM,
    KINDS,
    LEAVES,
    PARAMETERS,
    STATEMENTS,
    WRAPPERS,
    Box,
    Carrier,
    Pair,
    Recorder,
    Slim,
    Sub,
)

import framelift  # noqa: E402
from check import Comparison  # noqa: E402

Node = tuple[str, list["Node"]]
"""A line of an entry, and the lines under it."""


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
    entries: list[Entry] = []
    for part in text.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        found = re.fullmatch(r"(?:(\d+) )?(.*?)(?: \[(\w+)\])?", title)
        assert found is not None
        weight, name, tag = found.groups()
        entries += [Entry(name, body.strip(), tag)] * int(weight or 1)
    return entries


CATALOGUE = catalogue(STATEMENTS)
HOLE = re.compile(r"<([+=:*]?)([A-Za-z])(\d?)>")


@functools.cache
def needs(text: str) -> list[tuple[str, str]]:
    """The holes that can be filled only where there is a variable of the kind: (mark, kind)."""
    found, known = [], set()
    for mark, kind, number in HOLE.findall(text):
        given = (number and kind.upper() + number in known) or mark in ("+", "*")
        if not given and (mark or (kind.islower() and kind.upper() not in CONSTANTS)):
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
    constructs: Counter[str] = field(default_factory=Counter)


def tidy(source: str) -> str:
    return ast.unparse(ast.parse(source)) + "\n"


class Writer:
    """Writes one program; `pick(n)`, a number below n, is the only source of chance.

    `statement` chooses an entry, `emit` writes its lines, `fill` fills the holes in one, `expression` a hole.
    """

    def __init__(self, pick: Callable[[int], int]) -> None:
        self.pick = pick
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
        return [n for n in names if n in self.owned or n in ("TOTAL", "BIAS") or not n.isidentifier()]

    def possible(self, text: str) -> bool:
        """Whether there are variables for all holes that need one."""
        for mark, kind in needs(text):
            if not (self.assignable(kind, mark) if mark else self.names[kind]):
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
                filled = self.one([*self.names[key[0]], *CONSTANTS.get(key[0], [])])
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
        entries = EXPRESSIONS.get(kind, []) if depth < 4 and self.pick(depth + 1) < 2 else []
        entry = self.one([entry for entry in entries if self.possible(entry)] or LEAVES[kind])
        names, frozen = self.names, self.frozen
        self.frozen += "lambda" in entry
        text, _ = self.fill(entry, {}, depth)
        self.names, self.frozen = names, frozen
        if kind == "V":
            return text
        text = text if is_primary(entry) else f"({text})"
        if kind in "TIFBCLNDUOS" and self.pick(self.calm) == self.calm - 1:
            return self.one(WRAPPERS) % text
        return text

    # ---- statements

    def statement(self) -> None:
        self.budget -= 1
        simple = self.indent > 3 or self.budget <= 0
        entry = self.one([
            entry for entry in CATALOGUE
            if (entry.tag is None or entry.tag in self.context)
            and not (simple and "..." in entry.text)
            and not (entry.loops and self.loops > (not self.helping))
            and self.possible(entry.text)
        ])  # fmt: skip
        self.constructs[entry.name] += 1
        self.emit(entry.nodes, {})

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
        self.say("global TOTAL, BIAS")
        if owned and self.pick(2):
            chosen = sorted({self.one(sorted(owned)) for _ in range(1 + self.pick(3))})
            self.say(f"nonlocal {', '.join(chosen)}")
            self.owned = parameters | set(chosen)
        self.emit(under, shared)
        self.owned, self.result = owned, result

    # ---- programs

    def helper(self, name: str, helpers: list[str]) -> None:
        self.names = {kind: [] for kind in KINDS} | IN_HELPER | {"H": helpers}
        self.owned, self.context = {"t", "n"}, frozenset()
        self.result, self.helping, self.budget = "T", True, 4
        self.say(f"def {name}(t, n=1, *, items, box, depth={self.pick(3)}):")
        self.indent = 1
        self.say("global TOTAL, BIAS")
        self.say("t = t + 0.5")
        if self.pick(2):
            self.say("if depth > 0:")
            self.say(f"    t = {name}(t, n, items=items, box=box, depth=depth - 1) - t")
        self.block(1 + self.pick(4))
        self.say(f"return {self.expression('T', 0)}")
        self.indent = 0

    def write(self) -> Program:
        helpers = [f"helper{n}" for n in range(1, 1 + self.pick(4))]
        for n, name in enumerate(helpers):
            self.helper(name, helpers[:n])
        self.names = {kind: [] for kind in KINDS} | IN_PROGRAM | {"H": helpers}
        self.owned, self.context = set(PARAMETERS.split(", ")) - {"w"}, frozenset({"program"})
        self.result, self.helping, self.budget = "R", False, 16
        self.say(f"def program({PARAMETERS}):")
        self.indent = 1
        self.say("global TOTAL, BIAS")
        for _ in range(3 + self.pick(8)):
            self.statement()
        results = [self.expression("R", 1) for _ in range(1 + self.pick(3))]
        self.say(f"return ({', '.join(results)}, {self.expression('T', 0)})")
        return Program(tidy("\n".join(self.lines)), self.constructs)


# ---- running a program both ways


class Everything(Comparison):
    """Also compares functions whose cells are empty; tuples of constants need not be two."""

    def paired(self, a: Any, b: Any, at: str) -> bool:
        constant = isinstance(a, tuple) and all(isinstance(x, (int, float, str, type, type(None))) for x in a)
        return not constant and super().paired(a, b, at)

    def parts(self, a: Any, b: Any, at: str) -> None:
        if isinstance(a, types.FunctionType) and a is not b:
            assert a.__code__ is b.__code__, f"{at}: another function"
            cells = [[contents(cell) for cell in fn.__closure__ or ()] for fn in (a, b)]
            self.same((cells[0], a.__defaults__), (cells[1], b.__defaults__), f"{at} cells")
        elif isinstance(a, types.GeneratorType):  # one from before a break has a `gi_code` of its own
            self.same(list(a), list(b), f"{at} (drained)")
        else:
            super().parts(a, b, at)


def contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "(empty cell)"


CLASSES = {cls.__name__: cls for cls in (Box, Sub, Slim, Pair, Carrier, Recorder)}
HEADER_FILE = "<header of random programs>"
HEADER_CODE = compile(HEADER, HEADER_FILE, "exec")
linecache.cache[HEADER_FILE] = (len(HEADER), None, HEADER.splitlines(True), HEADER_FILE)
CALLS = 3


class Side:
    """One of the two runs: a module of its own, the state that lasts over the calls, the function to call."""

    def __init__(self, code: types.CodeType, wrap: Callable[[Any], Any]) -> None:
        self.scope: dict[str, Any] = {"__name__": "random_program", **CLASSES}
        exec(HEADER_CODE, self.scope)
        exec(code, self.scope)
        self.call = wrap(self.scope["program"])
        self.items = [torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.1, 0.2, 0.3])]
        self.nums = [2, 5, 1]
        self.table = {"a": torch.tensor([-1.0, 0.0, 1.0]), "b": self.items[0]}
        self.box, self.other = Box(torch.tensor([0.3, 0.6, -0.9]), 2), Slim(torch.ones(3))
        self.fn = self.scope["make_fn"]()
        self.w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def arguments(self, number: int) -> tuple[Any, ...]:
        """Other data each time; at the last another number, and things that were apart are one."""
        t = torch.tensor([[0.5, -1.0, 1.5], [-0.5, -1.0, 0.2], [2.0, 1.0, -0.5]][number])
        u = torch.tensor([[-1.0, 0.5, 0.1], [1.0, 2.0, -0.3], [-0.2, 0.4, 0.8]][number])
        n, x, flag = [(2, 0.25, True), (2, 0.75, False), (3, 0.25, True)][number]
        if number == 2:
            self.box.items, self.table["a"] = self.items, t
        shared = self.items, self.nums, self.table, (u, n), self.box, self.other, self.fn
        return t, u, self.w, n, x, flag, "word", *shared

    def run(self, number: int) -> dict[str, Any]:
        """Everything that can be seen of one call."""
        arguments = self.arguments(number)
        random.seed(number)
        torch.manual_seed(number)
        printed = io.StringIO()
        result, errors = None, []
        with contextlib.redirect_stdout(printed):
            try:
                result = drained(self.call(*arguments))
            except Exception as error:  # not kept, for it keeps the frames and their generators
                errors = list(chain(error))
        return {
            "error": errors,
            "printed": printed.getvalue(),
            "result": result,
            "arguments": (arguments, self.w.grad),
            "globals": {name: self.scope.get(name) for name in GLOBALS},
            "generators": (random.random(), torch.rand(1)),
            "grad mode": torch.is_grad_enabled(),
        }


def chain(error: BaseException | None) -> Iterator[Any]:
    """An exception with what it came from, so far as programs can tell."""
    while error is not None:
        yield type(error), error.args, getattr(error, "value", None), error.__suppress_context__
        error = error.__cause__ or error.__context__


def drained(result: Any) -> Any:
    """The result with iterators run to their end, or to their error."""
    parts = list(result) if type(result) is tuple else [result]
    for n, part in enumerate(parts):
        if isinstance(part, collections.abc.Iterator):
            drawn: list[Any] = []
            try:
                drawn.extend(part)
            except Exception as error:
                drawn.append(list(chain(error)))
            parts[n] = type(part), drawn
    return parts


@dataclass
class Finding:
    """What became of one program."""

    difference: str | None
    raised: bool
    breaks: Counter[str]

    @property
    def sort(self) -> str | None:
        """What differs, roughly: programs that fail for the same reason have the same."""
        return self.difference and re.sub(r"0x\w+|[\d.-]+", "#", self.difference.partition("\n")[0])


Check = Callable[[str], Finding]
NUMBERS = itertools.count()


def check_program(source: str) -> Finding:
    number = next(NUMBERS)
    filename = f"<random program {number}>"
    # on other lines each time: code objects that are equal would share what is remembered of them
    text = "\n" * (number % 500) + source
    code = compile(text, filename, "exec")
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    framelift.reset()
    gc.disable()  # when it runs must not decide whether a program differs
    try:
        plain = Side(code, lambda fn: fn)
        compiled = Side(code, lambda fn: framelift.compile(fn, backend="eager"))
        with contextlib.redirect_stdout(io.StringIO()):  # generators may print when they are compared
            difference, raised = compare(plain, compiled)
        return Finding(difference, raised, Counter(framelift.counters["graph_break"]))
    finally:
        gc.enable()
        framelift.reset()
        torch.set_grad_enabled(True)
        del linecache.cache[filename]


def compare(plain: Side, compiled: Side) -> tuple[str | None, bool]:
    """What differs first, and whether the program raises."""
    raised = False
    for number in range(CALLS):
        expected, found = plain.run(number), compiled.run(number)
        raised = raised or bool(expected["error"])
        difference = first_difference(expected, found)
        if difference is not None:
            return f"{difference}\n  (in call {number})\n{both(expected, found)}", raised
    return None, raised


def first_difference(expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Part by part, for a message that says what differs; then all at once, for what they share."""
    for part in [*expected, None]:
        try:
            if part is None:
                Everything().same(expected, found, "all")
            else:
                Everything().same(expected[part], found[part], part)
        except AssertionError as difference:
            detail = f"\n  {difference}"
            if part == "error":
                return f"error: {summary(found[part])} instead of {summary(expected[part])}{detail}"
            return f"{part or 'sharing'} differs{detail}"
    return None


def summary(errors: list[Any]) -> str:
    return " from ".join(f"{kind.__name__}{args}" for kind, args, _, _ in errors) or "none"


def both(expected: dict[str, Any], found: dict[str, Any]) -> str:
    lines = []
    for part in expected:
        one, other = (re.sub(r" at 0x\w+", "", repr(outcome[part])) for outcome in (expected, found))
        if one != other:
            start = max(0, next((n for n, (x, y) in enumerate(zip(one, other)) if x != y), 0) - 100)
            lines.append(f"  {part}, eager:    {one[start : start + 300]}")
            lines.append(f"  {part}, compiled: {other[start : start + 300]}")
    return "\n".join(lines)


# ---- differences that are known


def known(body: str) -> str:
    return f"def program({PARAMETERS}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


KNOWN = {
    "an operator that fails on its data is not caught where an input was written to": known("""
        t.add_(1)
        try:
            return t[torch.tensor([n + 5])]
        except IndexError:
            return u
    """),
}
"""What differs today -> the smallest program. Random ones do not show these."""


# ---- making a program small


def smaller(source: str, start: int) -> Iterator[tuple[int, str]]:
    """The program with one statement or one operation less, from the start-th node of its tree on."""
    for n, node in enumerate(ast.walk(ast.parse(source))):
        for m in range(len(replacements(node)) if n >= start else 0):
            changed = ast.parse(source)
            old = next(itertools.islice(ast.walk(changed), n, None))
            replace(changed, old, replacements(old)[m])
            with contextlib.suppress(SyntaxError, ValueError):
                yield n, tidy(ast.unparse(ast.fix_missing_locations(changed)))


def replacements(node: ast.AST) -> list[Any]:
    """What may stand for a node: lists of statements, or an expression that is a part of it."""
    if isinstance(node, (ast.ExceptHandler, ast.match_case)):
        return [[]]
    if isinstance(node, ast.stmt) and not is_counter(node):
        blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        return [[], *(block for block in blocks if block)]
    return OPERANDS.get(type(node), lambda node: [])(node)


OPERANDS: dict[type, Callable[[Any], list[ast.expr]]] = {
    ast.Call: lambda node: [
        *node.args,
        *(keyword.value for keyword in node.keywords),
        *([node.func.value] if isinstance(node.func, ast.Attribute) else []),
    ],
    ast.BinOp: lambda node: [node.left, node.right],
    ast.BoolOp: lambda node: node.values,
    ast.IfExp: lambda node: [node.body, node.orelse],
    ast.UnaryOp: lambda node: [node.operand],
    ast.NamedExpr: lambda node: [node.value],
    ast.Compare: lambda node: [ast.Constant(True)],
}


def is_counter(node: ast.stmt) -> bool:
    """Whether the statement is what ends a loop."""
    own = node.test if isinstance(node, ast.If) else node
    names = {part.id for part in ast.walk(own) if isinstance(part, ast.Name)}
    return isinstance(node, (ast.AugAssign, ast.If)) and any(name.startswith("left") for name in names)


def replace(tree: ast.AST, old: ast.AST, new: Any) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if name in ("iter", "test") and isinstance(parent, (ast.For, ast.While, ast.comprehension)):
                continue  # what bounds a loop stays
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(item is old for item in value):
                at = next(n for n, item in enumerate(value) if item is old)
                value[at : at + 1] = new if isinstance(new, list) else [new]
                if name == "body" and not value:
                    value.append(ast.Pass())


def shrink(source: str, fails: Callable[[str], bool], tries: int = 600) -> str:
    """A smaller program that still fails; good enough, not the smallest."""
    seen, start, shrunk = {source}, 0, False
    while len(seen) < tries:
        for start, candidate in smaller(source, start):
            if candidate in seen or len(candidate) >= len(source) or len(seen) > tries:
                continue
            seen.add(candidate)
            if fails(candidate):
                source, shrunk = candidate, True
                break
        else:
            if not shrunk:
                break
            start, shrunk = 0, False
    return source


# ---- many programs


def program_of(seed: int) -> Program:
    return Writer(random.Random(seed).randrange).write()


@dataclass
class Statistics:
    programs: int = 0
    broke: int = 0
    raised: int = 0
    lines: int = 0
    constructs: Counter[str] = field(default_factory=Counter)
    breaks: Counter[str] = field(default_factory=Counter)
    sorts: dict[str, list[int]] = field(default_factory=lambda: collections.defaultdict(list))
    """What differs -> the seeds of the programs."""

    def add(self, program: Program, finding: Finding) -> None:
        self.programs += 1
        self.broke += bool(finding.breaks)
        self.raised += finding.raised
        self.lines += program.source.count("\n")
        self.constructs.update(program.constructs)
        self.breaks.update(finding.breaks)

    def share(self, count: int) -> float:
        return count / max(self.programs, 1)

    def report(self) -> str:
        never = {entry.name for entry in CATALOGUE} - self.constructs.keys()
        return "\n".join([
            f"{self.programs} programs, {self.share(self.lines):.0f} lines each;"
            f" {self.share(self.broke):.0%} broke, {self.share(self.raised):.0%} raised",
            f"{len(self.constructs)} kinds of statements; most {self.constructs.most_common(3)},"
            f" least {self.constructs.most_common()[-3:]}, never {sorted(never)}",
            "breaks: " + ", ".join(f"{count} {name}" for name, count in self.breaks.most_common()),
            f"{sum(map(len, self.sorts.values()))} differ",
            *(f"    {sort}: seeds {seeds}" for sort, seeds in self.sorts.items()),
        ])  # fmt: skip


SHOWN = 3
"""How many programs of one sort of difference are made small and shown."""


def run_seeds(seeds: Iterable[int], check: Check = check_program, show: Any = None) -> Statistics:
    """Runs the programs of the seeds; `show` is given those that differ, made small."""
    statistics = Statistics()
    for seed in seeds:
        program = program_of(seed)
        finding = check(program.source)
        statistics.add(program, finding)
        if finding.sort is None:
            continue
        statistics.sorts[finding.sort].append(seed)
        if show is not None and len(statistics.sorts[finding.sort]) <= SHOWN:
            small = shrink(program.source, functools.partial(is_like, finding, check))
            again = check(small).difference or f"{finding.difference}\n  (not every time)"
            show(f"seed {seed}:\n{small}\n{again}\n")
    return statistics


def is_like(finding: Finding, check: Check, source: str) -> bool:
    """Whether the program differs in the same way, and raises if the other did."""
    try:
        other = check(source)
    except Exception:  # it does not even compile
        return False
    return (other.sort, other.raised) == (finding.sort, finding.raised)


class Watch:
    """Checks programs so that one that crashes or hangs can be found."""

    def __init__(self, folder: str) -> None:
        self.file = Path(folder) / "program.py"

    def __call__(self, source: str) -> Finding:
        self.file.write_text(source)
        faulthandler.dump_traceback_later(300, exit=True)
        try:
            return check_program(source)
        finally:
            faulthandler.cancel_dump_traceback_later()


def main() -> int:
    parser = argparse.ArgumentParser(description="Random programs, plainly and compiled.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, help="print the program of this seed")
    parser.add_argument("--file", type=Path, help="check the program in this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("framelift").setLevel(logging.ERROR)  # recompile limits are part of the game
    faulthandler.enable()
    if options.show is not None:
        print(program_of(options.show).source)
        return 0
    if options.file is not None:
        finding = check_program(options.file.read_text())
        print(finding.difference or "no difference", dict(finding.breaks))
        return 1 if finding.difference else 0
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        print(f"the program being run is in {folder}", flush=True)
        seeds = range(options.seed, options.seed + options.count)
        statistics = run_seeds(seeds, Watch(folder), functools.partial(print, flush=True))
    print(statistics.report())
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if statistics.sorts else 0


if __name__ == "__main__":
    sys.exit(main())
