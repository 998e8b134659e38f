"""Functions of torch's that a trace does itself: questions that a trace must answer as a compiled program
would, and torch's own Python where the same takes fewer steps."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import HigherOrderOperator, OperatorBase, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph import arithmetic
from framelift.graph.fakes import PLAIN_CLASSES
from framelift.graph.recorder import Recorder
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.rules.symbolic_shapes import CONSTRAINTS
from framelift.rules.torch_state import QUESTION
from framelift.trace.callable_rules import Looks, functions_of, python_functions_of, rule, serve
from framelift.trace.machine import TraceFrame, interpreted

rule(torch._C._set_grad_enabled, looks=Looks.RECORDED, why="a switch that the graph holds")

NO_EFFECT = "a function of torch's own Python that has no effect"
rule(
    *(torch.cuda.is_available, torch.cuda.device_count, torch.cuda._is_compiled),
    looks=Looks.DEEP,
    why=NO_EFFECT,
)
rule(torch.sym_sum, looks=Looks.DEEP, on_symbols=arithmetic.total, why=NO_EFFECT)
for _question in (torch.is_storage, torch.typename, torch.overrides.is_tensor_like):
    rule(_question, looks=Looks.DEEP, on_symbols=arithmetic.about_kind(_question), why="asks about a type")
rule(torch.sym_int, looks=Looks.DEEP, on_symbols=arithmetic.as_int, why=NO_EFFECT)
rule(torch.sym_float, looks=Looks.DEEP, on_symbols=arithmetic.as_float, why=NO_EFFECT)
for _fn in (torch.sym_max, torch.sym_min, torch.sym_not):
    rule(_fn, looks=Looks.DEEP, on_symbols=arithmetic.of_torch(_fn), why=NO_EFFECT)

rule(torch.sym_ite, looks=Looks.DEEP, on_symbols=arithmetic.chosen, why=NO_EFFECT)

functions_of(
    *("torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special", "torch._C._sparse"),
    looks=Looks.RECORDED,
    why="a torch operator",
)
FUNCTIONAL = "torch's functional API, or a question; the recorder sees what it does"
python_functions_of(
    *("torch.functional", "torch.nn.functional", "torch._tensor", "torch._VF", "torch.nn.grad"),
    *("torch._lowrank", "torch._linalg_utils", "torch.signal", "torch.special", "torch.linalg", "torch.fft"),
    *("torch.masked", "torch._prims_common"),
    classes=True,
    passes_numbers=True,
    overridable=True,
    why=FUNCTIONAL,
)
python_functions_of(
    *("torch.return_types", "torch.nn._reduction", "torch.nn.parameter"),
    *("torch.autograd.grad_mode", "torch.cuda.amp.autocast_mode"),
    *("torch.overrides", "torch.utils._device", "torch.distributed.tensor.placement_types"),
    classes=True,
    overridable=True,
    why=FUNCTIONAL,
)
rule(torch.Tensor.split, torch.split, looks=Looks.RECORDED, why=FUNCTIONAL)  # sizes may vary
rule(torch.nn.Parameter, torch.nn.Buffer, looks=Looks.DEEP, why=FUNCTIONAL)
rule(torch.jit.annotate, torch.jit.isinstance, torch.jit._unwrap_optional, looks=Looks.DEEP, why=FUNCTIONAL)
for _fn in {fn for module in (torch, functional) for fn in vars(module).values() if type(fn) is FunctionType}:
    if _fn.__qualname__.startswith("boolean_dispatch."):  # calls one of two functions, by an argument
        rule(_fn, looks=Looks.DEEP, overridable=True, why=FUNCTIONAL)
REGISTRIES = "torch.jit", "torch._jit_internal", "torch.compiler", "torch._library"
python_functions_of(*REGISTRIES, refused=breaks.EFFECT, why="tells a compiler or the dispatcher something")
for _name in ("__enter__", "__exit__"):  # it looks for its place among the modes
    rule(vars(DeviceContext)[_name], refused=breaks.TORCH_STATE, why=f"DeviceContext.{_name}")
SAID = ("name", "__str__", "__repr__", "__hash__", "__deepcopy__", "overloads", "__iter__", "__dir__")
for _operators in (OperatorBase, OpOverload, OpOverloadPacket, HigherOrderOperator):
    for _name in vars(_operators).keys() & set(SAID):
        rule(vars(_operators)[_name], looks=Looks.DEEP, why="what an operator says of itself")
DEVICES = "torch.cuda", "torch.xpu", "torch.mps", "torch.mtia"
python_functions_of(*DEVICES, refused=breaks.EFFECT)
python_functions_of(
    "torch.nn.parallel.distributed", refused=breaks.EFFECT, why="makes ready for the reduction of gradients"
)
python_functions_of("torch.distributed.fsdp", refused=breaks.EFFECT, why="gathers parameters, and frees them")
python_functions_of("torch.distributed", refused=breaks.DISTRIBUTED)


# ---- torch's questions


def serve_answer(question: Any, answer: Any) -> None:
    @serve(question, looks=Looks.DEEP, why=QUESTION)
    def served(f: TraceFrame, /) -> Any:
        return answer


ANSWERS: dict[Any, Any] = {
    torch.jit.is_scripting: False,
    torch.jit.is_tracing: False,
    torch.nn.modules.activation._is_make_fx_tracing: False,
    torch._C._get_tracing_state: None,
}
if hasattr(torch.compiler, "_is_non_strict_tracing"):  # not before torch 2.12
    ANSWERS[torch.compiler._is_non_strict_tracing] = False
for _question, _answer in ANSWERS.items():
    serve_answer(_question, _answer)


@serve(torch._C._log_api_usage_once)
def serve_log_api_usage(f: TraceFrame, event: Any, /) -> Any:
    """It counts, for torch's authors, that a feature was used."""


@serve(torch.compiler.is_compiling, looks=Looks.DEEP, why=QUESTION)
def serve_is_compiling(f: TraceFrame, /) -> Any:
    """A module's call asks, so as not to run in compiled code the hooks that are always called if forward
    raises: here they are run."""
    return f.code.code is not torch.nn.Module._call_impl.__code__ and f.world.calls.tell_compiled()


@serve(torch.compiler.is_dynamo_compiling, looks=Looks.DEEP, why=QUESTION)
def serve_is_dynamo_compiling(f: TraceFrame, /) -> Any:
    return f.world.calls.tell_compiled()


@serve(torch.compiler.is_exporting, looks=Looks.DEEP, why=QUESTION)
def serve_is_exporting(f: TraceFrame, /) -> Any:
    """Only what exports sets it, for as long as that takes."""
    return vars(torch.compiler)["_is_exporting_flag"]


@serve(torch.is_tensor, looks=Looks.DEEP, why=NO_EFFECT)
def serve_is_tensor(f: TraceFrame, /, obj: Any) -> Any:
    return f.world.operators.is_instance(obj, torch.Tensor)


@serve(torch._shape_as_tensor)
def serve_shape_as_tensor(f: TraceFrame, tensor: Any, /) -> Any:
    """Its kernel fills a tensor of C's own, which a fake one has no data for."""
    value = opened(tensor)
    if type(value) is not FakeTensor:
        return f.world.calls.native(f, torch._shape_as_tensor, [tensor], None)
    options = {"dtype": torch.int64, "device": "cpu"}
    return f.world.calls.native(f, torch.tensor, [list(value.shape)], options)


@serve(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary)
@serve(torch.overrides.has_torch_function_variadic)
def serve_has_torch_function(f: TraceFrame, /, *args: Any) -> Any:
    """Asked of the recorder: it knows the classes that the fakes stand for, and leaves out the trace's own
    mode."""
    recorder: Any = f.world.recorder
    given = f.world.materialize.for_torch(list(args))
    return recorder.modes.active or bool(recorder.subclasses.overloaded(given, {}))


@serve(torch.get_default_device, looks=Looks.DEEP, why=NO_EFFECT)
def serve_default_device(f: TraceFrame, /) -> Any:
    """Torch makes a tensor to find out, which here would be a fake."""
    modes = [mode for mode in _get_current_function_mode_stack() if type(mode) is DeviceContext]
    device: Any = modes[-1].device if modes else torch.device("cpu")
    if device.index is None and device.type not in ("cpu", "meta"):
        return f.world.calls.native(f, torch.get_default_device, [], None)
    return device


def refuse_current_device(fn: Any) -> None:
    """Which CUDA device is current is not guarded. Where there are several, that must not be asked."""
    if torch.cuda.device_count() > 1:
        raise Break(breaks.EFFECT, f"torch.cuda.{fn.__name__} of the current device, which may change")


def names_device(device: Any) -> bool:
    return isinstance(device, (int, str, torch.device)) and str(device) != "cuda"


def serve_device_question(fn: Any) -> None:
    @serve(fn, looks=Looks.DEEP, why=NO_EFFECT)
    def served(f: TraceFrame, /, device: Any = None, *options: Any, **named: Any) -> Any:
        if not names_device(opened(device)):
            refuse_current_device(fn)
        return f.world.calls.native(f, fn, [device, *options], named)


for _fn in (
    *(torch.cuda.get_device_name, torch.cuda.get_device_capability, torch.cuda.get_device_properties),
    torch.cuda._utils._get_device_index,
):
    serve_device_question(_fn)


@serve(torch.cuda.is_bf16_supported, looks=Looks.DEEP, why=NO_EFFECT)
def serve_is_bf16_supported(f: TraceFrame, /, including_emulation: Any = True) -> Any:
    refuse_current_device(torch.cuda.is_bf16_supported)
    return f.world.calls.native(f, torch.cuda.is_bf16_supported, [including_emulation], None)


@serve(torch.nn.Module.__getattr__)
def serve_module_getattr(f: TraceFrame, module: Any, /, name: Any) -> Any:
    if id(opened(module)) in f.world.attributes.views:
        return f.world.attributes.registered(opened(module), opened(name))
    return interpreted(f, torch.nn.Module.__getattr__, [module, name], None)


# ---- copies


def deep_copy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """`Tensor.__deepcopy__`, of a tensor that has its memory for itself."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    copied = tensor.detach().clone(memory_format=torch.preserve_format)
    if tensor.requires_grad:
        copied.requires_grad_()
    if tensor.grad is not None:
        copied.grad = tensor.grad.__deepcopy__(memo)
    memo[id(tensor)] = copied
    return copied


_frame.set_decision(deep_copy.__code__, _frame.SKIP, _frame.INTERPRET)


def fills_its_memory(recorder: Recorder, fake: FakeTensor) -> bool:
    """Whether a plain tensor lies densely in memory that is as large as it."""
    with recorder.fakes, torch._C.DisableTorchFunction():
        if fake.layout is not torch.strided or recorder.subclasses.class_of(fake) not in PLAIN_CLASSES:
            return False
        for fact in ("storage_offset", "storage"):
            recorder.inputs.note_fact(fact, fake)
        size = fake.untyped_storage().nbytes()
        dense = torch.empty_like(fake, requires_grad=False).stride() == fake.stride()
        return bool(dense and size == fake.numel() * fake.element_size())


@serve(torch.Tensor.__deepcopy__)
def serve_deep_copy(f: TraceFrame, source: Any, /, memo: Any) -> Any:
    tensor, world = opened(source), f.world
    if not world.attributes.load(tensor, "is_leaf"):
        raise Break(breaks.TENSOR_STATE, "a deep copy of a tensor that is no leaf")
    if not fills_its_memory(world.recorder, tensor) or not world.tensors.has_no_attributes(tensor):
        raise Break(breaks.TENSOR_STATE, "a deep copy of a tensor that is part of another, or has attributes")
    return call(f, deep_copy, [tensor, memo], None)


@serve(torch.nn.Parameter.__deepcopy__)
def serve_deep_copy_of_parameter(f: TraceFrame, parameter: Any, /, memo: Any) -> Any:
    return call(f, deep_copy_of_parameter, [parameter, memo], None)


def deep_copy_of_parameter(parameter: torch.nn.Parameter, memo: dict[int, Any]) -> torch.nn.Parameter:
    if id(parameter) not in memo:
        copied = parameter.detach().clone(memory_format=torch.preserve_format)
        memo[id(parameter)] = torch.nn.Parameter(copied, parameter.requires_grad)
    return memo[id(parameter)]


_frame.set_decision(deep_copy_of_parameter.__code__, _frame.SKIP, _frame.INTERPRET)


# ---- tensors that are given other memory


@serve(torch.Tensor.set_)
def serve_set(f: TraceFrame, tensor: Any, source: Any, /) -> Any:
    if not isinstance(opened(source), torch.Tensor):
        return f.world.calls.native(f, torch.Tensor.set_, [tensor, source], None)
    return f.world.tensors.set_data(opened(tensor), opened(source))


@serve(torch.Tensor.resize_)
def serve_resize(f: TraceFrame, tensor: Any, first: Any, /, *others: Any) -> Any:
    tensor, *sizes = f.world.materialize.for_torch([tensor, first, *others])
    given = sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes
    return f.world.recorder.reassignments.resize(tensor, tuple(given))


@serve(torch.Tensor.resize_as_, torch.resize_as_)
def serve_resize_as(f: TraceFrame, tensor: Any, template: Any, /) -> Any:
    tensor, template = f.world.materialize.for_torch([tensor, template])
    return f.world.recorder.reassignments.resize(tensor, tuple(template.shape))


# ---- operators by their registry


@serve(torch._ops.OpOverload.__call__, torch._ops.OpOverloadPacket.__call__)
def serve_operator(f: TraceFrame, called: Any, /, *args: Any, **kwargs: Any) -> Any:
    for_torch = f.world.materialize.for_torch
    if opened(called) in CONSTRAINTS:
        return call(f, CONSTRAINTS[opened(called)], list(args), kwargs)
    return f.world.recorder.call(
        for_torch(called),
        tuple([for_torch(x) for x in args]),
        {name: for_torch(value) for name, value in kwargs.items()},
    )


@serve(CustomOpDef.__call__)
def serve_custom_operator(f: TraceFrame, defined: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What `torch.library.custom_op` has made: the graph holds the operator that it has registered."""
    return serve_operator(f, opened(defined)._opoverload, *args, **kwargs)


# ---- functions that are given what a graph can't hold, such as another function

for _name in ("triplet_margin_with_distance_loss", "linear_cross_entropy"):
    if hasattr(functional, _name):  # the second is torch 2.13's
        _frame.set_decision(getattr(functional, _name).__code__, _frame.SKIP, _frame.INTERPRET)
