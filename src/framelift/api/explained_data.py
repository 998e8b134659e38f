"""An explanation as plain data, for programs to read: what `Explanation.to_json` writes."""

from __future__ import annotations

import dataclasses
import linecache
from dataclasses import dataclass
from typing import Any

import torch

from framelift.api.entries import CodeEntries
from framelift.core.breaks import Break, Place
from framelift.debugging.reporting import readable, shape_of
from framelift.dispatch.compile_contexts import Recompilation
from framelift.guards.guard import ClassGuard, Guard


@dataclass
class Part:
    """One entry that was made: what it computes, what it relies on, and what that costs."""

    name: str
    compile_id: str
    graph: torch.fx.GraphModule | None
    source: str
    """The generated function."""
    guards: list[Guard]
    class_guards: list[ClassGuard]
    shapes: list[tuple[str, Place | None]]
    steps: dict[str, int]
    """How many steps the native walk takes for what is guarded of each source."""
    guard_seconds: float | None
    """What checking all of it takes, as measured when it was made."""
    input_names: dict[str, str]


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


def broken(found: Break) -> dict[str, Any]:
    return {
        "name": found.reason.name,
        "context": found.context,
        "reason": found.reason.explanation,
        "hint": found.reason.hint,
        "at": place(found.stack[-1]) if found.stack else None,
        "stack": list(map(place, found.stack)),
    }


def graph(part: Part) -> dict[str, Any]:
    module = part.graph
    assert module is not None
    nodes = list(map(node, module.graph.nodes))
    (output,) = (each for each in module.graph.nodes if each.op == "output")
    return {
        "function": part.name,
        "compilation": part.compile_id,
        "inputs": [
            {**each, "is": part.input_names.get(each["name"])}
            for each in nodes
            if each["op"] == "placeholder"
        ],
        "attributes": [each for each in nodes if each["op"] == "get_attr"],
        "ops": [each for each in nodes if each["op"].startswith("call")],
        "outputs": [node(each) for each in output.all_input_nodes],
        "code": readable(module),
        "generated_function": part.source,
    }


def node(found: torch.fx.Node) -> dict[str, Any]:
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
        "at": (found.stack_trace or "").strip() or None,
    }


TYPES: dict[str, Any] = {
    "tensor": torch.Tensor,
    "bool": (bool, torch.SymBool),
    "int": (int, torch.SymInt),
    "float": (float, torch.SymFloat),
}
"""What an operation of a graph gives, as far as it is one thing."""


def by_source(guards: list[Guard]) -> dict[str, list[dict[str, Any]]]:
    """By what they are about: `x`, `self.weight`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for guard in guards:
        about = found.setdefault(str(guard.source), [])
        about.append({"guard": str(guard), "check": guard.check.name, "at": place(guard.user_place)})
    return found


def guarded(part: Part) -> dict[str, Any]:
    """What one entry relies on, and what that costs each call."""
    return {
        "function": part.name,
        "compilation": part.compile_id,
        "seconds_to_check": part.guard_seconds,
        "steps": sum(part.steps.values()),
        "sources": [
            {"source": source, "steps": part.steps.get(source, 0), "guards": found}
            for source, found in by_source(part.guards).items()
        ],
        "shapes": facts(part.shapes),
        "class_lookups": lookups(part.class_guards),
    }


def facts(shapes: list[tuple[str, Place | None]]) -> list[dict[str, Any]]:
    return [{"fact": text, "at": place(at)} for text, at in shapes]


def lookups(guards: list[ClassGuard]) -> dict[str, list[str]]:
    """The names that were looked up on each class, each once; what they find is guarded."""
    found: dict[str, dict[str, None]] = {}
    for guard in guards:
        found.setdefault(guard.place, {})[guard.name] = None
    return {place: list(names) for place, names in found.items()}


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
                "reason": failure.cause.explanation,
                "hint": failure.cause.hint.format(subject=failure.subject),
                "at": place(failure.place),
            }
            for entry, failure in again.failures
        ],
        "suggestion": None if suggestion is None else "\n".join(suggestion.lines()),
    }
