"""Framelift's exports as torch calls them: the strict mode of `torch.export.export`, which otherwise has
TorchDynamo capture the program, and `torch._dynamo.export`. `install()` puts them there. What exports
programs is loaded with the first call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from framelift.core import errors

UNKNOWN = (
    *("specialize_float", "disable_constraint_solver", "prefer_deferred_runtime_asserts_over_guards"),
    *("constraints", "_log_export_usage"),
)
"""Options of torch's that say how TorchDynamo does its work."""


def export_graph(f: Callable[..., Any], *extra_args: Any, **options: Any) -> Any:
    """`framelift.export_graph`, with the options that `torch._dynamo.export` takes."""
    from framelift.exporting import graphs

    known = {name: value for name, value in options.items() if name not in UNKNOWN}
    return graphs.export_graph(f, *extra_args, strict=False, **known)


def program_exporter(torchs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(torchs)
    def export(mod: Any, args: Any, kwargs: Any = None, *, strict: bool = False, **options: Any) -> Any:
        if not strict:
            return torchs(mod, args, kwargs, strict=False, **options)
        from framelift.exporting import program, shapes

        raised_as_user_error(shapes.DeclaredSizesError)
        known = {name: value for name, value in options.items() if name not in UNKNOWN}
        return program.export_program(mod, args, kwargs, strict=False, **known)

    return export


def raised_as_user_error(error: type[errors.UserError]) -> None:
    """Who catches torch's `UserError` catches this one too: it is what torch.export raises there."""
    torchs = errors.also_raised_as.get(errors.UserError)
    if torchs is not None and error not in errors.also_raised_as:
        errors.also_raised_as[error] = errors.raised_as_both(error, torchs)
