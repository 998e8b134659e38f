"""Blocks that a graph repeats are compiled once.

Each becomes a graph of its own, which the graph calls in its copies' places by torch's operator for that,
`invoke_subgraph`: AOTAutograd traces, differentiates and partitions it once, Inductor makes one function of
it, and the code that it generates for the whole calls that function for each copy. No Python of Framelift's
lies in between. What the operator can't have, such as writes to what a block is given, or a result that
shares its memory, stays as it is.
"""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.flop_counter import FlopCounterMode

from framelift.core.records import counters
from framelift.dispatch.compile_contexts import Graph
from framelift.dispatch.data_checks import checks_of
from framelift.dispatch.examples import has_symbols
from framelift.graph.body import graph_module
from framelift.graph.fakes import Fakes, is_ordinary
from framelift.graph.functions import CONTEXTS, GRAD_SETTERS, SWITCHES, has_effects, is_collective
from framelift.graph.repeated_blocks import Block, BlockCalls, Node, value_of
from framelift.graph.terms import DATA_DEPENDENT

log = logging.getLogger("framelift")

NAME = "repeated_block"


LEAST_WORK = 1 << 27
"""Multiplications, per thread, of a block that is called without a loss: a call takes some microseconds, and
this many take a thousand times as long."""
LEAST_WORK_AT_BORDER = 1 << 11
"""The same for each number that goes in or out, beside parameters: what would be fused with the neighbours
reads and writes such once more."""


def with_shared_blocks(module: Graph, written: Collection[int] = (), only_large: bool = False) -> Graph:
    """The graph, or one that calls its blocks. `written`: which inputs it writes to."""
    barred = behind_switches(module.graph) | made_of_inputs(module.graph, written)
    blocks = BlockCalls(module.graph, lambda node: node not in barred and may_repeat(node))
    bodies: dict[int, Graph] = {}

    def is_block(block: Block) -> bool:
        body = body_of(block)
        counter = FlopCounterMode(display=False) if only_large else contextlib.nullcontext()
        if not stands_alone(body, [value_of(node) for node in block.inputs], counter):
            return False
        if isinstance(counter, FlopCounterMode) and not is_large(block, counter.get_total_flops() // 2):
            return False
        bodies[id(block)] = body
        return True

    found = blocks.repeated(is_block)
    if not found:
        return module
    for copies in found:
        log.info("a block of %d operators is compiled once for %d", len(copies[0].nodes), len(copies))
        counters["repeated_blocks"]["compiled"] += 1
        counters["repeated_blocks"]["called"] += len(copies)
    return calling(module, [(bodies[id(copies[0])], copies) for copies in found], blocks.numbers)


def behind_switches(graph: torch.fx.Graph) -> set[Node]:
    """The nodes where something has been switched that what they do may depend on: gradients, a context that
    is open. Each block is traced for itself, with everything as it is around the graph."""
    found: set[Node] = set()
    grad = around = torch.is_grad_enabled()
    depth = 0
    for node in graph.nodes:
        target: Any = node.target
        if node.op != "call_function":
            pass
        elif target in GRAD_SETTERS:
            grad = node.args[0]
        elif target in CONTEXTS:
            depth += 1
        elif target in CONTEXTS.values():
            depth -= 1
        elif getattr(target, "__module__", None) == "torch._C._functorch":
            return set(graph.nodes)
        if depth or grad is not around:
            found.add(node)
    return found


def made_of_inputs(graph: torch.fx.Graph, written: Collection[int]) -> set[Node]:
    """What is computed of these inputs. It may be views of them, which a block would keep for gradients."""
    inputs = graph.find_nodes(op="placeholder")
    found = {inputs[n] for n in written}
    for node in graph.nodes if found else ():
        if not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


# ---- what can stand in a block


def may_repeat(node: Node) -> bool:
    target = node.target
    if (
        isinstance(target, HigherOrderOperator)
        or target in SWITCHES
        or has_effects(target)
        or is_collective(target)
    ):
        return False
    if target is torch.lstm or DATA_DEPENDENT in node.meta or checks_of(node):
        return False
    if any(given.op == "get_attr" for given in node.all_input_nodes):
        return False
    value = value_of(node)
    values = value if isinstance(value, tuple | list) else (value,)
    return bool(values) and all(is_simple(each) for each in values)


def is_simple(value: Any) -> bool:
    return type(value) is FakeTensor and is_ordinary(value)


def is_large(block: Block, multiplications: int) -> bool:
    """Whether calls, and what isn't fused across the border, are a small part of what a block does."""
    at_border = [value_of(node) for node in (*block.inputs, *block.outputs) if node.op != "placeholder"]
    numbers = sum(value.numel() for value in at_border if isinstance(value, torch.Tensor))
    least = max(LEAST_WORK * torch.get_num_threads(), LEAST_WORK_AT_BORDER * numbers)
    return multiplications >= least


def stands_alone(body: Graph, examples: list[Any], counter: AbstractContextManager[Any]) -> bool:
    """Whether a block gives new tensors, and leaves alone what it is given. It is run once, on fakes that
    share nothing."""
    if not all(map(is_operand, examples)):
        return False
    mode = Fakes()
    env = next((env for value in examples if (env := environment_of(value)) is not None), None)
    if env is not None:
        mode.use_symbols(env)
    try:
        with torch.no_grad(), mode, counter:
            given = [fresh(value) if isinstance(value, torch.Tensor) else value for value in examples]
            mode.watch()
            results = body(*given)
    except Exception as error:
        log.debug("a block is no graph of its own: %s", error)
        return False
    memory = {memory_of(value) for value in given if isinstance(value, torch.Tensor)}
    places = {memory_of(result) for result in results}
    is_new = len(places) == len(results) and places.isdisjoint(memory)
    return is_new and memory.isdisjoint(map(memory_of, mode.written))


def environment_of(value: Any) -> Any:
    """Whose symbols a value has."""
    return value.fake_mode.shape_env if isinstance(value, FakeTensor) and has_symbols(value) else None


def memory_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def is_operand(value: Any) -> bool:
    """What `invoke_subgraph` takes."""
    return is_simple(value) or type(value) in (int, torch.SymInt)


def fresh(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


# ---- the graph that calls them


def body_of(block: Block) -> Graph:
    graph, copies = torch.fx.Graph(), dict[Node, Node]()
    for node in block.inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = described(node)
    for node in block.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].meta = described(node)
    graph.output(tuple(copies[node] for node in block.outputs))
    return graph_module(graph, {})


def described(node: Node) -> dict[str, Any]:
    """AOTAutograd looks at `val` where the operator is differentiated."""
    meta = dict(node.meta)
    if "example_value" in meta:
        meta["val"] = meta["example_value"]
    return meta


def calling(module: Graph, found: list[tuple[Graph, list[Block]]], numbers: set[Node]) -> Graph:
    """The graph with calls in the place of blocks."""
    graph, made = torch.fx.Graph(), dict[Node, Node]()
    modules = {name: getattr(module, name) for name in dict.fromkeys(names_held(module))}
    starts: dict[Node, tuple[str, Block]] = {}
    within: set[Node] = set()
    for n, (body, copies) in enumerate(found):
        modules[f"{NAME}_{n}"] = body
        for block in copies:
            starts[block.nodes[0]] = f"{NAME}_{n}", block
            within.update(block.nodes)
    first = [node for node in module.graph.nodes if node.op == "placeholder" or node in numbers]
    for node in first:
        made[node] = graph.node_copy(node, made.__getitem__)
    for node in module.graph.nodes:
        if node in starts:
            name, block = starts[node]
            call(graph, name, block, made)
        elif node not in within and node not in made:
            made[node] = graph.node_copy(node, made.__getitem__)
    result = graph_module(graph, modules)
    result.meta.update(module.meta)
    return result


def names_held(module: Graph) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "get_attr"]


def call(graph: torch.fx.Graph, name: str, block: Block, made: dict[Node, Node]) -> None:
    results = tuple(value_of(node) for node in block.outputs)
    body = graph.get_attr(name)
    given: tuple[Any, ...] = (body, name, *[made[node] for node in block.inputs])
    called = graph.call_function(invoke_subgraph, given)
    origin = {key: value for key, value in block.nodes[0].meta.items() if key not in ("example_value", "val")}
    called.meta = origin | {"example_value": results, "val": results}
    for n, node in enumerate(block.outputs):
        item = made[node] = graph.call_function(operator.getitem, (called, n))
        item.meta = described(node)
