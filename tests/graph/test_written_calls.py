"""Calls of torch's functions are in a graph as the program has written them, as in torch.compile's graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

import framelift

x, image = torch.linspace(-1, 1, 8).reshape(2, 4), torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8)
PROGRAMS: dict[str, Callable[[], Any]] = {
    "by position": lambda: F.softmax(x, -1),
    "by name": lambda: F.softmax(x, dim=-1),
    "defaults left out": lambda: F.cross_entropy(x, x.softmax(-1)),
    "some by name": lambda: F.interpolate(image, scale_factor=2, mode="bilinear"),
    "all by name": lambda: F.layer_norm(input=x, normalized_shape=(4,)),
    "one of two functions": lambda: F.max_pool2d(image, 2, return_indices=True),
    "the other": lambda: F.max_pool2d(image, 2),
    "in place": lambda: F.relu(x + 1, True),
    "torch's own module": functools.partial(nn.GroupNorm(2, 4).eval(), x),
    "operator in Python": lambda: torch.norm(x, dim=1),
    "method in Python": lambda: x.norm(dim=1),
    "called twice": lambda: F.normalize(F.normalize(x, dim=0), 1.0),
    "draws": lambda: F.dropout(x, 0.5),
}


def captured(fn: Callable[..., Any], *args: Any) -> list[torch.fx.GraphModule]:
    """The graphs, as a backend of one's own is given them; results are eager's."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    torch.manual_seed(0)
    found = framelift.compile(fn, backend=backend)(*args)
    torch.manual_seed(0)
    torch.testing.assert_close(found, fn(*args))
    return graphs


def forms(graph: torch.fx.GraphModule) -> list[tuple[str, int, tuple[str, ...]]]:
    """Of each call: what is called, how many arguments are given by position, and which by name."""
    nodes = [node for node in graph.graph.nodes if node.op.startswith("call")]
    return [(getattr(n.target, "__name__", n.target), len(n.args), tuple(n.kwargs)) for n in nodes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_form_is_that_of_torchs_graphs(name: str) -> None:
    (graph,) = captured(PROGRAMS[name])
    torchs: list[torch.fx.GraphModule] = []
    torch.compile(PROGRAMS[name], backend=lambda graph, inputs: torchs.append(graph) or graph.forward)()
    torch.compiler.reset()
    assert forms(graph) == forms(torchs[0])


def test_a_mode_is_told_as_torch_tells_and_what_it_calls_is_recorded() -> None:
    told = []

    class Halving(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is F.dropout:
                told.append(kwargs)
                return F.dropout(args[0], kwargs["p"] / 2, training=False)
            return func(*args, **(kwargs or {}))

    def fn(x: torch.Tensor) -> torch.Tensor:
        with Halving():
            return F.dropout(x, 0.5) * 2

    captured(fn, x)
    assert told[0] == told[1] == {"p": 0.5, "training": True, "inplace": False}


def test_a_subclass_is_told_as_torch_tells() -> None:
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is F.leaky_relu:
                return super().__torch_function__(func, types, args, {"negative_slope": len(kwargs) / 10})
            return super().__torch_function__(func, types, args, kwargs)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(x.as_subclass(Named), 0.3).as_subclass(torch.Tensor)

    captured(fn, x)


def test_an_error_on_the_way_does_not_reach_the_next_call() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            F.softmax(x, 7)
        except IndexError:
            x = x + 1
        return F.softmax(x, 0)

    captured(fn, x)


def test_inputs_have_torchs_parameters_and_types() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
            return self.lin(x) + X

    net, graphs = Net(), []
    framelift.compile(net, backend=lambda graph, inputs: graphs.append(graph) or graph.forward)(x, x + 1)
    inputs = {node.name: (node.target, node.type) for node in graphs[0].graph.find_nodes(op="placeholder")}
    assert inputs["l_x_"] == ("L_x_", torch.Tensor) and inputs["l_x__1"] == ("L_X_", torch.Tensor)
    weight = "self_modules_lin_parameters_weight_"
    assert inputs[f"l_{weight}"] == (f"L_{weight}", nn.Parameter)
    assert "L_x_ : torch.Tensor" in graphs[0].code and "l_x_ = L_x_" in graphs[0].code
    torch.testing.assert_close(graphs[0](*net.parameters(), x, x + 1), (net(x, x + 1),))
