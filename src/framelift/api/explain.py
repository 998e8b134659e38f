"""`framelift.explain(fn)(*args)`: what was captured, what was not and why, what is relied on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch.fx

from framelift.api.compile import compile
from framelift.core.breaks import Break
from framelift.runtime.frames import Context, Record
from framelift.world.guard import ClassGuard, Guard


@dataclass
class Explanation:
    """What happened when a function was compiled and run once; `str()` is the report."""

    name: str
    result: Any = field(repr=False)
    graphs: list[torch.fx.GraphModule] = field(default_factory=list)
    ops: list[list[Any]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    class_guards: list[ClassGuard] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    capture_seconds: float = 0.0
    backend_seconds: float = 0.0
    restarts: int = 0
    """How often a trace had to be repeated, and what that took."""
    seconds_lost: float = 0.0

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops))

    def repeated(self) -> str:
        lost = f"; {self.restarts} trace(s) repeated, {self.seconds_lost * 1e3:.1f} ms lost"
        return lost if self.restarts else ""

    def lookups(self) -> dict[str, list[str]]:
        """The names that were looked up on each class; what they find is guarded."""
        found: dict[str, list[str]] = {}
        for guard in self.class_guards:
            found.setdefault(guard.place, []).append(guard.name)
        return found

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.graph_count} graph(s), {self.op_count} op(s), {len(self.guards)} guard(s), "
            f"{len(self.class_guards)} class lookup(s), {len(self.breaks)} break(s)",
            f"captured in {self.capture_seconds * 1e3:.1f} ms, "
            f"compiled in {self.backend_seconds * 1e3:.1f} ms" + self.repeated(),
        ]
        for n, (graph, source) in enumerate(zip(self.graphs, self.sources, strict=True)):
            lines += [
                "",
                f"graph {n}:",
                indented(str(graph.graph)),
                f"generated function {n}:",
                indented(source),
            ]
        if self.guards:
            lines += ["", "guards:"]
            lines += [f"  {guard}{origin(guard)}" for guard in self.guards]
        if self.class_guards:
            lines += ["", "names looked up on classes:"]
            lines += [f"  {name}: {', '.join(names)}" for name, names in self.lookups().items()]
        for found in self.breaks:
            lines += ["", "break:", indented(found.describe())]
        for name, why in self.skipped.items():
            lines += ["", f"runs as plain Python: {name}", indented(why)]
        return "\n".join(lines)


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


def origin(guard: Guard) -> str:
    if guard.place is None:
        return ""
    expression = guard.place.expression
    where = f"{guard.place.code.co_filename}:{guard.place.line}"
    return f"    # {where}" + (f": {expression}" if expression else "")


def explain(fn: Callable[..., Any], **settings: Any) -> Callable[..., Explanation]:
    """Compiles `fn` afresh, runs it once with the arguments given, and reports.

    >>> import torch, framelift
    >>> report = framelift.explain(lambda x: x * 2 + 1)(torch.ones(3))
    >>> report.graph_count, report.op_count
    (1, 2)
    """
    settings.setdefault("backend", "eager")

    def run(*args: Any, **kwargs: Any) -> Explanation:
        compiled = compile(fn, **settings)
        context: Context = compiled._framelift_context
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        try:
            report = Explanation(name, compiled(*args, **kwargs))
            for record in context.records.values():
                add(report, record)
            return report
        finally:
            context.forget()

    return run


def add(report: Explanation, record: Record) -> None:
    for compiled in record.compiled:
        captured = compiled.captured
        if captured.graph is not None:
            report.graphs.append(captured.graph)
            report.ops.append(captured.ops)
            report.sources.append(captured.region.source)
        report.guards += captured.program.guards
        report.class_guards += captured.program.class_guards
        report.capture_seconds += captured.seconds
        report.restarts += captured.restarts
        report.seconds_lost += captured.seconds_lost
        report.backend_seconds += compiled.backend_seconds
    report.breaks += record.breaks
    if record.skipped is not None:
        report.skipped[record.name] = record.skipped
