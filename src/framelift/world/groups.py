"""Process groups, device meshes and placements as values.

None of them changes once it is made. A group or a mesh is that very one, so whatever it says of itself is
folded; a placement is what it says it is. `torch.distributed.tensor`, which has the placements, is only
known of when the program has imported it: that takes long.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from framelift.world.guard import Check
from framelift.world.licence_tables import PURE_TYPES
from framelift.world.openers import OPENERS, Opener, open_by_identity, opens
from framelift.world.source import Access, Source

PLACEMENTS: dict[str, tuple[str, ...]] = {
    "Replicate": (),
    "Shard": ("dim",),
    "_StridedShard": ("dim", "split_factor"),
    "Partial": ("reduce_op",),
}
"""Classes of `torch.distributed.tensor.placement_types` -> the attributes that say all of an instance."""


def open_placement(attributes: tuple[str, ...]) -> Opener:
    def opener(world: Any, value: Any, source: Source) -> Any:
        if source.access is not Access.CONST:
            world.guard(source, Check.TYPE, type(value))
            for name in attributes:
                world.guard(source.child(Access.NATIVE_ATTR, name), Check.EQUAL, getattr(value, name))
        return world.stand_in(value, value, source)

    return opener


def know_placements(module: Any) -> list[Any]:
    """The classes of the module that has them."""
    classes = [getattr(module, name) for name in PLACEMENTS if hasattr(module, name)]
    for cls in classes:
        OPENERS[cls] = open_placement(PLACEMENTS[cls.__name__])
        PURE_TYPES.add(cls)
    HELD.update(classes)
    return classes


IDENTICAL: set[type] = set()
"""What is compared by identity."""
HELD: set[type] = set()
"""What a region holds on to, where a trace has made it: one is as good as another of the same value."""

if dist.is_available():
    from torch.distributed.device_mesh import DeviceMesh

    IDENTICAL |= {dist.ProcessGroup, DeviceMesh, dist.ReduceOp, type(dist.ReduceOp.SUM)}
    HELD.add(DeviceMesh)
    opens(*IDENTICAL)(open_by_identity)
