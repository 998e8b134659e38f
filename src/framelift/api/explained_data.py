"""An explanation as plain data, for programs to read: what `Explanation.to_json` writes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from framelift.api import source_lines
from framelift.api.entries import CodeEntries
from framelift.core.breaks import Break, Place
from framelift.runtime.recompiles import Recompilation
from framelift.runtime.telling import readable, shape_of

if TYPE_CHECKING:
    from framelift.api.explain import Explanation


def of(report: Explanation) -> dict[str, Any]:
    return {
        "name": report.name,
        "graph_count": report.graph_count,
        "graph_break_count": report.graph_break_count,
        "op_count": report.op_count,
        "graphs": [
            graph(module, source) for module, source in zip(report.graphs, report.sources, strict=True)
        ],
        "break_reasons": list(map(broken, report.breaks)),
        "guards": guards(report),
        "shapes": [{"fact": text, "at": place(at)} for text, at in report.shapes],
        "class_lookups": report.lookups(),
        "source": source_lines.data(report.functions),
        "skipped": report.skipped,
        "entries": list(map(code_entries, report.code_entries)),
        "recompilations": [
            {"function": code.name, **recompilation(again)}
            for code in report.code_entries
            for again in code.recompiles
        ],
        "compilations": [
            dataclasses.asdict(record) | {"phases": record.phases()} for record in report.records
        ],
    }


def place(at: Place | None) -> dict[str, Any] | None:
    if at is None:
        return None
    return {
        "file": at.code.co_filename,
        "line": at.line,
        "end_line": at.end_line,
        "columns": list(at.columns),
        "function": at.code.co_qualname,
        "expression": at.expression,
    }


def broken(found: Break) -> dict[str, Any]:
    return {
        "name": found.reason.name,
        "context": found.context,
        "reason": found.reason.explanation,
        "hint": found.reason.hint,
        "at": place(found.stack[-1]) if found.stack else None,
        "stack": list(map(place, found.stack)),
    }


def graph(module: torch.fx.GraphModule, source: str) -> dict[str, Any]:
    nodes = list(map(node, module.graph.nodes))
    return {
        "inputs": [each for each in nodes if each["op"] == "placeholder"],
        "ops": [each for each in nodes if each["op"].startswith("call")],
        "code": readable(module),
        "generated_function": source,
    }


def node(found: torch.fx.Node) -> dict[str, Any]:
    value = found.meta.get("example_value")
    tensor = value if isinstance(value, torch.Tensor) else None
    return {
        "name": found.name,
        "op": found.op,
        "target": found._pretty_print_target(found.target),
        "shape": None if tensor is None else shape_of(tensor),
        "dtype": None if tensor is None else str(tensor.dtype),
        "device": None if tensor is None else str(tensor.device),
        "at": (found.stack_trace or "").strip() or None,
    }


def guards(report: Explanation) -> dict[str, list[dict[str, Any]]]:
    """By what they are about: `x`, `self.weight`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for guard in report.guards:
        about = found.setdefault(str(guard.source), [])
        about.append({"guard": str(guard), "check": guard.check.name, "at": place(guard.user_place)})
    return found


def code_entries(code: CodeEntries) -> dict[str, Any]:
    return {"function": code.name, "entries": [dataclasses.asdict(entry) for entry in code.entries]}


def recompilation(again: Recompilation) -> dict[str, Any]:
    suggestion = again.suggestion
    return {
        "entries_before": again.number,
        "failures": [
            {
                "entry": entry,
                "guard": failure.guard,
                "found": failure.found,
                "cause": failure.cause.name,
                "at": place(failure.place),
            }
            for entry, failure in again.failures
        ],
        "suggestion": None if suggestion is None else "\n".join(suggestion.lines()),
    }
