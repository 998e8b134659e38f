"""`framelift.testing`: comparing results, copying inputs, counting backends, timing, odd layouts."""

from __future__ import annotations

import collections
import dataclasses
import doctest
import importlib
import random
import threading
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import framelift
from framelift import testing
from framelift.testing import clone_inputs, difference, same

NAN = float("nan")
T = torch.tensor


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any = None


Named = collections.namedtuple("Named", "a b")


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


# ---- same


def ragged(x: float) -> torch.Tensor:
    return torch.nested.nested_tensor([T([x]), T([1.0, 2.0])], layout=torch.jagged)


SAME: list[tuple[Any, Any]] = [
    (1, 1),
    ("a", "a"),
    (1.0, 1.0 + 1e-9),
    (NAN, NAN),
    (complex(1, 2), complex(1, 2 + 1e-9)),
    (T([1.0, 2.0]), T([1.0, 2.00001])),
    (T([1.0, NAN]), T([1.0, NAN])),
    (T([float("inf")]), T([float("inf")])),
    (T([1.0], dtype=torch.float16), T([1.001], dtype=torch.float16)),
    (T([1.0], dtype=torch.bfloat16), T([1.0079], dtype=torch.bfloat16)),
    (T([1 + 2j]), T([1 + 2.00001j])),
    (T([]), T([])),
    ([T([1.0]), {"a": (1, T([2]))}], [T([1.0]), {"a": (1, T([2]))}]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Pair(T([1.0])), Pair(T([1.0]))),
    (Named(T([1.0]), None), Named(T([1.0]), None)),
    (Holder(T([1.0])), Holder(T([1.0]))),
    ({1, 2}, {2, 1}),
    (numpy.ones(2), numpy.ones(2) + 1e-12),
    (numpy.float64(2.0), numpy.float64(2.0)),
    (numpy.array(["a"]), numpy.array(["a"])),
    (T([[0.0, 1.0]]).to_sparse(), T([[0.0, 1.0]]).to_sparse()),
    (torch.empty(2, device="meta"), torch.empty(2, device="meta")),
    (ragged(1.0), ragged(1.0)),
]

DIFFERENT: list[tuple[Any, Any, str]] = [
    (1, 2, "the result: 2 instead of 1"),
    (1, 1.0, "a float instead of a int"),
    (True, 1, "a int instead of a bool"),
    (1.0, 1.01, "1.01 instead of 1.0"),
    (1.0, NAN, "nan instead of 1.0"),
    (T([1.0, 2.0]), T([1.0, 2.1]), "1 of 2 elements differ, by at most 0.1"),
    (T([1.0]), T([NAN]), "1 NaN instead of 0"),
    (T([float("inf")]), T([float("-inf")]), "1 of 1 elements differ, by at most inf"),
    (T([1]), T([2]), "1 of 1 elements differ"),
    (T([True]), T([False]), "1 of 1 elements differ"),
    (T([1.0]), T([1.0], dtype=torch.float64), "the dtype torch.float64 instead of torch.float32"),
    (T([1.0]), T([[1.0]]), "the shape (1, 1) instead of (1,)"),
    (T([1.0]), T([1.0]).to_sparse(), "the layout torch.sparse_coo instead of torch.strided"),
    (T([[0.0, 1.0]]).to_sparse(), T([[1.0, 0.0]]).to_sparse(), "2 of 2 elements differ"),
    ([1, [2, {"a": T([3])}]], [1, [2, {"a": T([4])}]], "[1][1]['a']: 1 of 1 elements differ"),
    ([1], [1, 2], "2 elements instead of 1"),
    ([1], (1,), "a tuple instead of a list"),
    ({"a": 1}, {"b": 1}, "the keys ['b'] instead of ['a']"),
    (Pair(1), Pair(2), "left: 2 instead of 1"),
    (Holder(T([1])), Holder(T([2])), "value: 1 of 1 elements differ"),
    ({1}, {2}, "{2} instead of {1}"),
    (numpy.ones(2), numpy.zeros(2), "2 of 2 elements differ"),
    (numpy.ones(2), numpy.ones(2, dtype="float32"), "the dtype float32 instead of float64"),
    (torch.empty(2, device="meta"), torch.empty(3, device="meta"), "the shape (3,) instead of (2,)"),
    (ragged(1.0), ragged(2.0), "[0]: 1 of 1 elements differ"),
    (nn.Linear(1, 1), nn.Linear(1, 1), "state_dict()['weight']: 1 of 1 elements differ"),
]


@pytest.mark.parametrize("a, b", SAME, ids=lambda value: type(value).__name__)
def test_results_that_are_the_same(a: Any, b: Any) -> None:
    assert difference(a, b) is None and same(a, b) and same(b, a)


@pytest.mark.parametrize("a, b, said", DIFFERENT, ids=lambda value: type(value).__name__)
def test_results_that_are_not_and_what_is_said_of_them(a: Any, b: Any, said: str) -> None:
    found = difference(a, b)
    assert said in str(found) and not same(a, b) and not same(b, a)


def test_a_result_that_leads_to_itself() -> None:
    a, b = [T([1.0])], [T([1.0])]
    a.append(a), b.append(b)  # type: ignore[arg-type]
    assert same(a, b)
    b[0] = T([2.0])
    assert not same(a, b)


def test_what_counts_can_be_said() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert same(x, x.t().contiguous().t()) and not same(x, x.t().contiguous().t(), exact_stride=True)
    assert same(x[:1], x[:1].clone().as_strided((1, 3), (7, 1)), exact_stride=True), "one element: no stride"
    assert same(T([1.0]), T([1.0], dtype=torch.float64), exact_dtype=False)
    assert not same(T([NAN]), T([NAN]), equal_nan=False)
    assert same(T([1.0]), T([1.2]), tol=0.5) and not same(T([1.0]), T([1.00001]), tol=1e-7)
    assert same([1, T([2]), T([1.0])], [3, T([4]), T([1.0])], ignore_non_fp=True)
    assert same(x, x * 1.5, cos_similarity=True) and not same(x, -x, cos_similarity=True)


def test_a_reference_in_double_precision_is_what_counts() -> None:
    exact = torch.full((4,), 1.0, dtype=torch.float64)
    expected, found = torch.full((4,), 1.01), torch.full((4,), 0.985)
    assert not same(expected, found), "they are far apart"
    assert same(expected, found, exact), "and both about as far from what is right"
    assert not same(expected, torch.full((4,), 0.96), exact), "this one is further away"
    assert same([expected], [found], [exact]) and not same([expected], [found], [exact.new_zeros(3)])
    assert same({"a": expected}, {"a": found}, {"a": exact}) and same(1.01, 0.985, 1.0)


def test_rmse_and_cosine_similarity_measure_differences() -> None:
    assert testing.rmse(T([1, 2]), T([1, 4])) == 2**0.5
    assert testing.cosine_similarity(T([0.0]), T([0.0])) == 1.0 and testing.rmse(T([]), T([])) == 0.0
    found = difference(T([1.0, 0.0]), T([0.0, 1.0]))
    assert found is not None and (found.rmse, found.largest, found.cosine) == (1.0, 1.0, 0.0)


# ---- copies


def test_copies_keep_what_inputs_have_in_common() -> None:
    base = torch.arange(12.0)
    x, y = base[2:8].view(2, 3), base.as_strided((3, 3), (1, 2), 1)
    lock = threading.Lock()
    given = {"x": x, "again": [x, (y,)], "n": 3, "lock": lock, "pair": Pair(x, base)}
    made = clone_inputs(given)
    a, b = made["x"], made["again"][1][0]
    assert made["again"][0] is a is made["pair"].left and made["lock"] is lock and same(made["x"], x)
    assert (b.stride(), b.storage_offset(), tuple(b.shape)) == ((1, 2), 1, (3, 3))
    a.fill_(-1.0)
    assert torch.equal(base, torch.arange(12.0)), "nothing is shared with the originals"
    assert made["pair"].right[2:8].eq(-1).all() and (b == -1).any(), "and all that was with each other"


def test_copies_keep_kinds_of_tensors() -> None:
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), 3.0)
    x.note = "kept"  # type: ignore[attr-defined]
    made, led_to, expanded, parameter, sparse = clone_inputs(
        (
            x,
            x * 2,
            torch.ones(1).expand(3),
            nn.Parameter(torch.ones(1), requires_grad=False),
            torch.eye(2).to_sparse(),
        )
    )
    assert made.requires_grad and made.is_leaf and torch.equal(made.grad, x.grad) and made.grad is not x.grad
    assert made.note == "kept" and led_to.requires_grad and led_to.is_leaf and same(led_to, x * 2)
    assert expanded.stride() == (0,) and type(parameter) is nn.Parameter and not parameter.requires_grad
    assert sparse.layout is torch.sparse_coo
    imaginary = T([1 + 2j]).conj()
    (copied,) = clone_inputs([imaginary])
    assert copied.is_conj() and torch.equal(copied, imaginary)


def test_copies_of_modules_and_what_else_there_is() -> None:
    net = nn.Linear(2, 2)
    generator = torch.Generator().manual_seed(3)
    array = numpy.ones(2)
    other, weight, drawing, copied, named = clone_inputs([net, net.weight, generator, array, Named(array, 1)])
    assert other.weight is weight is not net.weight and same(other, net)
    assert torch.equal(torch.rand(2, generator=drawing), torch.rand(2, generator=generator))
    assert named.a is copied is not array and type(named) is Named


def test_random_numbers_are_put_back() -> None:
    def draw() -> Any:
        return torch.rand(2).tolist(), random.random(), numpy.random.rand()

    with testing.preserve_rng_state():
        first = draw()
    with pytest.raises(ValueError), testing.preserve_rng_state():
        draw()
        raise ValueError
    assert draw() == first != draw()


def test_parameters_are_put_back() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    weight = net[0].weight
    restore = testing.checkpoint_parameters(net)
    net(torch.randn(4, 2)).sum().backward()
    torch.optim.SGD(net.parameters(), lr=1.0).step()
    assert not same(before, dict(net.state_dict()))
    restore()
    assert same(before, dict(net.state_dict())) and net[0].weight is weight and weight.grad is None


# ---- backends


def program(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2
    print("hello")
    return y + x.shape[0]


def test_graphs_and_calls_are_counted() -> None:
    counter = testing.CompileCounter()
    framelift.compile(program, backend=counter)(torch.ones(2))
    assert (counter.frame_count, counter.op_count) == (2, 3)  # sin and mul before print, add after it
    counter.clear()
    assert (counter.frame_count, counter.op_count) == (0, 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_graphs_are_counted_in_front_of_another_backend(backend: str) -> None:
    counter = testing.CompileCounterWithBackend(backend)
    x = torch.ones(2, requires_grad=True)
    framelift.compile(program, backend=counter)(x).sum().backward()
    # sin and mul before print, add after it
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (2, 3, 2)
    assert x.grad is not None and torch.allclose(x.grad, 2 * torch.ones(2).cos())
    counter.clear()
    assert not counter.graphs
    with pytest.raises(framelift.exc.InvalidBackend):
        testing.CompileCounterWithBackend("none")


def test_graphs_are_kept() -> None:
    keeping, both = testing.EagerAndRecordGraphs(), testing.AotEagerAndRecordGraphs()
    framelift.compile(program, backend=keeping)(torch.ones(2))
    assert [len(graph.graph.find_nodes(op="call_method")) for graph in keeping.graphs] == [1, 0]
    x = torch.ones(2, requires_grad=True)
    framelift.compile(program, backend=both)(x).sum().backward()
    assert [len(each) for each in (both.graphs, both.fw_graphs, both.bw_graphs)] == [2, 2, 2]


# ---- check


def test_check_says_how_a_compiled_function_differs() -> None:
    def wrong(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda *given: [t + 1 for t in graph(*given)]

    def drawing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda *given: (torch.rand(1), graph(*given))[1]

    def spoiling(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda x: (graph(x), x.zero_())[0]

    fn = lambda x: x.sin() * 2  # noqa: E731
    compiled = testing.check(fn, torch.ones(2), calls=3, settings={"fullgraph": True})
    assert framelift.entries(compiled)[0].entries[0].hits == 2  # of three calls, the first is captured
    testing.check(lambda x: torch.dropout(x, 0.5, True), torch.ones(9), settings={"backend": "aot_eager"})
    for backend, said in {
        wrong: "2 of 2 elements",
        drawing: "random numbers",
        spoiling: "its arguments",
    }.items():
        with pytest.raises(AssertionError, match=said):
            testing.check(fn, torch.ones(2), settings={"backend": backend})


def test_check_expects_the_same_error() -> None:
    def fails(x: torch.Tensor) -> Any:
        raise KeyError("no")

    testing.check(fails, torch.ones(1))


# ---- inputs, times


def test_layouts_are_as_they_were_asked_for() -> None:
    x = testing.rand_strided((2, 0, 3), (1, 1, 1), torch.int64, offset=2)
    assert tuple(x.shape) == (2, 0, 3) and x.storage_offset() == 2 and x.dtype is torch.int64
    for dtype in (torch.bool, torch.bfloat16, torch.complex64, torch.float64):
        assert testing.rand_strided((2, 3), (5, 1), dtype).dtype is dtype
    assert testing.rand_strided((2,), (1,), requires_grad=True).requires_grad
    made, again = (testing.random_layouts((3, 4), count=8, seed=1) for _ in range(2))
    assert len({x.stride() for x in made}) > 3 and all(x.shape == (3, 4) for x in made)
    assert same(made, again, exact_stride=True)
    assert [x.shape for x in testing.random_layouts((), count=3)] == [torch.Size([])] * 3


def test_a_model_is_timed() -> None:
    calls = []
    timing = testing.time_model(calls.append, 1, times=3, warmup=2)
    assert len(calls) == 5 and len(timing.seconds) == 3 and 0 < timing.best <= timing.median
    assert "of 3)" in str(timing) and timing.mean > 0


DEBUGGING = ["debugging.comparing", "debugging.inputs"]


@pytest.mark.parametrize("name", ["testing", "testing.timing", "testing.checking", *DEBUGGING])
def test_examples_in_docstrings(name: str) -> None:
    names = {"torch": torch, "__name__": "examples"}  # Framelift's own functions are not captured
    found = doctest.testmod(importlib.import_module(f"framelift.{name}"), extraglobs=names)
    assert found.attempted and not found.failed
