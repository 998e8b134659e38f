"""The Python code of captured graphs is made when somebody asks for it, and does what torch's does."""

from __future__ import annotations

import copy
import inspect
import pickle
import weakref
from typing import Any

import pytest
import torch
import torch.fx

import framelift
from framelift.graph.graph_code import CapturedGraph, function_of

X = torch.arange(8.0)


def captured(fn: Any, *args: Any) -> CapturedGraph:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(graph)
        return torch.fx.Interpreter(graph).run

    framelift.compile(fn, backend=backend, fullgraph=True)(*args)
    (graph,) = graphs
    assert isinstance(graph, CapturedGraph)
    return graph


def has_forward(graph: CapturedGraph) -> bool:
    return "forward" in vars(type(graph))


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.view(2, -1)[:, 1:3] * -2 + 1.5) ** -1.0


def test_nothing_is_made_for_who_asks_for_nothing() -> None:
    graph = captured(scaled, X)
    assert not has_forward(graph)
    assert "_code" not in vars(graph)


def test_forward_is_a_method_with_the_inputs_as_parameters() -> None:
    graph = captured(scaled, X)
    assert list(inspect.signature(graph.forward).parameters) == ["l_x_"]
    assert has_forward(graph)
    assert torch.equal(graph.forward(X)[0], scaled(X))
    assert torch.equal(graph(X)[0], scaled(X))


def test_a_function_that_dies_is_no_longer_found_in_its_class() -> None:
    """Its finaliser is Python code, during which other threads may call the graph."""
    graph = captured(scaled, X)
    forward = type(graph).forward
    place, found = id(forward), []
    weakref.finalize(forward.__code__, lambda: found.append(id(type(graph).forward)))
    del forward
    graph.recompile()
    assert len(found) == 1 and found != [place]
    assert torch.equal(graph(X)[0], scaled(X))


def test_the_text_is_torchs() -> None:
    graph = captured(scaled, X)
    expected = torch.fx.GraphModule(graph, graph.graph).code
    forward = type(graph).forward
    assert graph.code == expected
    assert type(graph).forward is forward
    assert "torch.relu" in str(graph)


def test_a_changed_graph_runs_as_changed_once_it_is_recompiled() -> None:
    graph = captured(lambda x: torch.relu(x), -X)
    assert torch.equal(graph(-X)[0], torch.zeros(8))
    (node,) = [node for node in graph.graph.nodes if node.op == "call_function"]
    node.target = torch.neg
    assert torch.equal(graph(-X)[0], torch.zeros(8))
    graph.recompile()
    assert torch.equal(graph(-X)[0], X)
    assert "torch.neg" in graph.code


@pytest.mark.parametrize("use", [copy.deepcopy, copy.copy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_copies_do_the_same(use: Any) -> None:
    made = use(captured(scaled, X))
    assert torch.equal(made(X)[0], scaled(X))
    assert "relu" in made.code


def test_it_can_be_scripted_and_traced_again() -> None:
    assert torch.equal(torch.jit.script(captured(scaled, X))(X)[0], scaled(X))
    assert torch.equal(torch.fx.symbolic_trace(captured(scaled, X))(X)[0], scaled(X))


def test_bodies_are_reached() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    graph = captured(fn, X)
    assert torch.equal(graph(X)[0], X + 1)
    assert torch.equal(graph(-X)[0], -X - 1)


def values_of_arguments(x: torch.Tensor) -> tuple[Any, ...]:
    return (
        x.view((2, -1)),
        torch.full((2,), float("-inf"), dtype=torch.float64),
        x[..., None, ::2],
        torch.add(x, x, alpha=-2),
        x.to(torch.float16, memory_format=torch.contiguous_format),
        torch.cat([x, x, x]),
        x**-2,
        (-2) ** x,
        torch.zeros(torch.Size([2, 3])),
        torch.full((1,), -0.0).atan2(torch.tensor(-1.0)),
        torch.stack(torch.meshgrid(x, x, indexing="ij")),
    )


def test_arguments_of_every_kind() -> None:
    graph = captured(values_of_arguments, X)
    expected = torch.fx.Interpreter(graph).run(X)
    assert function_of(graph.graph) is not None
    for made, wanted in zip(graph(X), expected, strict=True):
        assert torch.equal(made, wanted)
    for made, wanted in zip(graph(X), values_of_arguments(X), strict=True):
        assert torch.equal(made, wanted)


def test_what_nobody_uses_any_more_is_let_go_of() -> None:
    alive: list[Any] = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        import weakref

        for known in list(alive):
            if known() is None:
                alive.remove(known)
        made = x + 1
        alive.append(weakref.ref(made))
        most.append(len(alive))
        return made

    most: list[int] = []
    graph = captured(lambda x: torch.neg(torch.neg(torch.neg(torch.neg(x)))), X)
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.target = counting
    made: Any = function_of(graph.graph)
    made(graph, X)
    assert max(most) == 2


def test_a_graph_that_others_have_changed_is_left_to_torch() -> None:
    graph = captured(scaled, X)
    graph.graph.on_generate_code(lambda current: lambda body: body)
    assert function_of(graph.graph) is None
    assert torch.equal(graph(X)[0], scaled(X))
