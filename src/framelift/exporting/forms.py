"""`framelift.export`, in the forms that people know: with a tuple of arguments it gives a program for torch's
tools, as `torch.export.export` does; without one a graph and its guards, as exports did before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

import torch
import torch.export

from framelift.core.errors import UserError
from framelift.exporting.graphs import ExportedGraph, export_graph
from framelift.exporting.program import export_program
from framelift.exporting.signatures import check_target


class NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = NotGiven()

GRAPH_OPTIONS = {
    name
    for name, parameter in inspect.signature(export_graph).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
} - {"strict", "dynamic_shapes"}
"""What only graphs are asked to be."""


@overload
def export(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> torch.export.ExportedProgram: ...


@overload
def export(
    model: Callable[..., Any],
    *,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    strict: bool = True,
) -> Callable[..., ExportedGraph]: ...


@overload
def export(
    model: Callable[..., Any], args: torch.Tensor | float | str, *more: Any, **keywords: Any
) -> ExportedGraph: ...


def export(
    model: Any,
    args: Any = NOT_GIVEN,
    kwargs: Any = NOT_GIVEN,
    *more: Any,
    dynamic_shapes: Any = None,
    strict: bool = True,
    preserve_module_call_signature: tuple[str, ...] = (),
    **options: Any,
) -> Any:
    """Exports a module or a function, captured whole.

    `export(model, args, kwargs)`, with a tuple of arguments, gives a `torch.export.ExportedProgram` for
    torch's own tools. `dynamic_shapes` says which sizes may vary, in any form that `torch.export.export`
    takes: all others are what they are in the arguments. A program that can't be captured whole is an error
    that says where and why, and so is one that changes something outside that no artifact has, such as a
    counter or a list; with `strict=False` such changes are left out, with a warning, and so is what it
    prints. Buffers that are assigned or changed in place are part of the artifact.
    `preserve_module_call_signature` names submodules whose calls keep their own arguments and results when
    the artifact is unflattened.

    >>> import torch, framelift
    >>> from torch.export import Dim
    >>> sizes = ({0: Dim("batch")},)
    >>> program = framelift.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=sizes)
    >>> program.module()(torch.ones(7, 3)).shape
    torch.Size([7, 2])

    `export(fn)(*args, **kwargs)` gives a graph module that is called as the program is, and the guards:
    what `framelift.export_graph` gives, with its options. So does `export(fn, x, y)`, with tensors or numbers
    that are not in a tuple; with an option that only graphs have, arguments may be of any kind.

    >>> module, guards = framelift.export(lambda x, y: x - y, aten_graph=True)(torch.ones(2), torch.ones(2))
    >>> module(torch.ones(2), torch.ones(2))
    tensor([0., 0.])
    """
    shared = {"dynamic_shapes": dynamic_shapes, "strict": strict}
    asks_for_graph = not GRAPH_OPTIONS.isdisjoint(options)
    if isinstance(args, tuple) and not asks_for_graph:
        check_of_program(more, options)
        kept = tuple(preserve_module_call_signature)
        given = None if kwargs is NOT_GIVEN else kwargs
        return export_program(model, args, given, preserve_module_call_signature=kept, **shared)
    given = tuple(value for value in (args, kwargs, *more) if value is not NOT_GIVEN)
    check_target(model)
    check_of_graph(args, kwargs, preserve_module_call_signature, asks_for_graph)
    return export_graph(model, *given, **shared, **options)


def check_of_program(more: tuple[Any, ...], options: dict[str, Any]) -> None:
    if options:
        raise UserError(
            f"export has no option {', '.join(options)}. Keywords of the program go into a dictionary: "
            "export(model, args, kwargs)"
        )
    if more:
        raise UserError(
            "export(model, args, kwargs) takes a tuple and a dictionary of arguments; for a program whose "
            "first argument is a tuple itself, write export(model, (first, second, ...)) for an "
            "ExportedProgram, or export(fn)(first, second, ...) for a graph"
        )


def check_of_graph(args: Any, kwargs: Any, kept: Any, asks_for_graph: bool) -> None:
    if kept:
        raise UserError(
            "preserve_module_call_signature is about an ExportedProgram: give the arguments as a tuple, "
            "export(model, args, kwargs)"
        )
    if args is NOT_GIVEN and kwargs is not NOT_GIVEN:
        raise UserError("export was given kwargs without args: write export(model, (), kwargs)")
    if (args is None or isinstance(args, (list, dict))) and not asks_for_graph:
        raise UserError(
            f"args must be a tuple of the program's arguments, not a {type(args).__name__}. Where the "
            f"{type(args).__name__} is the first argument itself, write export(model, (first, ...)) for an "
            "ExportedProgram, or export(fn)(first, ...) for a graph"
        )
