"""What `sys.settrace` was given: debuggers, which pass over the compiler, and tools that count lines."""

from __future__ import annotations

import sys
from typing import Any

DEBUGGERS = ("bdb", "_pydevd_bundle", "_pydevd_frame_eval", "pydevd", "pydevd_tracing")
"""The modules of what traces a thread for the standard library's debugger, and what is made of it, and for
editors."""


def is_debugger(tracer: Any) -> bool:
    """Whether it stops where a person wants to look: `pdb` and its kin, and what editors use."""
    owner = getattr(tracer, "__self__", tracer)
    kinds = type(owner).__mro__ if not isinstance(owner, type) else owner.__mro__
    modules = {kind.__module__ for kind in kinds} | {getattr(tracer, "__module__", None)}
    return any((name or "").partition(".")[0] in DEBUGGERS for name in modules)


def is_quit(error: BaseException) -> bool:
    """Whether someone has had enough of a debugger's session, wherever the program stood."""
    bdb = sys.modules.get("bdb")
    return bdb is not None and isinstance(error, bdb.BdbQuit)


def counts_lines() -> bool:
    """Whether a tool is there that wants to know which lines run, for this thread."""
    tracer = sys.gettrace()
    if tracer is not None:
        return not is_debugger(tracer)
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    return monitoring is not None and monitoring.get_tool(monitoring.COVERAGE_ID) is not None
