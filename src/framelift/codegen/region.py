"""A region: generated Python source that runs a graph and brings the program's state up to date.

Its parameters are the values that the guards' walk collects; it calls the compiled graph, makes the
values that live on, replays the writes to the outside, and returns. The source is registered with
`linecache`, so tracebacks and `explain` show it.
"""

from __future__ import annotations

import collections
import itertools
import linecache
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.codegen.rebuild import Cyclic, Rebuild
from framelift.core.sentinels import MISSING
from framelift.world.shadows import Change
from framelift.world.source import Source
from framelift.world.views import DELETED, View
from framelift.world.world import World, Writes

_numbers = itertools.count()


@dataclass
class Region:
    """The source and what it needs; `bind(graph)` makes the function."""

    name: str
    filename: str
    source: str
    constants: dict[str, Any]
    inputs: list[Source]
    outputs: list[FakeTensor]
    has_graph: bool

    def bind(self, graph: Any) -> types.FunctionType:
        namespace = {**self.constants, "graph": graph}
        exec(compile(self.source, self.filename, "exec"), namespace)
        linecache.cache[self.filename] = (len(self.source), None, self.source.splitlines(True), self.filename)
        return namespace.pop(self.name)


def generate(world: World, name: str, result: Any, grad_mode: bool) -> Region:
    """The region that gives `result`; `grad_mode` is what the trace began with."""
    writes = world.writes()
    cyclic: frozenset[int] = frozenset()
    while True:
        try:
            return write(world, name, result, writes, grad_mode, Rebuild(world, cyclic))
        except Cyclic as found:
            if found.args[0] in cyclic:
                raise
            cyclic |= {found.args[0]}


def write(world: World, name: str, result: Any, writes: Writes, grad_mode: bool, r: Rebuild) -> Region:
    recorder = world.recorder
    returned = r.expression(result)
    replay(world, writes, r)
    if torch.is_grad_enabled() is not grad_mode:
        r.say(f"{r.constant(torch._C._set_grad_enabled)}({torch.is_grad_enabled()})")
    outputs = list(r.outputs.values())
    recorder.finish(outputs)
    body = []
    has_graph = not recorder.empty or bool(outputs)
    if has_graph:
        tensors = [r.input(world.known[id(tensor)].source) for _, tensor, _ in recorder.inputs]
        call = f"graph({', '.join(tensors)})"
        targets = "".join(f"g{n}, " for n in range(len(outputs)))
        body.append(f"{targets.rstrip()} = {call}" if outputs else call)
    body += [*r.lines, f"return {returned}"]
    identifier = f"region_of_{name}" if name.isidentifier() else "region"
    text = f"def {identifier}({', '.join(r.inputs.values())}):\n" + "".join(f"    {line}\n" for line in body)
    filename = f"<framelift region {next(_numbers)} of {name}>"
    return Region(identifier, filename, text, r.constants, list(r.inputs), outputs, has_graph)


# ---- writes


def replay(world: World, writes: Writes, r: Rebuild) -> None:
    """Statements that write to the outside. All new values are made before the first is written."""
    statements: list[str] = []
    for change in writes.containers:
        statements += container_statements(change, r)
    for view, changes in writes.attributes:
        statements += attribute_statements(view, changes, r)
    for view, changes in writes.scopes:
        target = r.input(view.source)
        for name, value in changes:
            if value is DELETED:
                statements.append(f"del {target}[{name!r}]")
            else:
                statements.append(f"{target}[{name!r}] = {r.expression(value)}")
    for cell, value in writes.cells:
        target = r.input(world.known[id(world.shadow_cells[id(cell)][1])].source)
        if value is MISSING:
            statements.append(f"del {target}.cell_contents")
        else:
            statements.append(f"{target}.cell_contents = {r.expression(value)}")
    r.lines += statements


def attribute_statements(view: View, changes: list[tuple[str, Any]], r: Rebuild) -> list[str]:
    target = r.input(view.source)
    statements = []
    for name, value in changes:
        if value is DELETED:
            statements.append(f"{r.constant(object)}.__delattr__({target}, {name!r})")
        else:
            statements.append(f"{r.constant(object)}.__setattr__({target}, {name!r}, {r.expression(value)})")
    return statements


def container_statements(change: Change, r: Rebuild) -> list[str]:
    made = change.shadow
    target = r.input(made.source)
    base = r.constant(made.base)
    statements = []
    if change.replaced is not None:
        items = f"[{', '.join(r.all(change.replaced))}]"
        if made.base is list:
            statements.append(f"{base}.__setitem__({target}, {r.constant(slice(None))}, {items})")
        else:
            filler = "extend" if made.base is collections.deque else "update"
            statements += [f"{base}.clear({target})", f"{base}.{filler}({target}, {items})"]
    for key in change.deleted or ():
        statements.append(f"{base}.__delitem__({target}, {r.expression(key)})")
    for key, value in change.assigned or ():
        statements.append(f"{base}.__setitem__({target}, {r.expression(key)}, {r.expression(value)})")
    for name, value in change.attributes or ():
        statements.append(f"{r.constant(object)}.__setattr__({target}, {name!r}, {r.expression(value)})")
    return statements
