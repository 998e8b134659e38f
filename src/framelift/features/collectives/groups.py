"""Calls of process groups and device meshes: their answers are constants; torch's registry is interpreted.

`dist.get_rank()` and its kin are Python over torch's registry of groups; what they read there is guarded. A
mesh is Python over tensors of its own, which are no business of a graph: its methods run as they are.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from typing import Any

import torch
import torch.distributed as dist

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame
from framelift.trace.type_rules import rule_of_type
from framelift.trace.world import TraceWorld

native = _frame.native


def for_facts(world: TraceWorld, value: Any) -> Any:
    """An argument as C is given it. A group or a mesh is passed as it is."""
    value = opened(value)
    return value if rule_of_type(type(value)).by_identity else world.materialize.for_c(value)


def fact(world: TraceWorld, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What a function says of a group or a mesh. It says the same each time."""
    given = [for_facts(world, value) for value in args]
    named = {name: for_facts(world, value) for name, value in kwargs.items()}
    with torch._C.DisableTorchFunction():
        return known(world, native(fn, *given, **named))


def known(world: TraceWorld, value: Any) -> Any:
    """A result, in which groups and meshes are known as values from outside."""
    if type(value) is list:
        return [known(world, item) for item in value]
    if rule_of_type(type(value)).by_identity:
        return world.inputs.load(value, world.inputs.root.constant(value, f"a {type(value).__name__}"))
    return value


def unwrapped(function: Any) -> Any:
    """The function of a method. With pybind and Python 3.12 the method has no hash."""
    return getattr(function, "__func__", function)


def serve_facts(*functions: Any) -> None:
    for function in map(unwrapped, functions):
        serve_fact(function)


def serve_fact(function: Any) -> None:
    @serve(function)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        return fact(f.world, function, *args, **kwargs)


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters, which differ between versions of torch."""
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    return {name: opened(value) for name, value in given.arguments.items()}


def interpret(*functions: Any) -> None:
    for function in functions:
        inner = [code for code in function.__code__.co_consts if type(code) is types.CodeType]
        for code in (function.__code__, *inner):
            _frame.set_decision(code, _frame.SKIP, _frame.INTERPRET)


def getters(cls: type, *names: str) -> list[Any]:
    """The getters of the properties of a class: of all, or of those that are named."""
    found = [vars(cls).get(name) for name in names or vars(cls)]
    return [one.fget for one in found if type(one) is property and type(one.fget) is types.FunctionType]


def own_functions(owner: Any, *names: str) -> list[Any]:
    """Those of the names that this version of torch has."""
    found = [vars(owner).get(name) for name in names]
    return [unwrapped(one) for one in found if one is not None]


def know_tensors() -> None:
    """Called before each trace. These modules take long to import, so only programs that need them do."""
    if dist.is_available() and c10d._world.default_pg is not None:
        importlib.import_module("framelift.features.collectives.functional")
    if hasattr(sys.modules.get("torch.distributed.tensor"), "DTensor"):
        importlib.import_module("framelift.features.collectives.dtensor")


if dist.is_available():
    import torch.distributed.distributed_c10d as c10d
    from torch.distributed.device_mesh import DeviceMesh
    from torch.utils._typing_utils import not_none

    serve_facts(*own_functions(dist.ProcessGroup, "rank", "size", "name"))
    interpret(
        *own_functions(c10d, "get_rank", "get_world_size", "get_group_rank", "get_global_rank"),
        *own_functions(c10d, "get_process_group_ranks", "get_backend", "get_backend_config", "get_pg_count"),
        *own_functions(c10d, "is_initialized", "_get_default_group", "_rank_not_in_group", "_get_group_tag"),
        *own_functions(c10d, "_get_group_size", "_get_process_group_name", "_get_global_rank"),
        *own_functions(c10d, "_get_group_size_by_name", "_canonicalize_group_rank", "is_backend_available"),
        *own_functions(c10d, "_find_pg_by_ranks_and_tag", "_find_or_create_pg_by_ranks_and_tag"),
        *own_functions(c10d, "_get_process_group_uid", "get_node_local_rank", "is_torchelastic_launched"),
        *getters(c10d._WorldMeta, "WORLD"),
        *getters(c10d._World),
    )
    serve_facts(c10d._resolve_process_group)
    serve_facts(dist.is_available, *own_functions(c10d, "is_gloo_available", "is_nccl_available"))
    serve_facts(*own_functions(c10d, "is_mpi_available", "is_ucc_available", "is_xccl_available"))
    interpret(c10d.Backend.__new__)

    serve_facts(
        *own_functions(DeviceMesh, "size", "get_group", "get_all_groups", "get_coordinate"),
        *own_functions(DeviceMesh, "__eq__", "__hash__", "__repr__", "_get_root_mesh"),
        *own_functions(DeviceMesh, "_is_current_rank_part_of_mesh", "_sym_get_coordinate"),
        *own_functions(DeviceMesh, "_get_mesh_dim_by_name", "_hash_key"),
    )

    @serve(DeviceMesh.__getitem__)
    def serve_part(f: TraceFrame, self: Any, mesh_dim_names: Any) -> Any:
        """Each call makes another mesh. Where the program needs one, the region makes it."""
        world = f.world
        mesh, names = (for_facts(world, value) for value in (self, mesh_dim_names))
        with torch._C.DisableTorchFunction():
            part = native(DeviceMesh.__getitem__, mesh, names)
        whole = world.inputs.source_of(mesh)
        if part is mesh or whole is None:
            return part
        source = world.runtime_calls.note(DeviceMesh.__getitem__, (whole, names), {}, pure=True)
        return world.inputs.know(part, part, source)

    serve_facts(*getters(DeviceMesh, "ndim", "shape", "device_type", "mesh_dim_names"))
    interpret(*own_functions(DeviceMesh, "get_rank", "get_local_rank"))
    interpret(not_none)

    @serve(DeviceMesh._flatten)
    def serve_flatten(
        f: TraceFrame, self: Any, mesh_dim_name: Any = None, backend_override: Any = None
    ) -> Any:
        """Gives the flattened mesh if there is one already. Making one makes a group."""
        mesh: Any = for_facts(f.world, self)
        name = for_facts(f.world, mesh_dim_name) or "_".join(mesh.mesh_dim_names or ())
        if name not in mesh._get_root_mesh()._flatten_mapping and not (mesh.mesh_dim_names or ()) == (name,):
            raise Break(breaks.DISTRIBUTED, "DeviceMesh._flatten, which makes a group")
        return fact(f.world, DeviceMesh._flatten, mesh, mesh_dim_name, backend_override)
