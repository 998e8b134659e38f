"""Contexts and switches of torch's, which the graph holds."""

from __future__ import annotations

from typing import Any

import torch
import torch.amp.autocast_mode as autocast_mode
import torch.autograd.grad_mode as grad_mode
from torch.autograd.profiler import record_function
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.contexts import Entered, InState, WithoutAutocast
from framelift.graph.torch_flags import SETTERS, autograd, disable_saved_tensors_hooks, set_deterministic
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame

# ---- contexts


@serve(autocast_mode.autocast.__enter__)
def serve_enter_autocast(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    settings = tuple(opened(f.world.attributes.load(manager, name)) for name in names)
    f.world.recorder.contexts.enter(autocast_mode._enter_autocast, manager, settings)
    return manager


@serve(torch.inference_mode.__enter__)
def serve_enter_inference_mode(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    settings = (opened(f.world.attributes.load(manager, "mode")),)
    f.world.recorder.contexts.enter(grad_mode._enter_inference_mode, manager, settings)
    return None


@serve(autocast_mode.autocast.__exit__)
def serve_exit_autocast(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager, recorder = opened(args[0]), f.world.recorder
    if recorder.contexts.is_open(manager):
        recorder.contexts.exit(manager)
        return False
    names = ("device", "prev", "prev_fastdtype", "prev_cache_enabled")
    device, *_ = (opened(f.world.attributes.load(manager, name)) for name in names)
    now = device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
    settings = (*now, torch.is_autocast_cache_enabled())
    enter = autocast_mode._enter_autocast
    recorder.contexts.exit_outside(manager, WithoutAutocast(manager), enter, settings)
    return False


@serve(torch.inference_mode.__exit__)
def serve_exit_inference_mode(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager, world = opened(args[0]), f.world
    recorder: Any = world.recorder
    if recorder.contexts.is_open(manager):
        return recorder.contexts.exit(manager)
    held = opened(world.attributes.load(manager, "_inference_mode_context"))
    if type(held) is not Entered:
        raise Break(breaks.EFFECT, "leaving an inference mode that was entered outside")
    without = InState(*(opened(world.attributes.load(held, name)) for name in ("inference", "grad")))
    settings = (torch.is_inference_mode_enabled(),)
    return recorder.contexts.exit_outside(manager, without, grad_mode._enter_inference_mode, settings)


@serve(record_function.__exit__)
def serve_exit_range(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.recorder.contexts.exit_range(opened(args[0]))


@serve(record_function.__enter__)
def serve_enter_range(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    f.world.recorder.contexts.enter_range(manager)
    return manager


for _decorator in (grad_mode.set_grad_enabled, grad_mode._force_original_view_tracking):
    # which makes a function: one that is not interpreted would seem to be from outside
    _frame.set_decision(_decorator.__call__.__code__, _frame.SKIP, _frame.INTERPRET)


# ---- torch function modes


@serve(TorchFunctionMode.__enter__, torch.overrides._push_mode)
def serve_enter_mode(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    mode, world = opened(args[0]), f.world
    if type(mode) is not DeviceContext:
        world.overrides.check_mode(mode)
    world.recorder.modes.push(mode)
    return mode


@serve(TorchFunctionMode.__exit__)
def serve_exit_mode(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.recorder.modes.pop()


@serve(torch.device.__exit__)
def serve_exit_device(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return f.world.recorder.modes.pop()


@serve(torch.set_default_device)
def serve_default_device(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = [opened(x) for x in (*args, *kwargs.values())]
    if len(given) != 1 or type(given[0]) not in (str, torch.device, type(None)):
        return f.world.calls.native(f, torch.set_default_device, args, kwargs)
    return f.world.recorder.modes.set_default_device(given[0])


# ---- other switches


def serve_setter(setter: Any) -> None:
    @serve(setter)
    def throw(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            return f.world.calls.native(f, setter, args, kwargs)
        return f.world.recorder.flags.set_flag(setter, tuple(f.world.materialize.for_torch(args)))


@serve(torch.use_deterministic_algorithms)
def serve_deterministic(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    given = [opened(x) for x in (*args, *kwargs.values())]
    if not kwargs.keys() <= {"warn_only"} or not all(type(x) is bool for x in given) or len(given) > 2:
        return f.world.calls.native(f, torch.use_deterministic_algorithms, args, kwargs)
    return f.world.recorder.flags.set_flag(set_deterministic, (*given, False)[:2])


# gradients are switched by a recorded call
UNSERVED = {torch._C._set_grad_enabled, set_deterministic, disable_saved_tensors_hooks}
for _setter in SETTERS.keys() - UNSERVED:
    serve_setter(_setter)


# ---- hooks on saved tensors


@serve(autograd._push_saved_tensors_default_hooks, autograd._pop_saved_tensors_default_hooks)
def serve_saved_tensors_hooks(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Which tensors they are given is up to autograd, and AOTAutograd would call them as it compiles."""
    raise Break(breaks.EFFECT, "hooks on saved tensors, which autograd calls with what operators save")


@serve(autograd._saved_tensors_hooks_disable)
def serve_disable_hooks(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Nothing to a graph, where no such hooks are: what would register one asks the trace's own state."""
    return disable_saved_tensors_hooks(opened(args[0]))


@serve(autograd._saved_tensors_hooks_enable)
def serve_enable_hooks(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return disable_saved_tensors_hooks(None)


@serve(autograd._saved_tensors_hooks_get_disabled_error_message)
def serve_message(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    message = autograd._saved_tensors_hooks_get_disabled_error_message()
    if message is not None and message in f.world.recorder.flags.began.settings[disable_saved_tensors_hooks]:
        raise Break(breaks.EFFECT, "hooks on saved tensors that are disabled around the call")
    return message
