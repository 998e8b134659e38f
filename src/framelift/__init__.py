"""Framelift captures PyTorch programs: frames in, graphs out, everything else as Python would have it.

The names are loaded when one is first used, so that the parts that need no torch can be used without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framelift import exc
from framelift.core.versions import check_interpreter

check_interpreter()

if TYPE_CHECKING:
    from framelift import testing as testing
    from framelift.api.background import pending_compilations, wait_for_compilations
    from framelift.api.callbacks import on_compile_end, on_compile_start, remove_callback
    from framelift.api.capture_control import (
        allow_in_graph,
        assume_constant_result,
        disable,
        disallow_in_graph,
        error_on_graph_break,
        forbid_in_graph,
        graph_break,
        is_compiling,
        skip,
        skip_frame,
        substitute_in_graph,
    )
    from framelift.api.compile import compile
    from framelift.api.compiled_autograd import compiled_autograd
    from framelift.api.compiled_modules import OptimizedModule
    from framelift.api.comptime import comptime
    from framelift.api.entries import entries
    from framelift.api.explain import explain
    from framelift.api.install import install, uninstall
    from framelift.api.marks import (
        mark_dynamic,
        mark_static,
        mark_static_address,
        mark_unbacked,
        maybe_mark_dynamic,
    )
    from framelift.api.minimise import minimise
    from framelift.api.nonstrict import nonstrict_trace
    from framelift.api.optimize import optimize, optimize_assert
    from framelift.api.profiler import CompileProfiler
    from framelift.api.stance import run, set_stance
    from framelift.api.verify import verify
    from framelift.cache.bundles import load_cache, save_cache
    from framelift.core.config import config
    from framelift.core.logs import set_logs
    from framelift.core.records import compile_records, compile_times, counters
    from framelift.dispatch.backend_names import list_backends, register_backend
    from framelift.dispatch.frame_hook import reset
    from framelift.exporting.forms import export
    from framelift.exporting.graphs import export_graph

__version__ = "0.2.0"
"""The one place for it: pyproject.toml takes it from here."""

_NAMES = {
    "framelift.api.profiler": ["CompileProfiler"],
    "framelift.api.capture_control": [
        *("allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph"),
        *("graph_break", "is_compiling", "skip"),
        *("error_on_graph_break", "skip_frame", "substitute_in_graph"),
    ],
    "framelift.api.background": ["pending_compilations", "wait_for_compilations"],
    "framelift.api.callbacks": ["on_compile_end", "on_compile_start", "remove_callback"],
    "framelift.api.compile": ["compile"],
    "framelift.api.compiled_modules": ["OptimizedModule"],
    "framelift.api.install": ["install", "uninstall"],
    "framelift.api.optimize": ["optimize", "optimize_assert"],
    "framelift.core.records": ["compile_records", "compile_times", "counters"],
    "framelift.api.compiled_autograd": ["compiled_autograd"],
    "framelift.api.comptime": ["comptime"],
    "framelift.core.config": ["config"],
    "framelift.api.entries": ["entries"],
    "framelift.api.explain": ["explain"],
    "framelift.dispatch.backend_names": ["list_backends", "register_backend"],
    "framelift.api.marks": [
        *("mark_dynamic", "mark_static", "mark_unbacked"),
        *("maybe_mark_dynamic", "mark_static_address"),
    ],
    "framelift.dispatch.frame_hook": ["reset"],
    "framelift.api.minimise": ["minimise"],
    "framelift.api.nonstrict": ["nonstrict_trace"],
    "framelift.api.stance": ["run", "set_stance"],
    "framelift.core.logs": ["set_logs"],
    "framelift.exporting.forms": ["export"],
    "framelift.exporting.graphs": ["export_graph"],
    "framelift.api.verify": ["verify"],
    "framelift.cache.bundles": ["load_cache", "save_cache"],
}
_TOOLS = {
    "framelift.api.background",
    "framelift.api.profiler",
    "framelift.api.explain",
    "framelift.api.verify",
}
_TOOLS |= {"framelift.api.install", "framelift.api.minimise"}
_TOOLS |= {"framelift.exporting.graphs", "framelift.exporting.forms", "framelift.cache.bundles"}
"""Modules that a program does not need to be compiled."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
"""Public name -> the module that has it."""

__all__ = [
    "CompileProfiler",
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compile_records",
    "compile_times",
    "compiled_autograd",
    "comptime",
    "config",
    "counters",
    "disable",
    "disallow_in_graph",
    "entries",
    "error_on_graph_break",
    "exc",
    "explain",
    "export",
    "export_graph",
    "forbid_in_graph",
    "graph_break",
    "install",
    "is_compiling",
    "list_backends",
    "load_cache",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "minimise",
    "nonstrict_trace",
    "on_compile_end",
    "on_compile_start",
    "optimize",
    "optimize_assert",
    "pending_compilations",
    "register_backend",
    "remove_callback",
    "reset",
    "run",
    "save_cache",
    "set_logs",
    "set_stance",
    "skip",
    "skip_frame",
    "substitute_in_graph",
    "uninstall",
    "verify",
    "wait_for_compilations",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("framelift.testing")
    if name not in _HOMES:
        raise AttributeError(f"module 'framelift' has no attribute {name!r}")
    from framelift import _frame

    # all at once that programs use: a module that is still filling itself in could not be guarded
    homes = [_HOMES[name]] if _HOMES[name] in _TOOLS else [home for home in _NAMES if home not in _TOOLS]
    _frame.pause_collector()  # which would look at all of torch's objects, and find nothing
    try:
        for home in homes:
            module = importlib.import_module(home)
            globals().update({known: getattr(module, known) for known in _NAMES[home]})
    except (ImportError, AttributeError) as error:
        from framelift.api import uncompiled

        why = uncompiled.reason(error)
        if why is None:
            raise
        globals()[name] = uncompiled.plain(name, _HOMES[name], why)
    finally:
        _frame.resume_collector()
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "testing"})
