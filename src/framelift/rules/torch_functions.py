"""Calls of torch's that a trace serves: questions whose answer must not betray that it is one, and short cuts
through torch's own Python that say the same thing in fewer steps."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.rules.torch_modules import NO_EFFECT
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.machine import TraceFrame, interpreted
from framelift.trace.views import DELETED

# ---- torch's questions


def constant(value: Any) -> Any:
    return lambda f, args, kwargs: value


ANSWERS: dict[Any, Any] = {
    torch.compiler.is_dynamo_compiling: True,
    torch.compiler.is_exporting: False,
    torch.jit.is_scripting: False,
    torch.jit.is_tracing: False,
    torch.nn.modules.activation._is_make_fx_tracing: False,
    torch._C._get_tracing_state: None,
    torch._C._log_api_usage_once: None,  # counts, for torch's authors, that a feature was used
}
for _question, _answer in ANSWERS.items():
    serve(_question)(constant(_answer))


@serve(torch.compiler.is_compiling)
def serve_is_compiling(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A module's call asks so as not to run, when compiled, the hooks that are always called if forward
    raises: here they are."""
    return f.code.code is not torch.nn.Module._call_impl.__code__


@serve(torch.is_tensor, looks=Looks.DEEP, why=NO_EFFECT)
def serve_is_tensor(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.operators.is_instance(args[0], torch.Tensor)


@serve(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary)
@serve(torch.overrides.has_torch_function_variadic)
def serve_has_torch_function(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The trace's own mode is nobody's business; that of its fakes' classes the recorder knows."""
    recorder: Any = f.world.recorder
    given = f.world.materialize.for_torch(args)
    return recorder.modes.active or bool(recorder.subclasses.overloaded(given, {}))


@serve(torch.get_default_device, looks=Looks.DEEP, why=NO_EFFECT)
def serve_default_device(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Torch makes a tensor to find out, which here would be a fake."""
    modes = [mode for mode in _get_current_function_mode_stack() if type(mode) is DeviceContext]
    device: Any = modes[-1].device if modes else torch.device("cpu")
    if args or kwargs or (device.index is None and device.type not in ("cpu", "meta")):
        return f.world.calls.native(f, torch.get_default_device, args, kwargs)
    return device


def of_device(fn: Any, named: Any) -> Any:
    """A question about a CUDA device. Which one is current is not guarded: where there are several, the
    program must have `named` one."""

    def serve_question(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if torch.cuda.device_count() > 1 and not named(*args, **kwargs or {}):
            raise Break(breaks.EFFECT, f"torch.cuda.{fn.__name__} of the current device, which may change")
        return f.world.calls.native(f, fn, args, kwargs)

    return serve_question


def names_device(device: Any = None, *args: Any, **kwargs: Any) -> bool:
    device = opened(device)
    return isinstance(device, (int, str, torch.device)) and str(device) != "cuda"


for fn in (
    *(torch.cuda.get_device_name, torch.cuda.get_device_capability, torch.cuda.get_device_properties),
    torch.cuda._utils._get_device_index,
):
    serve(fn, looks=Looks.DEEP, why=NO_EFFECT)(of_device(fn, names_device))
serve(torch.cuda.is_bf16_supported, looks=Looks.DEEP, why=NO_EFFECT)(
    of_device(torch.cuda.is_bf16_supported, lambda *args, **kwargs: False)
)


@serve(torch.nn.Module.__getattr__)
def serve_module_getattr(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    module, name = opened(args[0]), opened(args[1])
    if id(module) in f.world.attributes.views:
        return f.world.attributes.registered(module, name)
    return interpreted(f, torch.nn.Module.__getattr__, args, kwargs)


HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)


@serve(torch.nn.Module._wrapped_call_impl)
def serve_module_call(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`module(...)` without hooks is `module.forward(...)`; with hooks torch's own code is interpreted."""
    module = opened(args[0])
    world = f.world
    view = world.attributes.views.get(id(module))
    by_torch = functools.partial(interpreted, f, torch.nn.Module._wrapped_call_impl, args, kwargs)
    if view is None or not world.identity.same(world.attributes.load(module, "_compiled_call_impl"), None):
        return by_torch()
    scope = torch.nn.modules.module.__dict__
    own_call = world.attributes.own(view, module, "_call_impl")
    by_class = world.classes.attribute(type(module), "_call_impl")
    if own_call is not DELETED or by_class is not torch.nn.Module._call_impl:
        return by_torch()
    for name in HOOKS:
        if world.operators.truth(world.attributes.own(view, module, name)):
            return by_torch()
    for name in GLOBAL_HOOKS:
        hooks = world.scopes.names(scope).get(name, MISSING)
        if world.operators.truth(world.scopes.load(scope, name) if hooks is MISSING else hooks):
            return by_torch()
    return call(f, world.attributes.load(module, "forward"), args[1:], kwargs or None)


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


@serve(torch.Tensor.__deepcopy__)
def serve_deep_copy(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    tensor = opened(args[0])
    if not world.attributes.load(tensor, "is_leaf"):
        raise Break(breaks.TENSOR_STATE, "a deep copy of a tensor that is no leaf")
    if not world.recorder.fills_its_memory(tensor) or not world.tensors.has_no_attributes(tensor):
        raise Break(breaks.TENSOR_STATE, "a deep copy of a tensor that is part of another, or has attributes")
    return call(f, deep_copy, [tensor, *args[1:]], kwargs)


# ---- tensors that are given other memory


@serve(torch.Tensor.set_)
def serve_set(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    given = [opened(arg) for arg in args]
    if len(given) != 2 or kwargs or not isinstance(given[1], torch.Tensor):
        return world.calls.native(f, torch.Tensor.set_, args, kwargs)
    return world.tensors.set_data(*given)


@serve(torch.Tensor.resize_)
def serve_resize(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    tensor, *sizes = world.materialize.for_torch(args)
    if kwargs or not sizes:
        return world.calls.native(f, torch.Tensor.resize_, args, kwargs)
    return world.recorder.reassignments.resize(
        tensor, tuple(sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes)
    )


@serve(torch.Tensor.resize_as_, torch.resize_as_)
def serve_resize_as(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    given = world.materialize.for_torch(args)
    if len(given) != 2 or kwargs:
        return world.calls.native(f, torch.resize_as_, args, kwargs)
    return world.recorder.reassignments.resize(given[0], tuple(given[1].shape))


# ---- facts about symbols


@serve(torch._check, looks=Looks.DEEP, why=NO_EFFECT)
def serve_check(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What is checked of a number that only the data decides is a fact from here on, and checked when the
    graph runs."""
    condition = opened(args[0]) if args else None
    if type(condition) is not torch.SymBool:
        return f.world.calls.native(f, torch._check, args, kwargs)
    return f.world.recorder.builder.numbers.assume(condition)


def serving_check(check: Any) -> Any:
    """The same with an error that a graph would not raise."""

    def serve_check_with(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if any(type(opened(given)) is torch.SymBool for given in (*args, *kwargs.values())):
            raise Break(breaks.DATA_DEPENDENT_BRANCH, f"torch.{check.__name__}")
        return f.world.calls.native(f, check, args, kwargs)

    return serve_check_with


CHECKS = torch._check_with, torch._check_index, torch._check_value, torch._check_type
for _check in (*CHECKS, torch._check_not_implemented):
    serve(_check, looks=Looks.DEEP, why=NO_EFFECT)(serving_check(_check))


@serve(torch._check_is_size)
def serve_check_is_size(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    size: Any = opened(args[0]) if args else None
    if type(size) is not torch.SymInt:
        return f.world.calls.native(f, torch._check_is_size, args, kwargs)
    return serve_check(f, [f.world.operators.apply(operator.ge, size, 0)], {})


# ---- operators by their registry


def serve_operator(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    called, *rest = [f.world.materialize.for_torch(x) for x in args]
    recorder = f.world.recorder
    return recorder.call(
        called, tuple(rest), {k: f.world.materialize.for_torch(v) for k, v in kwargs.items()}
    )


for _class in (torch._ops.OpOverload, torch._ops.OpOverloadPacket):
    serve(_class.__call__)(serve_operator)


@serve(CustomOpDef.__call__)
def serve_custom_operator(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What `torch.library.custom_op` has made: the graph holds the operator that it has registered."""
    return serve_operator(f, [opened(args[0])._opoverload, *args[1:]], kwargs)


# ---- functions that are given what a graph can't hold, such as another function

for _name in ("triplet_margin_with_distance_loss", "linear_cross_entropy"):
    if hasattr(functional, _name):  # the second is torch 2.13's
        _frame.set_decision(getattr(functional, _name).__code__, _frame.SKIP, _frame.INTERPRET)
