"""Collectives of `torch.distributed`: the graph gets their functional forms, and what is received is copied.

`dist.all_reduce(x)` is recorded as `x.copy_(wait_tensor(_c10d_functional.all_reduce(x, "sum", group)))`,
which AOTAutograd and the compilers behind it know. The group is one that the guards hold fast; the operators
find it by name, and say so if it is gone. Autograd sees nothing of it, as it doesn't eagerly.

What has no such form, or is given tensors whose memory the operators would look at differently, is a break.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.autograd.handlers import listed
from framelift.features.collectives.groups import bound
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame

Tensor = torch.Tensor
Given = dict[str, Any]


class Collective:
    """One call: its arguments, the group that it is in, and how its parts are recorded."""

    def __init__(self, f: TraceFrame, name: str, given: Given) -> None:
        self.world = f.world
        self.name = name
        self.given = given
        group = given["group"] if given["group"] is not None else self.ask(c10d._get_default_group)
        if self.ask(c10d._rank_not_in_group, group):
            raise self.refused("a rank that is not in the group")
        self.group = group
        self.size: int = group.size()

    def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        """Asks torch's registry of groups; the answer is guarded."""
        return opened(self.world.calls.invoke(question, *args, **kwargs))

    def refused(self, why: str) -> Break:
        return Break(breaks.DISTRIBUTED, f"{self.name}: {why}")

    # ---- arguments

    def tensor(self, name: str) -> FakeTensor:
        return self.plain(self.given[name])

    def tensors(self, name: str) -> list[FakeTensor]:
        return [self.plain(one) for one in listed(self.world, self.given[name]) or ()]

    def plain(self, tensor: Any) -> FakeTensor:
        """A tensor that the operators take as it is."""
        recorder = self.world.recorder
        if type(tensor) is not FakeTensor:
            raise self.refused("something that is no tensor")
        cls = recorder.subclasses.class_of(tensor)
        if id(tensor) in recorder.wrappers.behind or cls not in (Tensor, torch.nn.Parameter):
            raise self.refused(f"a {cls.__name__}")
        if tensor.layout is not torch.strided or tensor.is_complex() or not tensor.is_contiguous():
            raise self.refused("a tensor that is complex, or not contiguous")
        return self.record(Tensor.detach, tensor) if tensor.requires_grad else tensor

    def alike(self, tensors: list[FakeTensor], size: int, like: FakeTensor) -> None:
        if len(tensors) != size or any(one.shape != like.shape for one in tensors):
            raise self.refused("tensors of different shapes, or not one for each rank")
        self.of_dtype(like, *tensors)

    def of_dtype(self, *tensors: FakeTensor) -> None:
        if len({(one.dtype, one.device) for one in tensors}) != 1:
            raise self.refused("tensors of different dtypes or devices")

    def operator(self) -> str:
        """The name of the operation that reduces."""
        found = REDUCTIONS.get(self.given["op"]) if type(self.given["op"]) in OPERATIONS else None
        if found is None:
            raise self.refused(f"the reduce operation {self.given['op']}, which graphs do not have")
        return found

    # ---- parts

    def record(self, fn: Any, *args: Any) -> Any:
        return self.world.recorder.call(fn, args, {})

    def run(self, operator: Any, *args: Any) -> FakeTensor:
        """Calls a collective, and waits for its result."""
        ops = torch.ops._c10d_functional
        return self.record(ops.wait_tensor, self.record(operator, *args, self.group.group_name))

    def receive(self, into: FakeTensor, received: FakeTensor) -> None:
        self.record(Tensor.copy_, into, received)


# ---- the collectives


def all_reduce(c: Collective) -> None:
    tensor = c.tensor("tensor")
    c.receive(tensor, c.run(torch.ops._c10d_functional.all_reduce, tensor, c.operator()))


def broadcast(c: Collective) -> None:
    tensor = c.tensor("tensor")
    given = (c.group, c.given["src"], c.given["group_src"])
    source = c.ask(c10d._canonicalize_group_rank, *given, return_global=False)
    c.receive(tensor, c.run(torch.ops._c10d_functional.broadcast, tensor, source))


def all_gather_single(c: Collective) -> None:
    output, given = c.tensor("output_tensor"), c.tensor("input_tensor")
    if not given.dim() or output.shape != (c.size * given.shape[0], *given.shape[1:]):
        raise c.refused("an output that is not as large as all inputs")
    c.of_dtype(output, given)
    c.receive(output, c.run(torch.ops._c10d_functional.all_gather_into_tensor, given, c.size))


def all_gather(c: Collective) -> None:
    outputs, given = c.tensors("tensor_list"), c.tensor("tensor")
    c.alike(outputs, c.size, given)
    gather = torch.ops._c10d_functional.all_gather_into_tensor
    received = c.run(gather, c.record(Tensor.unsqueeze, given, 0), c.size)
    for output, part in zip(outputs, c.record(Tensor.unbind, received), strict=True):
        c.receive(output, part)


def reduce_scatter_single(c: Collective) -> None:
    output, given = c.tensor("output"), c.tensor("input")
    if not output.dim() or given.shape != (c.size * output.shape[0], *output.shape[1:]):
        raise c.refused("an input that is not as large as all outputs")
    c.of_dtype(output, given)
    scatter = torch.ops._c10d_functional.reduce_scatter_tensor
    c.receive(output, c.run(scatter, given, c.operator(), c.size))


def reduce_scatter(c: Collective) -> None:
    output, given = c.tensor("output"), c.tensors("input_list")
    c.alike(given, c.size, output)
    scatter = torch.ops._c10d_functional.reduce_scatter_tensor
    received = c.run(scatter, c.record(torch.stack, given), c.operator(), c.size)
    c.receive(output, c.record(Tensor.squeeze, received, 0))


def all_to_all_single(c: Collective) -> None:
    output, given = c.tensor("output"), c.tensor("input")
    if not given.dim() or output.shape[1:] != given.shape[1:]:
        raise c.refused("an output that has not the shape of the input")
    c.of_dtype(output, given)
    sizes = splits(c, "output_split_sizes", output), splits(c, "input_split_sizes", given)
    c.receive(output, c.run(torch.ops._c10d_functional.all_to_all_single, given, *sizes))


def splits(c: Collective, name: str, tensor: FakeTensor) -> list[Any]:
    """How much of a tensor each rank has."""
    sizes = c.world.materialize.for_torch(c.given[name])
    if sizes:
        return list(sizes)
    if tensor.shape[0] % c.size:
        raise c.refused("a tensor that can't be split evenly")
    return [tensor.shape[0] // c.size] * c.size


def all_to_all(c: Collective) -> None:
    outputs, given = c.tensors("output_tensor_list"), c.tensors("input_tensor_list")
    if not given:
        raise c.refused("no tensors")
    c.alike([*outputs, *given], 2 * c.size, given[0])
    ones = [1] * c.size
    received = c.run(torch.ops._c10d_functional.all_to_all_single, c.record(torch.stack, given), ones, ones)
    for output, part in zip(outputs, c.record(Tensor.unbind, received), strict=True):
        c.receive(output, part)


class Waited:
    """What a call with `async_op=True` gives. The graph has waited already, as far as the program can tell:
    what a tensor holds before `wait` is not defined. When that is really done, the backend chooses."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    is_completed = is_success = wait

    def get_future(self) -> Any:
        raise NotImplementedError

    get_future_result = result = source_rank = exception = synchronize = get_future

    def __reduce__(self) -> Any:
        raise TypeError("what is left to wait for can't be made again")


@serve(Waited.wait)
def serve_wait(f: TraceFrame, work: Any, timeout: Any = None) -> bool:
    return True


@serve(Waited.get_future)
def serve_future(f: TraceFrame, work: Any) -> Any:
    raise Break(breaks.DISTRIBUTED, "async_op=True, of which something is asked but to wait for it")


def rewrite(function: Any, collective: Callable[[Collective], None]) -> None:
    signature = inspect.signature(function)

    @serve(function)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        given = bound(signature, args, kwargs)
        collective(Collective(f, function.__name__, given))
        return Waited() if given.get("async_op") else None


REDUCTIONS: dict[Any, str] = {}
"""Operation of a collective -> its name for the functional form."""
OPERATIONS: tuple[type, ...] = ()
COLLECTIVES: dict[str, Callable[[Collective], None]] = {
    "all_reduce": all_reduce,
    "broadcast": broadcast,
    "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_single,
    "all_gather_single": all_gather_single,
    "_all_gather_base": all_gather_single,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_tensor": reduce_scatter_single,
    "reduce_scatter_single": reduce_scatter_single,
    "_reduce_scatter_base": reduce_scatter_single,
    "all_to_all_single": all_to_all_single,
    "all_to_all": all_to_all,
}
"""Functions of `torch.distributed`, as far as this version of torch has them."""

if dist.is_available():
    import torch.distributed.distributed_c10d as c10d

    NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    REDUCTIONS |= {getattr(dist.ReduceOp, name): name.lower() for name in NAMES}
    OPERATIONS = (type(dist.ReduceOp.SUM), dist.ReduceOp)
    for _name, _collective in COLLECTIVES.items():
        if hasattr(c10d, _name):
            rewrite(getattr(c10d, _name), _collective)
