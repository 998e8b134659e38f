"""`framelift.minimise`: the smallest part of a graph that a backend fails on, as `verify` finds one that it
computes wrongly.

Both ways to fail count: while it compiles, and when what it made runs, on inputs that the graph itself
runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from framelift.api.compile import compile
from framelift.core.errors import UserError
from framelift.core.records import compiling
from framelift.debugging.bisecting import Culprit, SuspectBackend, copy_graph, find_culprit
from framelift.debugging.comparing import Difference
from framelift.debugging.inputs import clone_inputs
from framelift.debugging.verifying import NoScript, Script, inputs_source, module_source, op_name
from framelift.dispatch.backend_names import backend_name, backend_source, lookup_backend
from framelift.dispatch.backends import run_backend
from framelift.dispatch.compile_contexts import Backend, Graph


@dataclass(frozen=True)
class FailingBackend(SuspectBackend):
    """A backend that raises. The difference of a part is the error, if torch itself has none."""

    kind: type[BaseException] = Exception
    """What it raised for the whole graph: a part that fails otherwise shows something else."""

    def difference(self, graph: Graph, inputs: list[Any]) -> Difference | None:
        error = self.error(graph, inputs)
        if error is None or not isinstance(root_cause(error), self.kind):
            return None
        try:
            copy_graph(graph)(*clone_inputs(inputs))
        except Exception:
            return None  # the program's own error
        return Difference("", told(error))

    def error(self, graph: Graph, inputs: list[Any]) -> Exception | None:
        try:
            given = copy_graph(graph), clone_inputs(inputs)
            run_backend(self.backend, self.name, *given, **self.options)(*clone_inputs(inputs))
        except Exception as error:
            return error
        return None


def root_cause(error: BaseException) -> BaseException:
    return error.__cause__ or error


def told(error: BaseException) -> str:
    cause = root_cause(error)
    return f"{type(cause).__name__}: {cause}"


@dataclass
class Failure:
    """A graph that a backend fails on."""

    function: str
    """Of which function, and where that is."""
    backend: str
    error: str
    graph: Graph = field(repr=False)
    """All of it, as it was captured."""
    culprit: Culprit = field(repr=False)
    script: Script | None = field(default=None, repr=False)
    """What shows it: `script.text`, `script.save(folder)`; None where the graph has no source."""

    @property
    def op(self) -> str:
        """The first operation that it fails on, by the name that it has in the program."""
        return op_name(self.culprit.node)

    @property
    def calls(self) -> int:
        """How many there are in the smallest part that shows it."""
        return sum(node.op.startswith("call") for node in self.culprit.graph.graph.nodes)

    def __str__(self) -> str:
        head = f"the backend {self.backend!r} fails on a graph of {self.function}: {self.error}"
        place = (self.culprit.node.stack_trace or "").strip()
        lines = [head, f"  it fails on: {self.op} (a part of the graph with {self.calls} call(s) shows it)"]
        return "\n".join([*lines, *([f"    {place}"] if place else [])])


def minimise(
    fn: Callable[..., Any], *, backend: str | Backend = "inductor", **settings: Any
) -> Callable[..., list[Failure]]:
    """A function that is called as `fn` is: it compiles and runs that, and gives what the backend fails on,
    each graph with the smallest part that still shows it and a script to report it with. Where the backend
    fails, the graph is run as it was captured.

    >>> import torch, framelift
    >>> failures = framelift.minimise(
    ...     lambda x: (x.sin().relu() + 1).cos(), backend="relu_compile_error_TESTING_ONLY"
    ... )(torch.ones(2))
    >>> failures[0].op, failures[0].calls
    ('Tensor.relu', 1)
    """
    if not callable(fn):
        raise UserError(f"framelift.minimise takes a function or a module, not a {type(fn).__name__}")
    found, name = lookup_backend(backend), backend_name(backend)

    def run(*args: Any, **kwargs: Any) -> list[Failure]:
        watch = Minimiser(found, name)
        compile(fn, backend=watch, isolate_recompiles=True, **settings)(*args, **kwargs)
        return watch.failures

    return run


class Minimiser:
    """A backend that stands in front of another one, and looks at what that fails on."""

    def __init__(self, backend: Backend, name: str) -> None:
        self.backend, self.name = backend, name
        self.failures: list[Failure] = []

    def __call__(self, graph: Graph, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        record = compiling.get()
        function = "" if record is None else f"{record.name} ({record.filename}:{record.line})"
        suspect = FailingBackend(self.backend, self.name, options)
        whole = copy_graph(graph)
        looked_at = False

        def run(*given: Any) -> Any:
            nonlocal looked_at
            if not looked_at:
                looked_at = True
                self.look_at(suspect, whole, list(given), function)
            return graph.forward(*given)

        return run

    def look_at(self, suspect: FailingBackend, graph: Graph, inputs: list[Any], function: str) -> None:
        error = suspect.error(graph, inputs)
        if error is None:
            return
        kind = type(root_cause(error))
        suspect = FailingBackend(suspect.backend, suspect.name, suspect.options, kind)
        culprit = find_culprit(suspect, graph, inputs)
        if culprit is not None:
            failure = Failure(function, self.name, told(error), graph, culprit)
            failure.script = make_script(failure, suspect)
            self.failures.append(failure)


def make_script(failure: Failure, suspect: SuspectBackend) -> Script | None:
    culprit = failure.culprit
    try:
        imports, source = module_source(culprit.graph)
    except NoScript:
        return None
    backend_import, backend = backend_source(suspect.backend, suspect.name)
    text = TEMPLATE.format(
        backend_name=suspect.name,
        op=failure.op,
        error=failure.error,
        imports="\n".join(filter(None, (imports, backend_import))),
        source=source,
        inputs=inputs_source(culprit.inputs, False),
        backend=backend,
    )
    return Script(text, culprit.inputs)


TEMPLATE = '''"""The backend {backend_name!r} fails on {op}.

{error}

The exit code is 1 as long as it does.
"""

from pathlib import Path

import framelift
{imports}


{source}


{inputs}


if __name__ == "__main__":
    failures = framelift.minimise(Graph(), backend={backend}, fullgraph=True, dynamic=False)(*inputs())
    print(*failures, sep="\\n")
    raise SystemExit(bool(failures))
'''
