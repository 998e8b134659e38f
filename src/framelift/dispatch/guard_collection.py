"""The guards of one run: everything that the trace has read, and which inputs share memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from framelift.core.breaks import TENSOR_KIND, Break
from framelift.guards.guard import Check, ClassGuard, Guard
from framelift.guards.program import storage_groups
from framelift.guards.sources import Source
from framelift.trace.views import View
from framelift.trace.world import World

Storages = tuple[tuple[int, ...], tuple[int, ...]]
"""(slots of the region's inputs, a number for the memory of each)"""


class CollectedGuards(NamedTuple):
    guards: list[Guard]
    class_guards: list[ClassGuard]
    storages: Storages | None
    """None: it does not matter which inputs share memory."""


def collect_guards(world: World, inputs: list[Source]) -> CollectedGuards:
    """`inputs` are those of the region."""
    for fn in world.inlined.values():
        world.guard(world.root.constant(fn, fn.__qualname__), Check.CODE, fn.__code__)
    world.guard_sighted(inputs)
    storages = None
    recorder = world.recorder
    slots = {source: n for n, source in enumerate(inputs)}
    mutated = any(id(fake) in recorder.mutated for _, _, fake in recorder.inputs)
    attributed = [view.outside for view in world.views.values() if is_changed_tensor(view)]
    attributed += [found.tensor for found in recorder.flagged.values()]
    if mutated or attributed:
        used = [tensor for _, tensor, _ in recorder.inputs if isinstance(tensor, torch.Tensor)]
        each = {id(tensor): world.known[id(tensor)] for tensor in (*used, *attributed)}.values()
        tensors = [(slots[known.source], known.value) for known in each if not known.source.is_drawn]
        if any(tensor.layout is torch.sparse_coo for _, tensor in tensors):
            raise Break(TENSOR_KIND, "a sparse tensor, with which one that changes may share memory")
        storages = storage_groups(tensors)
        for tensor in overlapping(tensors, storages):
            recorder.facts["storage_offset", id(tensor)] = tensor
    with torch._C.DisableTorchFunction():
        for (name, _), tensor in recorder.facts.items():
            check, answer = FACTS[name]
            world.guard(world.known[id(tensor)].source, check, answer(tensor))
    return CollectedGuards(list(world.guards.values()), list(world.class_guards.values()), storages)


def is_changed_tensor(view: View) -> bool:
    """Whether an attribute of a tensor was set; it must not turn out to be one of the others."""
    return issubclass(type(view.outside), torch.Tensor) and bool(view.changes())


FACTS: dict[str, tuple[Check, Callable[[torch.Tensor], Any]]] = {
    "is_leaf": (Check.LEAF, lambda tensor: tensor.is_leaf),
    "no_hooks": (Check.NO_HOOKS, lambda tensor: None),
    "storage_offset": (Check.OFFSET, lambda tensor: tensor.storage_offset()),
}
"""How what the recorder calls facts is guarded."""


def overlapping(tensors: list[tuple[int, torch.Tensor]], storages: Storages) -> list[torch.Tensor]:
    """Those that share memory: where one is written to, it matters how the others lie to it."""
    groups = storages[1]
    return [tensor for (_, tensor), group in zip(tensors, groups, strict=True) if groups.count(group) > 1]
