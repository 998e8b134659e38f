"""`framelift.export_graph(fn)(*args)`: a program as a graph module that is called as the program is, and what
that relies on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental import _config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils import _pytree as pytree

from framelift.core.breaks import Place
from framelift.core.errors import UserError
from framelift.exporting.capture import CapturedProgram, capture_program
from framelift.exporting.graph_modules import ROOT_STACK, full_class_name, program_module
from framelift.exporting.input_checks import Checks, add_operators_facts, call_first, checks_of_program
from framelift.exporting.program import check_effects, check_shapes
from framelift.exporting.shapes import DeclaredDynamism, declared
from framelift.exporting.signatures import Call, call_of, check_target
from framelift.exporting.traced_contexts import enter_when_traced, left_as_found
from framelift.graph import dimensions
from framelift.guards.guard import Guard
from framelift.guards.program import in_words

MODES = ("real", "fake", "symbolic")


class ExportedGraph(NamedTuple):
    """A program as a graph, and what it relies on of its arguments and of all that it has read elsewhere."""

    graph_module: torch.fx.GraphModule
    guards: list[Guard | SizeGuard]


class SizeGuard(NamedTuple):
    """What must hold of sizes and numbers of the arguments, as the program would write it, and where it
    relies on that."""

    text: str
    place: Place | None

    def __str__(self) -> str:
        return self.text


def size_guards(call: Call, program: CapturedProgram) -> Iterator[SizeGuard]:
    names = dict(zip(call.sources, call.paths, strict=True))
    sources: Any = [names.get(str(source), str(source)) for source in program.symbol_sources]
    for fact in program.facts:
        yield SizeGuard(in_words(fact.text, sources, program.reads), fact.place)


SETTINGS: Any = _config


def export_graph(
    fn: Callable[..., Any],
    *extra_args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    strict: bool = True,
    **extra_kwargs: Any,
) -> Any:
    """Captures a program as one graph: `export_graph(fn)(*args, **kwargs)` gives the module and the guards.

    The module takes what the program takes and gives what it gives; with `same_signature=False` it takes and
    gives the leaves of these. Arguments that it is not for (sizes, ranks and numbers that are not as the
    guards demand) are an error of the call. It has the calls that the program makes; with `aten_graph`
    torch's operators in their place, as `make_fx` finds them with this `decomposition_table` and
    `tracing_mode`, before autograd and autocast have had their part if `pre_dispatch`. Sizes are symbols in
    its metadata unless `assume_static_by_default`; with `dynamic_shapes` those that it declares are, and it
    is an error if the program does not work for all of them.

    >>> import torch, framelift
    >>> pair = {"a": torch.ones(2), "b": torch.ones(2)}
    >>> module, guards = framelift.export_graph(lambda pair: pair["a"] - pair["b"])(pair)
    >>> module(pair)
    tensor([0., 0.])
    """
    check_target(fn)
    if pre_dispatch and not aten_graph:
        raise UserError("pre_dispatch=True is about torch's operators: give aten_graph=True as well")
    if decomposition_table is not None and not aten_graph:
        raise UserError("decomposition_table is about torch's operators: give aten_graph=True as well")
    if tracing_mode not in MODES:
        raise UserError(f"there is no tracing_mode {tracing_mode!r}; known are: {', '.join(MODES)}")

    def exported(*args: Any, **kwargs: Any) -> ExportedGraph:
        call = call_of(fn, args, kwargs)
        spec, dynamism = declared(call, dynamic_shapes)
        if spec is None and not assume_static_by_default:
            dynamism = all_dynamic(call)
        program = capture_program(call, dynamism, strict)
        check_effects(call, program, strict)
        if spec is not None:
            check_shapes(call, program, spec)
        facts = list(size_guards(call, program))
        module = program_module(call, program, checks_sizes=False)
        checks = checks_of_program(call, program, dynamism, [fact.text for fact in facts])
        if aten_graph:
            module = with_operators(call, module, decomposition_table, tracing_mode, pre_dispatch, checks)
        call.stand_ins.give_back(module)
        call_first(module, checks, described(call))
        describe_leaves(module, program)
        if not same_signature:
            module.graph.set_codegen(torch.fx.graph.CodeGen())
            module.recompile()
        return ExportedGraph(module, [*of_program(program.guards), *facts])

    if extra_args or extra_kwargs:
        return exported(*extra_args, **extra_kwargs)
    return exported


def all_dynamic(call: Call) -> DeclaredDynamism:
    """Symbols for all sizes of the arguments, as far as the program lets them vary."""
    made = DeclaredDynamism()
    for leaf in call.leaves:
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            made.of_tensors[id(leaf)] = dict.fromkeys(range(leaf.dim()), dimensions.Dim(apart=True))
    return made


def describe_leaves(module: torch.fx.GraphModule, program: CapturedProgram) -> None:
    """What the graph was captured with is in its metadata, as tools expect it."""
    for node in module.graph.nodes:
        example = node.meta.get("example_value")
        if example is not None:
            node.meta.setdefault("val", example)
    module.meta["input_shape_constraints"] = []
    module.meta["module_call_specs"] = {}


def described(call: Call) -> dict[str, Any]:
    """What nodes say that belong to the program as a whole: its module, and where it begins."""
    meta: dict[str, Any] = {"nn_module_stack": {ROOT_STACK: ("", full_class_name(call))}}
    target = call.root.forward if call.target is call.root and call.root is not None else call.target
    code = getattr(inspect.unwrap(target), "__code__", None)
    if code is not None:
        meta["stack_trace"] = f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}\n'
    return meta


def of_program(guards: list[Guard]) -> Iterator[Guard]:
    """Those that are not about how results are taken apart."""
    for guard in guards:
        if not str(guard.source).startswith(OF_RESULTS):
            yield guard


OF_RESULTS = ("flatten", "torch.utils._pytree")
"""How the sources begin of what takes results apart (`frame_of`)."""


def with_operators(
    call: Call,
    module: torch.fx.GraphModule,
    decompositions: dict[Any, Callable[..., Any]] | None,
    mode: Any,
    pre_dispatch: bool,
    checks: Checks,
) -> torch.fx.GraphModule:
    """The same module with torch's operators; what these rely on is checked too."""
    codegen = module.graph._codegen
    assert isinstance(codegen, _PyTreeCodeGen)
    enter_when_traced(module)

    def run(*leaves: Any) -> Any:
        interpreter = torch.fx.Interpreter(module)
        with torch.fx.traceback.preserve_node_meta():
            return interpreter.run(*leaves, enable_io_processing=False)

    leaves = [call.stand_ins.of(leaf, "an argument") for leaf in call.leaves]
    # sizes that happen to be the same are symbols of their own, as in the capture
    with unset_fake_temporarily(), SETTINGS.patch(use_duck_shape=False), left_as_found():
        traced = make_fx(
            run,
            decomposition_table=decompositions,
            tracing_mode=mode,
            pre_dispatch=pre_dispatch,
            _allow_non_fake_inputs=True,
        )(*leaves)
    add_operators_facts(checks, traced, call.leaves)
    made = torch.fx.GraphModule(traced, traced.graph, class_name=type(module).__name__)
    spec = pytree.tree_flatten((*call.args, *call.kwargs.values()))[1]
    made.graph.set_codegen(
        _PyTreeCodeGen(_PyTreeInfo(call.argument_names, spec, codegen.pytree_info.out_spec))
    )
    made.recompile()
    return made
