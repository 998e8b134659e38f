"""Tensors of `torch.distributed.tensor`, and their placements. Imported when the program has that.

Such a tensor is one that wraps another. Its operators are traced as those of any wrapper; what makes one, or
makes another of it, takes meshes and placements, which a graph can't hold: they are part of the function
that it calls.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch.distributed.tensor as distributed
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor, _api, parallel, placement_types
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.collectives.groups import bound, for_facts, getters, serve_facts
from framelift.features.collectives.values import know_distributed, know_placements
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame

QUESTIONS = ("is_shard", "is_replicate", "is_partial", "__eq__", "__hash__")

for _class in know_placements(placement_types):
    serve_facts(*(getattr(_class, name) for name in QUESTIONS))
know_distributed(DTensor)
serve_facts(*getters(DTensorSpec))


def serve_method(method: Any, tensor: str) -> None:
    """Serves a method that is given a tensor, and arguments that a graph can't hold."""
    signature = inspect.signature(method)

    @serve(method)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        world, recorder = f.world, f.world.recorder
        given = {name: for_facts(world, value) for name, value in bound(signature, args, kwargs).items()}
        fake = given.pop(tensor)
        if type(fake) is not FakeTensor:
            raise Break(breaks.DISTRIBUTED, f"{method.__qualname__} of what is no tensor")
        if given.get("run_check") or given.get("src_data_rank") is not None:
            raise Break(breaks.DISTRIBUTED, f"{method.__qualname__}, which asks the other ranks")
        if given.get("device_mesh", fake) is None and method not in OF_ITS_MESH:
            raise Break(breaks.DISTRIBUTED, f"{method.__qualname__} with the mesh that is current")
        mesh = given.get("device_mesh")
        found_at = None if mesh is None else world.inputs.source_of(mesh)
        text = "" if found_at is None else world.inputs.texts.of(found_at)
        if text and recorder.builder.add_object(mesh, text):
            del given["device_mesh"]
            return recorder.call_opaque(with_given(method, given), (fake, mesh), {})
        return recorder.call_opaque(with_given(method, given), (fake,), {})


def with_given(method: Any, given: dict[str, Any]) -> Any:
    def called(tensor: Any, *mesh: Any) -> Any:
        return method(tensor, *mesh, **given)

    called.__name__ = called.__qualname__ = method.__name__
    return called


OF_ITS_MESH = (DTensor.redistribute,)
"""Methods that take the mesh of their tensor, if they are given none."""

serve_method(DTensor.from_local, "local_tensor")
serve_method(distributed.distribute_tensor, "tensor")
for _method in (DTensor.to_local, DTensor.redistribute, DTensor.full_tensor):
    serve_method(_method, "self")


def serve_as_refused(function: Any) -> None:
    @serve(function)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        raise Break(breaks.DISTRIBUTED, f"{function.__module__}.{function.__qualname__}")


for _function in (distributed.distribute_module, parallel.parallelize_module, parallel.loss_parallel):
    serve_as_refused(_function)  # the last changes what operators do, while it is in force
for _name in ("empty", "full", "ones", "rand", "randn", "zeros"):
    serve_as_refused(getattr(_api, _name))
