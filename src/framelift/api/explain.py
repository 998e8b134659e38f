"""`framelift.explain(fn)(*args)`: what was captured, what was not and why, what is relied on."""

from __future__ import annotations

import collections
import dataclasses
import html
import json
import linecache
import os
import platform
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.fx

import framelift
from framelift.api import source_lines
from framelift.api.compile import compile
from framelift.api.entries import CodeEntries, entries_of
from framelift.api.source_lines import FunctionLines, marked_functions
from framelift.core.breaks import Break, Place
from framelift.core.records import SINGLE, CompileRecord, as_table, single
from framelift.debugging.reporting import readable, shape_of
from framelift.dispatch.compilation import NOTHING_CAPTURED
from framelift.dispatch.compile_contexts import CompiledEntry, Context, Recompilation, Watch, watching
from framelift.graph.origins import innermost
from framelift.guards.guard import ClassFact, Guard
from framelift.report import terminal


@dataclass
class CapturedPart:
    """One entry that was made: what it computes, what it relies on, and what that costs."""

    name: str
    compile_id: str
    graph: torch.fx.GraphModule | None
    source: str
    """The generated function."""
    guards: list[Guard]
    class_guards: list[ClassFact]
    shapes: list[tuple[str, Place | None]]
    steps: dict[str, int]
    """How many steps the native walk takes for what is guarded of each source."""
    guard_seconds: float | None
    """What checking all of it takes, as measured when it was made."""
    input_names: dict[str, str]


@dataclass(frozen=True)
class BreakReason:
    """A break as users of torch's `explain` know it."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    """Where, outermost first."""
    graph_break: bool = True


@dataclass
class Explanation:
    """What happened when a function was compiled and run; `print` it, or make a page of it with `to_html`."""

    name: str
    result: Any = field(repr=False)
    parts: list[CapturedPart] = field(default_factory=list)
    """The entries, in the order in which they were made."""
    graphs: list[torch.fx.GraphModule] = field(default_factory=list)
    ops: list[list[Any]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    class_guards: list[ClassFact] = field(default_factory=list)
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
    def out_guards(self) -> list[Guard | ClassFact]:
        return [*self.guards, *self.class_guards]

    @property
    def break_reasons(self) -> list[BreakReason]:
        return [BreakReason(found.describe(), list(map(summary, found.stack))) for found in self.breaks]

    @property
    def compile_times(self) -> str:
        """A row for each compilation, a column for each phase."""
        return as_table(SINGLE, map(single, self.records))

    @property
    def versions(self) -> dict[str, str]:
        versions = {"framelift": framelift.__version__, "torch": torch.__version__}
        return {**versions, "python": platform.python_version()}

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "name": self.name,
            "versions": self.versions,
            "graph_count": self.graph_count,
            "graph_break_count": self.graph_break_count,
            "op_count": self.op_count,
            "graphs": [graph_data(part) for part in self.parts if part.graph is not None],
            "break_reasons": list(map(break_data, self.breaks)),
            "guards": guard_data(self.guards),
            "shapes": shape_data(self.shapes),
            "class_lookups": lookup_data(self.class_guards),
            "guarded": list(map(part_data, self.parts)),
            "source": source_lines.data(self.functions),
            "skipped": self.skipped,
            "entries": list(map(entries_data, self.code_entries)),
            "recompilations": [
                {"function": code.name, **recompilation_data(again)}
                for code in self.code_entries
                for again in code.recompiles
            ],
            "compilations": [record.to_dict() for record in self.records],
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def to_text(self) -> str:
        """The report without colours, however wide that gets."""
        return terminal.text(self.to_dict())

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as a page that needs no other file and no network; also written to `path`."""
        from framelift.report import page

        made = page.html(self.to_dict())
        if path is not None:
            Path(path).write_text(made, encoding="utf-8", errors="xmlcharrefreplace")
        return made

    def _repr_html_(self) -> str:
        """The page, in a notebook."""
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    def source(self) -> str:
        """The program's lines: `+` captured, `!` broken, `-` run as plain Python."""
        return "\n\n".join(map(str, self.functions))

    def __str__(self) -> str:
        """The report; on a terminal as wide as that is, and with colours."""
        return terminal.for_stdout(self.to_dict())


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
        compiled = compile(fn, **{**settings, "isolate_recompiles": True})
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


def explain_as_torch_calls_it(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`torch._dynamo.explain`, which may be given the arguments of the call too."""
    if not extra_args and not extra_kwargs:
        return lambda *args, **kwargs: as_torch_shows_it(explain(f)(*args, **kwargs))
    text = "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return as_torch_shows_it(explain(f)(*extra_args, **extra_kwargs))


class TorchsExplanation(Explanation):
    """Begins with the lines that people know of torch's."""

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"Op Count: {self.op_count}", "Break Reasons:"]
        for n, found in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {n}:", f"    Reason: {found.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in found.user_stack]
        return "\n".join([*lines, "", super().__str__()])


def as_torch_shows_it(report: Explanation) -> Explanation:
    report.__class__ = TorchsExplanation
    return report


def explanation(name: str, result: Any, watch: Watch, contexts: list[Context]) -> Explanation:
    """Of what was watched, in contexts that are still there."""
    report = Explanation(name, result, records=watch.records)
    fill(report, watch)
    originals = [state for context in contexts for state in context.code_states.originals.values()]
    report.functions = marked_functions(originals, report.breaks, watch.entries)
    for state in (state for context in contexts for state in context.code_states.values()):
        if state.entries:
            report.code_entries.append(entries_of(state))
        if state.skipped not in (None, NOTHING_CAPTURED):
            report.skipped[state.name] = state.skipped
    return report


def fill(report: Explanation, watch: Watch) -> None:
    """From what was compiled, in the order in which it was."""
    for entry in watch.entries:
        add(report, entry)
    places: dict[Any, Break] = {}
    for found in watch.breaks:
        places.setdefault((found.reason.name, *(at.key for at in found.stack)), found)
    report.breaks = list(places.values())


def add(report: Explanation, entry: CompiledEntry) -> None:
    capture = entry.capture
    part = part_of(entry)
    report.parts.append(part)
    if capture.graph is not None:
        report.graphs.append(capture.graph)
        report.ops.append(capture.ops)
        report.sources.append(part.source)
    report.guards += part.guards
    report.shapes += part.shapes
    report.class_guards += part.class_guards
    report.capture_seconds += capture.seconds
    report.restarts += capture.restarts
    report.seconds_lost += capture.seconds_lost
    report.backend_seconds += entry.backend_seconds


def part_of(entry: CompiledEntry) -> CapturedPart:
    capture, program = entry.capture, entry.capture.program
    steps = collections.Counter[str]()
    for source, count in program.steps().items():
        steps[str(source)] += count
    made = (entry.name, entry.compile_id, capture.graph, capture.region.source)
    facts = (program.guards, program.class_guards, program.shapes)
    return CapturedPart(*made, *facts, dict(steps), entry.guard_seconds, capture.input_names)


# ---- as plain data


def place_data(at: Place | None) -> dict[str, Any] | None:
    if at is None:
        return None
    return {
        "file": at.code.co_filename,
        "line": at.line,
        "end_line": at.end_line,
        "columns": list(at.columns),
        "function": at.code.co_qualname,
        "expression": at.expression,
        "text": text_at(at),
    }


LONGEST = 20
"""How many lines of an expression are shown."""


def text_at(at: Place) -> str:
    """The lines on which a place is, whole."""
    if at.line is None:
        return ""
    last = min(at.end_line or at.line, at.line + LONGEST)
    return "".join(linecache.getline(at.code.co_filename, n) for n in range(at.line, last + 1)).rstrip("\n")


def break_data(found: Break) -> dict[str, Any]:
    return {
        "name": found.reason.name,
        "context": found.context,
        "reason": found.reason.explanation,
        "hint": found.reason.hint,
        "at": place_data(found.stack[-1]) if found.stack else None,
        "stack": list(map(place_data, found.stack)),
    }


def graph_data(part: CapturedPart) -> dict[str, Any]:
    module, names = part.graph, part.input_names
    assert module is not None
    nodes = list(map(node_data, module.graph.nodes))
    (output,) = (each for each in module.graph.nodes if each.op == "output")
    return {
        "function": part.name,
        "compilation": part.compile_id,
        "inputs": [each | {"is": names.get(each["name"])} for each in nodes if each["op"] == "placeholder"],
        "attributes": [each for each in nodes if each["op"] == "get_attr"],
        "ops": [each for each in nodes if each["op"].startswith("call")],
        "outputs": [node_data(each) for each in output.all_input_nodes],
        "code": readable(module),
        "generated_function": part.source,
    }


def node_data(found: torch.fx.Node) -> dict[str, Any]:
    value = found.meta.get("example_value")
    tensor = value if isinstance(value, torch.Tensor) else None
    return {
        "name": found.name,
        "op": found.op,
        "target": found._pretty_print_target(found.target),
        "type": next((name for name, types in TYPES.items() if isinstance(value, types)), None),
        "shape": None if tensor is None else shape_of(tensor),
        "dtype": None if tensor is None else str(tensor.dtype),
        "device": None if tensor is None else str(tensor.device),
        "takes": [each.name for each in found.all_input_nodes],
        "at": innermost(found.stack_trace) or None,
    }


TYPES: dict[str, Any] = {"tensor": torch.Tensor, "bool": (bool, torch.SymBool)}
TYPES |= {"int": (int, torch.SymInt), "float": (float, torch.SymFloat)}
"""What an operation of a graph gives, as far as it is one thing."""


def guard_data(guards: list[Guard]) -> dict[str, list[dict[str, Any]]]:
    """By what they are about: `x`, `self.weight`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for guard in guards:
        about = found.setdefault(str(guard.source), [])
        about.append({"guard": str(guard), "check": guard.check.name, "at": place_data(guard.user_place)})
    return found


def part_data(part: CapturedPart) -> dict[str, Any]:
    """What one entry relies on, and what that costs each call."""
    return {
        "function": part.name,
        "compilation": part.compile_id,
        "seconds_to_check": part.guard_seconds,
        "steps": sum(part.steps.values()),
        "sources": [
            {"source": source, "steps": part.steps.get(source, 0), "guards": found}
            for source, found in guard_data(part.guards).items()
        ],
        "shapes": shape_data(part.shapes),
        "class_lookups": lookup_data(part.class_guards),
    }


def shape_data(shapes: list[tuple[str, Place | None]]) -> list[dict[str, Any]]:
    return [{"fact": text, "at": place_data(at)} for text, at in shapes]


def lookup_data(guards: list[ClassFact]) -> dict[str, list[str]]:
    """The names that were looked up on each class, each once; what they find is guarded."""
    found: dict[str, dict[str, None]] = {}
    for guard in guards:
        found.setdefault(guard.place, {})[guard.name] = None
    return {place: list(names) for place, names in found.items()}


def entries_data(code: CodeEntries) -> dict[str, Any]:
    return {"function": code.name, "entries": [dataclasses.asdict(entry) for entry in code.entries]}


def recompilation_data(again: Recompilation) -> dict[str, Any]:
    suggestion = again.suggestion
    return {
        "entries_before": again.number,
        "failures": [
            {
                "entry": entry,
                "guard": failure.guard,
                "found": failure.found,
                "cause": failure.cause.name,
                "reason": failure.cause.explanation,
                "hint": failure.cause.hint.format(subject=failure.subject),
                "at": place_data(failure.place),
            }
            for entry, failure in again.failures
        ],
        "suggestion": None if suggestion is None else "\n".join(suggestion.lines()),
    }
