"""What the nodes of a graph that a backend gets say of themselves: lines, modules, names, sources."""

from __future__ import annotations

import copy
import gc
import importlib
import linecache
import pickle
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
import torch.fx.traceback
from torch._functorch.aot_autograd import aot_module_simplified

import framelift
from framelift.graph.origins import ORIGIN

GLOBAL = torch.full((3,), 2.0)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = torch.relu(self.lin(x))
        return y + 1


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
        self.register_buffer("scale", torch.ones(3))
        self.kept = {"a": torch.ones(3)}

    def halves(self, x):
        left, right = x.chunk(2)
        return left.sum() + right.sum()

    def forward(self, x, *args, **options):
        for layer in self.layers:
            x = layer(x)
        total = self.halves(x)
        x = self.head(x * self.scale + self.kept["a"])
        return x * args[0] + options["bias"] + total * GLOBAL


def captured(fn: Callable[..., Any], *args: Any, **options: Any) -> list[torch.fx.GraphModule]:
    """The graphs that a backend gets, as they are then."""
    found: list[torch.fx.GraphModule] = []

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    compiled = framelift.compile(fn, backend=backend, **options)
    compiled(*args)
    return found


def all_graphs(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    return [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]


def calls(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op.startswith("call")]


def model_graph() -> torch.fx.GraphModule:
    torch.manual_seed(0)
    model = Model()
    x, y = torch.ones(4, 3), torch.ones(3)
    (graph,) = captured(lambda: model(x, y, bias=y))
    return graph


# ---- generated: every operation, wherever it is called

OPERATIONS = {
    "method": "x.sin()",
    "function": "torch.cos(x)",
    "operator": "x * 2",
    "functional": "F.softmax(x, -1)",
    "indexing": "x[0]",
    "attribute": "x.T",
    "in place": "x.clone().add_(1)",
    "factory": "torch.ones(3) + x.sum()",
    "several results": "torch.max(x, dim=0)[0]",
    "comparison": "(x > 0).any()",
    "matrix product": "x @ x.T",
    "einsum": "torch.einsum('ij,kj->ik', x, x)",
    "reduction": "sum([x, x, x])",
}
PLACES = {
    "stored": "    result = {}\n    return result",
    "returned": "    return {}",
    "in a loop": "    for _ in range(3):\n        y = x + 1\n        result = {}\n    return result + y",
    "in a branch": "    if x.shape[0] == 3:\n        return {}\n    return x",
    "in a comprehension": "    return [{} for _ in range(2)]",
    "in a lambda": "    return (lambda x: {})(x)",
    "in a nested function": "    def inner(x):\n        return {}\n    return inner(x) + inner(x)",
    "in a generator": "    def items():\n        yield {}\n    return list(items())[0]",
    "in a try": "    try:\n        return {}\n    finally:\n        x = None",
    "in a callback": "    return sorted([1, 2], key=lambda n: ({}).shape) and x + 1",
    "in cond": "    return torch.cond(x.sum() > 0, lambda x: ({}).sum() * 1, lambda x: x.sum() * 3, (x,))",
    "with gradients off": "    with torch.no_grad():\n        return {}",
}

NAMED_IN_SOURCE = {
    **{"sin": ".sin(", "cos": "cos(", "softmax": "softmax(", "clone": ".clone()", "add_": ".add_(1)"},
    **{"ones": "torch.ones(", "max": "torch.max(", "gt": " > 0", "any": ".any()", "matmul": "@"},
    **{"einsum": "einsum(", "mul": "*"},
}
"""What a node calls -> how the line reads that does it."""


def program(tmp_path, name: str, place: str, operation: str) -> tuple[Callable[..., Any], str]:
    header = "import torch\nfrom torch.nn import functional as F\n\ndef program(x):\n"
    source = f"{header}{place.format(operation)}\n"
    path = tmp_path / f"{re.sub(r'[^a-z]', '_', name)}.py"
    path.write_text(source)
    scope: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), scope)
    return scope["program"], str(path)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_says_which_of_the_users_lines_it_comes_from(tmp_path, operation, place):
    fn, path = program(tmp_path, f"{operation} {place}", PLACES[place], OPERATIONS[operation])
    lines: set[int] = set()
    for graph in captured(fn, torch.arange(9.0).reshape(3, 3)):
        for module in all_graphs(graph):
            names = [node.name for node in module.graph.nodes]
            assert len(names) == len(set(names))
            for node in calls(module):
                assert node.meta["source_fn_stack"][-1][0], node
                if node.target is not torch._C._set_grad_enabled:
                    assert "example_value" in node.meta, node
                assert "val" in node.meta or "example_value" not in node.meta
                places = re.findall(r'File "(.*)", line (\d+), in .*\n    (.*)', node.meta["stack_trace"])
                assert all(file == path for file, _, _ in places), node.meta["stack_trace"]
                _, line, text = places[-1]
                assert linecache.getline(path, int(line)).strip() == text.strip()
                called = getattr(node.target, "__name__", node.target)
                if called in NAMED_IN_SOURCE and "cond" not in place:
                    assert NAMED_IN_SOURCE[called] in text, (node, text)
                lines.add(int(line))
        assert "No stacktrace" not in graph.print_readable(print_output=False)
    text = linecache.getlines(path)
    if place != "in a callback":  # of which only the shape is used
        assert any(OPERATIONS[operation] in text[line - 1] for line in lines), lines


# ---- modules


def test_a_call_says_in_which_modules_it_was_made():
    stacks = {}
    for node in calls(model_graph()):
        stack = node.meta.get("nn_module_stack", {})
        stacks[node.meta["source_fn_stack"][-1][0]] = [(path, cls.__name__) for path, cls in stack.values()]
    model = next(iter(stacks["linear"]))[0]
    assert stacks["linear"] == [
        (model, "Model"),
        (f"{model}.layers.0", "Block"),
        (f"{model}.layers.0.lin", "Linear"),
    ]
    assert stacks["add_1"] == [(model, "Model"), (f"{model}.layers.1", "Block")]
    assert [path for path, _ in stacks["gelu"]] == [model, f"{model}.head", f"{model}.head.1"]
    assert stacks["chunk"] == [(model, "Model")]


def test_modules_of_torchs_own_are_what_was_called():
    called = [node.meta["source_fn_stack"][-1][1] for node in calls(model_graph())]
    assert called.count(torch.nn.Linear) == 3
    assert called.count(torch.nn.GELU) == 1
    assert torch.relu in called


def test_the_module_that_is_compiled_is_self():
    model = Model()
    found = []
    compiled = framelift.compile(model, backend=lambda graph, inputs: found.append(graph) or graph.forward)
    compiled(torch.ones(4, 3), torch.ones(3), bias=torch.ones(3))
    paths = [path for path, _ in calls(found[0])[0].meta["nn_module_stack"].values()]
    assert paths == ["L['self'].layers.0", "L['self'].layers.0.lin"]


def test_a_module_with_hooks_is_on_the_stack():
    block = Block()
    block.register_forward_hook(lambda module, args, out: out * 2)
    (graph,) = captured(lambda x: block(x), torch.ones(2, 3))
    paths = [list(node.meta.get("nn_module_stack", {}).values()) for node in calls(graph)]
    assert [cls.__name__ for _, cls in paths[0]] == ["Block", "Linear"]


def test_bodies_say_what_they_are_given_to():
    (graph,) = captured(
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)), torch.ones(3)
    )
    (sin,) = calls(graph.cond_true_0)
    assert sin.meta["source_fn_stack"] == [("cond", torch.ops.higher_order.cond), ("sin", "sin")]
    assert "lambda x: x.sin()" in sin.meta["stack_trace"].splitlines()[-2]


# ---- names


def names_of(fn: Callable[..., Any], *args: Any, op: str = "call") -> list[str]:
    (graph,) = captured(fn, *args, fullgraph=True)
    return [node.name for node in graph.graph.nodes if node.op.startswith(op)]


def test_nodes_are_named_after_the_variables_that_hold_them():
    def fn(x):
        first = x.sin()
        for _ in range(2):
            first = first + 1
        left, right = first.chunk(2)
        both = again = left * right
        return both - again

    expected = ["first", "first_1", "first_2", "chunk", "left", "right", "both", "sub"]
    assert names_of(fn, torch.ones(4)) == expected


def test_what_a_function_returns_is_named_where_it_is_stored():
    def helper(x):
        return x.sin() * 2

    def fn(x):
        value = helper(x)
        return value + 1

    assert names_of(fn, torch.ones(4)) == ["sin", "value", "add"]


def test_names_that_python_needs_are_not_taken():
    def fn(x):
        self = x.sin()
        input = self.cos()
        torch_ = input + 1
        return torch_.sum()

    names = names_of(fn, torch.ones(4))
    assert names[0] == "sin"
    assert names[1] == "input_1"
    check = framelift.compile(fn, backend=lambda graph, inputs: graph.forward)
    torch.testing.assert_close(check(torch.ones(4)), fn(torch.ones(4)))


def test_placeholders_are_named_after_where_they_come_from():
    model, x = Model(), torch.ones(4, 3)
    found = []
    compiled = framelift.compile(model, backend=lambda graph, inputs: found.append(graph) or graph.forward)
    compiled(x, torch.ones(3), bias=torch.ones(3))
    inputs = found[0].graph.find_nodes(op="placeholder")
    sources = {node.name: node.meta["grapharg"].source for node in inputs}
    assert {name: source.name for name, source in sources.items()} == {
        "l_x_": "L['x']",
        "l_self_modules_layers_modules_0_modules_lin_parameters_weight_": (
            "L['self']._modules['layers']._modules['0']._modules['lin']._parameters['weight']"
        ),
        "l_self_modules_layers_modules_0_modules_lin_parameters_bias_": (
            "L['self']._modules['layers']._modules['0']._modules['lin']._parameters['bias']"
        ),
        "l_self_modules_layers_modules_1_modules_lin_parameters_weight_": (
            "L['self']._modules['layers']._modules['1']._modules['lin']._parameters['weight']"
        ),
        "l_self_modules_layers_modules_1_modules_lin_parameters_bias_": (
            "L['self']._modules['layers']._modules['1']._modules['lin']._parameters['bias']"
        ),
        "l_self_modules_head_modules_0_parameters_weight_": (
            "L['self']._modules['head']._modules['0']._parameters['weight']"
        ),
        "l_self_modules_head_modules_0_parameters_bias_": (
            "L['self']._modules['head']._modules['0']._parameters['bias']"
        ),
        "l_self_buffers_scale_": "L['self']._buffers['scale']",
        "l_self_kept_a_": "L['self'].kept['a']",
        "l_args_0_": "L['args'][0]",
        "l_options_bias_": "L['options']['bias']",
        "g_global_": "G['GLOBAL']",
    }
    assert sources["l_x_"].name() == "L['x']"


def test_operands_come_in_the_order_in_which_they_are_written():
    held = types.SimpleNamespace(tensor=torch.ones(2))
    name = lambda fn, *args: names_of(fn, *args, op="placeholder")
    assert name(lambda x, held: x + held.tensor, torch.ones(2), held) == ["l_x_", "l_held_tensor"]
    assert name(lambda *args: args[0] < args[1], torch.ones(2), torch.ones(2)) == ["l_args_0_", "l_args_1_"]


def test_placeholders_of_alike_sources_have_names_of_their_own():
    def fn(given):
        return given["a.b"] + given["a"]["b"] + given["a_b"]

    one = torch.ones(2)
    names = names_of(fn, {"a.b": one, "a": {"b": one + 1}, "a_b": one + 2}, op="placeholder")
    assert names == ["l_given_a_b_", "l_given_a_b__1", "l_given_a_b__2"]


def test_closures_and_numbers_are_named_too():
    held = torch.ones(3)

    def fn(x, n):
        return x * n + held

    (graph,) = captured(fn, torch.ones(3), 5, dynamic=True)
    names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    assert {"l_x_", "l_n_", "l_held_"} <= set(names)


def test_a_key_may_be_a_long_text():
    key = "k" * 5000
    (name,) = names_of(lambda given: given[key] + 1, {key: torch.ones(2)}, op="placeholder")
    assert len(name) < 1000


# ---- the module itself


def test_it_is_shown_as_a_table(capsys):
    pytest.importorskip("tabulate")
    model_graph().graph.print_tabular()
    assert "linear" in capsys.readouterr().out


def test_it_is_a_graph_module_that_can_be_printed_written_copied_and_pickled(tmp_path):
    graph = model_graph()
    inputs = [
        torch.randn(node.meta["example_value"].shape) for node in graph.graph.find_nodes(op="placeholder")
    ]
    expected = graph(*inputs)
    assert type(graph).__name__ == "GraphModule"
    assert "class GraphModule(torch.nn.Module):" in graph.print_readable(print_output=False)
    for copied in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        torch.testing.assert_close(copied(*inputs), expected)
    assert calls(copy.deepcopy(graph))[0].meta["stack_trace"] == calls(graph)[0].meta["stack_trace"]
    graph.to_folder(tmp_path / "written_graph", "Written")
    sys.path.insert(0, str(tmp_path))
    try:
        written = importlib.import_module("written_graph").Written()
    finally:
        sys.path.remove(str(tmp_path))
    torch.testing.assert_close(written(*inputs), expected)


# ---- consumers


def test_inputs_come_before_all_calls():
    """As torch.fx has it: passes put what they add behind the last placeholder."""

    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.rand(3) + x

    (graph,) = captured(fn, torch.ones(3))
    kinds = [node.op == "placeholder" for node in graph.graph.nodes]
    assert kinds == sorted(kinds, reverse=True)


LAYER = {"layer": 1}


@torch.fx.traceback.annotate_fn({"inner": "f"})
def annotated(x):
    return x.cos()


def with_annotations(x):
    x = x * 2
    with torch.fx.traceback.annotate(LAYER):
        x = annotated(x.sin())
        with torch.fx.traceback.annotate({"layer": 2}):
            x = torch.cond(x.sum() > 0, lambda y: y.tan(), lambda y: y.exp(), (x,))
    return x + 1


def test_calls_have_the_programs_annotations():
    (graph,) = captured(with_annotations, torch.ones(3))
    modules = [each for each in graph.modules() if isinstance(each, torch.fx.GraphModule)]
    by_target = {
        str(getattr(node.target, "__name__", node.target)): node.meta.get("custom")
        for each in modules
        for node in calls(each)
    }
    assert by_target["sin"] == {"layer": 1} and by_target["cos"] == {"layer": 1, "inner": "f"}
    assert by_target["tan"] == by_target["exp"] == by_target["cond"] == {"layer": 2}
    assert by_target["mul"] is by_target["add"] is None
    assert "custom" not in torch.fx.traceback.current_meta


def test_annotations_are_read_anew_when_they_change(monkeypatch):
    kept = framelift.testing.EagerAndRecordGraphs()
    compiled, x = framelift.compile(with_annotations, backend=kept), torch.ones(3)
    for layer in (1, 1, 7):
        monkeypatch.setitem(LAYER, "layer", layer)
        compiled(x)
    named = [node.meta["custom"] for graph in kept.graphs for node in calls(graph) if node.target == "sin"]
    assert named == [{"layer": 1}, {"layer": 7}]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_annotations_reach_a_compiler_of_torchs(fullgraph):
    made: list[torch.fx.GraphModule] = []

    def keep(graph, inputs):
        made.append(graph)
        return graph.forward

    def backend(graph, inputs):
        return aot_module_simplified(graph, inputs, fw_compiler=keep)

    def fn(x):
        with torch.fx.traceback.annotate({"stage": 0}):
            x = x.sin()
            if not fullgraph:
                framelift.graph_break()
            x = x.cos()
        return x.tan()

    x = torch.ones(3)
    torch.testing.assert_close(framelift.compile(fn, backend=backend, fullgraph=fullgraph)(x), fn(x))
    found = {node.target: node.meta.get("custom") for graph in made for node in calls(graph)}
    aten = torch.ops.aten
    assert found == {
        aten.sin.default: {"stage": 0},
        aten.cos.default: {"stage": 0},
        aten.tan.default: None,
    }


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_custom_backend_on_aot_autograd_sees_lines_and_modules(dynamic):
    made: list[torch.fx.GraphModule] = []

    def keep(graph, inputs):
        made.append(graph)
        return graph.forward

    def backend(graph, inputs):
        return aot_module_simplified(graph, inputs, fw_compiler=keep)

    model, x = Model(), torch.ones(4, 3)
    compiled = framelift.compile(model, backend=backend, dynamic=dynamic)
    with torch.no_grad():
        compiled(x, torch.ones(3), bias=torch.ones(3))
    (graph,) = made
    named = 0
    for node in calls(graph):
        if node.target in (torch.ops.aten.sym_size.int, torch.ops.aten.sym_stride.int):
            continue
        assert __file__ in node.meta["stack_trace"], node
        assert node.meta["source_fn_stack"]
        named += any(path.endswith(".lin") for path, _ in node.meta.get("nn_module_stack", {}).values())
    assert named >= 2
    assert "No stacktrace" not in graph.print_readable(print_output=False)


def test_inductors_output_names_the_users_lines(tmp_path):
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    def fn(x):
        shifted = x.sin() + 1
        return torch.mm(shifted, x)

    x = torch.randn(8, 8, requires_grad=True)
    traced = {"trace.enabled": True, "trace.debug_dir": str(tmp_path), "force_disable_caches": True}
    with config.patch(traced):
        compiled = framelift.compile(fn, backend="inductor")
        _, codes = run_and_get_code(lambda: compiled(x).sum().backward())
    sources = [re.findall(r"Source Nodes: \[(.*?)\]", code) for code in codes]
    assert any("mm" in names for found in sources for names in found)
    graphs = {path.parent.name: path.read_text() for path in tmp_path.rglob("fx_graph_readable.py")}
    assert sorted(re.findall("forward|backward", " ".join(graphs))) == ["backward", "forward"]
    for text in graphs.values():
        assert "code: shifted = x.sin() + 1" in text and "code: return torch.mm(shifted, x)" in text
        assert "No stacktrace" not in text


def test_backward_graphs_say_where_they_come_from():
    made: list[torch.fx.GraphModule] = []

    def keep(graph, inputs):
        made.append(graph)
        return graph.forward

    def backend(graph, inputs):
        return aot_module_simplified(graph, inputs, fw_compiler=keep, bw_compiler=keep)

    framelift.compile(Block(), backend=backend)(torch.ones(2, 3)).sum().backward()
    _, backward = made
    for node in calls(backward):
        assert __file__ in node.meta["stack_trace"], node
        assert node.meta["seq_nr"] >= 0
    stacks = [(node.meta.get("fwd_nn_module_stack") or {}).values() for node in calls(backward)]
    assert any(path.endswith(".lin") for stack in stacks for path, _ in stack)


def test_backends_and_profilers_find_the_compilations_number():
    from torch._guards import CompileContext, TracingContext

    seen = []

    def backend(graph, inputs):
        number = CompileContext.current_compile_id()
        assert graph.meta["dynamo_compile_id"] == number
        assert TracingContext.get().fake_mode is not None
        seen.append(str(number))
        return graph.forward

    compiled = framelift.compile(lambda x: x.sin() * 2, backend=backend)
    for _ in range(2):
        with torch.profiler.profile() as profile:
            compiled(torch.ones(3))
        (number,) = seen
        found = {event.name: event for event in profile.events()}
        # of the kind that torch's compiler makes, which snapshots of memory look for
        assert not found[f"Torch-Compiled Region: {number}"].is_user_annotation


def test_profilers_see_lookups_and_backends():
    compiled = framelift.compile(lambda x: x.sin() * 2, backend="aot_eager")
    seen = []
    for _ in range(3):
        with torch.profiler.profile() as profile:
            compiled(torch.ones(3))
        names = [event.name for event in profile.events()]
        seen.append([names.count(name) for name in (LOOKUP, BACKEND)])
        lookups = [event for event in profile.events() if event.name == LOOKUP]
        (region,) = (event for event in profile.events() if event.name.startswith("Torch-Compiled Region"))
        assert all(lookup.time_range.end <= region.time_range.start for lookup in lookups)
    assert seen == [[0, 1], [1, 0], [1, 0]]


LOOKUP = "TorchDynamo Cache Lookup"
BACKEND = "call_user_compiler (dynamo_timed)"


def test_inputs_have_their_sources_where_aot_autograd_looks():
    (graph,) = captured(lambda x, y: x + y * GLOBAL, torch.ones(3), torch.ones(3))
    found = [node._dynamo_source.name for node in graph.graph.find_nodes(op="placeholder")]
    assert sorted(found) == ["G['GLOBAL']", "L['x']", "L['y']"]


# ---- what graphs keep


def test_a_graph_that_is_run_as_captured_keeps_no_origins():
    """The backend `eager` reads no texts: what it runs has neither these nor what they would be made of."""
    compiled = framelift.compile(lambda x: x.sin() * 2, backend="eager")
    kept = gc_graphs()
    compiled(torch.ones(3))
    graphs = [graph for graph in gc_graphs() if not any(graph is one for one in kept)]
    assert graphs
    for graph in graphs:
        assert not any(ORIGIN in node.meta for node in graph.nodes)


def gc_graphs() -> list[torch.fx.Graph]:
    gc.collect()
    return [found for found in gc.get_objects() if type(found) is torch.fx.Graph]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_origins_keep_nothing_of_the_program_alive(backend):
    model, x = Model(), torch.ones(4, 3)
    compiled = framelift.compile(model, backend=backend)
    compiled(x, torch.ones(3), bias=torch.ones(3))
    watched = [weakref.ref(model), weakref.ref(model.layers[0].lin), weakref.ref(x)]
    del model, x, compiled
    gc.collect()
    gc.collect()
    assert [found() for found in watched] == [None, None, None]


def test_a_backend_that_keeps_a_graph_keeps_no_module_alive():
    model, x = Model(), torch.ones(4, 3)
    kept = captured(model.layers[0], x)
    watched = [weakref.ref(model), weakref.ref(model.layers[0].lin), weakref.ref(x)]
    del model, x
    gc.collect()
    gc.collect()
    assert calls(kept[0])[0].meta["nn_module_stack"]
    assert [found() for found in watched] == [None, None, None]
