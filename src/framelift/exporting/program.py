"""`framelift.export`: a program as a `torch.export.ExportedProgram`."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.export
import torch.export._trace

from framelift.core.errors import Unsupported, UserError
from framelift.exporting.capture import CapturedProgram, capture_program
from framelift.exporting.graph_modules import program_module, sizes_module
from framelift.exporting.module_calls import ModuleCalls
from framelift.exporting.shapes import declared, in_short, violation
from framelift.exporting.signatures import Call, call_of

TorchsUserError: type[Exception] = torch.export._trace.UserError
"""What torch.export raises when a declaration of sizes does not fit the program."""


def export(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> torch.export.ExportedProgram:
    """Exports a module or a function, captured whole with these arguments, for torch's own tools.

    `dynamic_shapes` says which sizes may vary, in any form that `torch.export.export` takes: all others are
    what they are in the arguments. A program that can't be captured whole is an error that says where and
    why, and so is one that changes something outside that no artifact has, such as a counter or a list; with
    `strict=False` such changes are left out, with a warning, and so is what it prints. Buffers that are
    assigned or changed in place are part of the artifact. `preserve_module_call_signature` names submodules
    whose calls keep their own arguments and results when the artifact is unflattened.

    >>> import torch, framelift
    >>> from torch.export import Dim
    >>> sizes = ({0: Dim("batch")},)
    >>> program = framelift.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=sizes)
    >>> program.module()(torch.ones(7, 3)).shape
    torch.Size([7, 2])
    """
    call = call_of(model, args, kwargs)
    spec, dynamism = declared(call, dynamic_shapes)
    calls = ModuleCalls(call, tuple(preserve_module_call_signature))
    with calls.marked():
        program = capture_program(call, dynamism, strict)
    check_effects(call, program, strict)
    module = program_module(call, program)
    call.stand_ins.give_back(module)
    return calls.collect(lowered(call, module, spec, dynamic_shapes))


def check_effects(call: Call, program: CapturedProgram, strict: bool) -> None:
    if not program.effects:
        return
    listed = "\n".join(f"  {effect}" for effect in dict.fromkeys(program.effects))
    if strict:
        raise Unsupported(
            f"{call.name} can't be exported: it changes what no artifact has:\n{listed}\n"
            "  Hint: return it, keep it in a buffer of the module, or leave the change out with strict=False."
        )
    warnings.warn(f"{call.name} is exported without what it changes outside:\n{listed}", stacklevel=4)


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
        return torch.export.export(module, *call.given, dynamic_shapes=shapes, strict=False)
    except TorchsUserError as error:
        if "onstraint" in str(error) or "dim hint" in str(error):
            raise violation(call, error, spec) from None
        raise UserError(f"{call.name}: {in_short(error)}") from error
