"""A program as a `torch.export.ExportedProgram`: what `framelift.export` gives."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
import torch.export
import torch.export._trace
from torch.fx import _lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from framelift.core.errors import Unsupported, UserError
from framelift.exporting import gradients_within
from framelift.exporting.argument_checks import add_checks, checks_of_arguments
from framelift.exporting.capture import CapturedProgram, capture_program
from framelift.exporting.graph_modules import program_module, sizes_module
from framelift.exporting.module_calls import ModuleCalls
from framelift.exporting.operators import lowered_when_traced, without_notes
from framelift.exporting.refusals import refuse
from framelift.exporting.shapes import DeclaredSizesError, declared, in_short, violation
from framelift.exporting.signatures import Call, call_of
from framelift.exporting.traced_contexts import enter_when_traced, left_as_found

TorchsUserError: type[Exception] = torch.export._trace.UserError
"""What torch.export raises when a declaration of sizes does not fit the program."""

AS_ASKED_FOR: Any = vars(_lazy_graph_module)["_use_lazy_graph_module"]


def export_program(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> torch.export.ExportedProgram:
    """An artifact of a program; `framelift.export` says more."""
    call = call_of(model, args, kwargs)
    spec, dynamism = declared(call, dynamic_shapes)
    calls = ModuleCalls(call, tuple(preserve_module_call_signature))
    with calls.marked():
        program = capture_program(call, dynamism, strict)
    check_effects(call, program, strict)
    refuse(call, program)
    gradients_within.write_out(program.graph, program.modules)
    module = program_module(call, program)
    call.stand_ins.give_back(module)
    enter_when_traced(module)
    made = calls.collect(lowered(call, lowered_when_traced(module), spec, dynamic_shapes))
    forget_bodies(made, module)
    add_checks(made, checks_of_arguments(call, program, dynamism))
    if call.root is not None:  # by all their names, of which the graph may use one
        made.state_dict.update(call.root.state_dict(keep_vars=True) | made.state_dict)
    return made


def forget_bodies(made: torch.export.ExportedProgram, module: torch.fx.GraphModule) -> None:
    """The bodies of operators are no modules of the program's, which tools look for by their names."""
    bodies = {name for name, inner in module._modules.items() if isinstance(inner, torch.fx.GraphModule)}
    if bodies:
        entries = made.module_call_graph
        entries[:] = [entry for entry in entries if entry.fqn.partition(".")[0] not in bodies]


def check_effects(call: Call, program: CapturedProgram, strict: bool) -> None:
    if not program.effects:
        return
    listed = "\n".join(f"  {effect}" for effect in dict.fromkeys(program.effects))
    if strict:
        raise Unsupported(
            f"{call.name} can't be exported: it changes what no artifact has:\n{listed}\n"
            "  Hint: return it, keep it in a buffer of the module, or leave the change out with strict=False."
        )
    text = f"{call.name} is exported without what it changes outside:\n{listed}"
    warnings.warn(text, stacklevel=level_of_caller())


def level_of_caller() -> int:
    """How far up the function is that asked for the export, as `warnings.warn` counts from here."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("framelift."):
        frame, level = frame.f_back, level + 1
    return level


def check_shapes(call: Call, program: CapturedProgram, spec: Any) -> None:
    """Raises where the program does not work for all the sizes that are declared: asked of torch.export, by a
    module that does nothing but rely on what the program relies on."""
    lowered(call, sizes_module(call, program), spec, None)


def lowered(
    call: Call, module: torch.fx.GraphModule, spec: Any, dynamic_shapes: Any
) -> torch.export.ExportedProgram:
    """What `torch.export` makes of the module: the same with torch's operators, and with its signature."""
    shapes: Any = dynamic_shapes if isinstance(dynamic_shapes, torch.export.AdditionalInputs) else spec
    try:
        with AS_ASKED_FOR(True), left_as_found():  # Python code is made of those graphs only that are run
            return torch.export.export(module, *call.given, dynamic_shapes=shapes, strict=False)
    except TorchsUserError as error:
        without_notes(error)
        if "onstraint" in str(error) or "dim hint" in str(error):
            raise violation(call, error, spec) from None
        raise UserError(f"{call.name}: {in_short(error)}") from error
    except ConstraintViolationError as error:
        without_notes(error)
        raise DeclaredSizesError(f"{call.name}: {in_short(error)}") from None
    except ValueError as error:  # of arguments, and of sizes that were declared to vary and can't
        without_notes(error)
        raise UserError(f"{call.name}: {in_short(error)}") from None
    except Exception as error:
        without_notes(error)
        if isinstance(shapes, torch.export.AdditionalInputs) and str(error).startswith("Expected input"):
            raise DeclaredSizesError(
                f"{call.name} does not work for all that AdditionalInputs has: {in_short(error)}"
            ) from None
        raise
