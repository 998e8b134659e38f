"""Graphs that a backend can't take: a break does, or the graph is run as captured. With `fullgraph` it is an
error that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.dispatch.backend_names import lookup_backend
from framelift.dispatch.backends import on_fakes

T = torch.Tensor
I, V = torch.tensor([[0, 1], [1, 2]]), torch.tensor([2.0, 3.0])
X = torch.arange(9.0).reshape(3, 3)
UNORDINARY: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a sparse tensor made": (lambda i, v: torch.sparse_coo_tensor(i, v, (3, 3)).to_dense() * 2, (I, V)),
    "the values of one": (lambda i, v: torch.sparse_coo_tensor(i, v, (3, 3)).coalesce().values() * 2, (I, V)),
    "a sparse argument": (lambda s, x: torch.sparse.mm(s, x.sin()).cos(), (X.to_sparse(), X)),
    "a sparse result": (lambda s, x: (s * 2).to_dense() + x, (X.to_sparse(), X)),
    "compressed rows": (lambda x: (x.to_sparse_csr() @ x).sin(), (X,)),
    "complex": (lambda x: torch.view_as_real(torch.fft.fft(x) * 2j), (X,)),
    "quantized": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() * 2, (X,)),
    "mkldnn": (lambda x: x.to_mkldnn().relu().to_dense() + 1, (X,)),
    "eight bits": (lambda x: x.to(torch.float8_e4m3fn).to(torch.float32) * 2, (X,)),
}


@on_fakes
def ordinary_only(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """As strict as any backend could be."""
    for node in graph.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and (value.layout, value.dtype.itemsize) != (torch.strided, 4):
            if value.dtype is not torch.int64:
                raise RuntimeError(f"no kernel for {value.dtype}, {value.layout}")
    return graph.forward


@pytest.mark.parametrize("backend", [ordinary_only, "aot_eager"], ids=["ordinary_only", "aot_eager"])
@pytest.mark.parametrize("kind", UNORDINARY)
def test_tensors_of_other_layouts_and_types(kind: str, backend: Any) -> None:
    fn, args = UNORDINARY[kind]
    compiled = framelift.compile(fn, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(*args), fn(*args))


def of_ones_own(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(graph, inputs, fw_compiler=lambda made, examples: made)


NUMBERS: dict[str, Callable[[T, float], T]] = {
    "a power": lambda x, number: x.abs() ** number,
    "a factor of an operator": lambda x, number: torch.add(x, x, alpha=number),
    "a weight": lambda x, number: torch.lerp(x, x * 2, number),
    "a factor": lambda x, number: x * number + number,
}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", of_ones_own], ids=["aot_eager", "of_ones_own"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_found_in_data_that_gradients_depend_on(kind: str, backend: Any, captured: bool) -> None:
    def fn(x: T) -> T:
        y = x + 1
        framelift.graph_break()
        return NUMBERS[kind](y, y.detach().abs().sum().item())

    with framelift.config.patch(capture_scalar_outputs=captured):
        compiled = framelift.compile(fn, backend=backend)
        for n in range(4):
            gradients = []
            for run in (compiled, fn):
                x = (torch.arange(3.0) / 8 + n / 4).requires_grad_()
                found = run(x)
                found.sum().backward()
                gradients.append((found, x.grad))
            torch.testing.assert_close(*gradients)


def test_what_uses_them_breaks_and_the_rest_is_compiled() -> None:
    def fn(i: T, v: T, x: T) -> T:
        y = x.sin() * 2
        z = torch.sparse_coo_tensor(i, v, (3, 3)).to_dense()
        return (y + z).cos()

    compiled = framelift.compile(fn, backend="inductor")
    for _ in range(2):
        torch.testing.assert_close(compiled(I, V, X), fn(I, V, X))
    states = compiled._framelift_context.code_states.values()
    reasons = {found.reason.name for state in states for found in state.breaks}
    ops = [str(op) for state in states for entry in state.entries for op in entry.capture.ops]
    assert reasons == {"refused by the backend"}
    assert not any("sparse" in op or "to_dense" in op for op in ops) and len(ops) == 4


def test_with_fullgraph_it_is_the_backends_error() -> None:
    fn, args = UNORDINARY["a sparse tensor made"]
    with pytest.raises(framelift.exc.BackendCompilerFailed, match="no kernel for") as raised:
        framelift.compile(fn, backend=ordinary_only, fullgraph=True)(*args)
    assert "of a kind that not all backends take" in "".join(raised.value.__notes__)


def test_a_graph_that_torchs_compilers_refuse_is_run_as_captured(caplog: pytest.LogCaptureFixture) -> None:
    @on_fakes
    def refusing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        try:
            raise NotImplementedError("no lowering")
        except NotImplementedError as error:
            raise RuntimeError("compilation failed") from error

    compiled = framelift.compile(lambda x: x.sin() + 1, backend=refusing)
    assert torch.equal(compiled(X), X.sin() + 1)
    assert "is run as captured" in caplog.text and "compilation failed" in caplog.text
    with pytest.raises(framelift.exc.BackendCompilerFailed):
        framelift.compile(lambda x: x.sin() + 2, backend=refusing, fullgraph=True)(X)


def test_an_error_of_ones_own_backend_is_an_error() -> None:
    def failing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise NotImplementedError("not written yet")

    with pytest.raises(framelift.exc.BackendCompilerFailed, match="not written yet") as raised:
        framelift.compile(lambda x: x + 1, backend=failing)(X)
    assert isinstance(raised.value.__cause__, NotImplementedError)
    fn, args = UNORDINARY["a sparse tensor made"]
    calls = []

    def never(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        calls.append(graph)
        raise ValueError("never")

    with pytest.raises(framelift.exc.BackendCompilerFailed, match="never"):
        framelift.compile(fn, backend=never)(*args)
    assert len(calls) == 2  # with the sparse tensor, and what comes behind it


def test_a_refused_graph_of_a_wrapped_backend_breaks_too() -> None:
    def wrapping(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lookup_backend("inductor")(graph, inputs)

    fn, args = UNORDINARY["a sparse tensor made"]
    torch.testing.assert_close(framelift.compile(fn, backend=wrapping)(*args), fn(*args))
