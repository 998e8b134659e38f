"""What the public names are where nothing can be compiled: programs run as plain Python, with one warning.

That is where the guards can't be built, or torch has no longer a name that every capture needs.

A program that is decorated for compilation computes the same without it, so it goes on. What it asked for and
can't have without being wrong - one graph, an explanation, an exported program - is an error that says why.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable
from typing import Any

from framelift.core.torch_names import TorchNameMissing, missing_name
from framelift.native.guards_build import GuardsUnavailable

_told = False


def reason(error: BaseException) -> ImportError | None:
    """What is to be said of an error on import, if it is of that kind."""
    if isinstance(error, GuardsUnavailable):
        return error
    name = missing_name(error)
    text = f"this torch has no {name}, which Framelift needs: `framelift doctor` says for what"
    return None if name is None else TorchNameMissing(text)


def plain(name: str, home: str, why: ImportError) -> Any:
    """What `framelift.<name>` is, which the module `home` has; raises where nothing can stand for it."""
    if home.startswith("framelift.core."):  # needs no guards
        return getattr(importlib.import_module(home), name)
    if name not in PLAIN:
        raise why
    global _told
    if not _told:
        _told = True
        text = f"Framelift runs programs as plain Python, and compiles nothing: {why}."
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return PLAIN[name](why)


def compiling(why: ImportError) -> Callable[..., Any]:
    def compile(model: Any = None, *, fullgraph: bool = False, **settings: Any) -> Any:
        if fullgraph:
            raise why
        return model if model is not None else lambda fn: fn

    return compile


def optimizing(why: ImportError) -> Callable[..., Any]:
    def optimize(backend: Any = None, *, nopython: bool = False, **settings: Any) -> Any:
        if nopython:
            raise why
        return lambda fn: fn

    return optimize


def marking(why: ImportError) -> Callable[..., Any]:
    def mark(fn: Any = None, *args: Any, **settings: Any) -> Any:
        return fn if fn is not None else lambda fn: fn

    return mark


def doing_nothing(why: ImportError) -> Callable[..., None]:
    def nothing(*args: Any, **settings: Any) -> None: ...

    return nothing


def changing_nothing(why: ImportError) -> Callable[..., Any]:
    """To be called as it is, or for a block."""

    class Unchanged(contextlib.ContextDecorator):
        def __init__(self, *args: Any, **settings: Any) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *error: Any) -> None: ...

    return Unchanged


def substituting(why: ImportError) -> Callable[..., Any]:
    return lambda original, **settings: lambda substitute: substitute


def never(why: ImportError) -> Callable[[], bool]:
    return lambda: False


PLAIN: dict[str, Callable[[ImportError], Any]] = {
    "compile": compiling,
    "optimize": optimizing,
    **dict.fromkeys(
        [
            *("allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph"),
            *("nonstrict_trace", "on_compile_end", "on_compile_start", "run", "skip"),
        ],
        marking,
    ),
    **dict.fromkeys(
        [
            *("graph_break", "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked"),
            *("maybe_mark_dynamic", "remove_callback", "reset", "skip_frame", "uninstall"),
        ],
        doing_nothing,
    ),
    **dict.fromkeys(["compiled_autograd", "error_on_graph_break", "install", "set_stance"], changing_nothing),
    "is_compiling": never,
    "substitute_in_graph": substituting,
}
"""Public name -> what makes its plain form."""
