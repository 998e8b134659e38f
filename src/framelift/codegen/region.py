"""A region: generated Python source that runs a graph and brings the program's state up to date.

Its parameters are the values that the guards' walk collects; it calls the compiled graph, makes the
values that live on, replays the writes to the outside, and returns. The source is registered with
`linecache`, so tracebacks and `explain` show it.
"""

from __future__ import annotations

import itertools
import linecache
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.codegen.builders import is_plain_attribute
from framelift.codegen.rebuild import Cyclic, Rebuild
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.tensors.torch_state import TorchState
from framelift.world.shadows import Change
from framelift.world.source import Source
from framelift.world.views import DELETED
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


def generate(world: World, name: str, result: Any, switches: TorchState) -> Region:
    """The region that gives `result`; `switches` are torch's as the trace began."""
    writes = world.writes()
    late: frozenset[int] = frozenset()
    while True:
        try:
            return write(world, name, result, writes, switches, Rebuild(world, late))
        except Cyclic as found:
            late |= {found.args[0]}
        except RecursionError:
            raise Break(breaks.UNREBUILDABLE, "immutable containers nested too deeply") from None


def write(world: World, name: str, result: Any, writes: Writes, switches: TorchState, r: Rebuild) -> Region:
    recorder = world.recorder
    returned = r.value(result)
    replay(world, writes, r)
    if torch.is_grad_enabled() is not switches.grad:
        r.say(f"{r.constant(torch._C._set_grad_enabled)}({torch.is_grad_enabled()})")
    outputs = [fake for _, fake in r.outputs.values()]
    recorder.finish(outputs)
    body = []
    has_graph = not recorder.empty or bool(outputs)
    if has_graph:
        tensors = [r.input(world.known[id(tensor)].source) for _, tensor, _ in recorder.inputs]
        call = f"graph({', '.join(tensors)})"
        targets = [target for target, _ in r.outputs.values()]
        run = f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {call}" if targets else call
        if recorder.throws_switches:
            # a graph that raises in the middle leaves its `with torch.no_grad()` behind
            restore = f"    {r.constant(switches)}.restore()"
            body += ["try:", f"    {run}", "except BaseException:", restore, "    raise"]
        else:
            body.append(run)
    if r.lines and r.lines[-1].startswith(f"{returned} = "):
        returned = r.lines.pop().removeprefix(f"{returned} = ")
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
        statements += attribute_statements(r.input(view.source), type(view.outside), changes, r)
    for view, changes in writes.scopes:
        target = r.input(view.source)
        for name, value in changes:
            if value is DELETED:
                statements.append(f"{target}.pop({name!r}, None)")
            else:
                statements.append(f"{target}[{name!r}] = {r.value(value)}")
    for cell, value in writes.cells:
        target = r.input(world.known[id(world.shadow_cells[id(cell)][1])].source)
        if value is MISSING:
            statements.append(f"del {target}.cell_contents")
        else:
            statements.append(f"{target}.cell_contents = {r.value(value)}")
    r.lines += statements


def attribute_statements(target: str, cls: type, changes: list[tuple[str, Any]], r: Rebuild) -> list[str]:
    """Past the class's own `__setattr__` and descriptors, whose work is among the changes already."""
    statements = []
    for name, value in changes:
        if value is DELETED:
            statements.append(f"{r.constant(discard_attribute)}({target}, {name!r})")
        elif is_plain_attribute(cls, name):
            statements.append(f"{target}.{name} = {r.value(value)}")
        else:
            statements.append(f"{r.constant(object)}.__setattr__({target}, {name!r}, {r.value(value)})")
    return statements


def discard_attribute(obj: Any, name: str) -> None:
    """A name that was set and deleted again may never have been there outside."""
    try:
        object.__delattr__(obj, name)
    except AttributeError:
        pass


def container_statements(change: Change, r: Rebuild) -> list[str]:
    made = change.shadow
    target = r.input(made.source)
    cls = type(made.outside)
    statements = []
    for method, arguments in change.calls:
        given = [r.value(argument) for argument in arguments]
        if cls is not made.base:  # past the methods of the subclass, whose work is among the changes already
            statements.append(f"{r.constant(made.base)}.{method}({', '.join([target, *given])})")
        elif method in SUBSCRIPTS:
            statements.append(SUBSCRIPTS[method].format(target, *given))
        else:
            statements.append(f"{target}.{method}({', '.join(given)})")
    return statements + attribute_statements(target, cls, change.attributes, r)


SUBSCRIPTS = {"__setitem__": "{}[{}] = {}", "__delitem__": "del {}[{}]"}
