"""One run of a whole program, from the leaves of its arguments to those of its result.

The frame that is captured calls the program and flattens what it gives, so that a result of any class that
is registered with torch's pytrees is taken apart as the program itself would do it.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.backends import cudnn, mkldnn, nnpack
from torch.utils import _pytree as pytree

from framelift import _frame
from framelift.core import breaks, policy
from framelift.core.breaks import Break
from framelift.core.config import config
from framelift.core.errors import TorchRuntimeError, UncapturedHigherOrderOpError, Unsupported, UserError
from framelift.dispatch.restarts import FROM_DATA
from framelift.dispatch.tracing import EscapedError, Trace
from framelift.exporting import assignments
from framelift.exporting.assignments import Assignment
from framelift.exporting.shapes import DeclaredDynamism
from framelift.exporting.signatures import PLAIN, REGISTER, Call
from framelift.features import triton_kernels
from framelift.graph.body import drop_redundant_setters
from framelift.graph.symbols import SYMBOLIC, Fact, Read
from framelift.graph.torch_flags import TorchState, flags_lock
from framelift.guards.guard import Guard
from framelift.guards.sources import Source
from framelift.interpreter.pending import Pending, opened
from framelift.trace.runtime_calls import as_scalar
from framelift.trace.world import TraceWorld

ERRORS: dict[breaks.Reason, type[Unsupported]] = {
    breaks.FAKE_FAILED: TorchRuntimeError,
    breaks.OPERATOR_ERROR: TorchRuntimeError,
    breaks.BODIES: UncapturedHigherOrderOpError,
}


LIBRARIES: tuple[Any, ...] = (cudnn, mkldnn, nnpack)
"""Whose kernels are chosen by what sizes are."""


class ProgramInput(NamedTuple):
    """Something that the graph is given."""

    node: torch.fx.Node
    value: Any
    source: Source


class Result(NamedTuple):
    """A leaf of what the program gives: an output of the graph, something that came in, or a constant."""

    output: int | None = None
    value: Any = None
    is_input: bool = False


@dataclass
class CapturedProgram:
    """What came of it."""

    graph: torch.fx.Graph
    modules: dict[str, torch.fx.GraphModule]
    """The graphs within the graph, by the names that it has for them."""
    inputs: list[ProgramInput]
    written: set[torch.fx.Node]
    """The inputs that the graph writes to."""
    memory_written: frozenset[int]
    """The memory that it writes to, as `storage` names it."""
    results: list[Result]
    out_spec: Any
    assignments: list[Assignment]
    effects: list[str]
    """What else the program would have changed outside."""
    guards: list[Guard]
    facts: list[Fact]
    """What it relies on of sizes and numbers, over `reads`."""
    reads: list[Read]
    asked: dict[int, frozenset[str]] = field(default_factory=dict)
    """id of a tensor -> what the program has asked of it, as `dtype`."""
    symbol_values: list[Any] = field(default_factory=list)
    """The tensors and numbers that the reads are of."""
    symbol_sources: list[Source] = field(default_factory=list)


def capture_program(call: Call, dynamism: DeclaredDynamism, strict: bool = True) -> CapturedProgram:
    """Captures a program as one graph. Raises Unsupported where that can't be done, saying where and why, and
    what the program itself raises. Unless it is `strict`, what the program prints is left out."""
    left_out = frozenset() if strict else frozenset({print})
    options = {**FROM_DATA, "ignore_logging_functions": config.ignore_logging_functions | left_out}
    fn = frame_of(call.target)
    try:
        real = call.stand_ins.in_module(call.root)
        with flags_lock, exporting(), config.patch(**options), real, unset_fake_temporarily():
            return run(call, fn, dynamism)
    except Break as found:
        found.let_go()
        raise refusal(call, found) from None
    except EscapedError as error:
        cause = error.__cause__
        assert cause is not None
        if isinstance(cause, Exception):
            cause.add_note(f"raised by {call.name} while it was exported")
        raise cause from None


def refusal(call: Call, found: Break) -> Unsupported:
    """A break as the error that it is here."""
    found.stack = [place for place in found.stack if place.key[0] != __file__]
    where = f" {found.stack[0]}" if found.stack else ""
    text = f"{call.name} can't be exported.{where}\n{found.describe()}"
    return ERRORS.get(found.reason, Unsupported)(text)


def frame_of(target: Callable[..., Any]) -> types.FunctionType:
    """The function whose frame is captured."""
    flatten = pytree.tree_flatten
    for registered in pytree.SUPPORTED_NODES.values():
        take_apart = registered.flatten_fn
        if isinstance(take_apart, types.FunctionType) and policy.is_leaf(policy.module_name(take_apart)):
            _frame.set_decision(take_apart.__code__, _frame.SKIP, _frame.INTERPRET)  # those of torch's own

    def exported(*args: Any, **kwargs: Any) -> Any:
        return flatten(target(*args, **kwargs))

    # no module of Framelift's: it is the program's own frame
    return types.FunctionType(
        exported.__code__, {"__name__": "exported"}, "exported", None, exported.__closure__
    )


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Within this, `torch.compiler.is_exporting()` is true to the program. Kernels of this machine are not
    chosen among, which would depend on sizes: `torch.export` switches them off as well."""
    compiler: Any = torch.compiler
    before = compiler._is_exporting_flag
    compiler._is_exporting_flag = True
    switched = [library.set_flags(False) for library in LIBRARIES]
    try:
        yield
    finally:
        compiler._is_exporting_flag = before
        for library, flags in zip(LIBRARIES, switched, strict=True):
            library.set_flags(*flags)


def run(call: Call, fn: types.FunctionType, dynamism: DeclaredDynamism) -> CapturedProgram:
    """Runs the program, and again when a lazy module has made its parameters."""
    triton_kernels.prepare()
    while True:
        found = run_once(call, fn, dynamism)
        if isinstance(found, CapturedProgram):
            return found
        found()


def run_once(
    call: Call, fn: types.FunctionType, dynamism: DeclaredDynamism
) -> CapturedProgram | Callable[[], None]:
    """What came of a run, or what is to be done before another one."""
    with TorchState() as switches, Trace(fn, [call.args, call.kwargs], switches, None, dynamism) as trace:
        builder = trace.recorder.builder
        builder.failing.is_refused = lambda: False
        builder.keeps_conditions = True  # `torch.cond` of one stays what it is
        builder.computes_numbers = True  # there is no region
        builder.inputs.asked = {}
        trace.run()
        if trace.ended_by is not None:
            preparation = trace.world.frame.preparation
            if preparation is None:
                raise trace.ended_by
            return preparation
        with torch._C.DisableTorchFunction():
            return finish(call, trace, switches)


def finish(call: Call, trace: Trace, switches: TorchState) -> CapturedProgram:
    world, recorder = trace.world, trace.recorder
    leaves, spec = trace.result
    writes = world.writes.collect()
    recorder.settle()
    assigned, effects = assignments.sorted_out(call, world, writes)
    effects += [f"the setting {setter.__name__}" for setter in switches.changed()]
    effects += [
        f"requires_grad of {found_at(world, each.tensor)}" for each in recorder.requires_grad.flagged.values()
    ]
    outputs: dict[Any, Any] = {}
    results = [result_of(call, world, leaf, outputs) for leaf in leaves]
    for each in assigned:
        if type(each.value) is FakeTensor:
            each.output = output_of(world, each.value, outputs)
    recorder.prepare([out for out in outputs.values() if type(out) is FakeTensor])
    guards = list(world.guards.facts.values())
    close(world, list(outputs.values()))
    builder = recorder.builder
    entries = recorder.inputs.entries
    inputs = [
        ProgramInput(node, value, world.inputs.graph_input_source(node, value)) for node, value, _ in entries
    ]
    drawn = next((each for each in inputs if each.source.is_drawn), None)
    if drawn is not None:
        names = [each.fn.__qualname__ for each in world.runtime_calls.made if each.fn is not as_scalar]
        raise Break(breaks.EFFECT, f"a number that Python draws in each call: {', '.join(names)}")
    made = CapturedProgram(
        graph=builder.body.graph,
        modules=dict(builder.body.modules),
        inputs=inputs,
        written={inputs[n].node for n in recorder.mutations.written_inputs()},
        memory_written=frozenset(recorder.mutations.first_written),
        results=results,
        out_spec=definite(spec, world),
        assignments=assigned,
        effects=effects,
        guards=guards,
        facts=[],
        reads=[],
        asked={key: frozenset(names) for key, names in (builder.inputs.asked or {}).items()},
    )
    symbols = builder.symbols
    if symbols is not None:
        made.symbol_values = [entry.real for entry in symbols.inputs]
        made.symbol_sources = trace.symbol_sources()
        made.reads, made.facts = symbols.facts()
    return made


def close(world: TraceWorld, outputs: list[Any]) -> None:
    """Closes the graph, which gives these tensors and the nodes of these numbers. What may fail or draws, and
    is used by nothing, stays in it: torch.export takes nothing out."""
    recorder = world.recorder
    node_of = recorder.histories.output_node
    recorder.builder.finish(tuple([node_of(out) if type(out) is FakeTensor else out for out in outputs]))
    recorder.histories.clear()
    drop_redundant_setters(recorder.builder.body.graph, recorder.flags.grad_before)


def found_at(world: TraceWorld, tensor: Any) -> str:
    known = world.inputs.known.get(id(tensor))
    return "a tensor" if known is None else str(known.source)


def result_of(call: Call, world: TraceWorld, leaf: Any, outputs: dict[Any, Any]) -> Result:
    if type(leaf) is Pending and isinstance(leaf.value, torch.Tensor):
        return Result(value=leaf.value, is_input=True)
    leaf = opened(leaf)
    if type(leaf) is FakeTensor:
        at = world.recorder.inputs.index_of.get(id(leaf))
        if at is not None:
            return Result(value=world.recorder.inputs.entries[at].value, is_input=True)
        return Result(output_of(world, leaf, outputs))
    if type(leaf) in SYMBOLIC:
        leaf = world.recorder.builder.numbers.term(leaf)
        if isinstance(leaf, torch.fx.Node):
            outputs.setdefault(leaf, leaf)
            return Result(list(outputs).index(leaf))
    if isinstance(leaf, (*PLAIN, torch.Tensor)):
        return Result(value=leaf, is_input=isinstance(leaf, torch.Tensor))
    cls = type(leaf)
    raise UserError(
        f"{call.name} gives a {cls.__qualname__}, of which torch does not know what tensors it holds. It "
        f"looks like one of the outputs with type `{cls}` is not supported or pytree-flattenable. Give "
        f"tensors, numbers, texts, and containers of these, or register the class: {REGISTER}"
    )


def output_of(world: TraceWorld, fake: FakeTensor, outputs: dict[Any, Any]) -> int:
    """Which output of the graph a tensor is."""
    if id(fake) not in world.recorder.builder.body.nodes:
        raise Break(breaks.UNKNOWN_TENSOR, "a result of the function")
    outputs.setdefault(id(fake), fake)
    return list(outputs).index(id(fake))


def definite(spec: Any, world: TraceWorld) -> Any:
    """How results make up what the program gives, with nothing of the trace in it."""
    spec = opened(spec)
    if spec.is_leaf():
        return pytree.treespec_leaf()
    children = [definite(child, world) for child in opened(spec._children)]
    return pytree.TreeSpec(opened(spec.type), world.materialize.for_c(spec._context), children)
