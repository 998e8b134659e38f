"""Functional collectives, called by the program itself: Python over operators, which is interpreted.

Imported when there is a process group: what makes the operators known to autograd and to fakes takes long to
load.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.distributed import _functional_collectives as functional

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.collectives.groups import fact, interpret, own_functions, serve_facts
from framelift.interpreter.pending import opened
from framelift.rules.torch_functions import NO_EFFECT
from framelift.trace.callable_rules import Looks, rule, serve
from framelift.trace.machine import TraceFrame

RESOLVING = "_resolve_group" if hasattr(functional, "_resolve_group") else "_resolve_group_name"
"""What finds a group: torch 2.11 goes by names."""
SERVED = (RESOLVING, "_group_or_group_name")
"""What is called as it is, and must not come back to the interpreter."""

interpret(
    *(
        fn
        for name, fn in vars(functional).items()
        if type(fn) is types.FunctionType
        and fn.__module__ == functional.__name__
        and name not in SERVED
        and not name.endswith(("_meta", "_setup_context", "_backward", "_ctx"))
    )
)

rule(
    *own_functions(torch._utils, "_maybe_view_chunk_cat", "_chunk_or_narrow_cat"),
    looks=Looks.DEEP,
    why=NO_EFFECT,
)
serve_facts(*own_functions(functional, "_group_or_group_name"))  # torch 2.13's


@serve(getattr(functional, RESOLVING))
def serve_resolve_group(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The group, or its name, of what stands for one."""
    if type(opened(args[0] if args else kwargs["group"])) is list:
        raise Break(breaks.DISTRIBUTED, "a list of ranks for a group, which may have to be made")
    return fact(f, getattr(functional, RESOLVING), args, kwargs)
