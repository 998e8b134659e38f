"""A graph that raises when it runs.

An operator may fail for what is in its arguments: an index out of range, a matrix without an inverse. If the
graph has changed nothing yet that could be told, its region has not either, and the frame is run as it is:
the program handles the error or leaves it to its caller, with its own lines in the traceback, and has done
before what it does before.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from framelift import _frame
from framelift.core.errors import FrameliftError
from framelift.core.records import counters
from framelift.graph.contexts import leave_statements

log = logging.getLogger(__name__)

FINAL = (FrameliftError, torch.AcceleratorError)
"""Errors that tell nothing of the program, or after which no operator works."""


def run_again(error: BaseException, name: str, handles: bool, *exits: Any) -> _frame.Stop:
    """What a region returns whose graph has raised; `exits` are of the `with` statements around it. The error
    is raised where the frame is not to run once more. Whether the program `handles` errors is not known for
    certain; where it does not, an error that it does not have is the backend's."""
    if not isinstance(error, Exception) or isinstance(error, FINAL) or is_watched():
        leave_statements(error, *exits)
        raise error
    told = name, type(error).__name__, str(error)
    counters["graph_errors"][f"{told[0]}: {told[1]}"] += 1
    is_first = counters["graph_errors"][f"{told[0]}: {told[1]}"] == 1
    if isinstance(error, torch.OutOfMemoryError):
        error.__traceback__ = None  # whose frames hold what the graph has computed

    def returned() -> None:
        if not handles:
            error.add_note(f"The compiled graph of {name} raised this; plain Python does not.")
            raise error
        if is_first:
            log.warning("the graph of %s raised %s: %s\nIt ran as plain Python instead, and returned.", *told)

    return _frame.again(returned)


def is_watched() -> bool:
    """Whether hooks around the call have seen what the graph saves, and would see it twice."""
    autograd: Any = torch._C._autograd
    return autograd._top_saved_tensors_default_hooks(True) is not None
