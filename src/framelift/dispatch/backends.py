"""Backends: what turns a captured graph into something that runs.

A backend is a callable `(GraphModule, example_inputs) -> callable`. Names are looked up among those
registered here, by users, and by packages that offer backends to torch under its entry-point group.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.metadata
import os
import sys
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
from framelift.dispatch.compile_contexts import Backend, Graph
from framelift.dispatch.data_checks import with_checks
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


def backend_source(backend: Any, name: str) -> tuple[str, str]:
    """(an import, an expression) for a backend: its name, or where it can be imported from."""
    if _registered.get(name) is backend:
        return "", repr(name)
    module, path = getattr(backend, "__module__", ""), getattr(backend, "__qualname__", "")
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if module == "__main__" and path.isidentifier() and file is not None:
        ran = f'runpy.run_path({os.path.abspath(file)!r}, run_name="backend")["{path}"]'
        return f"import runpy\n\n{path} = {ran}", path
    if not module or module == "__main__" or not path.isidentifier():
        return f"# {name} can't be imported; put what makes it here", "None"
    return f"from {module} import {path}", path


Given = tuple[Symbols | None, FakeTensorMode | None]
"""The symbols of a graph that is compiled, and the mode of its inputs if they are fakes."""
_given: ContextVar[Given] = ContextVar("what comes with the graph being compiled", default=(None, None))


def run_backend(
    backend: Backend, name: str, graph: Graph, inputs: list[Any], given: Given = (None, None), **options: Any
) -> Callable[..., Any]:
    """What a backend makes of a graph. Its failure is an error of its own kind."""
    compiled: Any
    token = _given.set(given)
    try:
        with TorchState():  # a compiler that runs the graph to see what it does sets its flags
            compiled = backend(graph, inputs, **options)
    except Exception as error:
        raise BackendCompilerFailed(name, error) from error
    finally:
        _given.reset(token)
    if not callable(compiled):
        wrong = TypeError(f"it must return a callable, not {type(compiled).__name__}")
        raise BackendCompilerFailed(name, wrong) from wrong
    return compiled


def in_tracing_context(backend: Backend) -> Backend:
    """Runs a backend in the context that AOTAutograd and Inductor look for, with fakes of its own: those
    of the trace may have been changed by what the program did. One compilation at a time is all that they
    are made for."""

    @functools.wraps(backend)
    def compile_in_context(graph: Graph, inputs: list[Any], **options: Any) -> Any:
        try:
            return compile_once(graph, inputs, **options)
        except Exception as error:
            if type(error).__name__ != "TensorifyScalarRestartAnalysis":
                raise
            # AOTAutograd found a float that it can't keep symbolic; it will rely on its value this time
            return compile_once(graph, inputs, **options)

    def compile_once(graph: Graph, inputs: list[Any], **options: Any) -> Any:
        symbols, mode = _given.get()
        is_part = mode is not None
        if mode is None:
            mode, inputs = fakes_of(graph, inputs, symbols)
            graph = without_inference_mode(graph)
        with flags_lock, tracing(TracingContext(mode)), lstm_in_parts(graph, inputs):
            compiled = backend(graph, inputs, **options)
        return compiled if is_part or symbols is None else unmarking(compiled)

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
def lstm_in_parts(graph: Graph, inputs: list[Any]) -> Iterator[None]:
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


def without_inference_mode(graph: Graph) -> Graph:
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


def fakes_of(graph: Graph, inputs: list[Any], symbols: Symbols | None) -> tuple[FakeTensorMode, list[Any]]:
    """What stands for the inputs of a graph. AOTAutograd would take every size of a real tensor for one that
    may vary."""
    mode = FakeTensorMode(shape_env=ShapeEnv() if symbols is None else symbols.env)
    if symbols is not None:
        return mode, symbols.fakes(mode, graph, inputs)
    fake = functools.partial(mode.from_tensor, static_shapes=True)
    return mode, [fake(x) if isinstance(x, torch.Tensor) else x for x in inputs]


def parameters_of(inputs: list[Any]) -> list[int]:
    """The inputs that are where they were each time, and need not be copied for a CUDA graph."""
    return [n for n, value in enumerate(inputs) if isinstance(value, torch.nn.Parameter)]


# ---- the backends that come with it


@register_backend(name="eager")
def eager(graph: Graph, inputs: list[torch.Tensor]) -> Callable[..., Any]:
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
def recorded_backward(of: CompileRecord, graph: Graph) -> Iterator[None]:
    record = CompileRecord("backward", of.name, of.filename, of.line, of.backend, of.entries)
    record.compile_id, record.started = of.compile_id, time.time()
    kinds = [node.op for node in graph.graph.nodes]
    record.nodes, record.inputs = len(kinds), kinds.count("placeholder")
    record.ops = sum(kind.startswith("call") for kind in kinds)
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


def with_aot_autograd(graph: Graph, inputs: list[Any], **settings: Any) -> Callable[..., Any]:
    """Forward and backward graphs that AOTAutograd makes, run as they are unless `settings` say otherwise."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop

    settings = {"fw_compiler": nop, "keep_inference_input_mutations": True, **settings}
    settings["bw_compiler"] = observed(settings.get("bw_compiler", nop), backward=True)
    return aot_module_simplified(graph, inputs, **settings)


@register_backend(name="aot_eager")
@in_tracing_context
def aot_eager(graph: Graph, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Runs the forward and backward graphs that AOTAutograd makes, without a code generator."""
    return with_aot_autograd(graph, inputs)


@register_backend(name="aot_eager_decomp_partition")
@in_tracing_context
def aot_eager_decomp_partition(graph: Graph, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """The same with Inductor's decompositions and partitioner: what it would be given, run as it is."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition as partition
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()
    return with_aot_autograd(with_checks(graph), inputs, decompositions=table, partition_fn=partition)


@register_backend(name="inductor")
@in_tracing_context
def inductor(graph: Graph, inputs: list[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """TorchInductor, the default."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    observing = observed(compile_fx_inner)
    static = parameters_of(inputs)

    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        if "static_input_idxs" in kwargs and not kwargs.get("is_backward") and len(args[1]) == len(inputs):
            kwargs["static_input_idxs"] = sorted({*kwargs["static_input_idxs"], *static})
        with flags_lock:  # the backward graph's turn comes when it is first needed, in whichever thread
            return observing(*args, **kwargs)

    return compile_fx(with_checks(graph), inputs, inner_compile=compile_inner, config_patches=options or None)  # type: ignore[return-value]
