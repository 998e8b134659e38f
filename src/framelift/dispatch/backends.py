"""Backends: what turns a captured graph into something that runs.

A backend is a callable `(GraphModule, example_inputs) -> callable`. Names are looked up among those
registered here, by users, and by packages that offer backends to torch under its entry-point group.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx
from torch._guards import CompileContext, CompileId, TracingContext, compile_context, tracing
from torch.autograd import grad_mode

from framelift import _frame
from framelift._guards import separate_histories
from framelift.core.config import config
from framelift.core.errors import BackendCompilerFailed
from framelift.core.interrupts import exposed
from framelift.core.records import CompileRecord, compile_records, compiling, counters, report_phase
from framelift.core.tracers import is_quit
from framelift.dispatch.backend_names import backend_name, register_backend
from framelift.dispatch.compile_contexts import Backend, Graph
from framelift.dispatch.compiler_state import CompilerState
from framelift.dispatch.data_checks import with_checks
from framelift.dispatch.examples import (
    CompilerContext,
    Given,
    SizeOf,
    fix_numbers,
    giving_sizes,
    giving_sizes_first,
    note_attributes,
    nothing_changed,
    places_of,
    put_sizes_first,
    settle_all,
    sharing,
    sizes_of_inputs,
    sizes_without_node,
    take_sizes,
    with_sizes_first,
)
from framelift.dispatch.extensions import extensions
from framelift.dispatch.forward_checks import checking_forward_only
from framelift.dispatch.fused_optimizers import name_fused_steps
from framelift.dispatch.inductor_parts import InductorParts, compiling_afresh, wanted
from framelift.dispatch.subgraph_results import calls_subgraphs, separate_results
from framelift.dispatch.vector_probes import keep_probes, probe_ahead
from framelift.graph.complex_numbers import keep_complex_numbers
from framelift.graph.deferred import importing_for_torch
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.kept import KeptGraph
from framelift.graph.origins import describe_nodes, name_bodies, name_of_graph, name_sources
from framelift.graph.torch_flags import TorchState, flags_lock
from framelift.graph.torch_forms import TransformLevels, in_torchs_words, leaving_no_levels

log = logging.getLogger("framelift")


NOTHING_KNOWN = Given()


def run_backend(
    backend: Backend, name: str, graph: Graph, inputs: list[Any], given: Given = NOTHING_KNOWN, **options: Any
) -> Callable[..., Any]:
    """What a backend makes of a graph. Its failure is an error of its own kind."""
    try:
        compiled = run_repeatedly(backend, name, graph, inputs, given, options)
    except Exception as error:
        if is_quit(error):
            raise
        raise BackendCompilerFailed(name, error) from error
    if not callable(compiled):
        wrong = TypeError(f"it must return a callable, not {type(compiled).__name__}")
        raise BackendCompilerFailed(name, wrong) from wrong
    return compiled


def run_repeatedly(
    backend: Backend, name: str, graph: Graph, inputs: list[Any], given: Given, options: dict[str, Any]
) -> Any:
    """Runs a backend, and again on something simpler if it fails."""
    if backend is eager:  # which looks at nothing of all this
        return eager(graph, inputs, **options)
    describe_nodes(graph)
    if shares_blocks(backend, inputs, given, options):
        return run_sharing_blocks(backend, name, graph, inputs, given, options)
    return run_for_sizes(backend, name, graph, inputs, given, options)


def shares_blocks(backend: Backend, inputs: list[Any], given: Given, options: dict[str, Any]) -> bool:
    """Whether repeated blocks are looked for: by default where sharing those that are large costs nothing."""
    if config.share_blocks == "never" or given.is_part or not takes_fakes(backend):
        return False
    if config.share_blocks == "always":
        return True
    if backend is not inductor or options or given.varies:
        return False
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    differentiates = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return not differentiates and all(tensor.device.type == "cpu" for tensor in tensors)


DIFFERENT_GRADIENTS = "invoke_subgraph traced multiple backward graphs"
"""What torch says where copies of a block are given gradients that look different."""


def run_sharing_blocks(
    backend: Backend, name: str, graph: Graph, inputs: list[Any], given: Given, options: dict[str, Any]
) -> Any:
    """Runs a backend on a graph whose blocks are compiled once, or on the graph itself if it refuses that."""
    from framelift.dispatch.block_calls import with_shared_blocks

    only_large = config.share_blocks == "large"
    shared = with_shared_blocks(graph, {*given.written, *sharing(inputs, given.written)}, only_large)
    if shared is not graph:
        kept = KeptGraph(graph)
        try:
            # what fails here is compiled whole; later it would be an error
            with all_at_once(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=DIFFERENT_GRADIENTS)
                return run_for_sizes(backend, name, shared, inputs, given, options)
        except Exception as error:
            if _frame.interrupted():
                raise
            why = f"{type(error).__name__}: {error}"
            log.warning(
                "the backend %s can't share blocks of a graph, which is compiled whole (%s)", name, why
            )
            counters["repeated_blocks"]["refused by the backend"] += 1
        graph = kept.made_again()
    return run_for_sizes(backend, name, graph, inputs, given, options)


WHERE_IT_FAILED = "Error detected in "
"""What torch tells of an error in a traced backward pass, which nobody needs where it is traced again."""


def run_for_sizes(
    backend: Backend, name: str, graph: Graph, inputs: list[Any], given: Given, options: dict[str, Any]
) -> Any:
    """Runs a backend, and once more, without symbols, if it fails where there are some."""
    if not given.varies:
        return run_in_context(backend, graph, inputs, given, options)
    kept = KeptGraph(graph)
    if given.mode is None and given.symbols is not None and given.symbols.has_floats:
        # AOTAutograd relies on the value of each float that an operator is given, if it knows one
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=WHERE_IT_FAILED)
                return run_restarting(
                    backend, graph, kept, inputs, given._replace(knows_floats=False), options
                )
        except Exception:
            if _frame.interrupted():
                raise
        graph = kept.made_again()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=WHERE_IT_FAILED)
            return run_restarting(backend, graph, kept, inputs, given, options)
    except Exception as error:
        if _frame.interrupted():
            raise
        if given.mode is not None or given.symbols is None or not settle_all(given.symbols):
            raise
        why = f"{type(error).__name__}: {error}"
        log.info("the backend %s can't compile a graph for sizes that vary (%s)", name, why)
        settled = kept.made_again()
        fix_numbers(settled, given.symbols)
        return run_in_context(backend, settled, inputs, given._replace(is_settled=True), options)


def run_restarting(
    backend: Backend, graph: Graph, kept: KeptGraph, inputs: list[Any], given: Given, options: dict[str, Any]
) -> Any:
    """Runs a backend, and again if AOTAutograd has noted that it can't make tensors of some floats."""
    try:
        return run_in_context(backend, graph, inputs, given, options)
    except Exception as error:
        if _frame.interrupted() or type(error).__name__ != "TensorifyScalarRestartAnalysis":
            raise
    return run_in_context(backend, kept.made_again(), inputs, given, options)


END_OF_GRAPH = "end of the graph"
"""In a graph's meta: why it goes no further, until a backend is given it."""


def run_in_context(
    backend: Backend, graph: Graph, inputs: list[Any], given: Given, options: dict[str, Any]
) -> Any:
    """Runs a backend in the context that AOTAutograd and Inductor look for."""
    captured = without_inference_mode(graph)
    graph = in_torchs_words(captured, for_compiler=takes_fakes(backend))
    name_sources(graph, inputs)
    if not takes_fakes(backend):
        note_attributes(graph, inputs)
        name_bodies(graph)
    if (end := graph.meta.pop(END_OF_GRAPH, None)) is not None:
        vars(graph)["compile_subgraph_reason"] = end  # setting it, a module looks at what it is
    context = CompilerContext(graph, inputs, given)
    is_shown = given.mode is None and not given.varies and not takes_fakes(backend)
    differentiated = sum(map(is_differentiated, graph.graph.output_node().all_input_nodes))
    unchanged = nothing_changed(inputs, given.written if is_shown else ())
    with unchanged, numbered_compilation(), tracing(context):
        graph.meta.update(
            dynamo_compile_id=CompileContext.current_compile_id(),
            dynamo_flat_name_to_original_fqn={},
            backend_id=name_of_graph(graph),
        )
        try:
            examples = context.examples
            has_sizes = given.varies and given.mode is None
            own, sizes = takes_fakes(backend), list[SizeOf]()
            if has_sizes and own:
                sizes = sizes_without_node(graph, examples)
                examples += [size.symbol for size in sizes]
                take_sizes(graph, sizes)
            elif has_sizes:
                sizes = sizes_of_inputs(examples)
                put_sizes_first(graph, sizes, examples)
                examples = with_sizes_first(examples, sizes)
            # a compiler that runs the graph to see what it does sets its flags
            with (
                TorchState(),
                TransformLevels(),
                CompilerState(),
                importing_for_torch(),
                checking_forward_only(graph),
            ):
                called = (
                    backend if comes_with_framelift(backend) else functools.partial(_frame.shown, backend)
                )
                compiled = exposed(called, graph, examples, **options)
        finally:
            varying = context.varying
            context.end()
    separates = context.used_aot_autograd and differentiated > 1
    for parts in wanted.get() or ():
        parts.separates, parts.is_wrapped = separates, graph is not captured
        parts.sizes = places_of(sizes) if own else ()
    if graph is not captured:
        compiled = leaving_no_levels(compiled)
    if given.varies and compiles_when_called(compiled):
        raise NotImplementedError("what compiles when it is first called takes no sizes that vary")
    if sizes:
        compiled = giving_sizes(compiled, places_of(sizes)) if own else giving_sizes_first(compiled, sizes)
    if separates:
        compiled = separating(compiled)
    return unmarking(compiled, varying) if given.varies and context.used_aot_autograd else compiled


@contextlib.contextmanager
def all_at_once() -> Iterator[None]:
    """Backward graphs are compiled with forward graphs, and not when they are first needed."""
    import torch._functorch.config as functorch_config

    with functorch_config.patch(force_non_lazy_backward_lowering=True):
        yield


@contextlib.contextmanager
def numbered_compilation() -> Iterator[None]:
    """Whoever asks torch for the number of the compilation gets that of the record."""
    record = compiling.get()
    if record is None or CompileContext.try_get() is not None:
        yield
        return
    frame, _, attempt = record.compile_id.partition("/")
    with compile_context(CompileContext(CompileId(frame_id=int(frame), frame_compile_id=int(attempt)))):
        yield


def is_differentiated(output: torch.fx.Node) -> bool:
    """Whether a result of a graph may require grad."""
    return bool(getattr(output.meta.get("example_value"), "requires_grad", True))


def separating(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """All results of AOTAutograd's graphs come of one node of autograd, which calls hooks on all of them when
    one is differentiated."""

    def run(*args: Any) -> Any:
        outputs = compiled(*args)
        separate_histories(outputs)
        return outputs

    return run


LAZY = frozenset({"aot_function.<locals>.returned_function", "aot_module.<locals>.AOTModule.forward"})
"""What AOTAutograd gives that compiles for the arguments of its first call, and never again."""


def compiles_when_called(compiled: Any) -> bool:
    code = getattr(getattr(compiled, "forward", compiled), "__code__", None)
    return code is not None and code.co_qualname in LAZY


FOR_FAKES = "framelift_takes_fakes"


def takes_fakes(backend: Backend) -> bool:
    """Whether a backend never touches the program's tensors."""
    return FOR_FAKES in getattr(backend, "__dict__", ())


def comes_with_framelift(backend: Backend) -> bool:
    return backend is eager or takes_fakes(backend)


def on_fakes(backend: Backend) -> Backend:
    """A backend that is made of AOTAutograd and what works on its graphs: it gets fakes, as far as it can
    take what is in the graph. One compilation at a time is all that these are made for."""

    @functools.wraps(backend)
    def compile_on_fakes(graph: Graph, inputs: list[Any], **options: Any) -> Any:
        return _frame.shielded(compile_graph, graph, inputs, **options)

    def compile_graph(graph: Graph, inputs: list[Any], **options: Any) -> Any:
        context = TracingContext.try_get()
        if type(context) is not CompilerContext:  # someone has called it directly
            return run_backend(compile_on_fakes, backend_name(backend), graph, inputs, **options)
        if context.given.mode is None:
            inputs = context.fakes_of(inputs)
        name_fused_steps(graph)
        with flags_lock, lstm_in_parts(graph, inputs), collecting_seldom():
            return exposed(backend, graph, inputs, **options)

    vars(compile_on_fakes)[FOR_FAKES] = True
    return compile_on_fakes


LEAST_GARBAGE = 50_000
"""Objects between two collections while torch's compilers work; Python's default is 700."""


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """Torch's compilers make many objects that stay, and each collection looks at more of them: a tenth of
    what they take in Python. What else runs meanwhile is collected, too, only later."""
    before = gc.get_threshold()
    if not 0 < before[0] < LEAST_GARBAGE:  # the program has switched it off, or knows better
        yield
        return
    during = (LEAST_GARBAGE, *before[1:])
    try:
        gc.set_threshold(*during)
        yield
    finally:
        if gc.get_threshold() == during:
            gc.set_threshold(*before)


UNSUPPORTED = frozenset(
    {"NotImplementedError", "UnsupportedFakeTensorException", "UnsupportedOperatorException"}
    | {"UnsupportedMutationAliasingException", "MissingOperatorWithoutDecomp", "MissingOperatorWithDecomp"}
)
"""Names of errors by which torch's compilers say that they can't compile something at all."""


SAVED_AND_CHANGED = "one of the variables needed for gradient computation has been modified by an inplace"
"""How AOTAutograd's tracing ends where a program changes what its gradients need. Eagerly that is an error
only for who computes them."""


def is_refusal(error: BackendCompilerFailed) -> bool:
    """Whether one of torch's compilers knows that it can't compile a graph."""
    cause = error.__cause__
    while cause is not None:
        if type(cause) is RuntimeError and str(cause).startswith(SAVED_AND_CHANGED):
            return True
        if not UNSUPPORTED.isdisjoint(cls.__name__ for cls in type(cause).__mro__):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def unmarking(compiled: Callable[..., Any], varying: list[int]) -> Callable[..., Any]:
    """AOTAutograd marks sizes that may vary, of what it gives and of inputs that it saves, for torch's own
    compiler; the program has set no such thing."""

    def run(*args: Any) -> Any:
        outputs = compiled(*args)
        for tensor in (*outputs, *[args[n] for n in varying]):
            if type(tensor) not in PLAIN_CLASSES:
                continue
            marks = tensor.__dict__
            marks.pop("_dynamo_propagated_dynamic_indices", None)
            # as older versions of torch call it, and what users mark
            if "_dynamo_weak_dynamic_indices" in marks and not any(tensor is given for given in args):
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
    and what its graphs give are ordinary tensors, of which regions make inference tensors again. Nor may a
    backend that fails while it runs the graph leave inference mode on."""
    if not any(node.target in INSTEAD for node in graph.graph.nodes):
        return graph
    copied = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    modes: list[Any] = []
    for node in list(copied.graph.nodes):
        if node.target is grad_mode._enter_inference_mode:
            modes.append(node.args[0])
            with copied.graph.inserting_before(node):
                before = copied.graph.call_function(torch.is_grad_enabled)
            before.meta = dict(node.meta)
            node.replace_all_uses_with(before)
            node.args = (not node.args[0],)
        elif node.target is grad_mode._exit_inference_mode:
            modes.pop()
        elif node.target is torch._C._set_grad_enabled and modes and modes[-1]:
            node.args = (False,)  # nothing is differentiated in there, whatever the switch says
        node.target = INSTEAD.get(node.target, node.target)
    copied.recompile()
    return copied


INSTEAD: dict[Any, Any] = {
    grad_mode._enter_inference_mode: torch._C._set_grad_enabled,
    grad_mode._exit_inference_mode: torch._C._set_grad_enabled,
}


def parameters_of(inputs: list[Any]) -> list[int]:
    """The inputs that are where they were each time, and need not be copied for a CUDA graph."""
    return [n for n, value in enumerate(inputs) if isinstance(value, torch.nn.Parameter)]


# ---- the backends that come with it


@register_backend(name="eager", tags=("debug",))
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
        record.failed, record.failed_as = f"{type(error).__name__}: {error}", type(error).__name__
        raise
    finally:
        record.seconds = record.backend_seconds = time.perf_counter() - began
        report_phase(record, "done")
        compile_records.add(record)


def with_aot_autograd(graph: Graph, inputs: list[Any], **settings: Any) -> Callable[..., Any]:
    """Forward and backward graphs that AOTAutograd makes, run as they are unless `settings` say otherwise."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop

    def run_as_it_is(made: Graph, examples: list[Any]) -> Callable[..., Any]:
        keep_complex_numbers(made)
        return nop(made, examples)

    settings = {"fw_compiler": run_as_it_is, "keep_inference_input_mutations": True, **settings}
    settings["bw_compiler"] = observed(settings.get("bw_compiler", run_as_it_is), backward=True)
    return aot_module_simplified(graph, inputs, **settings)


@register_backend(name="aot_eager", tags=("debug",))
@on_fakes
def aot_eager(graph: Graph, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Runs the forward and backward graphs that AOTAutograd makes, without a code generator."""
    return with_aot_autograd(graph, inputs)


@register_backend(name="aot_eager_decomp_partition", tags=("debug",))
@on_fakes
def aot_eager_decomp_partition(graph: Graph, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """The same with Inductor's decompositions and partitioner: what it would be given, run as it is."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition as partition
    from torch._inductor.decomposition import select_decomp_table

    table = select_decomp_table()
    return with_aot_autograd(with_checks(graph), inputs, decompositions=table, partition_fn=partition)


@register_backend(name="inductor")
@on_fakes
def inductor(graph: Graph, inputs: list[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """TorchInductor, the default."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    from framelift.dispatch.factors import with_factors_written_out

    keep_probes()
    if all(value.device.type == "cpu" for value in inputs if isinstance(value, torch.Tensor)):
        probe_ahead()
    observing = observed(compile_fx_inner)
    static, parts = parameters_of(inputs), InductorParts(len(inputs))

    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        if "static_input_idxs" in kwargs and not kwargs.get("is_backward") and len(args[1]) == len(inputs):
            kwargs["static_input_idxs"] = sorted({*kwargs["static_input_idxs"], *static})
        separate_results(args[0])
        parts.note_graph(args[0], bool(kwargs.get("is_backward")))
        with flags_lock:  # the backward graph's turn comes when it is first needed, in whichever thread
            made = observing(*args, **kwargs)
        parts.note(made, args[1], kwargs)
        return made

    with compiling_afresh(calls_subgraphs(graph)):
        compiled = compile_fx(
            with_checks(graph),
            inputs,
            inner_compile=compile_inner,
            config_patches=with_factors_written_out(options),
        )
    if (collected := wanted.get()) is not None:
        parts.metadata = TracingContext.get().fw_metadata
        collected.append(parts)
    return compiled  # type: ignore[return-value]
