"""Python of torch's that has no effect outside is interpreted like a program's, and captured whole."""

from __future__ import annotations

import collections
import inspect
import threading
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
import torch.utils._pytree as pytree
from torch import nn
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils._ordered_set import OrderedSet
from torch.utils.hooks import RemovableHandle

import framelift
from check import capture, check, recompiles

PROGRAMS: dict[str, Callable[..., Any]] = {}
Pair = collections.namedtuple("Pair", "first second")


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def an_ordered_set(x):
    found = OrderedSet([3, 1])
    found.add(2)
    found |= OrderedSet([5])
    return x * len(found), list(found), 3 in found


@program
def immutable_collections(x):
    items, named = immutable_list([1, x]), immutable_dict({"a": x})
    return items[1] + named["a"], items, named


@program
def map_aggregate(x):
    given = {"a": [x, 1], "b": (x,), "c": Pair(x, slice(1, 2)), "d": None}
    return torch.fx.node.map_aggregate(given, lambda v: v if v is None else v + 1)


@program
def map_arg_without_nodes(x):
    return torch.fx.node.map_arg([x + 1, {"a": 1}], lambda node: None)


@program
def whether_torch_fx_traces(x):
    return x + torch.fx._symbolic_trace.is_fx_tracing() + torch.onnx.is_in_onnx_export()


@program
def the_module_of_a_device(x):
    found = torch.get_device_module(x.device)
    found.synchronize()
    return x + found.device_count(), torch.accelerator.device_count()


@program
def what_the_processor_can_do(x):
    return x + len(torch.backends.cpu.get_cpu_capability()), torch.cpu._is_avx2_supported()


@program
def whether_a_checkpoint_is_valid(x):
    return x + torch.autograd._is_checkpoint_valid()


@program
def marks_of_torchscript(x):
    @torch.jit.ignore
    def ignored(y):
        return y + 1

    return torch.jit.unused(lambda y: y * 2)(ignored(x))


@program
def types_of_elements(x):
    return x + torch.float32.itemsize, torch.float32.to_complex(), torch.promote_types(x.dtype, torch.float64)


@program
def collated(x):
    return torch.utils.data.default_collate([{"a": x, "b": 1}, {"a": x + 1, "b": 2}])


@program
def paths_in_a_tree(x):
    leaves, spec = pytree.tree_flatten_with_path({"a": [x + 1]})
    return leaves[0][1], pytree.keystr(leaves[0][0]), spec.num_leaves


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_captured_whole(name: str) -> None:
    check(PROGRAMS[name], torch.ones(3), calls=2)


def test_a_set_from_outside_is_changed() -> None:
    def fn(x, found):
        found.add(9)
        return x * len(found)

    compiled = capture(fn)
    given = OrderedSet([1, 2])
    assert torch.equal(compiled(torch.ones(2), given), torch.full((2,), 3.0)) and list(given) == [1, 2, 9]


# ---- handles of hooks


def test_a_hook_that_is_registered_and_removed_inside_leaves_nothing() -> None:
    linear = nn.Linear(3, 3)

    def fn(x):
        handle = linear.register_forward_hook(lambda module, given, found: found + 1)
        first = linear(x)
        handle.remove()
        with linear.register_forward_pre_hook(lambda module, given: (given[0] * 2,)):
            second = linear(x)
        return first + second + linear(x)

    check(fn, torch.ones(3), calls=3)
    assert not linear._forward_hooks and not linear._forward_pre_hooks


def test_a_hook_that_stays_has_a_number_of_its_own_in_each_call() -> None:
    def fn(x, linear):
        linear.register_forward_hook(lambda module, given, found: found + 1)
        return x + 1

    linear = nn.Linear(3, 3)
    x = torch.ones(3)
    plain = linear(x)
    compiled = capture(fn, fullgraph=False)
    compiled(x, linear)
    compiled(x, linear)
    assert len(linear._forward_hooks) == 2
    assert RemovableHandle.next_id > max(linear._forward_hooks)
    torch.testing.assert_close(linear(x), plain + 2)


# ---- trees of optree


def tree_programs() -> dict[str, Callable[..., Any]]:
    optree = pytest.importorskip("optree")
    cxx = pytest.importorskip("torch.utils._cxx_pytree")

    def flattened(x):
        leaves, spec = cxx.tree_flatten({"b": [x, 2], "a": (x,)})
        return cxx.tree_unflatten([leaf * 2 for leaf in leaves], spec), spec.num_leaves

    return {
        "tree_map": lambda x: optree.tree_map(lambda leaf: leaf + 1, {"b": [x, 2], "a": Pair(x, 3)}),
        "tree_leaves": lambda x: (optree.tree_leaves({"a": x + 1}), optree.tree_all([1, 2])),
        "tree_reduce": lambda x: optree.tree_reduce(lambda a, b: a + b, [x, (x, x)]),
        "torchs_tree_map": lambda x: cxx.tree_map_only(torch.Tensor, lambda leaf: leaf + 1, [x, (x, 1)]),
        "torchs_flatten": flattened,
    }


@pytest.mark.parametrize(
    "name", ["tree_map", "tree_leaves", "tree_reduce", "torchs_tree_map", "torchs_flatten"]
)
def test_trees_are_flattened_by_optree(name: str) -> None:
    check(tree_programs()[name], torch.ones(3), calls=2)


def test_a_tree_from_outside_is_guarded() -> None:
    optree = pytest.importorskip("optree")

    def fn(x, tree):
        return optree.tree_map(lambda leaf: leaf * x, tree)

    compiled = capture(fn)
    x = torch.full((2,), 3.0)
    for tree in ({"a": [1, 2]}, {"a": [1, 4]}, {"a": (1, 4), "b": 2}):
        expected, found = fn(x, tree), compiled(x, tree)
        assert str(expected) == str(found)
    assert recompiles(compiled) == 2


def test_a_class_registered_after_the_capture_is_noticed() -> None:
    optree = pytest.importorskip("optree")

    class Late:
        def __init__(self, a: int, b: int) -> None:
            self.a, self.b = a, b

    def fn(x, late):
        return len(optree.tree_leaves([late, 1], namespace="late classes")) * x

    compiled, x, late = capture(fn), torch.ones(2), Late(1, 2)
    assert compiled(x, late).tolist() == [2.0, 2.0]
    optree.register_pytree_node(
        Late, lambda one: ((one.a, one.b), None), lambda _, parts: Late(*parts), namespace="late classes"
    )
    try:
        assert compiled(x, late).tolist() == [3.0, 3.0]
    finally:
        optree.unregister_pytree_node(Late, namespace="late classes")
    assert compiled(x, late).tolist() == [2.0, 2.0]


# ---- TorchScript


def test_a_traced_function_is_in_the_graph() -> None:
    traced = torch.jit.trace(lambda x: x.sin() + 1 if x.sum() > 0 else x, torch.ones(3))
    for backend in ("eager", "aot_eager"):
        compiled = framelift.compile(lambda x: traced(x) * 2, backend=backend, fullgraph=True)
        for x in (torch.ones(3), -torch.ones(3)):  # the way that was seen
            torch.testing.assert_close(compiled(x), (x.sin() + 1) * 2)


# ---- lazy modules


class ManyInputs(LazyModuleMixin, nn.Module):  # type: ignore[misc]
    """Makes parameters, and a module, of a list of inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.UninitializedParameter()

    def initialize_parameters(self, inputs: list[torch.Tensor]) -> None:
        self.scale.materialize((inputs[0].shape[-1],))
        nn.init.normal_(self.scale)
        self.linear = nn.Linear(inputs[0].shape[-1], len(inputs))

    def forward(self, inputs: list[torch.Tensor]) -> Any:
        return self.linear(inputs[0] * self.scale)


LAZY: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "linear": (lambda: nn.LazyLinear(3), torch.ones(2, 4)),
    "layers": (lambda: nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU()), torch.rand(3, 5)),
    "many": (lambda: nn.Sequential(*(nn.LazyLinear(n) for n in range(2, 14))), torch.rand(2, 3)),
    "convolution": (lambda: nn.LazyConv2d(3, 2), torch.rand(2, 3, 5, 5)),
    "of a program's own": (ManyInputs, [torch.ones(3, 5), torch.ones(3, 5)]),
}


@pytest.mark.parametrize("name", LAZY)
def test_the_first_call_of_a_lazy_module_is_captured_whole(name: str) -> None:
    make, given = LAZY[name]
    results = []
    for compiles in (False, True):
        torch.manual_seed(3)
        module = make()
        fn: Any = framelift.compile(module, backend="eager", fullgraph=True) if compiles else module
        calls = [fn(given) for _ in range(2)]
        results.append((calls, dict(module.state_dict()), type(module), torch.rand(2)))
    (calls, state, kind, drawn), (compiled_calls, compiled_state, compiled_kind, compiled_drawn) = results
    assert all(map(torch.equal, calls, compiled_calls)) and kind is compiled_kind
    assert torch.equal(drawn, compiled_drawn) and state.keys() == compiled_state.keys()
    assert all(torch.equal(state[key], compiled_state[key]) for key in state)


def test_a_lazy_module_that_looks_at_its_input_breaks() -> None:
    class Looking(ManyInputs):
        def initialize_parameters(self, inputs: list[torch.Tensor]) -> None:
            if inputs[0].sum() > 0:
                super().initialize_parameters(inputs)

    def fn(inputs, module):
        return module(inputs)

    torch.manual_seed(3)
    expected = Looking()([torch.ones(2, 3)])
    torch.manual_seed(3)
    compiled = capture(fn, fullgraph=False)
    assert torch.equal(compiled([torch.ones(2, 3)], Looking()), expected)
    with pytest.raises(RuntimeError, match="has not been fully initialized"):
        compiled([-torch.ones(2, 3)], Looking())


# ---- what classes and functions say of themselves


def hinted(a: int, b: float = 2.0) -> str:
    return ""


def test_hints_and_signatures_of_functions() -> None:
    def fn(x):
        bound = inspect.signature(hinted).bind(x)
        bound.apply_defaults()
        return bound.arguments["a"] * bound.arguments["b"], typing.get_type_hints(hinted)

    check(fn, torch.ones(3), calls=2)


def test_subclasses_are_guarded() -> None:
    class Base: ...

    class First(Base): ...

    def fn(x):
        return x * len(Base.__subclasses__())

    compiled = capture(fn, torch.ones(2))

    class Second(Base): ...

    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0)) and recompiles(compiled) == 1
    del First, Second


def test_a_named_tuple_of_a_local_class_lives_on() -> None:
    def fn(x):
        made = collections.namedtuple("made", "a b", defaults=[3])  # type: ignore[misc]
        return made(x + 1), made, [made(1, 2)]

    compiled = capture(fn)
    for _ in range(2):
        value, cls, others = compiled(torch.ones(2))
        assert type(value) is cls and type(others[0]) is cls and cls._field_defaults == {"b": 3}
        assert torch.equal(value.a, torch.full((2,), 2.0)) and cls.__module__ == __name__


# ---- what each thread has of its own

SETTINGS = threading.local()


def test_a_thread_sees_what_it_has_of_a_threading_local() -> None:
    def fn(x):
        if not hasattr(SETTINGS, "scale"):
            SETTINGS.scale = 5
        SETTINGS.calls = getattr(SETTINGS, "calls", 0) + 1
        return x * SETTINGS.scale

    SETTINGS.scale = 3
    compiled = capture(fn)
    x, seen = torch.ones(2), []
    assert torch.equal(compiled(x), x * 3) and SETTINGS.calls == 1
    thread = threading.Thread(target=lambda: seen.append((compiled(x), SETTINGS.scale, SETTINGS.calls)))
    thread.start()
    thread.join()
    assert torch.equal(seen[0][0], x * 5) and seen[0][1:] == (5, 1)
    SETTINGS.scale = 4
    assert torch.equal(compiled(x), x * 4) and SETTINGS.calls == 2
    del SETTINGS.scale, SETTINGS.calls


class PerThread(threading.local):
    made = 0

    def __init__(self, scale: float) -> None:
        PerThread.made += 1
        self.stack = [scale]


def test_what_a_class_makes_for_each_thread_anew() -> None:
    def fn(x):
        local.stack.append(len(local.stack))
        return x * local.stack[0] + sum(local.stack), list(local.stack)

    local = PerThread(3.0)
    PerThread.made = 0
    compiled = capture(fn)
    x, seen = torch.ones(2), []
    assert torch.equal(compiled(x)[0], x * 7) and local.stack == [3.0, 1]
    assert compiled(x)[1] == local.stack == [3.0, 1, 2]

    def elsewhere() -> None:
        with framelift.set_stance("force_eager"):
            seen.append((compiled(x)[1], PerThread.made))
        seen.append((compiled(x)[1], PerThread.made))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [([3.0, 1], 1), ([3.0, 1, 2], 1)]
    assert compiled(x)[1] == [3.0, 1, 2, 3]


def test_a_new_thread_runs_what_a_class_does_for_it() -> None:
    def fn(x):
        return x * len(local.stack)

    local = PerThread(3.0)
    local.stack.append(4.0)
    compiled = framelift.compile(fn, backend="eager")
    x, seen = torch.ones(2), []
    assert torch.equal(compiled(x), x * 2)
    thread = threading.Thread(target=lambda: seen.append(compiled(x)))
    thread.start()
    thread.join()
    assert torch.equal(seen[0], x) and torch.equal(compiled(x), x * 2)
