"""Backends that find out what is wrong: each does one more of the things that a compiler does, or does one of
them wrongly on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from framelift.core.errors import FrameliftError
from framelift.dispatch.backend_names import register_backend
from framelift.dispatch.backends import on_fakes, with_aot_autograd
from framelift.dispatch.compile_contexts import Graph


def for_debugging(backend: Any) -> Any:
    return register_backend(backend, tags=("debug",))


@for_debugging
def eager_noexcept(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the graph as captured; what that raises is an error of its own: for programs without errors."""

    def run(*args: Any) -> Any:
        try:
            return graph.forward(*args)
        except Exception as error:
            text = "Unexpected exception when running generated GraphModule"
            raise FrameliftError(f"{text}: {type(error).__name__}: {error}") from error

    return run


@for_debugging
def eager_debug(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the graph node by node, and checks of each that it does not write to what its schema says that it
    only reads."""
    from torch._subclasses.schema_check_mode import SchemaCheckMode

    def run(*args: Any) -> Any:
        with SchemaCheckMode():
            return torch.fx.Interpreter(graph).run(*args)

    return run


@for_debugging
def pre_dispatch_eager(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the operators that the graph calls, as they are before autograd and autocast have seen them."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def run_graph(*args: Any) -> Any:
        return torch.fx.Interpreter(graph).run(*args)

    made = make_fx(run_graph, tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)(*inputs)
    return made.forward


@for_debugging
def ts(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """TorchScript."""
    return torch.jit.script(graph)


@for_debugging
@on_fakes
def aot_ts(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """TorchScript, of the graphs that AOTAutograd makes."""
    from torch._functorch.compilers import ts_compile

    return with_aot_autograd(graph, inputs, fw_compiler=ts_compile, bw_compiler=ts_compile)


@for_debugging
@on_fakes
def aot_eager_default_partitioner(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """`aot_eager`, where the backward graph recomputes nothing."""
    from torch._functorch.partitioners import default_partition

    return with_aot_autograd(graph, inputs, partition_fn=default_partition)


# ---- for tests of what finds a wrong backend: these can't do `relu`


def is_relu(node: torch.fx.Node) -> bool:
    return node.target in (torch.relu, torch.nn.functional.relu, "relu", torch.ops.aten.relu.default)


class ReluCompileError(Exception):
    """What `relu_compile_error_TESTING_ONLY` raises."""


@for_debugging
def relu_compile_error_TESTING_ONLY(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Refuses graphs that call `relu`."""
    if any(map(is_relu, graph.graph.nodes)):
        raise ReluCompileError
    return graph.forward


@for_debugging
def relu_runtime_error_TESTING_ONLY(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """What it makes of a graph with `relu` fails when it runs."""
    return with_relu_replaced(graph, fail_for_relu)


@for_debugging
def relu_accuracy_error_TESTING_ONLY(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """Adds one in the place of `relu`."""
    return with_relu_replaced(graph, add_one)


def fail_for_relu(x: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
    raise RuntimeError("ReluRuntimeError")


def add_one(x: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
    return x + 1


def with_relu_replaced(graph: Graph, instead: Callable[..., Any]) -> Callable[..., Any]:
    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in filter(is_relu, made.graph.nodes):
        node.op, node.target = "call_function", instead
    made.recompile()
    return made.forward
