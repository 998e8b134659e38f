"""Calls of functions that options name: left out of a capture, or made by regions after their graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.config import LISTENERS, config
from framelift.graph.functions import describe
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import Server, control
from framelift.trace.writes import Report


def controlling(option: str, server: Server) -> Callable[[Any], None]:
    """Has calls of the functions that an option of `config` names served by this."""
    known: list[Any] = []

    def listen(fns: Any) -> None:
        for fn in known:
            control(fn, None)
        known[:] = [getattr(fn, "__func__", fn) for fn in fns if fn is not warnings.warn]
        for fn in known:  # a warning is told afterwards in any case, of the place where it was given
            control(fn, server)

    listen(getattr(config, option))
    return listen


def ignore(world: Any, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Leaves a call out."""


def report_later(world: Any, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Has the region make a call, after its graph has run."""
    given, named = [opened(arg) for arg in args], {name: opened(arg) for name, arg in kwargs.items()}
    for value in (*given, *named.values()):
        if type(value) not in REPORTED:
            raise Break(breaks.EFFECT, f"{describe(fn)} of a {type(value).__name__}")
    if world.recorder.builder.in_body:
        raise Break(breaks.EFFECT, f"{describe(fn)} in what an operator is given to call")
    world.writes.reports.append(Report(fn, tuple(given), named))


REPORTED = frozenset({FakeTensor, str, int, float, bool, complex, type(None), torch.dtype, torch.device})
"""What functions that are called later may be given: what is the same then. Of tensors that is checked."""

for _option in ("ignore_logging_functions", "ignore_logger_methods"):
    LISTENERS[_option] = controlling(_option, ignore)
LISTENERS["reorderable_logging_functions"] = controlling("reorderable_logging_functions", report_later)
