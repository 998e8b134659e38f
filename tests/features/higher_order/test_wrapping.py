"""Operators that call a function and say something about it, and operators that nobody has listed: the
function is a body, and the operator is in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops._invoke_quant import InvokeQuant
from torch._higher_order_ops.base_hop import BaseHOP
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.print import print as print_operator
from torch._higher_order_ops.utils import register_fake
from torch._higher_order_ops.wrap import (
    dynamo_bypassing_wrapper,
    wrap,
    wrap_with_autocast,
    wrap_with_set_grad_enabled,
)
from torch._ops import HigherOrderOperator

import framelift
from check import check, entries, why_not
from framelift.exc import Unsupported
from framelift.testing import EagerAndRecordGraphs

SCALE = torch.tensor(3.0)
SEEN: list[int] = []


class Marked(BaseHOP):
    """An operator of the program's own, as torch makes them."""

    def __init__(self) -> None:
        super().__init__("framelift_tests_marked")


class Twice(HigherOrderOperator):
    """One that does more with a function than to call it on what comes after it."""

    def __init__(self) -> None:
        super().__init__("framelift_tests_twice")

    def __call__(self, fn: Any, x: Any) -> Any:
        return super().__call__(fn, x)


class Scaled(HigherOrderOperator):
    """One that is given no function."""

    def __init__(self) -> None:
        super().__init__("framelift_tests_scaled")

    def __call__(self, x: Any, by: Any) -> Any:
        return super().__call__(x, by)


marked, twice, scaled = Marked(), Twice(), Scaled()
register_fake(twice)(lambda fn, x: fn(*fn(x)))
register_fake(scaled)(lambda x, by: torch.empty_like(x))
scaled.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(lambda x, by: x * by)
QUANT = InvokeQuant(codegen_low_precision=False)


def logged(fn: Any) -> Any:
    def run(*args: Any) -> Any:
        SEEN.append(len(args))
        return fn(*args)

    return run


def keywords_and_constants(x: Any) -> Any:
    return wrap(lambda a, b, *, c: (a.sin() * b + c["c"], b, None), x, 2.5, c={"c": x.cos()})


def within_another(x: Any) -> Any:
    return wrap(lambda a: wrap(lambda b: b + SCALE, a) * 2, x)


def module_method(x: Any) -> Any:
    return wrap(torch.nn.ReLU().forward, x) + 1


def a_view(x: Any) -> Any:
    return wrap(lambda a: a.t(), x)


def drawn(x: Any) -> Any:
    return wrap(lambda a: a + torch.rand(2), x)


def without_grad(x: Any) -> Any:
    y = wrap_with_set_grad_enabled(False, lambda a: a * SCALE, x)
    return y, y.requires_grad, torch.is_grad_enabled()


def with_grad(x: Any) -> Any:
    with torch.no_grad():
        y = wrap_with_set_grad_enabled(True, lambda a: a * 2, x)
        return y * 1, y.requires_grad


def autocast(x: Any) -> Any:
    y = wrap_with_autocast("cpu", torch.bfloat16, True, None, lambda a: a @ a, x)
    return y, y.dtype is torch.bfloat16, x @ x


def bypassed(x: Any) -> Any:
    return dynamo_bypassing_wrapper(logged, lambda a: a.sin() + SCALE, x)


WRAPPING = {
    keywords_and_constants: "wrap",
    within_another: "wrap",
    module_method: "wrap",
    a_view: "wrap",
    drawn: "wrap",
    without_grad: "wrap_with_set_grad_enabled",
    with_grad: "wrap_with_set_grad_enabled",
    autocast: "wrap_with_autocast",
    bypassed: "dynamo_bypassing_wrapper",
}


def holds(graph: torch.fx.GraphModule, name: str) -> bool:
    graphs = [each for each in graph.modules() if isinstance(each, torch.fx.GraphModule)]
    targets = [node.target for each in graphs for node in each.graph.nodes]
    return any(isinstance(target, HigherOrderOperator) and target.name() == name for target in targets)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", WRAPPING, ids=lambda fn: fn.__name__)
def test_a_function_is_called_by_the_operator(fn: Callable[..., Any], backend: str) -> None:
    def outcome(call: Any) -> Any:
        torch.manual_seed(3)
        x = torch.arange(4.0).reshape(2, 2).requires_grad_()
        result = call(x)
        first = result[0] if isinstance(result, tuple) else result
        if first.requires_grad:
            first.sum().backward()
        return result, x.grad

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(outcome(compiled), outcome(fn))
    assert entries(compiled) == 1 and why_not(compiled) is None


@pytest.mark.parametrize("fn", WRAPPING, ids=lambda fn: fn.__name__)
def test_the_graph_holds_the_operator(fn: Callable[..., Any]) -> None:
    backend = EagerAndRecordGraphs()
    framelift.compile(fn, backend=backend, fullgraph=True)(torch.ones(2, 2))
    assert len(backend.graphs) == 1 and holds(backend.graphs[0], WRAPPING[fn])


def test_a_wrapper_is_called_when_the_graph_runs() -> None:
    compiled = framelift.compile(bypassed, backend="eager", fullgraph=True)
    SEEN.clear()
    for _ in range(3):
        compiled(torch.ones(2))
    assert SEEN == [2, 2, 2]  # what the function uses is handed to it


def test_a_change_outside_is_refused() -> None:
    def fn(x: Any) -> Any:
        return wrap(lambda a: (SEEN.append(1), a * 2)[1], x)

    with pytest.raises(Unsupported, match="a change to something from outside in wrap"):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    check(fn, torch.ones(2), fullgraph=False)


# ---- operators that torch, or the program, has made


def of_the_program(x: Any) -> Any:
    return marked(lambda a: a.sin() * SCALE, x, scheme="four")


def of_several(x: Any) -> Any:
    return marked(lambda a, b: (a + b, {"product": a * b}), x, x + 1)


def quantised(x: Any) -> Any:
    return InvokeQuant()(lambda a: a.sin() * SCALE, x, scheme="nf4")


def quantised_by_options(x: Any) -> Any:
    return QUANT(lambda a: a + SCALE, x)


def lists(x: Any) -> Any:
    return foreach_map(torch.add, [x, x + 1], [x * 2, x])


def a_list_and_a_number(x: Any) -> Any:
    return foreach_map(lambda a, b: a.sin() * b, (x, x + 1), 2.0)


def without_a_function(x: Any) -> Any:
    return scaled(x, 3) + 1


CAPTURED = [of_the_program, of_several, quantised, quantised_by_options, lists, a_list_and_a_number]


@pytest.mark.parametrize("fn", CAPTURED, ids=lambda fn: fn.__name__)
def test_an_operator_without_an_entry_is_captured(fn: Callable[..., Any]) -> None:
    backend = EagerAndRecordGraphs()
    x = torch.arange(3.0)
    expected = {
        of_the_program: lambda: x.sin() * 3,
        of_several: lambda: (x + x + 1, {"product": x * (x + 1)}),
        quantised: lambda: x.sin() * 3,
        quantised_by_options: lambda: x + 3,
        lists: lambda: [x * 3, x + 1 + x],
        a_list_and_a_number: lambda: [x.sin() * 2, (x + 1).sin() * 2],
    }[fn]()  # plainly, torch takes most of these in compiled functions only
    torch.testing.assert_close(framelift.compile(fn, backend=backend, fullgraph=True)(x), expected)
    torch.testing.assert_close(framelift.compile(fn, backend="aot_eager", fullgraph=True)(x), expected)
    assert any(isinstance(node.target, HigherOrderOperator) for node in backend.graphs[0].graph.nodes)


def test_gradients_go_through_an_operator_of_the_program() -> None:
    x = torch.arange(3.0, requires_grad=True)
    framelift.compile(of_the_program, backend="aot_eager", fullgraph=True)(x).sum().backward()
    torch.testing.assert_close(x.grad, 3 * torch.arange(3.0).cos())


def test_an_operator_without_a_function_is_a_call() -> None:
    check(without_a_function, torch.arange(3.0))
    with pytest.raises(Unsupported, match="an operand is differentiated, for which it has no rule"):
        framelift.compile(without_a_function, backend="eager", fullgraph=True)(
            torch.ones(2, requires_grad=True)
        )


def test_an_operator_that_calls_the_function_otherwise_is_refused() -> None:
    def fn(x: Any) -> Any:
        return twice(lambda a: a * SCALE, x)

    with pytest.raises(Unsupported):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_print_operator_prints_each_time(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    def fn(x: Any) -> Any:
        print_operator("sum {} of {n}", x.sum(), n=len(x))
        return x * 2

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in (1.0, 2.0):
        compiled(torch.full((2,), n))
    assert capfd.readouterr().out == "sum 2.0 of 2\nsum 4.0 of 2\n"
