"""Backends for tests: they count what they are given, and keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framelift.dispatch.backend_names import lookup_backend
from framelift.dispatch.backends import on_fakes
from framelift.dispatch.compile_contexts import Backend, Graph


class CompileCounter:
    """Counts graphs (`frame_count`) and the calls in them (`op_count`), and runs them as they are."""

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, graph: Graph, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in graph.graph.nodes)
        return graph.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same in front of another backend; keeps the graphs."""

    def __init__(self, backend: str | Backend) -> None:
        super().__init__()
        self.backend = lookup_backend(backend)
        self.graphs: list[Graph] = []

    def __call__(self, graph: Graph, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
        super().__call__(graph, example_inputs)
        self.graphs.append(graph)
        return self.backend(graph, example_inputs, **options)

    def clear(self) -> None:
        super().clear()
        self.graphs.clear()


class EagerAndRecordGraphs:
    """Keeps the graphs, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []

    def __call__(self, graph: Graph, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph)
        return graph.forward


class AotEagerAndRecordGraphs:
    """Keeps the graphs, and the forward and backward graphs that AOTAutograd makes of them."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.fw_graphs: list[Graph] = []
        self.bw_graphs: list[Graph] = []

    def __call__(self, graph: Graph, example_inputs: list[Any]) -> Callable[..., Any]:
        from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

        def keeping(into: list[Graph]) -> Callable[..., Any]:
            def keep(made: Graph, inputs: list[Any]) -> Callable[..., Any]:
                into.append(made)
                return make_boxed_func(made.forward)

            return keep

        def compile(given: Graph, inputs: list[Any]) -> Any:
            forward, backward = keeping(self.fw_graphs), keeping(self.bw_graphs)
            return aot_module_simplified(
                given, inputs, fw_compiler=forward, bw_compiler=backward, keep_inference_input_mutations=True
            )

        self.graphs.append(graph)
        return on_fakes(compile)(graph, example_inputs)
