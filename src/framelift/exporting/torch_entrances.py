"""Puts Framelift's exports behind torch's own names: `torch._dynamo.export`, and the strict mode of
`torch.export.export`, which otherwise has TorchDynamo capture the program. `install()` does this."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from framelift.exporting.capture import capture_program
from framelift.exporting.graph_modules import program_module
from framelift.exporting.graphs import export_graph
from framelift.exporting.program import check_effects
from framelift.exporting.shapes import declared
from framelift.exporting.signatures import call_of

NAMES = (
    *(("torch._dynamo", "export"), ("torch._dynamo.eval_frame", "export")),
    ("torch.export._trace", "_strict_export"),
)
"""Modules of torch's, and what is put there. Not `import`: nothing else of them is used."""

UNKNOWN = (
    *("specialize_float", "disable_constraint_solver", "prefer_deferred_runtime_asserts_over_guards"),
    *("constraints", "_log_export_usage"),
)
"""Options of torch's that say how TorchDynamo does its work."""


def enter() -> Callable[[], None]:
    """Puts them there; gives what undoes it."""
    modules = [(importlib.import_module(module), name) for module, name in NAMES]
    before = [(module, name, getattr(module, name)) for module, name in modules]
    made = {"export": export, "_strict_export": strict_export(vars(modules[-1][0])["_non_strict_export"])}
    for module, name in modules:
        setattr(module, name, made[name])

    def undo() -> None:
        for module, name, was in before:
            setattr(module, name, was)

    return undo


def export(f: Callable[..., Any], *extra_args: Any, **options: Any) -> Any:
    """`framelift.export_graph`, with the options that `torch._dynamo.export` takes."""
    known = {name: value for name, value in options.items() if name not in UNKNOWN}
    return export_graph(f, *extra_args, strict=False, **known)


def strict_export(lower: Callable[..., Any]) -> Callable[..., Any]:
    def exported(
        mod: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dynamic_shapes: Any,
        preserve_module_call_signature: tuple[str, ...],
        **others: Any,
    ) -> Any:
        """Captures the module, and has torch bring the graph to its operators as in its other mode."""
        call = call_of(mod, args, kwargs)
        spec, dynamism = declared(call, dynamic_shapes)
        program = capture_program(call, dynamism)
        check_effects(call, program, strict=False)
        module = program_module(call, program)
        given = {"args": call.args, "kwargs": call.kwargs, "dynamic_shapes": spec}
        return lower(mod=module, preserve_module_call_signature=(), **given, **others)

    return exported
