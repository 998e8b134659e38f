"""Traces a callable as a body: a graph of its own, whose operands are what it uses from around it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.tensors.graph import Body
from framelift.tensors.recorder import Recorder
from framelift.world.shadows import change_of
from framelift.world.world import World


@contextlib.contextmanager
def without_grad(recorder: Recorder) -> Iterator[None]:
    """Where the operator itself sees to it that nothing is differentiated, and the graph need not say so."""
    before = torch.is_grad_enabled()
    recorder.set_grad(False)
    try:
        yield
    finally:
        recorder.set_grad(before)


@contextlib.contextmanager
def without_effects(world: World, what: str) -> Iterator[None]:
    """What runs later, or never, or more than once, must not change anything outside now."""
    before = effects(world)
    yield
    if effects(world) != before:
        raise Break(breaks.EFFECT, f"a change to something from outside in {what}")


@contextlib.contextmanager
def unchanged_operands(recorder: Recorder, body: Body, what: str) -> Iterator[None]:
    """What is run once more must not change tensors from around it."""
    before, recorder.mutated = recorder.mutated, {}
    try:
        yield
        if any(id(value) in recorder.mutated for _, value, _ in body.operands):
            raise Break(breaks.EFFECT, f"a change to a tensor from outside in {what}")
    finally:
        recorder.mutated = {**before, **recorder.mutated}


def effects(world: World) -> list[Any]:
    """What would be written to the outside, by the identity of what is written."""
    changes = [change for change in map(change_of, list(world.shadows.values())) if change]
    found: list[Any] = [
        (
            id(change.shadow),
            [(method, *map(id, given)) for method, given in change.calls],
            named(change.attributes),
        )
        for change in changes
    ]
    found += [(id(blind), len(blind.calls)) for blind in world.blind.values()]
    views = (*world.views.values(), *world.scopes.values())
    found += [(id(view), named(written)) for view in views if (written := view.changes())]
    found += [(id(cell), id(now)) for cell, now in world.changed_cells()]
    return found


def named(changes: list[tuple[str, Any]]) -> list[tuple[str, int]]:
    return [(name, id(value)) for name, value in changes]
