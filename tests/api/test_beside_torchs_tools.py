"""Compiled functions beside torch's other tools, which get eager's results; nothing is logged as a mistake.

A matrix: each tool is given compiled functions of each kind, that have not run, that have, and whose sizes
have changed; with symbols and without.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import io
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import framelift

X = torch.arange(6.0).reshape(2, 3) / 5 - 0.4
Fn = Callable[[torch.Tensor], torch.Tensor]


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)).sum(-1) + x.sum()


def plain(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2 + x.sum()


def breaking(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    print("a break")
    return y * 2 + x.sum()


def writing(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.mul_(2)
    return y + 1


KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: plain,
    "breaking": lambda: breaking,
    "module": Gate,
    "writing": lambda: writing,
}


def in_fake_mode(f: Fn) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = f(mode.from_tensor(X))
    assert type(found) is FakeTensor
    return torch.zeros(found.shape, dtype=found.dtype)


class Idle(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def in_dispatch_mode(f: Fn) -> Any:
    with Idle():
        return f(X)


def profiled(f: Fn) -> Any:
    with torch.profiler.profile():
        return f(X)


def checkpointed(f: Fn, reentrant: bool) -> Any:
    x = X.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(f, x, use_reentrant=reentrant).sum().backward()
    return x.grad


def forward_mode(f: Fn) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(X, torch.ones_like(X)))).tangent


def exported(f: Fn) -> Any:
    return torch.export.export(Calling(f), (X,)).module()(X)


def stacked(f: Fn) -> Any:
    if not isinstance(f, torch.nn.Module):
        return None
    parameters = {name: torch.stack([value, value * 2]) for name, value in f.named_parameters()}
    return torch.vmap(lambda each: torch.func.functional_call(f, each, (X,)))(parameters)


class Calling(torch.nn.Module):
    """Holds what it calls as a submodule, if it is one."""

    def __init__(self, f: Fn) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.f(x) + 1


class AllLeaves(torch.fx.Tracer):
    def is_leaf_module(self, module: torch.nn.Module, name: str) -> bool:
        return True


def traced_with_leaves(f: Fn) -> Any:
    root = Calling(f)
    return torch.fx.GraphModule(root, AllLeaves().trace(root))(X)


def exported_for_sizes(f: Fn) -> Any:
    sizes = {"x": {0: torch.export.Dim("d", min=2, max=10)}}
    return torch.export.export(Calling(f), (X,), dynamic_shapes=sizes).module()(torch.cat([X, X]))


def on_meta(f: Fn) -> Any:
    if isinstance(f, torch.nn.Module):
        f = copy.deepcopy(f).to("meta")
    return torch.zeros(f(X.to("meta")).shape)


def counted_flops(f: Fn) -> Any:
    with FlopCounterMode(display=False) as counting:
        f(X)
    return counting.get_total_flops()


def with_saved_tensors_hooks(f: Fn) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        x = X.clone().requires_grad_()
        f(x).sum().backward()
    return x.grad


def twice_differentiated(f: Fn) -> Any:
    x = X.clone().requires_grad_()
    (once,) = torch.autograd.grad(f(x).pow(3).sum(), x, create_graph=True)
    return torch.autograd.grad(once.sum(), x)


def with_other_parameters(f: Fn) -> Any:
    if not isinstance(f, torch.nn.Module):
        return None
    return torch.func.functional_call(f, {name: p * 2 for name, p in f.named_parameters()}, (X,))


def saved_and_loaded(f: Fn) -> Any:
    if not isinstance(f, torch.nn.Module):
        return None
    file = io.BytesIO()
    torch.save(f, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)(X)


def in_context(context: Any, f: Fn) -> Any:
    with context:
        return f(X)


def in_threads(f: Fn) -> Any:
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        return list(threads.map(f, [X, X]))


LESS: dict[str, Callable[[Fn], Any]] = {
    "jit.trace of a caller": lambda f: torch.jit.trace(Calling(f), (X,))(X),
    "symbolic_trace of a caller": lambda f: torch.fx.symbolic_trace(Calling(f))(X),
    "symbolic_trace with leaves": traced_with_leaves,
    "make_fx with symbols": lambda f: make_fx(f, tracing_mode="symbolic")(X)(X),
    "make_fx before dispatch": lambda f: make_fx(f, pre_dispatch=True)(X)(X),
    "strict export": lambda f: torch.export.export(Calling(f), (X,), strict=True).module()(X),
    "export for all sizes": exported_for_sizes,
    "AOTAutograd": lambda f: aot_function(f, lambda graph, _: graph)(X),
    "meta tensors": on_meta,
    "counting of flops": counted_flops,
    "saved tensors hooks": with_saved_tensors_hooks,
    "two differentiations": twice_differentiated,
    "functional_call": with_other_parameters,
    "save and load": saved_and_loaded,
    "a deep copy": lambda f: copy.deepcopy(f)(X),
    "a device": lambda f: in_context(torch.device("cpu"), f),
    "inference mode": lambda f: in_context(torch.inference_mode(), f),
    "a function mode": lambda f: in_context(torch.overrides.BaseTorchFunctionMode(), f),
    "torch.cond": lambda f: torch.cond(X.sum() > -9, lambda x: f(x) + 0, lambda x: f(x) * 1, (X,)),
    "threads": in_threads,
    "torch.compile": lambda f: torch.compile(lambda x: f(x) + 1, backend="eager")(X),
    "framelift.compile": lambda f: framelift.compile(lambda x: f(x) + 1, backend="eager")(X),
}
"""Tools that care less about what a function has done before."""

TOOLS: dict[str, Callable[[Fn], Any]] = {
    "jit.trace": lambda f: torch.jit.trace(f, (X,))(X),
    "jit.script": lambda f: torch.jit.script(f)(X),
    "symbolic_trace": lambda f: torch.fx.symbolic_trace(f)(X),
    "make_fx": lambda f: make_fx(f)(X)(X),
    "export": exported,
    "fake tensors": in_fake_mode,
    "a dispatch mode": in_dispatch_mode,
    "the profiler": profiled,
    "checkpoint": lambda f: checkpointed(f, False),
    "reentrant checkpoint": lambda f: checkpointed(f, True),
    "forward mode": forward_mode,
    "vmap": lambda f: torch.vmap(f)(X),
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(X),
    "vjp": lambda f: torch.func.vjp(f, X)[1](torch.ones_like(f(X))),
    "jvp": lambda f: torch.func.jvp(f, (X,), (torch.ones_like(X),)),
    "jacrev": lambda f: torch.func.jacrev(f)(X),
    "jacfwd": lambda f: torch.func.jacfwd(f)(X),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum())(X),
    "grad in vmap": lambda f: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(X),
    "vmap in vmap": lambda f: torch.vmap(torch.vmap(lambda x: f(x[None])[0]))(X),
    "functionalize": lambda f: torch.func.functionalize(f)(X),
    "stacked modules": stacked,
}

STATES: dict[str, Callable[[Fn], Any]] = {
    "not run": lambda f: None,
    "run": lambda f: (f(X), f(X)),
    "run with gradients": lambda f: f(X.clone().requires_grad_()),
    "run with other sizes": lambda f: (f(torch.randn(4, 3)), f(torch.randn(5, 3))),
}


def outcome(tool: Callable[[Fn], Any], f: Fn) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return tool(f)
        except Exception as error:
            return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("tool", (TOOLS | LESS).values(), ids=TOOLS | LESS)
def test_a_tool_is_given_a_compiled_function(
    tool: Callable[[Fn], Any], make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fn = make()
    expected = outcome(tool, fn)
    states = list(itertools.product((None, True), STATES.values()))
    for dynamic, prepare in states if tool in TOOLS.values() else states[:2]:
        compiled = framelift.compile(fn, backend="eager", dynamic=dynamic)
        outcome(prepare, compiled)
        found = outcome(tool, compiled)
        assert found is expected if isinstance(expected, type) else not isinstance(found, type), found
        if not isinstance(expected, type):
            torch.testing.assert_close(found, expected)
        torch.testing.assert_close(outcome(lambda f: f(X), compiled), outcome(lambda f: f(X), fn))
    told = [record for record in caplog.records if record.name.startswith("framelift")]
    assert not [record for record in told if record.levelno >= logging.WARNING]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", list(KINDS.values())[:3], ids=list(KINDS)[:3])
def test_torchs_compiler_around_and_inside(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    fn = make()
    expected = outcome(lambda f: f(X), fn)
    ours = framelift.compile(fn, backend="eager")
    for _ in range(2):
        around = torch.compile(ours, backend="eager")
        nested = torch.compile(lambda x: ours(x) + 1, backend="eager")
        inside = framelift.compile(torch.compile(fn, backend="eager"), backend="eager")
        torch.testing.assert_close(outcome(around, X), expected)
        torch.testing.assert_close(outcome(nested, X), expected + 1)
        torch.testing.assert_close(outcome(inside, X), expected)
        torch.testing.assert_close(outcome(ours, X), expected)
    told = [record for record in caplog.records if record.name.startswith("framelift")]
    assert not [record for record in told if record.levelno >= logging.WARNING]


@pytest.mark.filterwarnings("ignore")
def test_torchs_compiler_does_not_see_framelift_at_work() -> None:
    """Where what it has compiled is called by code that is not captured."""

    @torch.compile(backend="eager")
    def stock(x: torch.Tensor) -> torch.Tensor:
        return doubled(x) + 1

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @framelift.skip
    def between(x: torch.Tensor) -> torch.Tensor:
        return stock(x) - 1

    compiled = framelift.compile(lambda x: between(x.sin()).cos(), backend="eager")
    torchs = torch._dynamo.utils  # noqa: TID251
    torchs.clear_compilation_metrics()
    torch.testing.assert_close(compiled(X), (X.sin() * 2).cos())
    # once or twice, depending on which of the two hooks was there first in this process
    assert {each.co_name for each in torchs.get_compilation_metrics()} == {"stock"}


@pytest.mark.parametrize("name", ["plain", "module", "writing"])
def test_what_torchs_compiler_compiled_is_captured_through(name: str) -> None:
    fn = KINDS[name]()
    stock = torch.compile(fn, backend="eager")
    graphs = framelift.testing.CompileCounter()
    around = framelift.compile(lambda x: stock(x) + 1, backend=graphs, fullgraph=True)
    torch.testing.assert_close(around(X), fn(X) + 1)
    assert graphs.frame_count == 1
