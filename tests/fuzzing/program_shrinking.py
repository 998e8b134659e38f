"""Makes a random program that differs small: statement by statement, then expression by expression."""

from __future__ import annotations

import ast
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from program_writer import trimmed


def smaller(source: str, start: int) -> Iterator[tuple[int, str]]:
    """The program with one statement or one operation less, from the start-th node of its tree on."""
    tree = ast.parse(source)
    fixed = {id(part) for node in tree.body if isinstance(node, ast.Assign) for part in ast.walk(node)}
    for n, node in enumerate(ast.walk(tree)):
        for m in range(len(replacements(node)) if n >= start and id(node) not in fixed else 0):
            changed = ast.parse(source)
            old = next(itertools.islice(ast.walk(changed), n, None))
            replace(changed, old, replacements(old)[m])
            with contextlib.suppress(SyntaxError, ValueError):
                yield n, trimmed(ast.unparse(ast.fix_missing_locations(changed)))


def replacements(node: ast.AST) -> list[Any]:
    """What may stand for a node: lists of statements, or an expression that is a part of it."""
    if isinstance(node, (ast.ExceptHandler, ast.match_case)):
        return [[]]
    if isinstance(node, ast.stmt) and not is_needed(node):
        fields = () if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ("body", "orelse", "finalbody")
        blocks = [getattr(node, name, []) for name in fields]
        shorter = without(node, "items") if isinstance(node, ast.With) and len(node.items) > 1 else []
        return [[], *(block for block in blocks if block), *([one] for one in shorter)]
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return []  # what is set would be another thing, of torch's perhaps
    return OPERANDS.get(type(node), lambda node: [])(node)


def without(node: Any, *fields: str) -> list[Any]:
    """Copies of the node, each with one element less in these fields, which belong together."""
    made = []
    for n in range(len(getattr(node, fields[0]))):
        parts = {name: list(getattr(node, name)) for name in fields}
        for part in parts.values():
            del part[n]
        made.append(type(node)(**(dict(ast.iter_fields(node)) | parts)))
    return made


OPERANDS: dict[type, Callable[[Any], list[ast.expr]]] = {
    ast.Call: lambda node: [
        *node.args,
        *(keyword.value for keyword in node.keywords),
        *([node.func.value] if isinstance(node.func, ast.Attribute) else []),
        *without(node, "args"),
        *without(node, "keywords"),
    ],
    ast.BinOp: lambda node: [node.left, node.right],
    ast.BoolOp: lambda node: node.values,
    ast.IfExp: lambda node: [node.body, node.orelse],
    ast.UnaryOp: lambda node: [node.operand],
    ast.NamedExpr: lambda node: [node.value],
    ast.Compare: lambda node: [ast.Constant(True), node.left, *node.comparators],
    ast.Tuple: lambda node: [*node.elts, *without(node, "elts")],
    ast.List: lambda node: [*node.elts, *without(node, "elts")],
    ast.Dict: lambda node: without(node, "keys", "values"),
    ast.Subscript: lambda node: [node.value],
    ast.Attribute: lambda node: [node.value],
    ast.Starred: lambda node: [node.value],
    ast.JoinedStr: lambda node: [ast.Constant("s"), *without(node, "values")],
    ast.ListComp: lambda node: [ast.List([node.elt], ast.Load()), *(part.iter for part in node.generators)],
    ast.GeneratorExp: lambda node: [part.iter for part in node.generators],
    ast.Lambda: lambda node: [node.body],
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


def without_runs(source: str) -> Iterator[str]:
    """The program with a run of statements less, long runs first."""
    blocks = [
        (n, name, len(block))
        for n, node in enumerate(ast.walk(ast.parse(source)))
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list) and len(block) > 1
    ]
    for n, name, length in blocks:
        size = length // 2
        while size > 1:
            for start in range(0, length, size):
                tree = ast.parse(source)
                block = getattr(next(itertools.islice(ast.walk(tree), n, None)), name)
                if not any(is_needed(statement) for statement in block[start : start + size]):
                    block[start : start + size] = []
                    with contextlib.suppress(SyntaxError, ValueError):
                        yield trimmed(ast.unparse(tree))
            size //= 2


def is_needed(statement: ast.stmt) -> bool:
    named = isinstance(statement, ast.FunctionDef) and statement.name == "program"
    return named or is_counter(statement) or ast.unparse(statement).startswith(("AREA = ", "OPTIONS = "))


def with_fewer_options(source: str) -> Iterator[str]:
    for name in ("backend", "dynamic", "fullgraph"):
        tree = ast.parse(source)
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                options = ast.literal_eval(node.value)
                if options.pop(name, None) is not None:
                    node.value = ast.parse(repr(options), mode="eval").body
                    yield ast.unparse(tree) + "\n"


def shrink(source: str, fails: Callable[[str], bool], seconds: float = 60) -> str:
    """A smaller program that still fails; good enough, not the smallest."""
    until, seen = time.monotonic() + seconds, {source}

    def is_better(candidate: str) -> bool:
        if candidate in seen or len(candidate) >= len(source) or time.monotonic() > until:
            return False
        seen.add(candidate)
        return fails(candidate)

    for candidates in (with_fewer_options, without_runs):
        while (shorter := next(filter(is_better, candidates(source)), None)) is not None:
            source = shorter
    start, shrunk = 0, False
    while time.monotonic() < until:
        for start, candidate in smaller(source, start):
            if is_better(candidate):
                source, shrunk = candidate, True
                break
        else:
            if not shrunk:
                break
            start, shrunk = 0, False
    return source
