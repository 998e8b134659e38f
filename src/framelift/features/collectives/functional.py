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
"""The function that finds a group. That of torch 2.11 gives its name."""
CALLED_AS_IT_IS = (RESOLVING, "_group_or_group_name")
"""Functions that are called as they are: they must not be interpreted."""
NOT_CALLED = ("_meta", "_setup_context", "_backward", "_ctx")
"""How names of functions end that only the operators call."""

for _name, _fn in vars(functional).items():
    _own = type(_fn) is types.FunctionType and _fn.__module__ == functional.__name__
    if _own and _name not in CALLED_AS_IT_IS and not _name.endswith(NOT_CALLED):
        interpret(_fn)

_views = own_functions(torch._utils, "_maybe_view_chunk_cat", "_chunk_or_narrow_cat")
rule(*_views, looks=Looks.DEEP, why=NO_EFFECT)
serve_facts(*own_functions(functional, "_group_or_group_name"))  # torch 2.13's


@serve(getattr(functional, RESOLVING))
def serve_resolve_group(f: TraceFrame, group: Any, tag: Any = "") -> Any:
    """The group, or its name, of what stands for one."""
    if type(opened(group)) is list:
        raise Break(breaks.DISTRIBUTED, "a list of ranks for a group, which may have to be made")
    return fact(f.world, getattr(functional, RESOLVING), group, tag)
