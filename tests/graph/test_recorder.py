"""The graph that a trace records, and the tensors in it: node for node what the program called, and with the
eager backend bit for bit what eager gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded_graphs import F, W, X, check, reason

import framelift


def targets(fn: Callable[..., Any], *args: Any) -> list[Any]:
    return [node.target for node in check(fn, *args)]


# ---- the nodes of a graph


def add_one(x):
    x += 1
    return x


NODES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "operators": (
        lambda x: -(x + 1) * x @ x.T,
        [operator.add, operator.neg, operator.mul, getattr, operator.matmul],
    ),
    "reflected operators": (lambda x: 1 + x, [operator.add]),
    "comparison": (lambda x: x > 0, [operator.gt]),
    "methods": (lambda x: x.view(-1).add(1), ["view", "add"]),
    "functions": (lambda x: torch.sin(x), [torch.sin]),
    "the functional API": (lambda x: F.linear(x, x), [torch._C._nn.linear]),
    "the functional API in Python": (lambda x: F.relu(x), [F.relu]),
    "subscripts": (lambda x: x[0], [operator.getitem]),
    "stores": (lambda x: operator.setitem(x, 0, 1.0), [operator.setitem]),
    "properties that are views": (lambda x: x.mT, [getattr]),
    "sizes": (lambda x: x * x.shape[0] + x.size(1) + x.dim() + len(x) + x.numel(), 5 * [operator.add]),
    "flags": (
        lambda x: x.sin() if x.is_floating_point() and x.is_contiguous() and not x.is_cuda else x,
        ["sin"],
    ),
    "dtypes": (lambda x: x.to(x.dtype).cos() if x.dtype is torch.float32 else x, ["cos"]),
    "devices": (lambda x: torch.zeros(2, device=x.device) + 1, [torch.zeros, operator.add]),
    "nothing dead": (lambda x: (x.sin(), x.cos().exp(), torch.zeros(3), x + 1)[-1], [operator.add]),
    "a view nobody uses": (lambda x: (x.view(-1), x.exp())[1], ["exp"]),
    "random numbers nobody uses": (lambda x: (torch.rand(2), x + 1)[1], [torch.rand, operator.add]),
    "dropout nobody uses": (lambda x: (F.dropout(x), x + 1)[1], [F.dropout, operator.add]),
    "in place": (lambda x: x.add_(1) is x, ["add_"]),
    "several results": (lambda x: x.max(0)[0], ["max", operator.getitem]),
    "augmented assignment": (add_one, [operator.iadd]),
    "empty no_grad": (
        lambda x: (torch.no_grad().__enter__(), torch.set_grad_enabled(True), x + 1)[-1],
        [operator.add],
    ),
    "sum": (lambda x: sum([x, x, x]), ["add"] * 3),
    "operators by name": (lambda x: torch.ops.aten.sin(x), [torch.ops.aten.sin]),
}
NODES["sizes"] = (NODES["sizes"][0], [operator.mul] + 4 * [operator.add])


@pytest.mark.parametrize("name", NODES)
def test_a_node_per_call(name: str) -> None:
    fn, expected = NODES[name]
    assert targets(fn, X.clone()) == expected


def test_statistics_are_updated_though_nobody_uses_the_result() -> None:
    def fn(x, mean, var):
        F.batch_norm(x, mean, var, training=True)
        return x + 1

    for _ in range(2):  # from the memory, if it were remembered
        assert targets(fn, X, torch.zeros(4), torch.ones(4)) == [F.batch_norm, operator.add]


def test_a_node_knows_the_line_of_the_program() -> None:
    def fn(x):
        y = x.sin()
        return y.max(0)[0]

    first = fn.__code__.co_firstlineno
    traces = [node.meta["stack_trace"] for node in check(fn, X)]
    assert [f"line {first + n}" in trace and __file__ in trace for n, trace in zip((1, 2, 2), traces)] == [
        True
    ] * 3


def test_an_input_only_looked_at_is_no_input_of_the_graph() -> None:
    report = framelift.explain(lambda x, y: x * y.shape[0])(X, X)
    assert [node.op for node in report.graphs[0].graph.nodes].count("placeholder") == 1


def test_finalisers_that_the_collector_runs_are_not_recorded() -> None:
    import gc

    class Late:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            torch.ones(1) + 1

    def fn(x):
        for _ in range(300):
            x = x + [[] for _ in range(5)].__len__()
        return x

    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(50)
        Late()
        assert len(check(fn, X)) == 300
        assert gc.isenabled()
    finally:
        gc.set_threshold(*thresholds)


# ---- what can't be captured has a reason

KEPT = [torch.ones(3)]

BREAKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "branch": ("data-dependent branch", lambda x: x + 1 if x.sum() > 0 else x),
    "item": ("data-dependent value", lambda x: x.sum().item()),
    "float": ("data-dependent value", lambda x: float(x.sum())),
    "int": ("data-dependent value", lambda x: int(x.sum())),
    "tolist": ("data-dependent value", lambda x: x.tolist()),
    "numpy": ("data-dependent value", lambda x: x.numpy().tolist()),
    "nonzero": ("data-dependent shape", lambda x: x.nonzero()),
    "mask": ("data-dependent shape", lambda x: x[x > 0]),
    "where": ("data-dependent shape", lambda x: torch.where(x > 0)),
    "unique": ("data-dependent shape", lambda x: x.unique()),
    "data_ptr": ("address of an abstract value", lambda x: x.data_ptr() == 0),
    "repr": ("data-dependent value", lambda x: repr(x + 1)),
    "format": ("data-dependent value", lambda x: len(f"{x + 1}")),
    "equal": ("data-dependent value", lambda x: torch.equal(x, x)),
    "all": ("data-dependent branch", lambda x: bool((x >= 0).all())),
    "in a list": ("data-dependent branch", lambda x: x.sum() in [1.0, 2.0]),
    "subscript by a scalar": ("data-dependent value", lambda x: x[x.sum().long() * 0]),
    "histogram": ("operator without a fake kernel", lambda x: torch.histogram(x, 3)[0]),
    "a generator": ("argument that a graph can't hold", lambda x: torch.rand(2, generator=torch.Generator())),
    "from numpy": ("unknown tensor", lambda x: x + KEPT[0].detach().new_tensor(1.0) * hidden()),
    "detach_ of an input": ("run-time effect", lambda x: x.detach_()),
    "resize_ of an input": ("memory of a tensor", lambda x: x.resize_(2)),
}


def hidden() -> Any:
    """A tensor that the trace can't know."""
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        return torch.ones(4)


@pytest.mark.parametrize("name", [n for n in BREAKS if n not in ("from numpy", "a generator")])
def test_a_break_says_why(name: str) -> None:
    expected, fn = BREAKS[name]
    assert reason(fn, X.clone()) == expected


def test_a_tensor_that_was_smuggled_in_breaks() -> None:
    from framelift.graph.recorder import Recorder

    recorder = Recorder(lambda: None)
    real = torch.ones(2)
    for call in (lambda: real + 1, lambda: torch.cat([real, real]), lambda: real.size(), lambda: real.shape):
        with pytest.raises(framelift.core.breaks.Break, match="unknown tensor"):
            with recorder.fakes, recorder:
                call()
    assert torch._C._len_torch_function_stack() == 0


def test_a_mode_around_the_call_breaks() -> None:
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.sin else out

    with Doubling():
        assert torch.equal(framelift.compile(lambda x: torch.sin(x), backend="eager")(X), X.sin() * 2)


# ---- errors of operators


def test_the_error_of_an_operator_is_eagers() -> None:
    def fn(x, y):
        return x @ y

    with pytest.raises(RuntimeError) as want:
        fn(X, X)
    with pytest.raises(RuntimeError) as got:
        framelift.compile(fn, backend="eager")(X, X)
    assert str(got.value) == str(want.value) and type(got.value) is type(want.value)


def wrong_shape(x):
    return x @ x


def wrong_index(x):
    return x[10]


def wrong_argument(x):
    return x.view(5, 5)


def wrong_keyword(x):
    return torch.sum(x, nothing=1)


def wrong_type(x):
    return torch.sin("x")


def leaf_in_place(x):
    return x.requires_grad and W.add_(1)


@pytest.mark.parametrize("wrong", [wrong_shape, wrong_index, wrong_argument, wrong_keyword, wrong_type])
def test_the_error_of_an_operator_can_be_caught(wrong: Callable[..., Any], capfd: Any) -> None:
    def fn(x):
        y = x + 1
        try:
            y = y + wrong(x)
        except Exception as error:
            y = y * (2 if isinstance(error, RuntimeError) else 3)
        return y * 5

    check(fn, X)
    assert "failed while attempting" not in capfd.readouterr().err
