"""`framelift.CompileProfiler`: a backend that counts graphs, operations and time, and says what stands in the
way: breaks, and recompilations with the guards that failed, each with what to do about it."""

from __future__ import annotations

import collections
import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.records import as_table, compiling
from framelift.debugging.reporting import indented
from framelift.dispatch.backend_names import backend_name, lookup_backend
from framelift.dispatch.compile_contexts import Backend, CodeState, Context, Recompilation, contexts
from framelift.graph.functions import describe


@dataclass
class ProfiledGraph:
    """One graph, and what was spent on it."""

    name: str
    """Of which function, and where: `step (train.py:12)`."""
    ops: collections.Counter[str] = field(default_factory=collections.Counter)
    compile_seconds: float = 0.0
    calls: int = 0
    seconds: float = 0.0
    """In its calls, all together; what is computed on an accelerator is waited for."""


class CompileProfiler:
    """Given as a backend, it stands in front of another one; `report()` says what it has seen.

    >>> import torch, framelift
    >>> profiler = framelift.CompileProfiler()
    >>> double = framelift.compile(lambda x: x.sin() * 2, backend=profiler)
    >>> _ = double(torch.ones(2)), double(torch.ones(2))
    >>> profiler.frame_count, profiler.op_count, profiler.graphs[0].calls
    (1, 2, 2)

    As a context manager it also lifts the limits on recompilations, so that all of them are seen.
    """

    def __init__(self, backend: str | Backend = "eager") -> None:
        self.backend = lookup_backend(backend)
        self.name = backend_name(backend)
        self.graphs: list[ProfiledGraph] = []
        self.limits = contextlib.ExitStack()

    def __enter__(self) -> CompileProfiler:
        """In a block all recompilations are seen: functions may be compiled as often as they have to be."""
        lifted = config.patch(recompile_limit=UNLIMITED, accumulated_recompile_limit=UNLIMITED)
        self.limits.enter_context(lifted)
        return self

    def __exit__(self, *raised: object) -> None:
        self.limits.close()

    def get_metrics(self) -> dict[str, dict[str, Any]]:
        """What stands in the way, as data: the guards that failed of each function, and the breaks."""
        failed: dict[str, list[str]] = {}
        for what, again in self.recompiles:
            failed.setdefault(what, []).extend(str(failure) for failure in again.by_failure())
        return {"guard_failures": failed, "graph_breaks": {found.one_line: n for found, n in self.breaks}}

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        record = compiling.get()
        of = "" if record is None else f"{record.name} ({record.filename}:{record.line})"
        profiled = ProfiledGraph(of)
        profiled.ops.update(map(op_name, (node for node in graph.graph.nodes if node.op.startswith("call"))))
        began = time.perf_counter()
        compiled = self.backend(graph, inputs, **options)
        profiled.compile_seconds = time.perf_counter() - began
        self.graphs.append(profiled)
        return timed(compiled, profiled)

    # ---- what it has seen

    @property
    def frame_count(self) -> int:
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def op_count(self) -> int:
        return sum(graph.ops.total() for graph in self.graphs)

    def contexts(self) -> list[Context]:
        """The compiled functions that have it as their backend, as long as they live."""
        return [context for context in contexts() if context.backend is self]

    def code_states(self) -> list[CodeState]:
        return [state for context in self.contexts() for state in context.code_states.values()]

    @property
    def breaks(self) -> list[tuple[Break, int]]:
        """Each place where captures ended, and how often."""
        found: dict[Any, list[Break]] = collections.defaultdict(list)
        for each in (each for state in self.code_states() for each in state.breaks):
            found[each.reason.name, *(at.key for at in each.stack)].append(each)
        return [(same[0], len(same)) for same in found.values()]

    @property
    def recompiles(self) -> list[tuple[str, Recompilation]]:
        """Which function was compiled again, and why."""
        return [(state.what, again) for state in self.code_states() for again in state.recompiles]

    def clear(self) -> None:
        """Forgets what was counted; breaks and recompilations go with the compiled functions."""
        self.graphs.clear()

    # ---- the report

    def report(self) -> str:
        lines = [
            f"{self.frame_count} graph(s), {self.op_count} op(s), {len(self.breaks)} break(s), "
            f"{len(self.recompiles)} recompilation(s); backend {self.name}"
        ]
        if self.graphs:
            heads = ("graph", "ops", "compile_s", "calls", "seconds", "mean")
            lines += ["", as_table(heads, map(graph_row, self.graphs)), "", "most used operations:"]
            every = sum((graph.ops for graph in self.graphs), collections.Counter())
            lines += [f"  {count:4}  {name}" for name, count in every.most_common(MOST)]
        for found, times in self.breaks:
            lines += ["", f"break, {times} time(s):", indented(found.describe())]
        for what, again in self.recompiles:
            lines += ["", f"compiled again: {what}", indented(str(again))]
            if again.suggestion is None and again.reason is not None:
                lines.append(f"  What to do: {advice(again)}")
        if not self.breaks and not self.recompiles:
            lines += ["", "nothing stands in the way: no breaks, no recompilations"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "backend": self.name,
            "graphs": [{**vars(graph), "ops": dict(graph.ops)} for graph in self.graphs],
            "breaks": [
                {
                    "name": found.reason.name,
                    "at": str(found.stack[-1]) if found.stack else None,
                    "hint": found.reason.hint,
                    "times": times,
                }
                for found, times in self.breaks
            ],
            "recompilations": [
                {
                    "function": what,
                    "failures": [str(failure) for _, failure in again.failures],
                    "hint": advice(again),
                }
                for what, again in self.recompiles
            ],
        }

    def __repr__(self) -> str:
        return f"<CompileProfiler: {self.frame_count} graph(s), {self.op_count} op(s), backend {self.name}>"


UNLIMITED = 1 << 30
MOST = 10
"""How many operations a report lists."""


def op_name(node: torch.fx.Node) -> str:
    return f"Tensor.{node.target}" if node.op == "call_method" else describe(node.target)


def advice(again: Recompilation) -> str | None:
    """What could be done: of a cause that keeps coming back it is said in full."""
    if again.suggestion is not None:
        return "\n".join(again.suggestion.lines())
    return None if again.reason is None else again.reason.cause.hint.format(subject=again.reason.subject)


def graph_row(graph: ProfiledGraph) -> tuple[Any, ...]:
    mean = graph.seconds / graph.calls if graph.calls else 0.0
    return graph.name, graph.ops.total(), graph.compile_seconds, graph.calls, graph.seconds, mean


def timed(compiled: Callable[..., Any], graph: ProfiledGraph) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def run(*inputs: Any) -> Any:
        began = time.perf_counter()
        try:
            return compiled(*inputs)
        finally:
            finish()
            graph.calls += 1
            graph.seconds += time.perf_counter() - began

    return run


def finish() -> None:
    """Waits for what is computed on an accelerator."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
