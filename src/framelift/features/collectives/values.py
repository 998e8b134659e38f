"""Process groups, device meshes and placements as values.

None of them changes once it is made. A group or a mesh is that very one, so whatever it says of itself is
folded; a placement is what it says it is. `torch.distributed.tensor`, which has the placements, is only
known of when the program has imported it: that takes long.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from framelift import _guards
from framelift.graph.subclasses import is_wrapper_class
from framelift.guards.kinds import Access, Check
from framelift.guards.sources import Source
from framelift.rules.constants import rebuild_constant, wrap_by_identity
from framelift.rules.tensors import dims_of_parts, wrap_varying
from framelift.trace.callable_rules import methods_of
from framelift.trace.type_rules import Wrap, type_rule
from framelift.trace.world import TraceWorld

PLACEMENTS: dict[str, tuple[str, ...]] = {
    "Replicate": (),
    "Shard": ("dim",),
    "_StridedShard": ("dim", "split_factor"),
    "Partial": ("reduce_op",),
}
"""Classes of `torch.distributed.tensor.placement_types` -> the attributes that say all of an instance."""


def wrap_placement(attributes: tuple[str, ...]) -> Wrap:
    def wrap(world: TraceWorld, value: Any, source: Source) -> Any:
        if source.access is not Access.CONST:
            world.guards.add(source, Check.TYPE, type(value))
            for name in attributes:
                world.guards.add(source.child(Access.NATIVE_ATTR, name), Check.EQUAL, getattr(value, name))
        return world.inputs.stand_in(value, value, source)

    return wrap


def know_placements(module: Any) -> list[Any]:
    """The classes of the module that has them."""
    classes = [getattr(module, name) for name in PLACEMENTS if hasattr(module, name)]
    for cls in classes:
        type_rule(cls, wrap=wrap_placement(PLACEMENTS[cls.__name__]), rebuild=rebuild_constant)
        methods_of(cls, why="a placement, which never changes")
    return classes


def wrap_distributed(world: TraceWorld, value: Any, source: Source) -> Any:
    """A DTensor: guards compare the tensor of this rank as any tensor, the mesh by identity, and the
    placements by value, since each tensor has a description of its own."""
    cls = type(value)
    with torch._C.DisableTorchFunction():
        local, place = value._local_tensor, source.child(Access.SLOT, cls._local_tensor)
        places = {"_local_tensor": (local, place)}
        dims = world.inputs.dims_of(source, value)
        varying = dims_of_parts(world, value, places, dims, says_sizes=True) if dims else None
        if varying:
            face = wrap_varying(world, value, source, dims, places, varying)
        else:
            world.guards.add(source, Check.TENSOR, _guards.TensorSpec(value))
            face = world.inputs.add_tensor(value, source)
            world.inputs.hold(value, "_local_tensor", local, place)
            if not is_wrapper_class(type(local)):
                world.guards.add(place, Check.TENSOR, _guards.TensorSpec(local))
    if is_wrapper_class(type(local)):
        world.inputs.load(local, place)
    spec, described = value._spec, source.child(Access.SLOT, cls._spec)
    world.guards.add(described, Check.TYPE, type(spec))
    world.guards.add(described.child(Access.ATTR, "mesh"), Check.IS, spec.mesh)
    for name in ("placements", "shard_order", "use_strided_shard_as_shard_order"):
        if hasattr(spec, name):
            part = world.inputs.load(getattr(spec, name), described.child(Access.ATTR, name))
            world.materialize.for_c(part)
    return face


def know_distributed(cls: type) -> None:
    described_by = frozenset({"placements", "device_mesh", "_spec"})
    type_rule(cls, wrap=wrap_distributed, described_by=described_by)


if dist.is_available():
    from torch.distributed.device_mesh import DeviceMesh

    _types = (dist.ProcessGroup, dist.ReduceOp, type(dist.ReduceOp.SUM))
    type_rule(*_types, wrap=wrap_by_identity, by_identity=True)
    type_rule(DeviceMesh, wrap=wrap_by_identity, by_identity=True, rebuild=rebuild_constant)
