"""What tools know of torch's graphs beside their nodes: the order of inputs, the names of symbols, the
numbers of bodies, and what a graph and its placeholders say of themselves."""

from __future__ import annotations

import gc
import re
import weakref

import pytest
import torch
import torch.fx
from torch._higher_order_ops.map import map as map_operator
from torch.func import grad, grad_and_value, jacrev, jvp, vjp, vmap

import framelift

OUTSIDE = torch.full((3,), 2.0)


def graph_of(fn, *args, **options):
    """The graph, of which the results are those of an eager call."""
    found = []
    compiled = framelift.compile(
        fn, backend=lambda graph, inputs: found.append(graph) or graph.forward, **options
    )
    torch.testing.assert_close(compiled(*args), fn(*args))
    (graph,) = found
    return graph


def placeholders(graph):
    return graph.graph.find_nodes(op="placeholder")


class Holder(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.other = torch.nn.Parameter(torch.full((3,), 3.0))
        self.register_buffer("buffer", torch.ones(3))
        self.plain = torch.ones(3)
        self.lists = torch.nn.ParameterList([torch.ones(3)])
        self.lin = torch.nn.Linear(3, 3)
        self.function = forward

    def forward(self, x):
        return self.function(self, x)


# ---- the order of inputs: parameters and buffers where they are read, others where they are first used

ORDERS = {
    "a parameter": (lambda m, x: x * m.weight, ["weight", "x"]),
    "a buffer": (lambda m, x: x * m.buffer, ["buffer", "x"]),
    "a plain tensor": (lambda m, x: x * m.plain, ["x", "plain"]),
    "in a list of parameters": (lambda m, x: x * m.lists[0], ["0", "x"]),
    "by name": (lambda m, x: x * getattr(m, "weight"), ["weight", "x"]),  # noqa: B009
    "of a submodule": (lambda m, x: m.lin(x), ["weight", "bias", "x"]),
    "used later than it is read": (
        lambda m, x: (m.other, x * m.weight)[1] + m.other,
        ["other", "weight", "x"],
    ),
    "used before another is read": (lambda m, x: x.sin() * m.weight, ["x", "weight"]),
    "asked for its size first": (lambda m, x: m.weight * x.shape[0] + x, ["weight", "x"]),
    "a global": (lambda m, x: x * OUTSIDE, ["x", "OUTSIDE"]),
    "read and not used": (lambda m, x: (m.weight, x.cos())[1], ["x"]),
    "all of them": (lambda m, x: sum(p.sum() for p in m.parameters()) + x, None),
}


@pytest.mark.parametrize("case", ORDERS)
def test_inputs_come_in_the_order_in_which_torch_meets_them(case):
    forward, expected = ORDERS[case]
    graph = graph_of(Holder(forward), torch.arange(3.0))
    ends = [re.findall(r"\w+", str(node.meta["grapharg"].source.name))[-1] for node in placeholders(graph)]
    assert ends == (expected or ["weight", "other", "0", "weight", "bias", "x"])


def test_a_tensor_that_is_asked_whether_it_is_there_comes_first():
    fn = lambda x, y: y * x if x is not None else y
    names = [node.name for node in placeholders(graph_of(fn, torch.ones(3), torch.ones(3)))]
    assert names == ["l_x_", "l_y_"]


def test_parameters_of_a_parametrized_weight_come_as_they_are_numbered():
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
    names = [node.name for node in placeholders(graph_of(lambda x: module(x), torch.ones(3)))]
    parameters = [name.rpartition("_parameters_")[2] for name in names if "_parameters_" in name]
    assert parameters == ["original0_", "original1_", "bias_"]


def test_results_are_right_for_inputs_in_another_order():
    module = Holder(lambda m, x: (x - m.weight) * m.buffer.add_(1) - m.other)
    reference = Holder(module.function)
    x = torch.randn(3)
    compiled = framelift.compile(module, backend="aot_eager")
    for _ in range(2):
        result, expected = compiled(x), reference(x)
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        expected.sum().backward()
    torch.testing.assert_close(module.buffer, reference.buffer)
    torch.testing.assert_close(module.weight.grad, reference.weight.grad)


# ---- names


def test_a_module_of_torchs_own_is_called_fn():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    names = [node.name for node in placeholders(graph_of(module, torch.ones(3)))]
    assert names == ["l_fn_modules_0_parameters_weight_", "l_fn_modules_0_parameters_bias_", "l_args_0_"]


SYMBOLS = {
    "a size": (lambda x: x + 1, (torch.ones(4, 3),), ["s77", "s27", "l_x_"]),
    "of another argument": (lambda y: y + 1, (torch.ones(4),), ["s17", "l_y_"]),
    "of an argument without a name": (lambda *args: args[0] + 1, (torch.ones(4),), ["s33", "l_args_0_"]),
    "two that are the same": (lambda x, y: x + y, (torch.ones(4), torch.ones(4)), ["s77", "l_x_", "l_y_"]),
}


@pytest.mark.parametrize("case", SYMBOLS)
def test_symbols_are_called_as_in_torchs_graphs(case):
    fn, args, expected = SYMBOLS[case]
    assert [node.name for node in placeholders(graph_of(fn, *args, dynamic=True))] == expected


def test_a_number_that_varies_has_torchs_name():
    graph = graph_of(lambda x, n: x * n, torch.ones(4), 5, dynamic=True)
    assert str(placeholders(graph)[-1].meta["example_value"]) == "s86"


def nested(x):
    first = torch.cond(x.mean() > 3, lambda x: x + 7, lambda x: x + 8, (x,))
    within = lambda x: torch.cond(x.mean() > 1, lambda x: x + 1, lambda x: x + 2, (x,))
    return torch.cond(first.sum() > 0, within, lambda x: x - 1, (x,))


def test_bodies_are_numbered_over_the_whole_graph_those_within_first():
    graph = graph_of(nested, torch.ones(3))
    assert list(dict(graph.named_children())) == [
        "cond_true_0",
        "cond_false_0",
        "cond_true_2",
        "cond_false_2",
    ]
    assert list(dict(graph.cond_true_2.named_children())) == ["cond_true_1", "cond_false_1"]
    for module in graph.modules():
        for node in module.graph.find_nodes(op="get_attr"):
            assert node.name == node.target
    assert "self.cond_true_2" in graph.code


# ---- what nodes and graphs say


def test_stack_traces_show_no_file_of_framelifts():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
    module[0].register_forward_hook(lambda module, args, result: result + 1)
    for node in graph_of(module, torch.ones(3)).graph.nodes:
        assert "framelift" not in re.sub(r"tests.graph.*", "", node.meta.get("stack_trace", ""))
        assert node.op == "output" or 'File "' in node.meta["stack_trace"]


def test_what_hooks_do_belongs_to_the_module():
    module = Holder(lambda m, x: m.lin(x))
    module.lin.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    module.lin.register_forward_hook(lambda module, args, result: result - 1)
    calls = [node for node in graph_of(module, torch.ones(3)).graph.nodes if node.op == "call_function"]
    assert [node.meta["source_fn_stack"][-1][1] for node in calls] == [torch.nn.Linear] * 3
    assert calls[-1].name == "hook_result"


def test_only_modules_for_one_operation_stand_for_what_they_call():
    class Pair(torch.nn.ModuleList):
        def forward(self, x):
            return self[0](x) + x

    sources = [
        node.meta["source_fn_stack"][-1][1]
        for node in graph_of(Pair([torch.nn.ReLU()]), torch.ones(3)).graph.nodes
        if node.op == "call_function"
    ]
    assert sources[0] is torch.nn.ReLU
    assert not isinstance(sources[1], type)


def test_placeholders_know_what_came_in_and_keep_nothing_alive():
    x, fake = torch.ones(4), []

    def backend(graph, inputs):
        for node in placeholders(graph):
            fake.append((node.meta["grapharg"], node.meta["grapharg"].example, node.meta["example_value"]))
        return graph.forward

    framelift.compile(lambda x, n: x * n, backend=backend, dynamic=True)(x, 2.5)
    (size, *_), (tensor, example, stood_for), (number, *_) = fake
    assert example is x
    assert isinstance(tensor.fake_tensor, torch._subclasses.FakeTensor)
    assert tensor.fake_tensor.shape == stood_for.shape
    assert (tensor.is_tensor, size.is_tensor, number.is_tensor) == (True, False, False)
    assert [each.pass_arg_as_tensor for each in (size, tensor, number)] == [False, False, True]
    gone = weakref.ref(x)
    del x, example
    fake[:] = []
    gc.collect()
    assert gone() is None
    assert tensor.example is None


def test_graphs_say_what_they_are():
    first, second = graph_of(lambda x: x + 1, torch.ones(3)), graph_of(lambda x: x + 2, torch.ones(3))
    for graph in (first, second):
        assert graph.meta["dynamo_flat_name_to_original_fqn"] == {}
        assert re.fullmatch(r"__compiled_fn_\d+_\w+", graph.meta["backend_id"])
    assert first.meta["backend_id"] != second.meta["backend_id"]


# ---- transforms within bodies of operators

TRANSFORMS = {
    "grad": lambda x: grad(lambda y: (y**3).sum())(x) * x,
    "grad with what it holds": lambda x: grad(lambda y: (y**3 * x * OUTSIDE).sum())(x * 2) * x,
    "with auxiliary results": lambda x: grad_and_value(lambda y: ((y**3).sum(), y * x), has_aux=True)(x)[1][
        1
    ],
    "vjp": lambda x: vjp(lambda y: y**3 * x, x)[1](x * 2)[0] * x,
    "vjp of two": lambda x: vjp(lambda y, z: (y**3 * z, z**2 * OUTSIDE), x, x + 1)[1]((x, x * x))[1],
    "jvp": lambda x: sum(jvp(lambda y: y**3 * x, (x,), (x * 2,))),
    "vmap of grad": lambda x: vmap(grad(lambda y: y**3))(x) * x,
    "grad of grad": lambda x: grad(lambda z: (grad(lambda y: (y**3).sum())(z) * x).sum())(x) * x,
    "jacrev": lambda x: jacrev(lambda y: y**3)(x).sum(0) * x,
}
AROUND = {
    "cond": lambda f: lambda x: torch.cond(x.sum() > -100, f, lambda x: x * 2, (x,)),
    "map": lambda f: lambda x: map_operator(f, torch.stack([x, x * 2])),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("case", TRANSFORMS)
def test_no_function_of_framelifts_is_in_a_body(case, around):
    """The results are those of the transform by itself: torch's operators lose the gradients of some."""
    transform, targets = TRANSFORMS[case], []

    def backend(graph, inputs):
        modules = [each for each in graph.modules() if isinstance(each, torch.fx.GraphModule)]
        targets.extend(node.target for each in modules for node in each.graph.nodes)
        return graph.forward

    x, y = (torch.tensor([0.5, -1.0, 2.0], requires_grad=True) for _ in range(2))
    result = framelift.compile(AROUND[around](transform), backend=backend)(x)
    expected = torch.stack([transform(y), transform(y * 2)]) if around == "map" else transform(y)
    torch.testing.assert_close(result, expected)
    result.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert not [each for each in targets if (getattr(each, "__module__", "") or "").startswith("framelift")]
