"""Backends: what turns a captured graph into something that runs.

A backend is a callable `(GraphModule, example_inputs) -> callable`. Names are looked up among those
registered here, by users, and by packages that offer backends to torch under its entry-point group.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.metadata
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import grad_mode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from framelift.core.errors import BackendCompilerFailed, InvalidBackend
from framelift.core.records import CompileRecord, compile_records, compiling, report_phase
from framelift.dispatch.compile_contexts import Backend
from framelift.dispatch.extensions import extensions
from framelift.graph.symbols import Symbols
from framelift.graph.torch_flags import TorchState, flags_lock

ENTRY_POINTS = "torch_dynamo_backends"
"""The group under which packages offer backends for torch.compile; they are backends here too."""

_registered: dict[str, Backend] = {}


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


_symbols: ContextVar[Symbols | None] = ContextVar("symbols of the graph being compiled", default=None)
_fakes: ContextVar[FakeTensorMode | None] = ContextVar(
    "the mode of its inputs, if they are fakes", default=None
)


def run_backend(
    backend: Backend,
    name: str,
    graph: torch.fx.GraphModule,
    inputs: list[Any],
    symbols: Symbols | None = None,
    fakes: FakeTensorMode | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """What a backend makes of a graph. Its failure is an error of its own kind. With `fakes` the inputs are
    fakes of that mode already."""
    compiled: Any
    token, other = _symbols.set(symbols), _fakes.set(fakes)
    try:
        with TorchState():  # a compiler that runs the graph to see what it does sets its flags
            compiled = backend(graph, inputs, **options)
    except Exception as error:
        raise BackendCompilerFailed(name, error) from error
    finally:
        _symbols.reset(token)
        _fakes.reset(other)
    if not callable(compiled):
        wrong = TypeError(f"it must return a callable, not {type(compiled).__name__}")
        raise BackendCompilerFailed(name, wrong) from wrong
    return compiled


def in_tracing_context(backend: Backend) -> Backend:
    """Runs a backend in the context that AOTAutograd and Inductor look for, with fakes of its own: those
    of the trace may have been changed by what the program did. One compilation at a time is all that they
    are made for."""

    @functools.wraps(backend)
    def compile_in_context(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Any:
        try:
            return compile_once(graph, inputs, **options)
        except Exception as error:
            if type(error).__name__ != "TensorifyScalarRestartAnalysis":
                raise
            # AOTAutograd found a float that it can't keep symbolic; it will rely on its value this time
            return compile_once(graph, inputs, **options)

    def compile_once(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Any:
        symbols, fakes = _symbols.get(), _fakes.get()
        if fakes is not None:
            with flags_lock, tracing(TracingContext(fakes)), lstm_in_parts(graph, inputs):
                return backend(graph, inputs, **options)
        mode = FakeTensorMode(shape_env=ShapeEnv() if symbols is None else symbols.env)
        # AOTAutograd would take every size of a real tensor for one that may vary
        inputs = static_fakes(mode, inputs) if symbols is None else symbols.fakes(mode, graph, inputs)
        with flags_lock, tracing(TracingContext(mode)), lstm_in_parts(graph, inputs):
            compiled = backend(without_inference_mode(graph), inputs, **options)
        return compiled if symbols is None else unmarking(compiled)

    return compile_in_context


def unmarking(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """AOTAutograd marks sizes that may vary, for torch's own compiler; the program has set no such thing."""

    def run(*args: Any) -> Any:
        outputs = compiled(*args)
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                continue
            marks = output.__dict__
            marks.pop("_dynamo_propagated_dynamic_indices", None)
            # as older versions of torch call it, and what users mark
            if "_dynamo_weak_dynamic_indices" in marks and not any(output is given for given in args):
                del marks["_dynamo_weak_dynamic_indices"]
        return outputs

    return run


@contextlib.contextmanager
def lstm_in_parts(graph: torch.fx.GraphModule, inputs: list[Any]) -> Iterator[None]:
    """AOTAutograd can't save what oneDNN's operator for a whole LSTM gives beside its results: where it is
    differentiated, it is made of smaller ones."""
    trained = any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
    whole = torch._C._get_mkldnn_enabled()
    if trained and any(node.target is torch.lstm for node in graph.graph.nodes):
        torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(whole)


def without_inference_mode(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same without gradients instead: AOTAutograd can't have views of its inputs made in inference mode,
    and what its graphs give are ordinary tensors, of which regions make inference tensors again."""
    if not any(node.target in INSTEAD for node in graph.graph.nodes):
        return graph
    copied = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    modes: list[Any] = []
    for node in copied.graph.nodes:
        if node.target is grad_mode._enter_inference_mode:
            modes.append(node.args[0])
        elif node.target is grad_mode._exit_inference_mode:
            modes.pop()
        elif node.target is torch._C._set_grad_enabled and modes and modes[-1]:
            node.args = (False,)  # nothing is differentiated in there, whatever the switch says
        node.target = INSTEAD.get(node.target, node.target)
    copied.recompile()
    return copied


def enter_no_grad(mode: bool) -> bool:
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(not mode)
    return before


INSTEAD: dict[Any, Any] = {
    grad_mode._enter_inference_mode: enter_no_grad,
    grad_mode._exit_inference_mode: torch._C._set_grad_enabled,
}


def static_fakes(mode: FakeTensorMode, inputs: list[Any]) -> list[Any]:
    return [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]


# ---- the backends that come with it


@register_backend(name="eager")
def eager(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Runs the graph as captured."""
    return graph.forward


def observed(inner: Callable[..., Any], backward: bool = False) -> Callable[..., Any]:
    """Keeps a record of each backward graph that is compiled, which may be when gradients are asked for.
    Inductor's compiler is told which graphs those are; another one is for them alone."""
    of = compiling.get()

    @functools.wraps(inner)
    def compile_observed(graph: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        if of is None or not options.get("is_backward", backward):
            return inner(graph, inputs, *args, **options)
        with recorded_backward(of, graph):
            return inner(graph, inputs, *args, **options)

    return compile_observed


@contextlib.contextmanager
def recorded_backward(of: CompileRecord, graph: torch.fx.GraphModule) -> Iterator[None]:
    record = CompileRecord("backward", of.name, of.filename, of.line, of.backend, of.entries)
    record.compile_id, record.started = of.compile_id, time.time()
    count_nodes(record, graph)
    for observer in extensions.observers:
        observer.report_backward(of, graph)
    began = time.perf_counter()
    report_phase(record, "backward")
    try:
        yield
    except Exception as error:
        record.failed = f"{type(error).__name__}: {error}"
        raise
    finally:
        record.seconds = record.backend_seconds = time.perf_counter() - began
        report_phase(record, "done")
        compile_records.add(record)


def count_nodes(record: CompileRecord, graph: torch.fx.GraphModule) -> None:
    kinds = [node.op for node in graph.graph.nodes]
    record.nodes, record.inputs = len(kinds), kinds.count("placeholder")
    record.ops = sum(kind.startswith("call") for kind in kinds)


@register_backend(name="aot_eager")
@in_tracing_context
def aot_eager(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Runs the forward and backward graphs that AOTAutograd makes, without a code generator."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop

    return aot_module_simplified(
        graph,
        inputs,
        fw_compiler=nop,
        bw_compiler=observed(nop, backward=True),
        keep_inference_input_mutations=True,
    )


@register_backend(name="aot_eager_decomp_partition")
@in_tracing_context
def aot_eager_decomp_partition(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """The same with Inductor's decompositions and partitioner: what it would be given, run as it is."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    return aot_module_simplified(
        graph,
        inputs,
        fw_compiler=nop,
        bw_compiler=observed(nop, backward=True),
        decompositions=select_decomp_table(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )


@register_backend(name="inductor")
@in_tracing_context
def inductor(graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """TorchInductor, the default."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    observing = observed(compile_fx_inner)
    static = [n for n, value in enumerate(inputs) if isinstance(value, torch.nn.Parameter)]

    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        if "static_input_idxs" in kwargs and not kwargs.get("is_backward") and len(args[1]) == len(inputs):
            # parameters are where they were each time, and need not be copied for a CUDA graph
            kwargs["static_input_idxs"] = sorted({*kwargs["static_input_idxs"], *static})
        with flags_lock:  # the backward graph's turn comes when it is first needed, in whichever thread
            return observing(*args, **kwargs)

    return compile_fx(graph, inputs, inner_compile=compile_inner, config_patches=options or None)  # type: ignore[return-value]
