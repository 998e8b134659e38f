"""The collectives of a graph: what ranks have to have in common, and what an error of one says.

What a collective raises when another rank is gone, late or at another place comes out of the transport, which
knows nothing of ranks. A graph that holds collectives adds a note to the error: which rank this is, which
collectives those are, and where in the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.fx

from framelift.dispatch.capture import Capture
from framelift.dispatch.extensions import GraphCompiler, RunningCompilation
from framelift.graph.origins import describe_nodes, innermost

COLLECTIVES_SHOWN = 8
"""How many collectives a note lists."""
WAITING = "wait_tensor"
SAME_SHAPES = frozenset({"all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast"})
"""Collectives to which all ranks give tensors of one shape."""


class CollectiveCall(NamedTuple):
    name: str
    group: str
    tensor: Any
    """What stands for the tensor that it is given; None if that is a list."""
    where: str

    def __str__(self) -> str:
        return f"{self.name} in group {self.group!r}{self.where and ', '}{self.where}"


def collectives(graph: torch.fx.GraphModule) -> Iterator[CollectiveCall]:
    """Those of a graph, in the order of the program."""
    is_described = False
    for node in graph.graph.nodes:
        target: Any = getattr(node.target, "overloadpacket", node.target)
        namespace, _, name = getattr(target, "_qualified_op_name", "").partition("::")
        if namespace == "_c10d_functional" and name != WAITING:
            if not is_described:
                describe_nodes(graph)
                is_described = True
            given, group = node.args[0], node.args[-1]
            tensor = given.meta.get("example_value") if isinstance(given, torch.fx.Node) else None
            yield CollectiveCall(name, str(group), tensor, innermost(node.stack_trace))


def describe_collectives(graph: torch.fx.GraphModule | None) -> list[list[Any]]:
    """What members of a group must have in common: [collective with type and shape, members], in order."""
    found = []
    for each in () if graph is None else collectives(graph):
        if each.name.removesuffix("_") in SAME_SHAPES and isinstance(each.tensor, torch.Tensor):
            sizes = ", ".join(str(hint(size)) for size in each.tensor.shape)
            group = dist.distributed_c10d._resolve_process_group(each.group)  # type: ignore[arg-type]
            what = f"{each.name} of {each.tensor.dtype} ({sizes}), {each.where}"
            found.append([what, dist.get_process_group_ranks(group)])
    return found


def hint(size: Any) -> Any:
    """What a size is in this call, if it may be another one in the next."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def name_collectives(
    compile: GraphCompiler, compilation: RunningCompilation, capture: Capture
) -> GraphCompiler:
    """Where a graph with collectives raises, the error says which these are."""
    assert capture.graph is not None
    held = [str(each) for each in collectives(capture.graph)]
    if not held:
        return compile
    held[COLLECTIVES_SHOWN:] = [f"and {rest} more"] if (rest := len(held) - COLLECTIVES_SHOWN) > 0 else []
    function = capture.fn_name

    return lambda graph, inputs, fakes: with_note(compile(graph, inputs, fakes), function, held)


def with_note(run: Callable[..., Any], function: str, held: list[str]) -> Callable[..., Any]:
    @functools.wraps(run)
    def noting(*args: Any) -> Any:
        try:
            return run(*args)
        except RuntimeError as error:
            rank = "this rank"
            if dist.is_initialized():
                rank = f"rank {dist.get_rank()} of {dist.get_world_size()}"
            lines = [f"{rank} was in the graph of {function}, with these collectives:", *held]
            error.add_note("\n  ".join(lines))
            raise

    return noting
