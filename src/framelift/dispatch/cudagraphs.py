"""The backend `cudagraphs`: graphs that AOTAutograd makes, recorded once on the device and replayed.

torch's trees of CUDA graphs do the recording, and know which memory is in use: what one call gives is
overwritten by the next one, unless the program marks its steps itself
(`torch.compiler.cudagraph_mark_step_begin`). A graph that is not all on one device is run as it is.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

import torch

from framelift.dispatch import backends
from framelift.dispatch.backend_names import register_backend
from framelift.dispatch.compile_contexts import Graph
from framelift.graph.deferred import symbolic_shapes

logger = logging.getLogger("framelift.cudagraphs")
Run = Callable[[list[Any]], Any]
"""Runs a graph on a list of inputs, which it empties."""
_told: set[str] = set()


def begin_step() -> None:
    """A call from outside begins: what earlier ones gave may be overwritten. Trees are only looked at where
    something has been recorded."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        trees.GenerationTracker.generation += 1


@register_backend(name="cudagraphs")
@backends.on_fakes
def cudagraphs(graph: Graph, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Replays the forward and backward graphs that AOTAutograd makes as CUDA graphs."""
    forward, backward = replaying(inputs), replaying([], is_backward=True)
    inference = replaying(inputs, is_inference=True)
    compilers = {"fw_compiler": forward, "bw_compiler": backward, "inference_compiler": inference}
    return backends.with_aot_autograd(graph, inputs, **compilers)


def replaying(given: list[Any], is_backward: bool = False, is_inference: bool = False) -> Callable[..., Any]:
    """A compiler of a graph that AOTAutograd makes, which is given the same, and perhaps more."""

    def compile_graph(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
        run = emptying(graph.forward)
        reason = why_not(graph)
        if reason is not None:
            tell_once(reason)
            return run
        static = backends.parameters_of(given) if len(inputs) == len(given) else []
        replayed: Any = record(graph, run, inputs, static, is_backward, is_inference)
        replayed._boxed_call = True
        return replayed

    return compile_graph


def emptying(forward: Callable[..., Any]) -> Any:
    """So that trees of CUDA graphs hold alone what was in the list."""

    def run(given: list[Any]) -> Any:
        values = list(given)
        given.clear()
        return forward(*values)

    vars(run)["_boxed_call"] = True
    return run


def record(
    graph: Graph, run: Run, inputs: list[Any], static: list[int], is_backward: bool, is_inference: bool
) -> Run:
    from torch._inductor.cudagraph_trees import cudagraphify_impl, get_manager
    from torch._inductor.cudagraph_utils import get_placeholder_info

    (device,) = devices_of(graph)
    outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]

    recorded: Callable[[], Run] = functools.partial(
        cudagraphify_impl,
        *(run, inputs, static),
        device_index=device.index or 0,
        is_backward=is_backward,
        is_inference=is_inference,
        stack_traces=[None] * len(outputs),
        placeholders=tuple(get_placeholder_info(graph.graph)),
        mutated_input_idxs=tuple(changed_inputs(graph)),
    )
    replayed = for_each_size(recorded) if has_symbols(graph) else recorded()
    if not is_backward:
        return replayed

    def replayed_backward(given: list[Any]) -> Any:
        manager = get_manager(device.index or 0, create_if_none_exists=False)
        if manager is not None:
            manager.set_to_running_backward()
        return replayed(given)

    return replayed_backward


def has_symbols(graph: Graph) -> bool:
    found = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
    return any(value is not None and symbolic_shapes.has_free_symbols(value) for value in found)


def for_each_size(recorded: Callable[[], Run]) -> Run:
    """What is recorded has the sizes that it was recorded with: each has a recording of its own."""
    made: dict[Any, Run] = {}

    def replayed(given: list[Any]) -> Any:
        sizes = tuple([tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in given])
        if sizes not in made:
            made[sizes] = recorded()
        return made[sizes](given)

    return replayed


def devices_of(graph: Graph) -> set[torch.device]:
    found = [node.meta.get("val") for node in graph.graph.nodes]
    return {value.device for value in found if isinstance(value, torch.Tensor)} - {torch.device("meta")}


def changed_inputs(graph: Graph) -> list[int]:
    """Inputs that the graph writes to: AOTAutograd leaves nothing but copies into them."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    written = {
        node.args[0]
        for node in graph.graph.nodes
        if node.op == "call_function" and getattr(node.target, "_schema", None) is not None
        if node.target._schema.is_mutable and node.args
    }
    return [n for n, node in enumerate(placeholders) if node in written]


def why_not(graph: Graph) -> str | None:
    devices = devices_of(graph)
    if len(devices) == 1 and next(iter(devices)).type == "cuda":
        return None
    return f"tensors on {', '.join(sorted(map(str, devices))) or 'no device'}"


def tell_once(reason: str) -> None:
    if reason not in _told:
        _told.add(reason)
        logger.warning("cudagraphs: a graph is run as it is, and not replayed: %s", reason)
