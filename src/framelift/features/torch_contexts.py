"""torch's context managers and global settings: entering, leaving and setting them is part of the graph."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
import torch.amp.autocast_mode as autocast_mode
import torch.autograd.grad_mode as grad_mode
import torch.fx.traceback
from torch.autograd.profiler import record_function
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode
from torch.utils._device import DeviceContext

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.contexts import Entered, InState, ModeStandIn, WithoutAutocast
from framelift.graph.torch_flags import SETTERS, autograd, disable_saved_tensors_hooks, set_deterministic
from framelift.interpreter.pending import opened
from framelift.trace.bodies import interpret
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, interpreted

# ---- contexts


@serve(autocast_mode.autocast.__enter__)
def serve_enter_autocast(f: TraceFrame, self: Any) -> Any:
    manager = opened(self)
    names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    settings = tuple(opened(f.world.attributes.load(manager, name)) for name in names)
    f.world.recorder.contexts.enter(autocast_mode._enter_autocast, manager, settings)
    return manager


@serve(torch.inference_mode.__enter__)
def serve_enter_inference_mode(f: TraceFrame, self: Any) -> Any:
    manager = opened(self)
    settings = (opened(f.world.attributes.load(manager, "mode")),)
    f.world.recorder.contexts.enter(grad_mode._enter_inference_mode, manager, settings)


@serve(autocast_mode.autocast.__exit__)
def serve_exit_autocast(f: TraceFrame, self: Any, /, *raised: Any) -> Any:
    manager, recorder = opened(self), f.world.recorder
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
def serve_exit_inference_mode(f: TraceFrame, self: Any, /, *raised: Any) -> Any:
    manager, world, recorder = opened(self), f.world, f.world.recorder
    if recorder.contexts.is_open(manager):
        return recorder.contexts.exit(manager)
    held = opened(world.attributes.load(manager, "_inference_mode_context"))
    if type(held) is not Entered:
        raise Break(breaks.EFFECT, "leaving an inference mode that was entered outside")
    without = InState(*(opened(world.attributes.load(held, name)) for name in ("inference", "grad")))
    settings = (torch.is_inference_mode_enabled(),)
    return recorder.contexts.exit_outside(manager, without, grad_mode._enter_inference_mode, settings)


@serve(record_function.__exit__)
def serve_exit_range(f: TraceFrame, self: Any, /, *raised: Any) -> Any:
    return f.world.recorder.contexts.exit_range(opened(self))


@serve(record_function.__enter__)
def serve_enter_range(f: TraceFrame, self: Any) -> Any:
    manager = opened(self)
    f.world.recorder.contexts.enter_range(manager)
    return manager


for _decorator in (grad_mode.set_grad_enabled, grad_mode._force_original_view_tracking):
    # which makes a function: one that is not interpreted would seem to be from outside
    _frame.set_decision(_decorator.__call__.__code__, _frame.SKIP, _frame.INTERPRET)


# Annotations of nodes: torch keeps them in a dictionary, where `Places.annotation` looks.
interpret(inspect.unwrap(torch.fx.traceback.annotate), torch.fx.traceback.annotate_fn)


# ---- torch function modes


@serve(TorchFunctionMode.__enter__, torch.overrides._push_mode, torch._C._push_on_torch_function_stack)
def serve_enter_mode(f: TraceFrame, mode: Any, /) -> Any:
    mode, world = opened(mode), f.world
    if type(mode) is not DeviceContext:
        world.overrides.check_mode(mode)
    world.recorder.modes.push(mode)
    return mode


# one that only hands calls on, and what is derived of it
_frame.set_decision(BaseTorchFunctionMode.__torch_function__.__code__, _frame.SKIP, _frame.INTERPRET)


@serve(TorchFunctionMode.__exit__, torch.device.__exit__)
def serve_exit_mode(f: TraceFrame, mode: Any, /, *raised: Any) -> Any:
    return f.world.recorder.modes.pop()


@serve(torch.overrides._pop_mode, torch._C._pop_torch_function_stack)
def serve_pop_mode(f: TraceFrame, /) -> Any:
    found = modes_of_program(f)
    if not found:
        raise Break(breaks.TORCH_STATE, "torch.overrides._pop_mode, where no mode is left")
    f.world.recorder.modes.pop()
    return found[-1]


@serve(torch.overrides._pop_mode_temporarily)
def serve_pop_temporarily(f: TraceFrame, /) -> Any:
    return interpreted(f, mode_put_aside, [], None)


@contextlib.contextmanager
def mode_put_aside() -> Iterator[Any]:
    """`_pop_mode_temporarily`."""
    mode = torch.overrides._pop_mode()
    try:
        yield mode
    finally:
        torch.overrides._push_mode(mode)


_frame.set_decision(vars(mode_put_aside)["__wrapped__"].__code__, _frame.SKIP, _frame.INTERPRET)


def modes_of_program(f: TraceFrame) -> list[Any]:
    """The modes on torch's stack as they would be there without the trace, which has one below all others."""
    stack = torch.overrides._get_current_function_mode_stack()[1:]
    return [mode.mode if type(mode) is ModeStandIn else mode for mode in stack]


@serve(torch.overrides._get_current_function_mode_stack)
def serve_modes(f: TraceFrame, /) -> Any:
    return modes_of_program(f)


@serve(torch.overrides._get_current_function_mode)
def serve_mode(f: TraceFrame, /) -> Any:
    return [None, *modes_of_program(f)][-1]


@serve(torch._C._len_torch_function_stack)
def serve_number_of_modes(f: TraceFrame, /) -> Any:
    return len(modes_of_program(f))


@serve(torch._C._get_function_stack_at)
def serve_mode_at(f: TraceFrame, number: Any, /) -> Any:
    return modes_of_program(f)[opened(number)]


@serve(torch.set_default_device)
def serve_default_device(f: TraceFrame, device: Any) -> Any:
    device = opened(device)
    if type(device) not in (str, torch.device, type(None)):
        return f.world.calls.native(f, torch.set_default_device, [device], None)
    return f.world.recorder.modes.set_default_device(device)


# ---- other switches


def serve_setter(setter: Any) -> None:
    @serve(setter)
    def served(f: TraceFrame, /, *args: Any) -> Any:
        return f.world.recorder.flags.set_flag(setter, f.world.materialize.for_torch(args))


@serve(torch.use_deterministic_algorithms)
def serve_deterministic(f: TraceFrame, mode: Any, *, warn_only: Any = False) -> Any:
    given = opened(mode), opened(warn_only)
    if not all(type(one) is bool for one in given):
        settings = {"warn_only": warn_only}
        return f.world.calls.native(f, torch.use_deterministic_algorithms, [mode], settings)
    return f.world.recorder.flags.set_flag(set_deterministic, given)


# gradients are switched by a recorded call
UNSERVED = {torch._C._set_grad_enabled, set_deterministic, disable_saved_tensors_hooks}
for _setter in SETTERS.keys() - UNSERVED:
    serve_setter(_setter)


# ---- hooks on saved tensors


@serve(autograd._push_saved_tensors_default_hooks, autograd._pop_saved_tensors_default_hooks)
def serve_saved_tensors_hooks(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
    """Autograd decides which tensors they are given. AOTAutograd would call them while it compiles."""
    raise Break(breaks.EFFECT, "hooks on saved tensors, which autograd calls with what operators save")


@serve(autograd._saved_tensors_hooks_disable)
def serve_disable_hooks(f: TraceFrame, error_message: Any, fail_if_non_empty: Any = True) -> Any:
    """A graph has no such hooks: only the state of the trace changes, which code that adds a hook asks."""
    return disable_saved_tensors_hooks(opened(error_message))


@serve(autograd._saved_tensors_hooks_enable)
def serve_enable_hooks(f: TraceFrame) -> Any:
    return disable_saved_tensors_hooks(None)


@serve(autograd._saved_tensors_hooks_get_disabled_error_message)
def serve_message(f: TraceFrame) -> Any:
    message = autograd._saved_tensors_hooks_get_disabled_error_message()
    if message is not None and message in f.world.recorder.flags.began.settings[disable_saved_tensors_hooks]:
        raise Break(breaks.EFFECT, "hooks on saved tensors that are disabled around the call")
    return message
