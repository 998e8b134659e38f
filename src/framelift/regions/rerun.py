"""What a region does when its graph raises: it undoes what the graph did, and has the frame run as it is.

An operator may fail for what is in its arguments: an index out of range, a matrix without an inverse. The
region has changed nothing by then. What the graph itself has done is undone: inputs that it writes to in
front of a call that may fail are copied first and have their values back, and generators are put back
where they were. Then the frame is run: the program handles the error or leaves it to its caller, with its own
lines in the traceback, and has done before what it does before.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from framelift import _frame, _guards
from framelift.core.errors import FrameliftError
from framelift.core.interrupts import raised_by_handler
from framelift.core.records import counters
from framelift.core.tracers import is_quit
from framelift.graph.contexts import leave_statements
from framelift.regions.rebuild import Rebuild
from framelift.trace.type_rules import rule_of_type
from framelift.trace.world import TraceWorld

log = logging.getLogger(__name__)


# ---- what is undone


def drawing_again(world: TraceWorld, r: Rebuild) -> tuple[list[str], list[str]]:
    """What notes where generators of random numbers are, and what puts them back there."""
    calls, first, undo = world.runtime_calls, [], []
    if world.recorder.random_numbers.drawn or any(not (call.pure or call.late) for call in calls.made):
        first.append(f"drawn = {r.own(_guards.random_state)}()")
        undo.append(f"{r.own(_guards.put_random_state)}(drawn)")
    for n, generator in enumerate(calls.generators()):
        known = world.inputs.known.get(id(generator))
        name = r.constant(generator) if known is None else r.input(known.source)
        first.append(f"rewind{n} = {r.own(rule_of_type(type(generator)).rewind)}({name})")
        undo.append(f"rewind{n}()")
    return first, undo


def written_inputs(world: TraceWorld, r: Rebuild) -> tuple[str, str]:
    """The tensors that a graph writes to, before a call that may fail and after the last of them."""
    recorder, source = world.recorder, world.inputs.graph_input_source
    early, late = (
        ", ".join(r.input(source(entry.node, entry.value)) for entry in entries)
        for entries in recorder.mutations.inputs_written(recorder.builder.failing.last)
    )
    return early, late


Copy = tuple[torch.Tensor, "int | None", torch.Tensor]
"""A tensor, its version and its values."""


def copies_of(*tensors: torch.Tensor) -> list[Copy]:
    with torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowAutograd():
        return [(x, None if x.is_inference() else x._version, x.clone()) for x in tensors]


def put_back(copies: list[Copy]) -> None:
    """To autograd too, nothing was written."""
    for tensor, version, values in copies:
        with torch._C.DisableTorchFunction(), torch.inference_mode(version is None), torch.no_grad():
            tensor.copy_(values)
            if version is not None:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def versions_of(*tensors: torch.Tensor) -> list[int]:
    with torch._C.DisableTorchFunction():
        return [0 if x.is_inference() else x._version for x in tensors]


def has_written(error: BaseException, versions: list[int], *tensors: torch.Tensor) -> bool:
    """Whether a graph has failed, for reasons of its own, after it wrote to tensors that it writes to behind
    all calls that may fail. If not, their versions are put back: AOTAutograd counts all of them up first."""
    steps = {now - before for now, before in zip(versions_of(*tensors), versions, strict=True)}
    if isinstance(error, torch.OutOfMemoryError) or len(steps) > 1 or max(steps) > 1:
        return True
    if steps != {0}:
        counted = [x for x in tensors if not x.is_inference()]
        kept = [v for v, x in zip(versions, tensors, strict=True) if not x.is_inference()]
        torch._C._autograd._unsafe_set_version_counter(tuple(counted), tuple(kept))
    return False


# ---- the frame itself

FINAL = (FrameliftError, torch.AcceleratorError)
"""Errors that tell nothing of the program, or after which no operator works."""


def run_again(error: BaseException, name: str, handles: bool, checks: bool, *exits: Any) -> _frame.Stop:
    """What a region returns whose graph has raised; `exits` are of the `with` statements around it. The error
    is raised where the frame is not to run once more. Whether the program `handles` errors is not known for
    certain; where it does not, an error that it does not have is the backend's. If the graph `checks` data,
    the exception is the program's to raise, whoever has seen what the graph saved."""
    if raised_by_handler(error) and not is_watched():
        return _frame.again(error)  # type: ignore[arg-type]
    is_seen = is_watched() and not checks
    if not isinstance(error, Exception) or isinstance(error, FINAL) or is_quit(error) or is_seen:
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
            log.info("the graph of %s raised %s: %s\nIt ran as plain Python instead, and returned.", *told)

    return _frame.again(returned)


def is_watched() -> bool:
    """Whether hooks around the call have seen what the graph saves, and would see it twice."""
    autograd: Any = torch._C._autograd
    return autograd._top_saved_tensors_default_hooks(True) is not None
