"""Backends of many kinds, as people write them: what they do with a graph, and what they need of it.

Each backend in `CONSUMERS` passes a graph on to something of torch's that was written for the graphs of
torch.compile, and gives what is to be called.
"""

from __future__ import annotations

import copy
import itertools
import operator
import os
import pickle
import re
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
from functorch.compile import make_boxed_func, minifier
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_export_joint_simple, aot_module_simplified
from torch._guards import TracingContext
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.experimental.normalize import NormalizeArgs
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.dialect.common.cse_pass import CSEPass
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.graph_transform_observer import GraphTransformObserver
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupport, create_op_support
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module
from torch.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase
from torch.fx.passes.tools_common import legalize_graph
from torch.nn import functional as F

import framelift

Graph = torch.fx.GraphModule
Backend = Callable[[Graph, list[Any]], Callable[..., Any]]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.lin(x)) + x


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.register_buffer("scale", torch.linspace(0.5, 2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm(self.conv(x))) * self.scale.view(1, -1, 1, 1)
        y = y.mean((2, 3))
        for layer in self.layers:
            y = layer(y)
        return y


def image(n: int = 2) -> torch.Tensor:
    return torch.linspace(-1, 1, n * 3 * 64).reshape(n, 3, 8, 8).sin()


def is_relu(node: torch.fx.Node) -> bool:
    return node.target in (F.relu, torch.relu)


def calls(graph: Graph) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op.startswith("call")]


# ---- backends

CONSUMERS: dict[str, Backend] = {}


def consumer(backend: Backend) -> Backend:
    CONSUMERS[backend.__name__] = backend
    return backend


@consumer
def aot_autograd(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    keep = lambda graph, inputs: make_boxed_func(graph.forward)
    return aot_module_simplified(graph, inputs, fw_compiler=keep)


@consumer
def core_aten(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    def keep(graph: Graph, inputs: list[Any]) -> Any:
        kinds = {type(node.target) for node in calls(graph) if node.target is not operator.getitem}
        assert kinds == {torch._ops.OpOverload}
        return make_boxed_func(graph.forward)

    return aot_module_simplified(graph, inputs, fw_compiler=keep, decompositions=core_aten_decompositions())


@consumer
def inductor_inside(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, inputs)


@consumer
def exported_joint(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """As compilers for inference do it: the mode of the fakes is that of the context."""
    mode = TracingContext.get().fake_mode
    assert mode is not None
    fakes = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in inputs]
    return aot_export_joint_simple(graph, fakes, trace_joint=False)


@consumer
def traced_again(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    return make_fx(graph, tracing_mode="fake")(*inputs)


@consumer
def jit_trace(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    return torch.jit.trace(graph, tuple(inputs))


@consumer
def interpreter(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    return lambda *args: torch.fx.Interpreter(graph).run(*args)


@consumer
def transformer(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    class Clamping(torch.fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target in (F.relu, torch.relu):
                return super().call_function(torch.clamp, args[:1], {"min": 0})
            return super().call_function(target, args, kwargs)

    made = Clamping(graph).transform()
    assert not any(map(is_relu, made.graph.nodes))
    return lambda *args: made(*args)


@consumer
def rewriter(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    relu, clamp = torch.fx.Graph(), lambda x: torch.clamp(x, min=0)
    relu.output(relu.call_function(F.relu, (relu.placeholder("x"),)))  # calls are as the program writes them
    found = torch.fx.subgraph_rewriter.replace_pattern(graph, relu, clamp)
    assert len(found) == 3
    return graph.forward


@consumer
def observed_pass(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    with tempfile.TemporaryDirectory() as place, GraphTransformObserver(graph, "clamp", log_url=place):
        for node in filter(is_relu, list(graph.graph.nodes)):
            with graph.graph.inserting_after(node):
                made = graph.graph.call_function(torch.clamp, node.args[:1], {"min": 0})
            node.replace_all_uses_with(made)
            graph.graph.erase_node(node)
        graph.recompile()
    return graph.forward


@consumer
def propagated(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    for propagate in (ShapeProp(graph).propagate, FakeTensorProp(graph).propagate):
        propagate(*inputs)
        for node in calls(graph):
            assert node.meta["tensor_meta"].shape == node.meta["example_value"].shape
    return graph.forward


@consumer
def splitter(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    class Supported(OperatorSupport):
        def is_node_supported(self, modules: Any, node: torch.fx.Node) -> bool:
            return node.op.startswith("call") and not is_relu(node)

    class Splitter(_SplitterBase):
        pass

    settings = _SplitterSettingBase(min_acc_module_size=1, allow_non_tensor=True)
    split = Splitter(graph, inputs, Supported(), settings)()
    assert len(list(split.children())) >= 4
    return lambda *args: split(*args)


@consumer
def partitioner(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    supported = create_op_support(lambda modules, node: node.op.startswith("call") and not is_relu(node))
    fused = CapabilityBasedPartitioner(
        graph, supported, allows_single_node_partition=True
    ).partition_and_fuse()
    assert len([node for node in fused.graph.nodes if node.op == "call_module"]) >= 2
    return lambda *args: fused(*args)


@consumer
def split_by_module(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    layers: dict[str, int] = {}

    def part(node: torch.fx.Node) -> int:
        paths = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
        found = next((path for path in paths if re.search(r"layers\.\d$", path)), "")
        return layers.setdefault(found, len(layers))

    split = split_module(graph, graph, part)
    assert len(layers) == 3
    return split.forward


@consumer
def drawn(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    pytest.importorskip("pydot")
    from torch.fx.passes.graph_drawer import FxGraphDrawer

    assert "linear" in str(FxGraphDrawer(graph, "model").get_dot_graph())
    return graph.forward


@consumer
def written_and_copied(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    with tempfile.TemporaryDirectory() as place:
        graph.to_folder(place, "Model")
        assert "module.py" in os.listdir(place)
    made = pickle.loads(pickle.dumps(copy.deepcopy(graph)))
    return lambda *args: made(*args)


@consumer
def folded_constants(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    made = split_const_subgraphs(graph)
    return lambda *args: made(*args)


@consumer
def normalized(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    made = NormalizeArgs(graph).transform()
    return lambda *args: made(*args)


@consumer
def tidied(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    made = CSEPass()(legalize_graph(graph)).graph_module
    return lambda *args: made(*args)


@consumer
def repro_text(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    """What torch's tools write into a file that repeats a failure."""
    from torch._dynamo.debug_utils import NNModuleToString  # noqa: TID251 - a tool that is given a graph
    from torch._dynamo.repro.after_dynamo import generate_dynamo_fx_repro_string  # noqa: TID251

    compile(generate_dynamo_fx_repro_string(graph, inputs, "eager"), "repro.py", "exec")
    scope: dict[str, Any] = {"torch": torch}
    exec("from torch import *\n" + NNModuleToString.convert(graph), scope)
    made = scope["Repro"]()
    return lambda *args: made(*args)


@consumer
def minified(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
    has_relu = lambda graph, inputs: any(map(is_relu, graph.graph.nodes))
    small, _ = minifier(copy.deepcopy(graph), list(inputs), has_relu, dump_state=lambda *args: None)
    assert len(calls(small)) == 1
    return graph.forward


# ---- tests

FOR_INFERENCE = {"exported_joint", "traced_again", "jit_trace", "folded_constants", "inductor_inside"}
"""Those that are not for training, or that take long."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONSUMERS)
def test_a_backend_is_given_a_graph_that_it_can_work_with(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where some of them write
    net, x = Net().eval(), image()
    with torch.no_grad():
        found = framelift.compile(net, backend=CONSUMERS[name], fullgraph=True)(x)
        torch.testing.assert_close(found, net(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in CONSUMERS if name not in FOR_INFERENCE])
def test_the_same_while_training(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    net, expected, x = Net(), Net(), image()
    framelift.compile(net, backend=CONSUMERS[name], fullgraph=True)(x).sum().backward()
    expected(x).sum().backward()
    for (where, given), (_, wanted) in zip(net.named_parameters(), expected.named_parameters(), strict=True):
        torch.testing.assert_close(given.grad, wanted.grad, msg=where)


WITH_SIZES = ("aot_autograd", "core_aten", "interpreter", "transformer", "rewriter", "partitioner")
WITH_SIZES += ("split_by_module", "written_and_copied", "tidied", "drawn")


@pytest.mark.parametrize("name", WITH_SIZES)
def test_sizes_may_vary(name: str) -> None:
    net, compilations = Net().eval(), []

    def counted(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
        compilations.append(graph)
        return CONSUMERS[name](graph, inputs)

    compiled = framelift.compile(net, backend=counted, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for n in (2, 5, 7):
            torch.testing.assert_close(compiled(image(n)), net(image(n)))
    assert len(compilations) == 1


def test_parts_of_a_split_graph_are_given_the_sizes_that_they_use() -> None:
    """How serving engines cut a graph at an operator, to compile the pieces for a size."""

    def pieces(graph: Graph, inputs: list[Any]) -> Callable[..., Any]:
        cut = itertools.accumulate(node.target is torch.softmax for node in graph.graph.nodes)
        part = dict(zip(graph.graph.nodes, cut, strict=True))
        split = split_module(graph, graph, part.__getitem__, keep_original_order=True)
        for piece in split.children():
            given = [node.meta["example_value"] for node in piece.graph.find_nodes(op="placeholder")]
            found.append([type(each) for each in given].count(torch.SymInt))
        return split.forward

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x.sin(), 0)
        return y.view(x.shape[0] * 2, -1)

    found: list[int] = []
    compiled = framelift.compile(fn, backend=pieces, dynamic=True)
    for n in (5, 6):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), fn(x))
    assert found == [2, 2]
