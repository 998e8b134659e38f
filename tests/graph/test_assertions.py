"""What only the data decides, and the program or an operator relies on, is checked when a graph runs.

Each program is called with data for which all is well, so that a graph is compiled, and with data for which
it is not: then it must raise as it does eagerly, whatever the backend. A graph that has changed an input
can't be followed by the frame itself, so it is the graph's own error then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental import symbolic_shapes

import framelift
from check import captures
from check import check as as_eagerly

Program = Callable[..., Any]
PROGRAMS: dict[str, tuple[Program, list[tuple[Any, ...]]]] = {}


def series(*args: tuple[Any, ...]) -> Callable[[Program], Program]:
    def add(fn: Program) -> Program:
        PROGRAMS[fn.__name__] = fn, list(args)
        return fn

    return add


def numbers(*values: Any) -> list[tuple[Any, ...]]:
    return [(torch.tensor(value), torch.ones(6)) for value in values]


@series(*numbers(3, 4, 3))
def an_equation(t, x):
    n = t.item()
    torch._check(n == 3)
    return x + n


@series(*numbers(3, 4))
def an_equation_of_what_is_not_used(t, x):
    torch._check(t.item() == 3)
    return x + 1


@series(*numbers(3, 12, -1, 4))
def bounds(t, x):
    n = t.item()
    torch._check_is_size(n)
    torch._check(n < 10, lambda: "too large")
    return torch.zeros(n), n * 0.5


@series(*numbers(4, 5, 2))
def several_facts(t, x):
    n = t.item()
    torch._check(n % 2 == 0)
    torch._check((n > 3) | (n < 1))
    return x * n


@series(*numbers(0.5, 2.5))
def a_float(t, x):
    f = t.item()
    torch._check(f < 1)
    return x * f


@series(*numbers(2, 4))
def sizes_of_a_view(t, x):
    return x.view(t.item(), 3) + 1


@series(*numbers(6, 4))
def sizes_that_must_be_equal(t, x):
    return x + torch.ones(t.item())


@series(*[(torch.tensor(a), torch.tensor(b)) for a, b in (([1, 0, 1], [1, 1, 0]), ([1, 0, 1], [1, 1, 1]))])
def sizes_that_data_decides(a, b):
    return a.nonzero() + b.nonzero()


@series(*numbers(3, 4))
def a_tensor_that_is_asserted(t, x):
    torch._assert_async(t == 3)
    return x + 1


@series(*numbers(3, 4))
def a_tensor_that_is_asserted_with_a_text(t, x):
    torch._assert_async(t == 3, "not three")
    return x + 1


@series(*numbers(True, False, True))
def a_truth_value(t, x):
    return bool(t.item()), t.item(), x + 1


@series(*numbers(3, 0, -1))
def the_truth_of_a_number(t, x):
    return bool(t.item()), t.item() > 1, x + 1


@series(*numbers(3, 12, 1))
def a_range(t, x):
    n = t.item()
    torch.sym_constrain_range(n, min=2, max=6)
    return x + n


@series(*numbers(3, 12, -1))
def a_range_of_sizes(t, x):
    n = t.item()
    torch._constrain_as_size(n, 1, 6)
    return torch.zeros(n)


@series(*numbers(3, 12, -1))
def a_range_by_operator(t, x):
    n = t.item()
    torch.ops.aten.sym_constrain_range_for_size.default(n, min=1, max=6)
    return torch.zeros(n)


@series(*numbers(3, 12, -1))
def joined_conditions(t, x):
    n = t.item()
    torch._check(symbolic_shapes.sym_and(n > 0, n < 10, symbolic_shapes.sym_or(n < 5, n == 7)))
    return x + n


@series(*numbers(3, 12, -1))
def checks_with_errors_of_their_own(t, x):
    n = t.item()
    torch._check_value(n < 10, lambda: f"{n} is large")
    torch._check_index(n >= 0)
    torch._check_type(n != 5)
    return x + n


@series(*numbers(3, 12, -1))
def branches_that_raise(t, x):
    n = t.item()
    if n < 0:
        raise ValueError(f"{n} is negative")
    if not n < 10:
        raise IndexError(n)
    return torch.zeros(n) + n


@series(*numbers(3, -1))
def all_of_a_tensor(t, x):
    torch._check_tensor_all(x + t > 0, lambda: "not all")
    return x + t


@series(*numbers(3, 12, -1))
def lists(t, x):
    first, (second,) = t.reshape(1).tolist(), torch.stack([t, t + 1]).reshape(2, 1).tolist()[1]
    torch._check(second < 10)
    return x + first[0] * second, second


@series(*numbers(3, 12, -1))
def conversions(t, x):
    n, whole = float(t), int(t * 1.5)
    torch._check(whole < 10)
    return x * n + whole, n, whole


@series(*numbers(2, 12, -1))
def parts_of_sizes_in_data(t, x):
    first, second = torch.stack([t, 6 - t]).tolist()
    a, b = x.split([first, second])
    return a.sum() + 2 * b.sum()


def outcome(fn: Program, args: tuple[Any, ...]) -> Any:
    given = [arg.clone() for arg in args]
    try:
        result = fn(*given)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return "raises" if isinstance(error, RuntimeError) else f"raises {error!r}"
    parts = result if isinstance(result, tuple) else (result,)
    return [part.tolist() if isinstance(part, torch.Tensor) else (type(part), part) for part in parts]


def check(fn: Program, calls: list[tuple[Any, ...]], backend: str, captured: Any = None) -> None:
    capturing = framelift.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
    with capturing:
        compiled = framelift.compile(captured or fn, backend=backend, fullgraph=True)
        for args in calls:
            assert outcome(compiled, args) == outcome(captured or fn, args)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_condition_on_data_is_checked_when_the_graph_runs(name: str, backend: str) -> None:
    check(*PROGRAMS[name], backend)


@pytest.mark.parametrize(
    "name", ["an_equation_of_what_is_not_used", "bounds", "sizes_of_a_view", "a_truth_value"]
)
def test_with_inductor_too(name: str) -> None:
    check(*PROGRAMS[name], "inductor")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_checked_after_an_input_was_written(name: str, backend: str) -> None:
    fn, calls = PROGRAMS[name]

    def writing(t, x):
        x.add_(0)
        return fn(t, x)

    check(fn, calls, backend, writing)


@pytest.mark.parametrize("name", ["an_equation", "sizes_of_a_view", "sizes_that_must_be_equal", "a_float"])
def test_it_is_checked_where_gradients_are_computed(name: str) -> None:
    fn, calls = PROGRAMS[name]

    def gradient(t, x):
        x.requires_grad_()
        return torch.autograd.grad(compiled(t, x).sum(), x)[0]

    def eager(t, x):
        x.requires_grad_()
        return torch.autograd.grad(fn(t, x).sum(), x)[0]

    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
        for args in calls:
            assert outcome(gradient, args) == outcome(eager, args)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_size_marked_unbacked_need_not_be_known(backend: str) -> None:
    def fn(x, y):
        return x * 2 + x.shape[0], x.sum(0), torch.cat([x, y]), x[0]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for size in (4, 5, 1, 7):
        x = torch.arange(3.0 * size).reshape(size, 3)
        framelift.mark_unbacked(x, 0)
        assert all(map(torch.equal, compiled(x, torch.ones(2, 3)), fn(x, torch.ones(2, 3))))
    assert captures(compiled) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_operators_need_of_a_size_marked_unbacked_is_guarded(backend: str) -> None:
    compiled = framelift.compile(lambda x, y: x + y, backend=backend)
    for size in (4, 5):
        x = torch.ones(size)
        framelift.mark_unbacked(x, 0)
        assert outcome(compiled, (x, torch.ones(4))) == ([[2.0] * 4] if size == 4 else "raises")


def test_what_is_not_known_is_answered_as_the_question_says() -> None:
    def fn(t, x):
        n = t.item()
        torch._check(n > 2)
        known = symbolic_shapes.statically_known_true(n > 1), symbolic_shapes.statically_known_true(n > 5)
        supposed = symbolic_shapes.guard_or_false(n > 5), symbolic_shapes.guard_or_true(n > 5)
        return known, supposed, symbolic_shapes.has_free_symbols(n), x + n

    with framelift.config.patch(capture_scalar_outputs=True):
        compiled = framelift.compile(fn, backend="eager", fullgraph=True)
        known, supposed, is_symbol, _ = compiled(torch.tensor(8), torch.ones(2))
    assert (known, supposed, is_symbol) == ((True, False), (False, True), True)


def test_a_number_that_nobody_uses_is_not_asked_for() -> None:
    """Which would wait for a GPU. What is checked of one, or lives on, is."""

    def fn(x: torch.Tensor) -> Any:
        x.sum().item()
        (x > 3).any().item()
        checked, given = x.max().item(), x.min().item()
        torch._check(checked > 0)
        return x + 1, given

    with framelift.config.patch(capture_scalar_outputs=True):
        graphs: list[torch.fx.GraphModule] = []
        compiled = framelift.compile(fn, backend=lambda graph, _: graphs.append(graph) or graph.forward)
        assert compiled(torch.arange(3.0))[1] == 0
    targets = [node.target for node in graphs[0].graph.nodes]
    assert targets.count("item") == 2 and "any" not in targets and "sum" not in targets


def test_a_question_that_is_deprecated_is_answered_and_warned_of_in_each_call() -> None:
    def fn(x):
        return x + 1 if symbolic_shapes.guard_size_oblivious(x.size(0) == 0) else x - 1

    compiled = framelift.compile(fn, backend="eager", fullgraph=True, dynamic=True)
    for size in (3, 0, 5):
        with pytest.warns(FutureWarning, match="guard_size_oblivious"):
            assert torch.equal(compiled(torch.ones(size)), torch.ones(size) - 1)


def test_roots_of_numbers_of_data_are_checked() -> None:
    def fn(x: Any, t: Any) -> Any:
        return x / math.sqrt(t.item() + 1), math.sqrt(t.item())

    for number in (4.0, 0.3, -0.5):
        as_eagerly(fn, torch.arange(3.0), torch.tensor(number))
