"""Functions of which torch knows more than their code: compiled by TorchScript, declared constant."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import framelift
from check import capture, check, compare, entries, reasons, recompiles, run, why_not

BACKENDS = ["eager", "aot_eager"]


@torch.jit.script
def scaled(x: torch.Tensor, n: int = 3) -> torch.Tensor:
    if x.shape[0] > 2:
        return x.sin() * n
    return x + n


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_of_torchscript_is_part_of_the_graph(backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return scaled(x) + scaled(x, 2) * scaled(x, n=4)

    x = torch.randn(3, requires_grad=True)
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), fn(x), rtol=0, atol=0)
    assert recompiles(compiled) == 0
    expected, found = (torch.autograd.grad(f(x).sum(), x)[0] for f in (fn, compiled))
    torch.testing.assert_close(found, expected)
    assert torch.equal(compiled(torch.ones(2)), fn(torch.ones(2)))  # which goes the other way
    assert recompiles(compiled) == 1


def test_another_function_of_torchscript_is_noticed() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return chosen[0](x)

    chosen = [scaled]
    compiled = capture(fn, torch.ones(3))
    chosen[0] = torch.jit.script(lambda_like)
    assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3)))
    assert recompiles(compiled) == 1


def lambda_like(x: torch.Tensor) -> torch.Tensor:
    return x - 7


def test_a_function_that_torch_traced_goes_the_way_that_was_seen() -> None:
    def by_size(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 2 else x - 1

    traced = torch.jit.trace(by_size, torch.ones(2), check_trace=False)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return traced(x) * 2

    check(fn, torch.ones(3))


def test_a_tool_may_call_torchscript_in_its_own_function(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, before = [], torch.jit.ScriptFunction.__call__

    def profiled(*args: Any, **kwargs: Any) -> Any:
        calls.append(len(args))
        return before(*args, **kwargs)

    monkeypatch.setattr(torch.jit.ScriptFunction, "__call__", profiled)
    check(lambda x: scaled(x) + scaled(x, n=2), torch.ones(3), fullgraph=True)
    assert set(calls) == {2}


@torch.jit.script_if_tracing
def doubled(x: torch.Tensor, by: int = 2) -> torch.Tensor:
    return x * by


def test_what_torchscript_does_in_its_own_traces_only_is_captured() -> None:
    def fn(x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        return doubled(x) + doubled(x, by=3) * torch.jit._unwrap_optional(other)

    check(fn, torch.ones(3), torch.ones(3), fullgraph=True)
    with pytest.raises(AssertionError, match="Unwrapping null optional"):
        framelift.compile(fn, backend="eager")(torch.ones(3), None)


ASKED: list[int] = []


@torch.compiler.assume_constant_result
def declared(n: int) -> int:
    ASKED.append(n)
    return n * 2


remembered = functools.lru_cache(declared)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ask", [declared, remembered], ids=["plain", "memoised"])
def test_a_result_that_is_declared_constant_is_asked_for_once(ask: Any, backend: str) -> None:
    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * ask(n)

    ASKED.clear()
    compiled = framelift.compile(fn, backend=backend, fullgraph=True, dynamic=False)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2), 2), torch.full((2,), 4.0))
    assert ASKED == [2]
    assert torch.equal(compiled(torch.ones(2), 5), torch.full((2,), 10.0))
    assert ASKED == [2, 5] and recompiles(compiled) == 1


def test_a_function_declared_constant_may_raise() -> None:
    @torch.compiler.assume_constant_result
    def refuses() -> int:
        raise ValueError("not today")

    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            return x + refuses()
        except ValueError:
            return x - 1

    check(fn, torch.ones(2), fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [bool, int, float, complex])
def test_types_of_python_are_dtypes(dtype: type, backend: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.zeros(2, dtype=dtype), x.to(dtype), x.to(dtype=dtype), torch.full((2,), 1, dtype=dtype)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), fn(torch.ones(3)), rtol=0, atol=0)


# ---- checks that libraries make of their arguments


def checks_shapes(x: torch.Tensor, n: int) -> torch.Tensor:
    torch._assert(x.ndim == 2, f"expected two dimensions, got {x.ndim}")
    torch._assert(x.shape[0] > 1, "more than one row")
    torch._check_value(n > 0, lambda: f"{n} is not above zero")
    torch._check_index(n < 9, lambda: f"{n} is not below nine")
    torch._check_type(n != 3)
    torch._check_with(KeyError, n != 4, lambda: "four")
    torch._check_not_implemented(n != 5, lambda: "five")
    return x * torch.sym_sum([n, x.shape[0], 1])


@pytest.mark.parametrize("dynamic", [None, True])
def test_checks_of_arguments_raise_as_eagerly(dynamic: bool | None) -> None:
    compiled = framelift.compile(checks_shapes, backend="eager", fullgraph=True, dynamic=dynamic)
    good = [((2, 3), 1), ((4, 3), 2), ((5, 2), 8)]
    for shape, n in [*good, ((3,), 1), ((1, 3), 1), *(((2, 3), n) for n in (0, 9, 3, 4, 5)), *good]:
        x = torch.randn(shape)
        compare(run(checks_shapes, (x, n), {}), run(compiled, (x, n), {}))
    assert why_not(compiled) is None and entries(compiled) > 0


def test_checks_of_what_is_in_a_tensor() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._check_tensor_all(x > 0, lambda: "not all above zero")
        torch._assert(x.sum() > 1, "too small")
        return x * 2

    compiled = framelift.compile(fn, backend="eager")
    for x in (torch.ones(3), torch.zeros(3), torch.full((3,), 0.1), torch.ones(3)):
        compare(run(fn, (x,), {}), run(compiled, (x,), {}))
    assert entries(compiled) == 1 and not reasons(compiled)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_older_questions_about_autocast_are_answered_though_they_warn() -> None:
    def fn(x: torch.Tensor) -> Any:
        kinds = torch.get_autocast_cpu_dtype(), torch.get_autocast_gpu_dtype()
        return torch.mm(x, x), torch.is_autocast_cpu_enabled(), kinds

    compiled = framelift.compile(fn, backend="eager")
    x = torch.eye(3)
    for kind in (None, torch.bfloat16, torch.float16, None):
        with torch.autocast("cpu", dtype=kind, enabled=kind is not None):
            compare(run(fn, (x,), {}), run(compiled, (x,), {}))
    assert not reasons(compiled)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_shape_as_a_tensor(dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch._shape_as_tensor(x) * 2

    compiled = framelift.compile(fn, backend="eager", fullgraph=True, dynamic=dynamic)
    for shape in [(3, 4), (5, 6), ()]:
        assert torch.equal(compiled(torch.ones(shape)), fn(torch.ones(shape)))
