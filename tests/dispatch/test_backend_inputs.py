"""What backends are given: whatever a backend does with the examples, the function does what it does eagerly,
for the sizes and numbers of the first call and of all later ones."""

from __future__ import annotations

import contextlib
import gc
import random
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, aot_module, min_cut_rematerialization_partition, nop
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree

import framelift
from check import Comparison, entries
from framelift.dispatch.backend_names import lookup_backend

Graph = torch.fx.GraphModule


# ---- backends, as people write them


def aot(graph: Graph, inputs: list[Any]) -> Any:
    return aot_module_simplified(graph, inputs, fw_compiler=lambda made, _: make_boxed_func(made.forward))


def aot_partitioned(graph: Graph, inputs: list[Any]) -> Any:
    partition = min_cut_rematerialization_partition
    return aot_module_simplified(graph, inputs, fw_compiler=nop, partition_fn=partition)


def aot_of_placeholders(graph: Graph, inputs: list[Any]) -> Any:
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return aot(graph, [node.meta["example_value"] for node in placeholders])


def aot_when_called(graph: Graph, inputs: list[Any]) -> Any:
    return aot_function(graph, fw_compiler=nop)


def aot_module_when_called(graph: Graph, inputs: list[Any]) -> Any:
    return aot_module(graph, fw_compiler=nop)


def traced_symbolically(graph: Graph, inputs: list[Any]) -> Any:
    return make_fx(graph, tracing_mode="symbolic")(*inputs)


def traced(graph: Graph, inputs: list[Any]) -> Any:
    return make_fx(graph)(*inputs)


def interpreted(graph: Graph, inputs: list[Any]) -> Any:
    return lambda *args: torch.fx.Interpreter(graph).run(*args)


def run_first(graph: Graph, inputs: list[Any]) -> Any:
    graph(*inputs)
    return graph


def interpreted_first(graph: Graph, inputs: list[Any]) -> Any:
    torch.fx.Interpreter(graph).run(*inputs)
    return graph.forward


def propagated(graph: Graph, inputs: list[Any]) -> Any:
    FakeTensorProp(graph, detect_fake_mode(inputs)).propagate(*inputs)
    return graph


def for_these_numbers(graph: Graph, inputs: list[Any]) -> Any:
    numbers = {n: int(value) for n, value in enumerate(inputs) if not isinstance(value, torch.Tensor)}
    return lambda *args: graph(*[numbers.get(n, value) for n, value in enumerate(args)])


def for_these_sizes(graph: Graph, inputs: list[Any]) -> Any:
    shapes = [tuple(map(int, x.shape)) if isinstance(x, torch.Tensor) else None for x in inputs]

    def run(*args: Any) -> Any:
        assert shapes == [tuple(x.shape) if isinstance(x, torch.Tensor) else None for x in args]
        return graph(*args)

    return run


def refuses_symbols(graph: Graph, inputs: list[Any]) -> Any:
    if any(isinstance(value, torch.SymInt | FakeTensor) for value in inputs):
        graph.graph.erase_node(next(iter(reversed(graph.graph.nodes))))
        raise NotImplementedError("tensors and numbers only")
    return for_these_sizes(for_these_numbers(graph, inputs), inputs)  # type: ignore[arg-type]


def by_name(graph: Graph, inputs: list[Any]) -> Any:
    return lookup_backend("aot_eager")(graph, inputs)


def compiled_again(graph: Graph, inputs: list[Any]) -> Any:
    return framelift.compile(graph, backend="aot_eager")


def registered(graph: Graph, inputs: list[Any], **options: Any) -> Any:
    assert options == {}
    return aot(graph, inputs)


framelift.register_backend(registered, name="test_backend_inputs")

BACKENDS: list[Any] = [
    *[aot, aot_partitioned, aot_of_placeholders, aot_when_called, aot_module_when_called, by_name],
    *[traced_symbolically, traced, interpreted, run_first, interpreted_first, propagated, compiled_again],
    *[for_these_numbers, for_these_sizes, refuses_symbols, "test_backend_inputs", "aot_eager"],
]


# ---- programs, each with a number from which its arguments are made

T = torch.Tensor


def rand(*size: int) -> T:
    return torch.randn(*size)


def size(x: T) -> Any:
    return x * x.shape[0]


def number(x: T, n: int) -> Any:
    return x * n, n + 1


def number_as_size(x: T, n: int) -> Any:
    return torch.cat([x, x.new_zeros(n, x.shape[1])]), torch.arange(n)


def number_in_slice(x: T, n: int) -> Any:
    return x[:n] * 2


def float_number(x: T, n: float) -> Any:
    return x * n + n


def derived(x: T) -> Any:
    return x.sum(1, keepdim=True).expand(x.shape[0], x.shape[1] * 2 + 1) * (x.shape[0] // 2)


def length(x: T, items: list[int]) -> Any:
    return x * len(items)


def attribute(x: T, thing: Any) -> Any:
    return x + thing.n, x * (thing.part * 0.5)


def written(x: T, n: int) -> Any:
    x.add_(n)
    return x * 2


def written_and_shared(x: T, y: T) -> Any:
    x.add_(1)
    return y * 2


def view(x: T) -> Any:
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def offset(x: T) -> Any:
    return x[1:] + x.storage_offset()


def batched(x: T, w: T) -> Any:
    return torch.nn.functional.linear(x, w).relu() / x.shape[0]


def dropped(x: T, n: int) -> Any:
    return torch.nn.functional.dropout(x, 0.5) * n


def normalised(x: T, mean: T, variance: T) -> Any:
    return torch.nn.functional.batch_norm(x, mean, variance, training=True)


def shared(n: int) -> tuple[Any, ...]:
    x = rand(n, 4)
    return x, x.view(-1)


PROGRAMS: dict[Callable[..., Any], Callable[[int], tuple[Any, ...]]] = {
    size: lambda n: (rand(n, 3),),
    number: lambda n: (rand(3, 3), n - 4),
    number_as_size: lambda n: (rand(n, 3), n + 1),
    number_in_slice: lambda n: (rand(9, 3), n),
    float_number: lambda n: (rand(3, 3), n / 2 - 2.5),
    derived: lambda n: (rand(n, n + 1),),
    length: lambda n: (rand(3, 3), [0] * n),
    attribute: lambda n: (rand(3, 3), SimpleNamespace(n=n, part=n * 1.5)),
    written: lambda n: (rand(n, 3), n),
    written_and_shared: shared,
    view: lambda n: (rand(n, 2, 3),),
    offset: lambda n: (rand(n + 3, 3)[n:],),
    batched: lambda n: (rand(n, 2, 3), rand(5, 3).requires_grad_()),
    dropped: lambda n: (rand(n, 3), n),
    normalised: lambda n: (rand(n, 3), torch.zeros(3), torch.ones(3)),
}
NUMBERS = (4, 5, 7, 2)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: getattr(b, "__name__", b))
def test_later_sizes_and_numbers_give_what_they_give_eagerly(backend: Any, program: Any) -> None:
    for dynamic, trained in ((None, True), (True, False)):
        compiled = framelift.compile(program, backend=backend, dynamic=dynamic)
        for n in NUMBERS:
            expected, found = outcome(program, n, trained, program), outcome(compiled, n, trained, program)
            Comparison().same(expected, found, f"with {n}")


def outcome(fn: Any, n: int, trained: bool, program: Any) -> Any:
    """What a call gives and does: to its arguments, to their gradients, and to the generators."""
    torch.manual_seed(n)
    args = PROGRAMS[program](n)
    trained = trained and program not in (written, written_and_shared)
    if trained:
        args[0].requires_grad_()
    result = fn(*args)
    leaves = [x for x in args if isinstance(x, torch.Tensor)]
    if trained:
        outputs = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
        sum((x * x).sum() for x in outputs).backward()
    notes = [sorted(vars(x)) for x in (*leaves, *pytree.tree_leaves(result)) if isinstance(x, torch.Tensor)]
    result = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)
    return result, [x.detach() for x in leaves], [x.grad for x in leaves], torch.get_rng_state(), notes


# ---- what the examples are


def given_to(fn: Any, *calls: tuple[Any, ...], **options: Any) -> list[list[Any]]:
    seen = []

    def backend(graph: Graph, inputs: list[Any]) -> Any:
        seen.append(inputs)
        return graph.forward

    compiled = framelift.compile(fn, backend=backend, **options)
    for args in calls:
        compiled(*args)
    return seen


def test_examples_are_the_programs_tensors_where_nothing_varies() -> None:
    net, x = torch.nn.Linear(3, 2), rand(2, 3)
    [inputs] = given_to(net, (x,))
    assert any(each is x for each in inputs) and any(each is net.weight for each in inputs)


def test_examples_are_symbols_and_fakes_with_symbols_where_something_varies() -> None:
    def fn(x: T, n: int, factor: float) -> T:
        return x.t() * n + factor

    _, inputs = given_to(fn, (rand(4, 3), 5, 0.5), (rand(5, 3), 7, 1.5), (rand(6, 3), 9, 2.5))
    by_kind = {type(each): each for each in inputs}
    tensor = next(each for each in inputs if isinstance(each, torch.Tensor) and each.dim() == 2)
    assert isinstance(by_kind[torch.SymInt], torch.SymInt) and isinstance(tensor, FakeTensor)
    assert isinstance(tensor.shape[0], torch.SymInt) and tensor.shape[1] == 3
    factor = next(each for each in inputs if isinstance(each, torch.Tensor) and each.dim() == 0)
    assert factor.dtype is torch.float64 and isinstance(factor.item(), torch.SymFloat)


def test_sizes_that_vary_are_inputs_before_the_tensors_as_torch_compile_has_them() -> None:
    def fn(x: T, y: T) -> tuple[T, T]:
        return x.view(x.shape[0] * 2, -1) + x.size(0), y.new_zeros(y.shape[1], x.shape[0])

    def order(compile: Any) -> tuple[list[type], list[str]]:
        seen: list[Any] = []

        def backend(graph: Graph, inputs: list[Any]) -> Any:
            calls = [str(node.target) for node in graph.graph.nodes if node.op.startswith("call")]
            fakes = [node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder")]
            assert list(map(type, fakes)) == [
                FakeTensor if is_tensor(each) else type(each) for each in inputs
            ]
            seen.append(([torch.Tensor if is_tensor(each) else type(each) for each in inputs], calls))
            return graph.forward

        compiled = compile(fn, backend=backend, dynamic=True)
        for n in (5, 7):
            given = rand(n, 4), rand(3, n + 1)
            for found, expected in zip(compiled(*given), fn(*given), strict=True):
                assert torch.equal(found, expected)
        [found] = seen
        return found

    is_tensor = lambda value: isinstance(value, torch.Tensor)
    assert order(framelift.compile) == order(torch.compile)


def test_examples_have_the_layout_and_history_of_what_they_stand_for() -> None:
    def facts(x: T) -> tuple[Any, ...]:
        return x.dtype, x.requires_grad, x.is_leaf, x.device, x.dim_order(), x.is_contiguous(), x.layout

    x = rand(4, 2, 3, 5).to(memory_format=torch.channels_last).requires_grad_()
    y, z = (x * 2).detach().double(), x * 2
    for dynamic in (None, True):
        [inputs] = given_to(lambda x, y, z: x + y + z, (x, y, z), dynamic=dynamic)
        found = sorted((facts(each) for each in inputs if isinstance(each, torch.Tensor)), key=str)
        assert found == sorted(map(facts, (x, y, z)), key=str)


def test_a_size_that_a_backend_relies_on_is_guarded() -> None:
    seen = []

    def backend(graph: Graph, inputs: list[Any]) -> Any:
        seen.append(bool(inputs[-1].shape[0] < 6))
        return graph.forward

    compiled = framelift.compile(size, backend=backend, dynamic=True)
    for n in (4, 5, 7, 8, 3):
        compiled(rand(n, 3))
    assert seen == [True, False]


def test_a_backend_that_refuses_symbols_compiles_for_each_size_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compiled = framelift.compile(size, backend=refuses_symbols, dynamic=True)
    with caplog.at_level("INFO", "framelift"):
        for n in (4, 5):
            x = rand(n, 3)
            assert torch.equal(compiled(x), size(x))
    assert "can't compile a graph for sizes that vary" in caplog.text


def test_a_dimension_that_must_be_dynamic_is_not_settled_for_a_backend_that_refuses_it() -> None:
    x = rand(4, 3)
    framelift.mark_dynamic(x, 0)
    with pytest.raises(framelift.exc.BackendCompilerFailed, match="tensors and numbers only"):
        framelift.compile(size, backend=refuses_symbols)(x)


def test_the_context_of_a_compilation_ends_with_it() -> None:
    seen = []

    def backend(graph: Graph, inputs: list[Any]) -> Any:
        seen.append(TracingContext.try_get())
        return graph.forward

    framelift.compile(size, backend=backend)(rand(2, 3))
    assert seen[0] is not None and TracingContext.try_get() is None
    assert seen[0].fake_mode is None  # none was asked for


def test_a_backend_can_compile_and_call_functions_of_its_own() -> None:
    inner = framelift.compile(lambda x: x.sin() + x.shape[0], backend=aot, dynamic=True)

    def backend(graph: Graph, inputs: list[Any]) -> Any:
        for n in (2, 3):
            assert torch.equal(inner(torch.ones(n)), torch.ones(n).sin() + n)
        return aot(graph, inputs)

    compiled = framelift.compile(size, backend=backend, dynamic=True)
    for n in (3, 4, 5):
        x = rand(n, 2)
        assert torch.equal(compiled(x), size(x))


# ---- what a backend leaves as it was


def test_running_the_graph_on_the_examples_changes_nothing() -> None:
    def fn(x: T, mean: T, variance: T, counter: T) -> T:
        counter.add_(1)
        x.mul_(2)
        return torch.nn.functional.batch_norm(x + torch.rand(3), mean, variance, training=True)

    def backend(graph: Graph, inputs: list[Any]) -> Any:
        random.random()
        for _ in range(2):
            graph(*inputs)
        return graph

    def run(fn: Any) -> Any:
        torch.manual_seed(0)
        random.seed(0)
        args = torch.ones(4, 3), torch.zeros(3), torch.ones(3), torch.zeros(())
        versions = [x._version for x in args]
        result = fn(*args)
        return result, args, random.random(), torch.rand(1), [x._version for x in args[:1]], versions

    Comparison().same(run(fn), run(framelift.compile(fn, backend=backend)), "run")


def test_a_backend_that_fails_within_inference_mode_leaves_it_off() -> None:
    def fn(x: T) -> T:
        with torch.inference_mode():
            y = x.view(-1) * 2
        return y

    class Failing(torch.fx.Interpreter):
        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            raise RuntimeError("fails here")

    def backend(graph: Graph, inputs: list[Any]) -> Any:
        Failing(graph).run(*inputs)
        return graph

    for failing in (backend, aot):
        with contextlib.suppress(framelift.exc.BackendCompilerFailed):
            assert framelift.compile(fn, backend=failing)(rand(2, 3)).is_inference()
        assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
        x = rand(2, 2).requires_grad_()
        (x * 2).sum().backward()
        assert not x.grad.is_inference()  # type: ignore[union-attr]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_what_becomes_a_leaf_where_gradients_are_off(context: Any) -> None:
    def fn(x: T) -> Any:
        y = x.detach().clone()
        y.requires_grad_()
        return y, y * 2

    with context():
        expected, found = fn(rand(2, 3)), framelift.compile(fn, backend=aot)(rand(2, 3))
    facts = lambda x: (x.requires_grad, x.is_leaf, x.is_inference(), x.shape)
    assert [facts(x) for x in found] == [facts(x) for x in expected]


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_was_compiled_keeps_no_input_alive(dynamic: bool | None) -> None:
    x = rand(3, 2).requires_grad_()
    compiled = framelift.compile(size, backend=aot, dynamic=dynamic)
    compiled(x).sum().backward()
    known = weakref.ref(x)
    del x
    gc.collect()
    assert known() is None


def test_mode_and_options_are_handed_to_a_backend_as_torch_compile_does() -> None:
    seen = []

    def backend(graph: Graph, inputs: list[Any], **settings: Any) -> Any:
        seen.append(settings)
        return graph.forward

    for compile in (torch.compile, framelift.compile):
        compile(lambda x: x + 1, backend=backend)(rand(2))
        compile(lambda x: x + 2, backend=backend, mode="default")(rand(2))
        compile(lambda x: x + 3, backend=backend, mode="reduce-overhead")(rand(2))
        compile(lambda x: x + 4, backend=backend, options={"level": 3})(rand(2))
    assert seen[4:] == seen[:4]


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("own", [False, True])
def test_every_size_that_varies_has_a_node_that_compilers_find(mode: str, own: bool) -> None:
    """The graph itself has none for the size of the image: only what is inside operators computes with it."""
    convolve = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def doubled(x: T) -> T:
        return torch.nn.functional.interpolate(convolve(x), scale_factor=2.0, mode=mode).sum(1)

    unbound: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        values = [node.meta.get("example_value") for node in graph.graph.nodes]
        numbers = {value.node.expr for value in values if type(value) is torch.SymInt}
        shapes = [size for value in inputs if isinstance(value, torch.Tensor) for size in value.shape]
        unbound.extend(
            size for size in shapes if type(size) is torch.SymInt and size.node.expr not in numbers
        )
        return aot_module_simplified(graph, inputs, fw_compiler=lambda graph, inputs: graph.forward)

    compiled = framelift.compile(doubled, backend=backend if own else "aot_eager")
    for side in (32, 40, 48, 44):
        image = torch.randn(2, 3, side, side)
        torch.testing.assert_close(compiled(image), doubled(image))
    assert entries(compiled) == 2 and not unbound
