"""Graphs that are checked as they run: what the backend made of each, against the graph itself.

With `config.verify_correctness` a graph that is computed wrongly is an error when it is; `framelift.verify`
takes down the first one instead. Either way it is found out which operation it is, and there is a script
that shows it.
"""

from __future__ import annotations

import contextvars
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.graph_module import _format_import_block
from torch.package import sys_importer

from framelift import __version__, _frame
from framelift.core.config import config
from framelift.core.errors import WrongResult
from framelift.core.logs import ROOT
from framelift.debugging import bisecting
from framelift.debugging.bisecting import Culprit, SuspectBackend
from framelift.debugging.comparing import Difference
from framelift.debugging.inputs import has_storage, rand_strided
from framelift.dispatch.backend_names import backend_source
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import Context, Graph
from framelift.dispatch.extensions import GraphCompiler, RunningCompilation
from framelift.graph.functions import describe
from framelift.graph.origins import describe_nodes, innermost

INPUTS = "inputs.pt"


class NoScript(Exception):
    """The graph calls something that can't be imported."""


@dataclass(frozen=True)
class Script:
    """A script, and the file with inputs that lies beside it, if it needs one."""

    text: str
    inputs: list[Any] | None = None

    def save(self, folder: str | Path, name: str = "repro.py") -> Path:
        """Writes it into a folder, which is made if need be."""
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.inputs is not None:
            torch.save(self.inputs, path.with_name(INPUTS))
        path.write_text(self.text, encoding="utf-8")
        return path


@dataclass
class WrongGraph:
    """A graph that a backend computes otherwise than torch does."""

    number: int
    """Which of the graphs that were run, from 0."""
    function: str
    """Of which function, and where that is."""
    backend: str
    difference: Difference
    graph: Graph = field(repr=False)
    """All of it, as it was captured."""
    culprit: Culprit | None = field(default=None, repr=False)
    script: Script | None = field(default=None, repr=False)
    """What shows it: `script.text`, `script.save(folder)`."""

    @property
    def op(self) -> str | None:
        """The first operation that shows it, by the name that it has in the program."""
        return None if self.culprit is None else op_name(self.culprit.node)

    @property
    def place(self) -> str | None:
        """Where in the program that is."""
        return None if self.culprit is None else innermost(self.culprit.node.stack_trace) or None

    def __str__(self) -> str:
        head = f"graph {self.number}, of {self.function}, with the backend {self.backend!r}"
        lines = [f"{head}: {self.difference}"]
        if self.culprit is None:
            lines.append("  the graph on its own, compiled for these sizes, is computed rightly")
        else:
            calls = sum(node.op.startswith("call") for node in self.culprit.graph.graph.nodes)
            shown = f"(a part of the graph with {calls} call(s) shows it)"
            lines.append(f"  first wrong operation: {self.op} {shown}")
            lines += [f"    {self.place}"] if self.place else []
            lines.append(f"    {self.culprit.difference}")
        return "\n".join(lines)


def op_name(node: torch.fx.Node) -> str:
    return f"Tensor.{node.target}" if node.op == "call_method" else describe(node.target)


@dataclass
class Verifier:
    """Takes down the first graph that is wrong, of all that run while it is `verifying`."""

    context: Context
    checked: int = 0
    graphs: list[Graph] = field(default_factory=list)
    wrong: WrongGraph | None = None

    def number_of(self, graph: Graph) -> int:
        known = [n for n, each in enumerate(self.graphs) if each is graph]
        if not known:
            self.graphs.append(graph)
        return known[0] if known else len(self.graphs) - 1


verifying: contextvars.ContextVar[Verifier | None] = contextvars.ContextVar("verifying", default=None)


def verify_graph(compile: GraphCompiler, compilation: RunningCompilation, capture: Capture) -> GraphCompiler:
    """If someone wants to know: what the backend made of a graph is checked whenever it runs."""
    verifier, context, record = verifying.get(), compilation.context, compilation.record
    if verifier is not None and verifier.context is not context:
        verifier = None
    if verifier is None and not config.verify_correctness:
        return compile
    suspect = SuspectBackend(context.backend, context.backend_name, context.options)
    function, folder = f"{record.name} ({record.filename}:{record.line})", record.folder

    def compile_verified(graph: Graph, inputs: list[Any], fakes: FakeTensorMode | None) -> Callable[..., Any]:
        describe_nodes(graph)
        plain = bisecting.copy_graph(graph)  # the backend may change the graph
        compiled = compile(graph, inputs, fakes)

        @functools.wraps(compiled)
        def checked(*inputs: Any) -> Any:
            wrong = None
            if verifier is None or verifier.wrong is None:
                number = 0 if verifier is None else verifier.number_of(plain)
                wrong = _frame.untouched(examine, plain, compiled, suspect, list(inputs), number, function)
            if verifier is not None:
                verifier.checked += 1
                verifier.wrong = verifier.wrong or wrong
            elif wrong is not None:
                text = f"a graph is computed wrongly (config.verify_correctness)\n{wrong}"
                if wrong.script is not None and folder is not None:
                    text += f"\n  python {wrong.script.save(Path(folder, 'wrong'))} shows it"
                raise WrongResult(text)
            return compiled(*inputs)

        return checked

    return compile_verified


CHANCES = 3
"""How often something must differ again: what is in memory that nobody has filled is chance."""


def examine(
    graph: Graph,
    compiled: Callable[..., Any],
    suspect: SuspectBackend,
    inputs: list[Any],
    number: int,
    function: str,
) -> WrongGraph | None:
    try:
        found = bisecting.compare_with_graph(graph, compiled, inputs)
        for _ in range(CHANCES):
            found = found and bisecting.compare_with_graph(graph, compiled, inputs)
    except Exception:
        return None  # the program's own error comes when it runs for real
    if found is None:
        return None
    wrong = WrongGraph(number, function, suspect.name, found, graph)
    try:
        wrong.culprit = bisecting.find_culprit(suspect, graph, inputs)
        if wrong.culprit is not None:
            wrong.script = make_script(wrong, suspect, wrong.culprit)
    except Exception as error:  # that it is wrong is known, and is reported
        ROOT.warning("the wrong operation was not found: %s: %s", type(error).__name__, error)
    return wrong


# ---- the script


def make_script(wrong: WrongGraph, suspect: SuspectBackend, culprit: Culprit) -> Script | None:
    try:
        imports, source = module_source(culprit.graph)
    except NoScript:
        return None
    seeded = can_be_seeded(culprit.inputs)
    if seeded:  # whether any numbers will do
        inputs = seeded_inputs(culprit.inputs)
        seeded = suspect.difference(culprit.graph, inputs) is not None
    backend_import, backend = backend_source(suspect.backend, suspect.name)
    settings = f"backend={backend}, fullgraph=True, dynamic=False"
    if suspect.options:
        settings += f", options={suspect.options!r}"
    text = TEMPLATE.format(
        backend_name=suspect.name,
        op=wrong.op,
        place=wrong.place or "no place in the program",
        difference=culprit.difference,
        versions=f"framelift {__version__}, torch {torch.__version__}",
        helpers="from framelift.testing import rand_strided" if seeded else "from pathlib import Path",
        imports="\n".join(filter(None, (imports, backend_import))),
        source=source,
        inputs=inputs_source(culprit.inputs, seeded),
        settings=settings,
    )
    return Script(text, None if seeded else culprit.inputs)


TEMPLATE = '''"""The backend {backend_name!r} computes this graph otherwise than torch does.

{op}, {place}
{difference}

Found with {versions}. The exit code is 1 as long as it does.
"""

{helpers}

import framelift
{imports}


{source}


{inputs}


if __name__ == "__main__":
    report = framelift.verify(Graph(), {settings})(*inputs())
    print(report)
    raise SystemExit(not report.ok)
'''


def module_source(graph: Graph, name: str = "Graph") -> tuple[str, str]:
    """(imports, source of a class whose `forward` is the graph; those of its bodies come before it)"""
    imports: dict[str, None] = {}
    classes: list[str] = []
    add_class(graph, name, imports, classes)
    source = "\n\n\n".join(classes)
    used = [line for line in imports if line == "import torch" or is_used(line, source)]
    return "\n".join(used), source


def is_used(line: str, source: str) -> bool:
    """Whether the name that an import makes is in the source: torch lists some that may not be."""
    bound = line.partition(" = ")[0] if " = " in line else line.split()[-1].partition(".")[0]
    return re.search(rf"\b{re.escape(bound)}\b", source) is not None


def add_class(graph: Graph, name: str, imports: dict[str, None], classes: list[str]) -> None:
    code = graph.graph.python_code("self")
    try:
        block = _format_import_block(code.globals, sys_importer)
    except Exception as error:
        raise NoScript(str(error)) from None
    imports.update(dict.fromkeys(line for line in block.splitlines() if line.strip()))
    lines = [f"class {name}(torch.nn.Module):"]
    bodies = [(child, each) for child, each in graph.named_children() if isinstance(each, Graph)]
    if bodies:
        lines += ["    def __init__(self):", "        super().__init__()"]
        for child, each in bodies:
            add_class(each, f"{name}_{child}", imports, classes)
            lines.append(f"        self.{child} = {name}_{child}()")
        lines.append("")
    lines += [f"    {line}".rstrip() for line in code.src.strip().splitlines()]
    classes.append("\n".join(lines))


def inputs_source(inputs: list[Any], seeded: bool) -> str:
    """A function `inputs()`: random numbers laid out as these are, or what lies in the file beside it."""
    if not seeded:
        loaded = f'torch.load(Path(__file__).with_name("{INPUTS}"), weights_only=False)'
        return f"def inputs():\n    return {loaded}"
    made = [f"        {input_source(each)}," for each in inputs]
    return "\n".join(["def inputs():", "    torch.manual_seed(0)", "    return [", *made, "    ]"])


def input_source(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    arguments = [str(tuple(value.shape)), str(value.stride()), str(value.dtype), repr(str(value.device))]
    if value.storage_offset():
        arguments.append(f"offset={value.storage_offset()}")
    if value.requires_grad:
        arguments.append("requires_grad=True")
    return f"rand_strided({', '.join(arguments)})"


def can_be_seeded(inputs: list[Any]) -> bool:
    """Whether each can be made anew with another content: none shares its memory with another."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not all(has_storage(x) and not (x.is_conj() or x.is_neg()) for x in tensors):
        return False
    memory = [x.untyped_storage().data_ptr() for x in tensors if x.numel()]
    return len(set(memory)) == len(memory)


def seeded_inputs(inputs: list[Any]) -> list[Any]:
    """What the function of `inputs_source` gives."""
    names: dict[str, Any] = {"torch": torch, "rand_strided": rand_strided}
    exec(inputs_source(inputs, seeded=True), names)
    with torch.random.fork_rng(devices=[]):
        found: list[Any] = names["inputs"]()
    return found
