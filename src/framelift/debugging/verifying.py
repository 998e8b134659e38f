"""Graphs that are checked as they run: what the backend made of each, against the graph itself.

With `config.verify_correctness` a graph that is computed wrongly is an error when it is; `framelift.verify`
takes down the first one instead. Either way it is found out which operation it is, and there is a script
that shows it.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framelift import __version__, _frame
from framelift.core.config import config
from framelift.core.errors import WrongResult
from framelift.core.logs import ROOT
from framelift.debugging import bisecting, graph_scripts
from framelift.debugging.bisecting import Culprit, SuspectBackend
from framelift.debugging.comparing import Difference
from framelift.debugging.graph_scripts import NoScript, Script
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import Context, Graph
from framelift.dispatch.extensions import GraphCompiler, RunningCompilation
from framelift.graph.functions import describe


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
        return None if self.culprit is None else (self.culprit.node.stack_trace or "").strip() or None

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
        imports, source = graph_scripts.module_source(culprit.graph)
    except NoScript:
        return None
    seeded = graph_scripts.can_be_seeded(culprit.inputs)
    if seeded:  # whether any numbers will do
        inputs = graph_scripts.seeded_inputs(culprit.inputs)
        seeded = suspect.difference(culprit.graph, inputs) is not None
    backend_import, backend = graph_scripts.backend_source(suspect.backend, suspect.name)
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
        inputs=graph_scripts.inputs_source(culprit.inputs, seeded),
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
