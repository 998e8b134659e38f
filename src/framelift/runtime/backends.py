"""Backends: what turns a captured graph into something that runs.

A backend is a callable `(GraphModule, example_inputs) -> callable`. Names are looked up among those
registered here, by users, and by packages that offer backends to torch under its entry-point group.
"""

from __future__ import annotations

import functools
import importlib.metadata
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from framelift.core.errors import BackendCompilerFailed, InvalidBackend

Backend = Callable[..., Callable[..., Any]]
ENTRY_POINTS = "torch_dynamo_backends"
"""The group under which packages offer backends for torch.compile; they are backends here too."""

_registered: dict[str, Backend] = {}
_torch_compilers = threading.RLock()
"""AOTAutograd and Inductor are made for one compilation at a time."""


def register_backend(backend: Backend | None = None, name: str | None = None) -> Any:
    """Makes a backend known by a name; as a function or as a decorator."""
    if backend is None:
        return lambda fn: register_backend(fn, name)
    if not callable(backend):
        raise TypeError(f"a backend must be callable, not {type(backend).__name__}")
    _registered[name or backend.__name__] = backend
    return backend


def list_backends() -> list[str]:
    """The names that `compile(backend=...)` knows."""
    return sorted({*_registered, *(entry.name for entry in entry_points())})


def entry_points() -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=ENTRY_POINTS))


def lookup_backend(backend: str | Backend) -> Backend:
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"backend must be a name or a callable, not {type(backend).__name__}")
    found = _registered.get(backend)
    if found is None:
        for entry in entry_points():
            if entry.name == backend:
                found = _registered[backend] = in_tracing_context(entry.load())
    if found is None:
        raise InvalidBackend(f"there is no backend {backend!r}; known are: {', '.join(list_backends())}")
    return found


def backend_name(backend: str | Backend) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__qualname__", type(backend).__name__)


def compile_graph(
    backend: Backend, name: str, graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any
) -> Callable[..., Any]:
    """What a backend makes of a graph; its failure is told apart from the program's own."""
    compiled: Any
    try:
        compiled = backend(graph, inputs, **options)
    except Exception as error:
        raise BackendCompilerFailed(name, error) from error
    if not callable(compiled):
        wrong = TypeError(f"it must return a callable, not {type(compiled).__name__}")
        raise BackendCompilerFailed(name, wrong) from wrong
    return compiled


def in_tracing_context(backend: Backend) -> Backend:
    """Runs a backend in the context that AOTAutograd and Inductor look for, with fakes of its own: those
    of the trace may have been changed by what the program did."""

    @functools.wraps(backend)
    def compile_in_context(graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any) -> Any:
        with _torch_compilers, tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
            return backend(graph, inputs, **options)

    return compile_in_context


# ---- the backends that come with it


@register_backend(name="eager")
def eager(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Runs the graph as captured."""
    return graph.forward


@register_backend(name="aot_eager")
@in_tracing_context
def aot_eager(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Runs the forward and backward graphs that AOTAutograd makes, without a code generator."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop

    return aot_module_simplified(
        graph, inputs, fw_compiler=nop, bw_compiler=nop, keep_inference_input_mutations=True
    )


@register_backend(name="inductor")
@in_tracing_context
def inductor(graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """TorchInductor, the default."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        with _torch_compilers:  # the backward graph's turn comes when it is first needed, in whichever thread
            return compile_fx_inner(*args, **kwargs)

    return compile_fx(graph, inputs, inner_compile=compile_inner, config_patches=options or None)  # type: ignore[return-value]
