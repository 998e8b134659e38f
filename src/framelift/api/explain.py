"""`framelift.explain(fn)(*args)`: what was captured, what was not and why, what is relied on."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch.fx

from framelift.api import explained_data
from framelift.api.compile import compile
from framelift.api.entries import CodeEntries, entries_of
from framelift.api.source_lines import FunctionLines, marked_functions
from framelift.core.breaks import Break, Place
from framelift.core.records import CompileRecord
from framelift.core.times import SINGLE, as_table, single
from framelift.core.watching import Watch, watching
from framelift.guards.shapes import origin
from framelift.runtime.frames import Compiled, Context
from framelift.runtime.telling import indented
from framelift.world.guard import ClassGuard, Guard


@dataclass(frozen=True)
class BreakReason:
    """A break as users of torch's `explain` know it."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    """Where, outermost first."""
    graph_break: bool = True


@dataclass
class Explanation:
    """What happened when a function was compiled and run once; `str()` is the report."""

    name: str
    result: Any = field(repr=False)
    graphs: list[torch.fx.GraphModule] = field(default_factory=list)
    ops: list[list[Any]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    class_guards: list[ClassGuard] = field(default_factory=list)
    shapes: list[tuple[str, Place | None]] = field(default_factory=list)
    """What is relied on of sizes and numbers that may vary, and where."""
    breaks: list[Break] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    capture_seconds: float = 0.0
    backend_seconds: float = 0.0
    code_entries: list[CodeEntries] = field(default_factory=list)
    records: list[CompileRecord] = field(default_factory=list)
    functions: list[FunctionLines] = field(default_factory=list)
    """The program's lines, with what became of each."""
    restarts: int = 0
    """How often a trace had to be repeated, and what that took."""
    seconds_lost: float = 0.0

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops))

    @property
    def graph_break_count(self) -> int:
        """Places where captures ended, each once however often it was come to."""
        return len(self.breaks)

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        return self.ops

    @property
    def out_guards(self) -> list[Guard | ClassGuard]:
        return [*self.guards, *self.class_guards]

    @property
    def break_reasons(self) -> list[BreakReason]:
        return [BreakReason(found.describe(), list(map(summary, found.stack))) for found in self.breaks]

    @property
    def compile_times(self) -> str:
        """A row for each compilation, a column for each phase."""
        return as_table(SINGLE, map(single, self.records))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return explained_data.of(self)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def source(self) -> str:
        """The program's lines: `+` captured, `!` broken, `-` run as plain Python."""
        return "\n\n".join(map(str, self.functions))

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
        for of_code in self.code_entries:
            lines += ["", *of_code.lines()]
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
            lines += [f"  {guard}{origin(guard.user_place)}" for guard in self.guards]
        if self.shapes:
            lines += ["", "facts about sizes and numbers:"]
            lines += [f"  {text}{origin(place)}" for text, place in self.shapes]
        if self.class_guards:
            lines += ["", "names looked up on classes:"]
            lines += [f"  {name}: {', '.join(names)}" for name, names in self.lookups().items()]
        for found in self.breaks:
            lines += ["", "break:", indented(found.describe())]
        for name, why in self.skipped.items():
            lines += ["", f"runs as plain Python: {name}", indented(why)]
        return "\n".join(lines)


def summary(place: Place) -> traceback.FrameSummary:
    return traceback.FrameSummary(place.code.co_filename, place.line or 0, place.code.co_qualname)


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
        watch = Watch(context)
        token = watching.set(watch)
        try:
            result = compiled(*args, **kwargs)
            return explanation(name, result, watch, [context])
        finally:
            watching.reset(token)
            context.forget()

    return run


def explanation(name: str, result: Any, watch: Watch, contexts: list[Context]) -> Explanation:
    """Of what was watched, in contexts that are still there."""
    report = Explanation(name, result, records=watch.records)
    fill(report, watch)
    originals = [record for context in contexts for record in context.records.originals.values()]
    report.functions = marked_functions(originals, report.breaks, watch.compiled)
    for record in (record for context in contexts for record in context.records.values()):
        if record.compiled:
            report.code_entries.append(entries_of(record))
        if record.skipped is not None:
            report.skipped[record.name] = record.skipped
    return report


def fill(report: Explanation, watch: Watch) -> None:
    """From what was compiled, in the order in which it was."""
    for compiled in watch.compiled:
        add(report, compiled)
    places: dict[Any, Break] = {}
    for found in watch.breaks:
        places.setdefault((found.reason.name, *(at.key for at in found.stack)), found)
    report.breaks = list(places.values())


def add(report: Explanation, compiled: Compiled) -> None:
    captured = compiled.captured
    if captured.graph is not None:
        report.graphs.append(captured.graph)
        report.ops.append(captured.ops)
        report.sources.append(captured.region.source)
    report.guards += captured.program.guards
    report.shapes += captured.program.shapes
    report.class_guards += captured.program.class_guards
    report.capture_seconds += captured.seconds
    report.restarts += captured.restarts
    report.seconds_lost += captured.seconds_lost
    report.backend_seconds += compiled.backend_seconds
