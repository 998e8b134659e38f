"""Random programs as text for people: a script that needs nothing but Framelift."""

from __future__ import annotations

import ast

from grammar import AREAS
from program_runs import OWN_OPTIONS, area_of
from program_writer import CALLS


def standalone(source: str) -> str:
    """A script: as much of the header as the program needs, the program, and its calls; `compiled` as an
    argument compiles it."""
    area, tree = AREAS[area_of(source)], ast.parse(source)
    options = next((ast.literal_eval(node.value) for node in tree.body if assigns(node, "OPTIONS")), {})
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    given = {argument.arg: area.arguments[argument.arg] for argument in functions["program"].args.args}
    wanted = names(tree).union(*(names(ast.parse(text)) for text in given.values()))
    needed = needed_parts(ast.parse(area.header).body, wanted)
    body = [node for node in tree.body if not assigns(node, "AREA") and not assigns(node, "OPTIONS")]
    settings = {"backend": "eager"} | {name: v for name, v in options.items() if name not in OWN_OPTIONS}
    return "\n".join([
        f"# {options}",
        "import sys, torch, framelift",
        *(["PLAINLY = 'compiled' not in sys.argv"] if "PLAINLY" in area.header else []),
        *(ast.unparse(node) for node in [*needed, *body]),
        f"if 'compiled' in sys.argv: program = framelift.compile(program, **{settings})",
        f"for call in range({options.get('calls', CALLS)}):",
        "    torch.manual_seed(call)",
        *(["    between(call)"] if "between" in functions else []),
        f"    print(call, program({', '.join(f'{name}={text}' for name, text in given.items())}))",
    ])  # fmt: skip


def assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name


def names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def needed_parts(header: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    """The header's statements that define what is wanted, and what these want."""
    kept: list[ast.stmt] = []
    for node in reversed(header):
        if wanted & defined(node):
            kept.append(node)
            wanted = wanted | names(node)
    for node in header:  # a function may use what stands below it
        if node not in kept and wanted & defined(node):
            return needed_parts(header, wanted)
    return kept[::-1]


def defined(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
