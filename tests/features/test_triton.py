"""Triton kernels of the program's own.

Kernels run on a GPU only. Without one, launches are looked at as they are written down, on classes that have
of Triton's what a trace asks them for, and note how they are launched: what a kernel computes is not tested.
"""

from __future__ import annotations

import collections
import importlib
import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation

import framelift
from check import entries, reasons, why_not
from framelift.features import triton_kernels
from framelift.trace.callable_rules import HANDLERS

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = None

HAS_GPU = triton is not None and torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs Triton and a CUDA device")
BACKENDS = ["eager", "aot_eager", "inductor"]

# ---- on a GPU

if triton is not None:

    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: "tl.constexpr"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside)
        y = tl.load(y_ptr + at, mask=inside)
        tl.store(out_ptr + at, x + y, mask=inside)

    @triton.jit
    def scale_kernel(x_ptr, n, factor, BLOCK: "tl.constexpr"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(x_ptr + at, tl.load(x_ptr + at, mask=inside) * factor, mask=inside)

    @triton.jit
    def plane_kernel(x_ptr, out_ptr, rows, columns, TWICE: "tl.constexpr"):
        row, column = tl.program_id(0), tl.program_id(1)
        value = tl.load(x_ptr + row * columns + column)
        if TWICE:
            value = value * 2
        tl.store(out_ptr + column * rows + row, value)

    CONFIGS = [triton.Config({"BLOCK": size}, num_warps=warps) for size, warps in ((128, 4), (256, 8))]

    @triton.autotune(configs=CONFIGS, key=["n"])
    @triton.jit
    def tuned_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: "tl.constexpr"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside)
        y = tl.load(y_ptr + at, mask=inside)
        tl.store(out_ptr + at, x - y, mask=inside)

    @triton.autotune(configs=CONFIGS, key=["n"], restore_value=["x_ptr"])
    @triton.jit
    def restoring_kernel(x_ptr, n, BLOCK: "tl.constexpr"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(x_ptr + at, tl.load(x_ptr + at, mask=inside) + 1, mask=inside)


PROGRAMS: dict[str, Any] = {}


def program(fn: Any) -> Any:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def a_tuple_as_grid(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out * 2


@program
def a_function_as_grid(x, y):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x + 1, y, out, x.numel(), 64)
    return out.sin()


@program
def run_with_a_grid(x, y):
    out = torch.empty_like(x)
    add_kernel.run(x, y, out, x.numel(), grid=(triton.cdiv(x.numel(), 128),), warmup=False, BLOCK=128)
    return out


@program
def by_name(x, y):
    out = torch.zeros_like(x)
    add_kernel[(4,)](y_ptr=y, x_ptr=x, n=x.numel(), out_ptr=out, BLOCK=512)
    return out


@program
def options_of_a_launch(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128, num_warps=8, num_stages=2)
    return out


@program
def an_argument_changes(x, y):
    scale_kernel[(triton.cdiv(x.numel(), 128),)](x, x.numel(), 3.0, BLOCK=128)
    return x + y


@program
def something_made_inside_changes(x, y):
    z = x + y
    scale_kernel[(triton.cdiv(z.numel(), 128),)](z, z.numel(), 0.5, BLOCK=128)
    scale_kernel[(triton.cdiv(z.numel(), 128),)](z, z.numel(), 7, BLOCK=128)
    return z


@program
def a_grid_of_two_dimensions(x, y):
    rows = x.view(4, -1)
    out = torch.empty(rows.shape[1], 4, device=x.device)
    plane_kernel[rows.shape](rows, out, rows.shape[0], rows.shape[1], TWICE=True)
    return out


@program
def tuned(x, y):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel())
    return out + 1


@program
def wrapped(x, y):
    out = torch.empty_like(x)
    torch.library.wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


def on_gpu(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(count)
    return torch.randn(count, device="cuda"), torch.randn(count, device="cuda")


@needs_gpu
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_are_as_eagerly(name, backend):
    fn = PROGRAMS[name]
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for count in (1000, 1000, 520, 600):
        plain, given = on_gpu(count), on_gpu(count)
        torch.testing.assert_close(compiled(*given), fn(*plain))
        torch.testing.assert_close(given, plain)
    assert why_not(compiled) is None and 0 < entries(compiled) <= 3


@needs_gpu
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_an_autograd_function(backend):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.clone()
            scale_kernel[(triton.cdiv(x.numel(), 128),)](out, x.numel(), 3.0, BLOCK=128)
            return out

        @staticmethod
        def backward(ctx, grad):
            out = grad.clone()
            scale_kernel[(triton.cdiv(grad.numel(), 128),)](out, grad.numel(), 3.0, BLOCK=128)
            return out

    def fn(x):
        return Scaled.apply(x * 2).sin()

    x, other = (on_gpu(500)[0].requires_grad_() for _ in range(2))
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    fn(x).sum().backward()
    compiled(other).sum().backward()
    torch.testing.assert_close(other.grad, x.grad)
    assert why_not(compiled) is None


@needs_gpu
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_triton_operator(backend):
    @torch.library.triton_op(f"framelift_tests::added_{backend}", mutates_args=())
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        count = x.numel()
        torch.library.wrap_triton(add_kernel)[(triton.cdiv(count, 128),)](x, y, out, count, 128)
        return out

    fn = lambda x, y: added(x * 2, y) + 1
    x, y = on_gpu(300)
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x, y), fn(x, y))
    assert why_not(compiled) is None


@needs_gpu
def test_what_is_not_captured_is_launched_for_real():
    def fn(x):
        restoring_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x.numel())
        return x * 2

    plain, given = on_gpu(1000)[0], on_gpu(1000)[0]
    compiled = framelift.compile(fn, backend="eager")
    fn(plain.clone()), compiled(plain.clone())  # tuned for good
    torch.testing.assert_close(compiled(given), fn(plain))
    torch.testing.assert_close(given, plain)
    assert "launch of a Triton kernel" in reasons(compiled)


@needs_gpu
def test_another_kernel_is_noticed():
    kernels = {"kernel": add_kernel}

    def fn(x, y):
        out = torch.empty_like(x)
        kernels["kernel"][lambda meta: (triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
        return out

    @triton.jit
    def other_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: "tl.constexpr"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out_ptr + at, tl.load(y_ptr + at, mask=inside), mask=inside)

    x, y = on_gpu(200)
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, y), x + y)
    kernels["kernel"] = other_kernel
    torch.testing.assert_close(compiled(x, y), y)
    assert entries(compiled) == 2  # two kernels


# ---- without one: how launches are written down


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Modules that have what a trace asks of Triton's."""
    if triton is not None:
        pytest.skip("a stand-in would hide Triton, which is installed; with a GPU the tests above launch it")
    importlib.import_module("torch._inductor.codegen.wrapper")  # which finds out what there is of Triton
    path = pathlib.Path(__file__).with_name("triton_stand_in.py")
    spec: Any = importlib.util.spec_from_file_location("triton.runtime.jit", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    for name in ("triton", "triton.runtime", "triton.runtime.jit", "triton.runtime.autotuner"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        vars(sys.modules[name]).update(vars(found))
    monkeypatch.setattr(triton_kernels, "_served", None)
    yield found
    for served in (
        found.cdiv,
        found.next_power_of_2,
        found.KernelInterface.__getitem__,
        found.JITFunction.run,
    ):
        HANDLERS.pop(served, None)


class Program:
    """A kernel, and what its launches come to."""

    def __init__(self, triton: Any) -> None:
        self.triton = triton
        self.kernel = triton.JITFunction("kernel", "x", "out", "n", "BLOCK")
        self.configs = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]

    def tuned(self, **settings: Any) -> Any:
        return self.triton.autotune(self.configs, ["n"], **settings)(self.kernel)

    def outcome(self, fn: Any, *args: Any, **settings: Any) -> tuple[Any, list[Any], list[torch.fx.Node]]:
        """What was compiled, the launches that it made, and the operators for them."""
        nodes: list[torch.fx.Node] = []

        def backend(graph, inputs):
            nodes.extend(n for n in graph.graph.nodes if n.target is triton_kernel_wrapper_mutation)
            return graph

        self.kernel.launches.clear()
        compiled = framelift.compile(fn, backend=backend, **settings)
        for given in args:
            compiled(given)
        launches, expected = list(self.kernel.launches), self.kernel.launches
        expected.clear()
        for given in args:
            fn(given)
        assert launches == expected
        return compiled, launches, nodes


@pytest.fixture
def launching(stand_in) -> Program:
    return Program(stand_in)


def test_a_launch_is_one_node(launching):
    kernel, cdiv = launching.kernel, launching.triton.cdiv

    def fn(x):
        out = torch.empty_like(x)
        kernel[(cdiv(x.numel(), 16),)](x + 1, out, x.numel(), BLOCK=16)
        return out

    compiled, launches, (node,) = launching.outcome(fn, torch.ones(40), fullgraph=True)
    assert launches == [((3, 1, 1), {"BLOCK": 16, "n": 40, "out": (40,), "x": (40,)})]
    assert node.kwargs["grid"] == [(3, 1, 1)] and node.kwargs["kwargs"]["n"] == 40
    assert kernel_side_table.get_kernel(node.kwargs["kernel_idx"]) is kernel
    assert why_not(compiled) is None and reasons(compiled) == []


def test_grids_of_every_kind(launching):
    kernel, cdiv, next_power_of_2 = launching.kernel, launching.triton.cdiv, launching.triton.next_power_of_2
    grids = {
        "a list": [2],
        "two dimensions": (2, 3),
        "three dimensions": (2, 3, 4),
        "a function": lambda meta: (cdiv(meta["n"], meta["BLOCK"]), next_power_of_2(meta["n"])),
        "a size": torch.Size([5]),
    }
    for grid in grids.values():

        def fn(x):
            kernel[grid](x, x, x.numel(), 16)
            return x + 1

        launching.outcome(fn, torch.ones(40), fullgraph=True)


def test_run_options_and_names(launching):
    kernel = launching.kernel

    def fn(x):
        kernel.run(x, out=x, n=3, BLOCK=8, grid=(1,), warmup=False)
        kernel[(1,)](x, x, 3, BLOCK=8, num_warps=2)
        torch.library.wrap_triton(kernel)[(1,)](x, n=3, out=x, BLOCK=8)
        return x + 1

    _, launches, nodes = launching.outcome(fn, torch.ones(4), fullgraph=True)
    assert len(launches) == len(nodes) == 3 and launches[1][1]["num_warps"] == 2


def test_sizes_become_symbols(launching):
    kernel, cdiv = launching.kernel, launching.triton.cdiv

    def fn(x):
        out = torch.empty_like(x)
        kernel[lambda meta: (cdiv(meta["n"], meta["BLOCK"]),)](x, out, x.numel(), BLOCK=16)
        return out

    given = [torch.ones(size) for size in (40, 50, 60, 170)]
    compiled, _, _ = launching.outcome(fn, *given, fullgraph=True)
    assert entries(compiled) == 2  # the first size, then any


def test_constants_are_guarded(launching):
    kernel = launching.kernel
    program = {"block": 16}

    def fn(x):
        kernel[(1,)](x, x, 1, BLOCK=program["block"])
        return x * 2

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for block in (16, 32, 64, 16):
        program["block"] = block
        compiled(torch.ones(2))
    assert [given["BLOCK"] for _, given in kernel.launches] == [16, 32, 64, 16]


def test_another_kernel_is_another_graph(launching):
    other = launching.triton.JITFunction("other", "x", "out", "n", "BLOCK")
    kernels = [launching.kernel]

    def fn(x):
        kernels[0][(1,)](x, x, 1, BLOCK=2)
        return x * 2

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    compiled(torch.ones(2))
    kernels[0] = other
    compiled(torch.ones(2))
    assert len(launching.kernel.launches) == len(other.launches) == 1 and entries(compiled) == 2


def test_the_grid_is_known_for_each_configuration(launching):
    tuned, cdiv = launching.tuned(), launching.triton.cdiv

    def fn(x):
        out = torch.empty_like(x)
        tuned[lambda meta: (cdiv(meta["n"], meta["BLOCK"]),)](x, out, x.numel())
        return out

    nodes: list[torch.fx.Node] = []

    def backend(graph, inputs):
        nodes.extend(n for n in graph.graph.nodes if n.target is triton_kernel_wrapper_mutation)
        return lambda *args: (torch.empty(40),)  # which of them is for Triton to say

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    compiled(torch.ones(40))
    assert nodes[0].kwargs["grid"] == [(3, 1, 1), (2, 1, 1)] and why_not(compiled) is None


REFUSED: dict[str, Any] = {
    "with pre_hook": lambda p: p.tuned(pre_hook=print),
    "with restore_value": lambda p: p.tuned(restore_value=["x"]),
    "with reset_to_zero": lambda p: p.tuned(reset_to_zero=["x"]),
    "with heuristics": lambda p: p.triton.Heuristics(p.kernel),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_else_triton_can_be_told_breaks_and_says_so(what, launching):
    kernel = REFUSED[what](launching)
    constants = {} if isinstance(kernel, launching.triton.Autotuner) else {"BLOCK": 16}

    def fn(x):
        kernel[(2,)](x, x, 3, **constants)
        return x + 1

    compiled, launches, nodes = launching.outcome(fn, torch.ones(4))
    assert len(launches) == 1 and nodes == [] and "launch of a Triton kernel" in reasons(compiled)
    with pytest.raises(framelift.exc.Unsupported, match=what):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(4))


WRONG: dict[str, Any] = collections.OrderedDict(
    grid=lambda k, x: k["many"](x, x, 3, BLOCK=1),
    take=lambda k, x: k[(1,)](x, x, 3, BLOCK=1, colour="red"),
    tuple=lambda k, x: k[(1, 2, 3, 4)](x, x, 3, BLOCK=1),
    constant=lambda k, x: k[(1,)](x, x, 3, BLOCK=1, num_warps=x),
)


@pytest.mark.parametrize("what", WRONG)
def test_mistakes_are_named(what, launching):
    fn = lambda x: (WRONG[what](launching.kernel, x), x + 1)[1]
    with pytest.raises(framelift.exc.Unsupported, match=what):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(4))


def test_a_tensor_that_may_change_is_one_that_changes(launching):
    """Which argument a kernel writes to is for Triton to say; if it can't, each of them may be."""
    kernel = launching.kernel

    def fn(x):
        kernel[(1,)](x, x, 3, BLOCK=1)
        return x

    def body(x):
        return torch.cond(x.sum() > 0, lambda x: fn(x).clone(), lambda x: x.clone(), (x,))

    with pytest.raises(framelift.exc.Unsupported, match="a change to a tensor"):
        framelift.compile(body, backend="eager", fullgraph=True)(torch.ones(4))
