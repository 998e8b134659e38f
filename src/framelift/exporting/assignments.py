"""What a program writes outside, beside tensors that it changes in place.

A buffer that is assigned is part of the artifact's state: the graph copies the new value into it. All else
(counters, lists of outputs, globals) is a state of Python's that no artifact has.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.exporting.signatures import PLAIN, Call
from framelift.features.warning_filters import warn_above, warn_at
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending
from framelift.trace.runtime_calls import RuntimeCalls
from framelift.trace.shadows import DELETED, Change
from framelift.trace.world import TraceWorld
from framelift.trace.writes import Writes


@dataclass
class Assignment:
    """A buffer that was given another tensor."""

    name: str
    buffer: torch.Tensor
    value: Any
    """A fake of the trace, or a tensor from outside."""
    output: int | None = None
    """Which output of the graph it is, if it is one."""


def sorted_out(call: Call, world: TraceWorld, writes: Writes) -> tuple[list[Assignment], list[str]]:
    """The buffers that were assigned, and what else was changed, in words."""
    assigned: list[Assignment] = []
    effects: list[str] = []
    owners = {} if call.root is None else owners_of(call.root)
    for change in writes.containers:
        source = change.shadow.source
        if source in world.frame.fresh:  # the arguments as a tuple and a dictionary, which nobody else has
            continue
        owner = owners.get(id(change.shadow.outside))
        if owner is None:
            if changes_anything(change):
                methods = dict.fromkeys(name for name, _ in change.calls)
                effects.append(f"{shown(call, source)} ({', '.join(methods)})")
            continue
        for method, arguments in change.calls:
            found = assignment(owner, method, arguments)
            if isinstance(found, Assignment):
                assigned.append(found)
            else:
                effects.append(found)
    for view, changes in (*writes.attributes, *writes.classes):
        for name, value in changes:
            if not stays(view.outside, name, value) and not is_compilers(view.outside):
                effects.append(f"{shown(call, view.source)}.{name}")
    for view, changes in writes.scopes:
        effects += [f"the global {name}" for name, value in changes if not stays(view.outside, name, value)]
    effects += ["a variable of an enclosing function"] * bool(writes.cells)
    effects += ["the flags of decimal's context"] * bool(writes.signals)
    effects += [f"the iterator {shown(call, each.source)}" for each, _ in writes.advances]
    variables = [variable for variable, _ in writes.variables if not is_compilers(variable)]
    effects += [f"the context variable {variable.name}" for variable in variables]
    effects += [f"hooks of a tensor ({each.method})" for each in writes.calls]
    effects += [f"what {getattr(each.fn, '__name__', each.fn)} is told" for each in writes.reports]
    effects += generators_changed(world.runtime_calls)
    return assigned, effects


COMPILERS_SETTINGS = "torch._dynamo.config"


def is_compilers(holder: Any) -> bool:
    """Whether something holds a setting of torch's own compiler, which no artifact asks: the module of an
    artifact sets one while it checks its inputs."""
    settings = sys.modules.get(COMPILERS_SETTINGS)
    if settings is None:
        return False
    if isinstance(holder, contextvars.ContextVar):
        if holder.name.startswith(f"{COMPILERS_SETTINGS}."):
            return True
        entry = vars(settings)["_config"].get(holder.name)
        return entry is not None and vars(entry).get("user_override") is holder
    return any(holder is entry for entry in vars(settings)["_config"].values())


QUIET: tuple[Any, ...] = (torch.clone, torch.get_rng_state, torch.Generator.get_state)


def generators_changed(calls: RuntimeCalls) -> Iterator[str]:
    """What is done to generators of random numbers that others draw from as well. Warnings are no change."""
    for each in calls.made:
        drawn = each.fn not in (*QUIET, warn_at, warn_above) and not isinstance(each.fn, type)
        if drawn and not each.pure and not any(id(given) in calls.made_inside for given in each.args):
            yield f"the state of a generator of random numbers ({each.fn.__name__})"


def stays(outside: Any, name: str, value: Any) -> bool:
    """Whether a name has the value that it had before: many programs set something while they run."""
    held = outside if type(outside) is dict else getattr(outside, "__dict__", {})
    if name not in held:
        return value is DELETED
    before, now = held[name], value.value if type(value) is Pending else value
    return now is before or (type(now) is type(before) and isinstance(now, PLAIN) and now == before)


def shown(call: Call, source: Source) -> str:
    """A source as the program writes it: the frame that was captured has names of its own."""
    text = str(source)
    for own, path in (*zip(call.sources, call.paths, strict=True), ("target", "self")):
        if text == own or text.startswith((f"{own}.", f"{own}[")):
            return path + text.removeprefix(own)
    return text


@dataclass
class Buffers:
    """The dictionary in which a module keeps its buffers."""

    prefix: str
    held: dict[str, Any]


def owners_of(root: torch.nn.Module) -> dict[int, Buffers]:
    return {
        id(module._buffers): Buffers(f"{name}." if name else "", module._buffers)
        for name, module in root.named_modules()
    }


def changes_anything(change: Change) -> bool:
    """Whether a container is another one afterwards. A module that is given a buffer takes its name out of
    the set of those that are not saved, or puts it in, whether it is in there or not."""
    outside = change.shadow.outside
    if not isinstance(outside, set) or change.attributes:
        return True
    held = set(outside)
    for method, arguments in change.calls:
        if method not in ("add", "discard") or type(arguments[0]) is not str:
            return True
        getattr(held, method)(arguments[0])
    return held != outside


def assignment(owner: Buffers, method: str, arguments: tuple[Any, ...]) -> Assignment | str:
    name = arguments[0] if arguments else ""
    full, before = f"{owner.prefix}{name}", owner.held.get(name) if method == "__setitem__" else None
    if before is None:
        return (
            f"the buffer {full}, which is not there before"
            if method == "__setitem__"
            else f"the buffer {full}"
        )
    value = arguments[1]
    value = value.value if type(value) is Pending else value
    if not isinstance(value, torch.Tensor):
        return f"the buffer {full}, which becomes a {type(value).__name__}"
    alike = value.dtype == before.dtype and value.device == before.device and has_shape_of(value, before)
    if not alike:
        now, then = described(value), described(before)
        return f"the buffer {full}, which becomes {now} and was {then}: its shape and type must stay"
    return Assignment(full, before, value)


def has_shape_of(value: torch.Tensor, before: torch.Tensor) -> bool:
    if type(value) is FakeTensor and any(type(size) is not int for size in value.shape):
        return False
    return tuple(value.shape) == tuple(before.shape)


def described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"
