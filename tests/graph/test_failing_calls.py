"""Calls that may fail on data stay in graphs, and compilers can't leave them out."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import framelift
from check import check, reasons
from framelift.core.breaks import BODIES, TENSOR_MEMORY
from framelift.graph.safe_operators import may_fail
from sameness import alike

ROWS, BEYOND = torch.tensor([0, 2, 1]), torch.tensor([0, 7, 1])
X = torch.arange(9.0).reshape(3, 3)
aten = torch.ops.aten

DROPPED_BY_COMPILERS: dict[str, Callable[[Any, Any], Any]] = {
    "nobody uses it": lambda x, i: (x[i], x + 1)[1],
    "only its shape is used": lambda x, i: torch.zeros_like(x[i]),
    "a view of it is unused": lambda x, i: (x[i].view(-1).sin(), x + 1)[1],
    "it is written over": lambda x, i: x[i].zero_() if x is None else (x[i].zero_(), x + 1)[1],
    "a store to what dies": lambda x, i: (x.clone().__setitem__(i, 1.0), x + 1)[1],
    "a store that is written over": lambda x, i: stored_and_cleared(x, i),
    "it is added to what dies": lambda x, i: (torch.zeros(3, 3).add_(x[i]), x + 1)[1],
    "several results": lambda x, i: (x[i].max(0), x + 1)[1],
    "it is differentiated": lambda x, i: ((x * 2).requires_grad_()[i].exp(), x + 1)[1],
    "an index in a loss": lambda x, i: (functional.cross_entropy(x, i), x + 1)[1],
}


def stored_and_cleared(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[i] = 1.0
    return x + y.zero_()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", DROPPED_BY_COMPILERS)
def test_it_fails_though(name: str, grad: bool) -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        try:
            return DROPPED_BY_COMPILERS[name](x, i)
        except IndexError as error:
            return str(error)

    for backend in ("eager", "aot_eager"):
        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        for rows in (ROWS, BEYOND, ROWS):
            found, expected = (f(X.clone().requires_grad_(grad), rows) for f in (compiled, fn))
            if isinstance(expected, str):
                assert found == expected
            else:
                assert torch.equal(found, expected) and found.requires_grad == expected.requires_grad


def test_what_is_used_is_no_output_of_its_own() -> None:
    outputs: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        outputs.append(len(graph.graph.output_node().args[0]))
        return graph.forward

    def used(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[i] = 2.0
        return functional.embedding(i, x).sin() + y[i]

    def unused(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.sin()
        x[i]
        return x + 1

    for fn in (used, unused):
        framelift.compile(fn, backend=backend, fullgraph=True)(X, ROWS)
    assert outputs == [1, 2]


SAFE = [aten.add.Tensor, aten._foreach_add_.List, aten.view.default, aten.sum.dim_IntList, aten.zeros.default]
SAFE += [
    aten.native_layer_norm_backward.default,
    aten.bernoulli.p,
    aten.convolution.default,
    aten.abs_.default,
]
UNSAFE = [aten.index.Tensor, aten.bernoulli.default, aten.normal.Tensor_Tensor, aten.embedding.default]
UNSAFE += [aten._linalg_check_errors.default, aten.nll_loss_forward.default, aten._assert_async.msg]


def test_which_operators_may_fail() -> None:
    assert [op for op in SAFE if may_fail(op)] == []
    assert [op for op in UNSAFE if not may_fail(op)] == []


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: (n // 2, n % 3, x // n, torch.div(n, n), torch.fmod(x, n), x + 1)[-1],
        lambda x, n: (torch.div(n, 2.0, rounding_mode="floor"), n / n, x + 1)[-1],
    ],
)
def test_divisions_that_fail_on_no_data_are_dropped(fn: Any) -> None:
    compiled = check(fn, torch.ones(3), torch.arange(3))
    (state,) = compiled._framelift_context.code_states.values()
    assert len(state.entries[0].capture.ops) == 1


WIDE = torch.eye(3, dtype=torch.float64)
UNCHECKED: dict[str, Callable[[Any], Any]] = {
    "several dtypes": lambda x: (functional.linear(x, WIDE), x + 1)[1],
    "several dtypes of a vector": lambda x: (functional.linear(x[0].float(), WIDE), x + 1)[1],
    "a number too large": lambda x: (torch.add(x, x, alpha=1e308), x + 1)[1],
    "a truth value as a factor": lambda x: (torch.add(x, x, alpha=False), x + 1)[1],
    "a truth value that is subtracted from": lambda x: ((True - x), x + 1)[1],
    "a factor of truth values": lambda x: (torch.add(x > 0, x > 0, alpha=1.5), x + 1)[1],
    "a product of truth values": lambda x: (torch.mv((x > 0)[None], x > 0), x + 1)[1],
    "a number too large for half": lambda x: (x.half().masked_fill(x > 1, -1e9), x + 1)[1],
    "a bound too large": lambda x: (x.long().clamp(1, 10**19), x + 1)[1],
    "a bound too large for bytes": lambda x: (x.byte().clamp(max=300), x + 1)[1],
    "a number that needs more bits": lambda x: (torch.where(x > 0, x.long(), 10**19), x + 1)[1],
    "a number too large for integers": lambda x: (x.to(torch.int8).fill_(1000), x + 1)[1],
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_what_fakes_do_not_look_at_fails_though(name: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        try:
            return UNCHECKED[name](x)
        except RuntimeError as error:
            return str(error)

    compiled = framelift.compile(fn, backend="eager")
    assert isinstance(fn(X), str)
    for _ in range(2):
        assert compiled(X) == fn(X)


# ---- on constants

FAILURES = (RuntimeError, IndexError)
FAILING_ALWAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a class below zero": lambda x: functional.one_hot(torch.tensor(-7)),
    "a class beyond, unused": lambda x: (functional.one_hot(torch.tensor([1, 9]), 3), x)[1],
    "a class of a size": lambda x: functional.one_hot(torch.tensor(x.shape[0] - 9)),
    "an index": lambda x: torch.arange(3)[torch.tensor([5])] + x.sum(),
    "a store": lambda x: torch.zeros(3).index_add_(0, torch.tensor([5]), torch.ones(1)) + x.sum(),
    "a division": lambda x: torch.tensor(3) // 0 + x,
    "a decomposition": lambda x: torch.linalg.cholesky(-torch.eye(2)) + x.sum(),
    "a draw": lambda x: torch.bernoulli(torch.tensor([2.0])) + x.sum(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("catches", [False, True])
@pytest.mark.parametrize("name", FAILING_ALWAYS)
def test_on_constants_it_fails_when_it_is_called(name: str, catches: bool, backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        x.add_(torch.rand(()))
        try:
            return FAILING_ALWAYS[name](x)
        except FAILURES if catches else KeyError as error:
            return type(error), str(error).partition("\n")[0], torch.rand(2)

    compiled = framelift.compile(fn, backend=backend)
    for size in (3, 4, 5):
        results = []
        for run in (fn, compiled):
            torch.manual_seed(size)
            x = torch.ones(size)
            try:
                found = run(x)
            except FAILURES as error:
                found = type(error), str(error).partition("\n")[0]
            results.append((found, x, torch.rand(1)))
        alike(*results)


def test_constants_that_do_not_fail_stay_in_the_graph() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(3)[torch.tensor([2, 0])]
        return x[rows] + functional.one_hot(torch.tensor([1, 0]), 3) + torch.bernoulli(torch.full((3,), 0.5))

    for backend in ("eager", "aot_eager"):
        compiled = framelift.compile(fn, backend=backend)
        for _ in range(2):
            results = []
            for run in (fn, compiled):
                torch.manual_seed(0)
                results.append((run(X), torch.rand(1)))
            alike(*results)


# ---- in bodies


def test_in_a_body_it_breaks() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        try:
            return torch.vmap(lambda row, at: (row.gather(0, at), row.sum())[1])(x, i)
        except RuntimeError as error:
            return type(error).__name__

    compiled = framelift.compile(fn, backend="aot_eager")
    for rows in (ROWS, BEYOND):
        given = rows.expand(3, 3)
        assert str(compiled(X, given)) == str(fn(X, given))
    assert BODIES.name in reasons(compiled)


def test_a_body_that_fails_prints_nothing() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        return torch.vmap(lambda row, at: row.gather(0, at))(x, i)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(X, ROWS.expand(3, 3))
    with (
        contextlib.redirect_stderr(io.StringIO()) as told,
        pytest.raises(RuntimeError, match="out of bounds"),
    ):
        compiled(X, BEYOND.expand(3, 3))
    assert told.getvalue() == ""


# ---- out=


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("shape", [(0,), (3, 3), (9,)])
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_out_of_another_size(shape: tuple[int, ...], backend: str) -> None:
    def fn(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.mm(x, x, out=out)
        return out * 2

    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        given = [torch.zeros(shape) for _ in range(2)]
        results = [each(X, out) for each, out in zip((fn, compiled), given, strict=True)]
        assert torch.equal(*results) and torch.equal(*given)
    assert (TENSOR_MEMORY.name in reasons(compiled)) is (shape != (3, 3))


def empty(dtype: torch.dtype = torch.float32, *shape: int) -> torch.Tensor:
    return torch.empty(0, *shape, dtype=dtype)


FILLED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a function of elements": lambda x: torch.mul(x, 2, out=empty()),
    "in another order": lambda x: torch.mul(x.t(), 2, out=empty()),
    "of another type": lambda x: torch.add(x, 2, out=empty(torch.float64)),
    "two": lambda x: torch.max(x, 0, out=(empty(), empty(torch.int64))),
    "and used": lambda x: torch.mm(x, x, out=empty()) @ x,
    "twice": lambda x: (out := empty(), torch.mul(x, 2, out=out), torch.add(out, 1, out=out), out.sum()),
    "of several sizes": lambda x: torch.cat([x, x.t()], out=empty(torch.float32, 3)),
    "with a view": lambda x: (out := empty(), view := out.view(0), torch.mul(x, 2, out=out), view.shape)[2:],
    "still empty": lambda x: torch.mul(x[:0], 2, out=empty()),
    "as it is": lambda x: (out := empty(), torch.mul(out.flip(0), 2, out=out)),
    "drawn": lambda x: torch.rand(3, 3, out=empty()),
    "no tensor": lambda x: torch.arange(3, out=empty()) + x,
    "a decomposition": lambda x: torch.linalg.qr(x, out=(empty(), empty())),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("name", FILLED)
def test_an_empty_out_is_given_its_size(name: str, backend: str, dynamic: bool | None) -> None:
    fn, results = FILLED[name], []
    compiled = framelift.compile(fn, backend=backend, dynamic=dynamic)
    for run in (fn, compiled, compiled):
        torch.manual_seed(0)
        results.append(run(torch.arange(1.0, 10.0).reshape(3, 3)))
    alike(results[0], results[1])
    alike(results[0], results[2])
    assert bool(reasons(compiled)) is (name == "with a view")


OF_TOO_FEW: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": lambda found: found.max(),
    "argmin": lambda found: found.argmin(),
    "amax": lambda found: found.amax(0),
    "topk": lambda found: found.topk(1),
    "aminmax": lambda found: torch.aminmax(found),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OF_TOO_FEW)
def test_reductions_of_as_many_elements_as_the_data_decides(name: str, backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        try:
            OF_TOO_FEW[name](x[x > 0])
        except (RuntimeError, IndexError) as error:
            return type(error), x - 1
        return None, x + 1

    with framelift.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = framelift.compile(fn, backend=backend)
        for x in (torch.tensor([1.0, 0, 2]), torch.zeros(3), torch.tensor([0.0, 0, 2])):
            alike(compiled(x), fn(x))
