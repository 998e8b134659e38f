"""Framelift captures PyTorch programs: frames in, graphs out, everything else as Python would have it.

The names are loaded when one is first used, so that the parts that need no torch can be used without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from framelift import exc

if TYPE_CHECKING:
    from framelift import testing as testing
    from framelift.api.capture_control import (
        allow_in_graph,
        assume_constant_result,
        disable,
        disallow_in_graph,
        error_on_graph_break,
        forbid_in_graph,
        graph_break,
        is_compiling,
        nonstrict_trace,
        skip,
        skip_frame,
        substitute_in_graph,
    )
    from framelift.api.compile import compile, install, uninstall
    from framelift.api.compiled_autograd import compiled_autograd
    from framelift.api.comptime import comptime
    from framelift.api.entries import entries
    from framelift.api.explain import explain
    from framelift.api.marks import (
        mark_dynamic,
        mark_static,
        mark_static_address,
        mark_unbacked,
        maybe_mark_dynamic,
    )
    from framelift.api.profiler import CompileProfiler
    from framelift.api.stance import run, set_stance
    from framelift.api.verify import verify
    from framelift.core.config import config
    from framelift.core.logs import set_logs
    from framelift.core.records import compile_records, compile_times, counters
    from framelift.dispatch.backends import list_backends, register_backend
    from framelift.dispatch.frame_hook import reset

__version__ = "0.1.0"

_HOMES = {
    "CompileProfiler": "framelift.api.profiler",
    "allow_in_graph": "framelift.api.capture_control",
    "assume_constant_result": "framelift.api.capture_control",
    "compile": "framelift.api.compile",
    "compile_records": "framelift.core.records",
    "compile_times": "framelift.core.records",
    "compiled_autograd": "framelift.api.compiled_autograd",
    "comptime": "framelift.api.comptime",
    "config": "framelift.core.config",
    "counters": "framelift.core.records",
    "disable": "framelift.api.capture_control",
    "disallow_in_graph": "framelift.api.capture_control",
    "entries": "framelift.api.entries",
    "explain": "framelift.api.explain",
    "forbid_in_graph": "framelift.api.capture_control",
    "graph_break": "framelift.api.capture_control",
    "install": "framelift.api.compile",
    "is_compiling": "framelift.api.capture_control",
    "list_backends": "framelift.dispatch.backends",
    "mark_dynamic": "framelift.api.marks",
    "mark_static": "framelift.api.marks",
    "mark_unbacked": "framelift.api.marks",
    "maybe_mark_dynamic": "framelift.api.marks",
    "nonstrict_trace": "framelift.api.capture_control",
    "register_backend": "framelift.dispatch.backends",
    "reset": "framelift.dispatch.frame_hook",
    "run": "framelift.api.stance",
    "set_logs": "framelift.core.logs",
    "set_stance": "framelift.api.stance",
    "skip": "framelift.api.capture_control",
    "error_on_graph_break": "framelift.api.capture_control",
    "skip_frame": "framelift.api.capture_control",
    "mark_static_address": "framelift.api.marks",
    "substitute_in_graph": "framelift.api.capture_control",
    "uninstall": "framelift.api.compile",
    "verify": "framelift.api.verify",
}

__all__ = [
    "CompileProfiler",
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
    "forbid_in_graph",
    "graph_break",
    "install",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "register_backend",
    "reset",
    "run",
    "set_logs",
    "set_stance",
    "skip",
    "skip_frame",
    "substitute_in_graph",
    "uninstall",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("framelift.testing")
    if name not in _HOMES:
        raise AttributeError(f"module 'framelift' has no attribute {name!r}")
    # all at once: a module that is still filling itself in could not be guarded
    for known, home in _HOMES.items():
        globals()[known] = getattr(importlib.import_module(home), known)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "testing"})
