"""Graphs for backends call what torch knows: no function of Framelift's own is in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
from torch._functorch import predispatch
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils.checkpoint import checkpoint

import framelift

WEIGHT = torch.linspace(-1, 1, 3)


def energy(x: Any) -> Any:
    return (x.sin() * WEIGHT).pow(2).sum()


@torch.compiler.nested_compile_region
def region(x: Any) -> Any:
    return x.sin() * WEIGHT


def hooked(x: Any) -> Any:
    y, scale = x * 2, x.detach().abs() + 1
    y.register_hook(lambda grad: grad * scale)
    return y.sin()


def without_gradients(x: Any) -> Any:
    with torch.no_grad():
        return grad(energy)(x) + vjp(torch.sin, x)[1](x)[0]


def with_hooks_disabled(x: Any) -> Any:
    with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
        return grad(energy)(x) * 2


def deterministic(x: Any) -> Any:
    torch.use_deterministic_algorithms(True)
    y = x.cumsum(0)
    torch.use_deterministic_algorithms(False)
    return y


def with_auxiliary(x: Any) -> Any:
    grads, (value, aux) = grad_and_value(lambda y: (energy(y), y.cos()), has_aux=True)(x)
    return grads * value + aux


PROGRAMS: dict[str, Callable[..., Any]] = {
    "vmap": lambda x: vmap(lambda row: (row * WEIGHT).sum())(x),
    "vmap over columns": lambda x: vmap(lambda column: column.cos(), in_dims=1, out_dims=-1)(x),
    "vmap in vmap": lambda x: vmap(vmap(lambda one: one * 2), in_dims=1, out_dims=1)(x),
    "vmap in chunks": lambda x: vmap(lambda row: row * WEIGHT, chunk_size=3)(x),
    "vmap of what is the same for all": lambda x: vmap(lambda row: (row, WEIGHT * 2))(x)[1] + x,
    "vmap of cond": lambda x: vmap(
        lambda row: torch.cond(row.sum() > 0, lambda r: r.sin(), lambda r: r.cos(), (row,))
    )(x),
    "grad": lambda x: grad(energy)(x),
    "grad with auxiliary results": with_auxiliary,
    "grad in grad": lambda x: grad(lambda y: grad(energy)(y).sum())(x),
    "grad of each": lambda x: vmap(grad(energy))(x),
    "grad of a batch": lambda x: grad(lambda y: vmap(energy)(y).sum())(x),
    "grad in no_grad": without_gradients,
    "grad without saved hooks": with_hooks_disabled,
    "vjp": lambda x: vjp(lambda y: (y.sin(), y.exp()), x)[1]((x, x * 2))[0],
    "jvp": lambda x: sum(jvp(lambda y: y.sin() * WEIGHT, (x,), (x.cos(),))),
    "jvp of what does not depend": lambda x: jvp(lambda y: WEIGHT * 2, (x,), (x,))[1] + x,
    "jvp in jvp": lambda x: jvp(lambda y: jvp(torch.sin, (y,), (y,))[1], (x,), (x,))[1],
    "linearize": lambda x: linearize(torch.sin, x)[1](x * 2),
    "jacobians": lambda x: jacrev(torch.sin)(x[0]) + jacfwd(torch.cos)(x[0]),
    "hessian": lambda x: hessian(energy)(x[0]),
    "checkpoint": lambda x: checkpoint(energy, x, use_reentrant=False),
    "checkpoint of vmap": lambda x: checkpoint(vmap(energy), x, use_reentrant=False),
    "nested region": lambda x: region(region(x)),
    "transform in a branch": lambda x: torch.cond(
        x.sum() > 0, lambda y: vmap(torch.sin)(y) * 2, lambda y: grad(energy)(y), (x,)
    ),
    "hook": hooked,
    "a switch": deterministic,
}


def captured(fn: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, torch.fx.GraphModule]:
    """What a compiled function gives, and the graph that a backend got."""
    found: list[torch.fx.GraphModule] = []

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    result = framelift.compile(fn, backend=backend, fullgraph=True, **options)(*args)
    (graph,) = found
    return result, graph


def all_nodes(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    graphs = [each.graph for each in graph.modules() if isinstance(each, torch.fx.GraphModule)]
    return [node for each in graphs for node in each.nodes]


def given(requires_grad: bool) -> torch.Tensor:
    return torch.linspace(-2, 3, 12).reshape(4, 3).requires_grad_(requires_grad)


def gradient(result: Any, x: torch.Tensor) -> Any:
    return torch.autograd.grad(result.sum(), x)[0] if result.requires_grad else None


NOT_DIFFERENTIATED = {"linearize"}
"""What is captured only where autograd does not differentiate it too."""


WITHIN_OPERATORS = {"checkpoint of vmap", "transform in a branch"}
"""Transforms in bodies of operators are left as they were recorded."""


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_calls_only_what_torch_knows(name, requires_grad):
    if requires_grad and name in WITHIN_OPERATORS:
        pytest.skip("torch differentiates the operator itself, and its own form would give other gradients")
    fn = PROGRAMS[name]
    requires_grad = (requires_grad or name in ("hook", "checkpoint")) and name not in NOT_DIFFERENTIATED
    x, y = given(requires_grad), given(requires_grad)
    result, graph = captured(fn, x)
    for node in all_nodes(graph):
        module = getattr(node.target, "__module__", None) or ""
        assert not module.startswith("framelift"), node.format_node()
        if node.op.startswith("call"):
            assert __file__ in node.meta["stack_trace"], node
        for called, function in node.meta.get("source_fn_stack", ()):
            module = getattr(function, "__module__", None) or ""
            assert not module.startswith("framelift"), (node, called, function)
    graph.graph.lint()
    text = graph.print_readable(print_output=False)
    assert "framelift" not in text.replace(__file__, "")  # the checkout may be called that
    expected = fn(y)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(gradient(result, x), gradient(expected, y))
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compilers_give_what_eager_gives(name, backend):
    fn = PROGRAMS[name]
    requires_grad = name not in NOT_DIFFERENTIATED
    x, y = given(requires_grad), given(requires_grad)
    result, expected = framelift.compile(fn, backend=backend)(x), fn(y)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(gradient(result, x), gradient(expected, y))


@pytest.mark.parametrize("name", ["vmap", "vmap in chunks", "grad of each", "jvp", "checkpoint of vmap"])
def test_sizes_may_vary(name):
    fn, sizes = PROGRAMS[name], (4, 5, 7)
    compiled = framelift.compile(fn, backend=lambda graph, inputs: graph.forward, dynamic=True)
    for n in sizes:
        x = torch.linspace(-1, 2, 3 * n).reshape(n, 3)
        torch.testing.assert_close(compiled(x), fn(x))


def test_a_batch_is_begun_and_ended_by_torchs_functions():
    _, graph = captured(PROGRAMS["vmap"], given(False))
    names = ["lazy_load_decompositions", "_vmap_increment_nesting", "_add_batch_dim", "mul", "sum"]
    names += ["_remove_batch_dim", "_vmap_decrement_nesting"]
    calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
    assert [getattr(node.target, "__name__", node.target) for node in calls] == names
    assert calls[2].target is predispatch._add_batch_dim
    assert calls[2].meta["example_value"].shape == (3,)


@pytest.mark.parametrize("name", ["grad", "vjp", "jvp", "grad of each"])
def test_what_a_form_computes_says_what_it_is(name):
    """Passes over graphs ask each tensor for its shape and dtype."""
    switches = re.compile("nesting|hooks|allowed|enabled|dual_level|decompositions|__enter__|__exit__")
    for node in all_nodes(captured(PROGRAMS[name], given(False))[1]):
        if node.op.startswith("call") and not switches.search(str(node.target)):
            assert node.meta["example_value"] is not None, node.format_node()
            assert node.meta["source_fn_stack"][-1][0] == node.name


def test_operators_of_torchs_have_their_bodies():
    _, graph = captured(PROGRAMS["checkpoint"], given(True))
    (call,) = graph.graph.find_nodes(op="call_function", target=tag_activation_checkpoint)
    assert call.meta["source_fn_stack"] == [(call.name, tag_activation_checkpoint)]
    in_body = [node.meta["source_fn_stack"] for node in all_nodes(graph) if node.target == "sin"]
    assert in_body == [[(call.name, tag_activation_checkpoint), ("sin", "sin")]]
    assert call.args[0].target == "wrap_body_0" and call.kwargs == {"use_reentrant": False}
    _, graph = captured(PROGRAMS["nested region"], given(False))
    calls = graph.graph.find_nodes(op="call_function", target=invoke_subgraph)
    assert [call.args[1] for call in calls] == ["subgraph_0", "subgraph_0"]
    assert [name for name, _ in graph.named_children()] == ["subgraph_0"]


def test_results_are_named_after_variables():
    def fn(x):
        doubled = vmap(lambda row: row * 2)(x)
        chosen = torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (doubled,))
        return chosen + 1

    _, graph = captured(fn, given(False))
    assert {"doubled", "chosen"} <= {node.name for node in graph.graph.nodes}


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "vmap": vmap,
    "grad": lambda fn: grad(lambda x: fn(x).sum()),
    "jvp": lambda fn: lambda x: jvp(fn, (x,), (x,)),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_what_raises_in_a_transform_leaves_no_level_open(transform):
    def look_up(x):
        return torch.ones(3).index_select(0, (x * 10).long().flatten())

    def fn(x):
        return transform(look_up)(x)

    compiled = framelift.compile(fn, backend=lambda graph, inputs: graph.forward)
    fine, wrong = torch.zeros(4, 3), torch.full((4, 3), 7.0)
    torch.testing.assert_close(compiled(fine), fn(fine))
    with pytest.raises((IndexError, RuntimeError)):
        compiled(wrong)
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None
    torch.testing.assert_close(compiled(fine), fn(fine))


def test_what_was_captured_stays_as_it_was():
    found = framelift.explain(PROGRAMS["vmap"])(given(False))
    assert [name for name, _ in found.graphs[0].named_children()] == ["mapped_0"]


VMAP_IN_BODIES: dict[str, Callable[..., Any]] = {
    "cond": lambda x: torch.cond(
        x.sum() > 9, lambda y: vmap(torch.sin)(y), lambda y: vmap(torch.cos)(y), (x,)
    ),
    "checkpoint": lambda x: checkpoint(lambda y: vmap(torch.sin)(y) * 2, x, use_reentrant=False),
    "vmap in vmap": lambda x: checkpoint(lambda y: vmap(vmap(torch.sin))(y), x, use_reentrant=False),
    "cond in vmap": lambda x: vmap(
        lambda row: torch.cond(
            row.sum() > 0, lambda y: vmap(torch.sin)(y), lambda y: vmap(torch.cos)(y), (row,)
        )
    )(x),
    "nested region": lambda x: doubled_sines(x) + doubled_sines(x),
}


@torch.compiler.nested_compile_region
def doubled_sines(x):
    return vmap(torch.sin)(x) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", VMAP_IN_BODIES.values(), ids=VMAP_IN_BODIES)
def test_vmap_in_bodies_of_operators(fn, backend):
    """Bodies are in torch's words too, and give what the program gives, gradients as well."""
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    x = torch.linspace(-2, 2, 12).reshape(4, 3)
    one, other, third = (x.clone().requires_grad_() for _ in range(3))
    expected = fn(one)
    expected.sum().backward()
    for given, backend in ((other, backend), (third, keep)):
        found = framelift.compile(fn, backend=backend, fullgraph=True)(given)
        found.sum().backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(given.grad, one.grad)
    targets = [
        node.target
        for module in graphs[0].modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    ]
    assert not [each for each in targets if getattr(each, "__module__", "").startswith("framelift")]
