"""Results of subgraphs (`invoke_subgraph`) that share memory: whoever calls the subgraph makes the views, so
that Inductor knows which memory is still needed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import framelift
from framelift.dispatch.subgraph_results import separate_results

T = torch.Tensor


def around(body: Callable[..., Any], x: T, results: int) -> torch.fx.GraphModule:
    """A graph that calls a body on `x`, and then on its first result; it gives all results of both calls."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        inner = make_fx(body, tracing_mode="fake")(x)
        given = mode.from_tensor(x)
        values = tuple(torch.fx.Interpreter(inner).run(given))
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = given
    found = []
    for _ in range(2):
        call = graph.call_function(invoke_subgraph, (graph.get_attr("body"), "body", node))
        call.meta["val"] = values
        items = [graph.call_function(operator.getitem, (call, n)) for n in range(results)]
        for item, value in zip(items, values, strict=True):
            item.meta["val"] = value
        found += items
        node = items[0]
    graph.output(tuple(found))
    return torch.fx.GraphModule({"body": inner}, graph)


def given_by(body: torch.fx.GraphModule) -> int:
    return len(body.graph.output_node().args[0])


CASES: dict[str, tuple[Callable[[T], Any], int]] = {
    "tensors of their own": (lambda x: (x.sin(), x.cos()), 2),
    "an input": (lambda x: (x.sin(), x), 1),
    "a view of an input": (lambda x: (x.sin(), x.t().view(3, 1, 2)), 1),
    "a view of a result": (lambda x: ((y := x.sin()), y.t()), 1),
    "a result that is a view of another": (lambda x: ((y := x.sin()).view(2, 3), y[0]), 1),
    "two views of what is no result": (lambda x: ((y := x.sin()) + 1, y.t(), y[1]), 2),
    "one twice": (lambda x: ((y := x.sin()), y, y), 1),
    "parts": (lambda x: (x.sin(), *x.cos().split(1)), 2),
    "some of several": (lambda x: (x.sin(), *(m := x.max(0)), m[0].view(3, 1)), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_each_memory_is_given_once(case: str) -> None:
    body, remain = CASES[case]
    x = torch.randn(2, 3)
    expected = [*body(x)]
    expected += body(expected[0])
    module = around(body, x, len(expected) // 2)
    separate_results(module)
    module.graph.lint()
    found = module(x)
    assert given_by(module.body) == remain
    assert all(map(torch.equal, found, expected))
    assert [f.stride() for f in found] == [e.stride() for e in expected]


@torch.compiler.nested_compile_region
def region(x: T, w: T) -> T:
    return torch.tanh(x @ w) * x.sin()


def test_gradients_of_regions_with_inductor() -> None:
    """What a region keeps for its gradients is an input, whose memory was used for a later result."""

    def fn(x: T, w: T) -> T:
        y = x.exp()
        for _ in range(3):
            y = region(y, w)
        z = torch.nn.functional.layer_norm(y, (16,))
        return (z.relu() @ w).cos().sum()

    torch.manual_seed(0)
    x, w = torch.randn(16, 16, dtype=torch.float64), torch.randn(16, 16, dtype=torch.float64)
    results = []
    for run in (fn, framelift.compile(fn, backend="inductor", fullgraph=True)):
        given = [t.clone().requires_grad_() for t in (x, w)]
        run(*given).backward()
        results.append([t.grad for t in given])
    torch.testing.assert_close(*results)
