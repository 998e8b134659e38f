"""Contexts and switches of torch's, which the graph holds."""

from __future__ import annotations

from typing import Any

import torch
import torch.amp.autocast_mode as autocast_mode
import torch.autograd.grad_mode as grad_mode
from torch.autograd.profiler import record_function

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.interpreter.frame import Frame
from framelift.interpreter.tracing import serve
from framelift.tensors.torch_state import SETTERS, autograd, disable_saved_tensors_hooks
from framelift.world.pending import opened

# ---- contexts


@serve(autocast_mode.autocast.__enter__)
def serve_enter_autocast(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    names = ("device", "fast_dtype", "_enabled", "_cache_enabled")
    settings = tuple(opened(f.world.load_attr(manager, name)) for name in names)
    f.world.recorder.enter_context(autocast_mode._enter_autocast, manager, settings)  # type: ignore[attr-defined]
    return manager


@serve(torch.inference_mode.__enter__)
def serve_enter_inference_mode(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    settings = (opened(f.world.load_attr(manager, "mode")),)
    f.world.recorder.enter_context(grad_mode._enter_inference_mode, manager, settings)  # type: ignore[attr-defined]
    return None


@serve(autocast_mode.autocast.__exit__, torch.inference_mode.__exit__, record_function.__exit__)
def serve_exit_context(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    f.world.recorder.exit_context(opened(args[0]))  # type: ignore[attr-defined]
    return None


@serve(record_function.__enter__)
def serve_enter_range(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    manager = opened(args[0])
    f.world.recorder.enter_range(manager)  # type: ignore[attr-defined]
    return manager


@serve(torch.device.__enter__)
def serve_enter_device(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    f.world.recorder.devices_entered += 1  # type: ignore[attr-defined]
    return f.world.call_native(f, torch.device.__enter__, args, kwargs)


@serve(torch.device.__exit__)
def serve_exit_device(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not f.world.recorder.devices_entered:  # type: ignore[attr-defined]
        raise Break(breaks.EFFECT, "leaving a device that was entered outside")
    f.world.recorder.devices_entered -= 1  # type: ignore[attr-defined]
    return f.world.call_native(f, torch.device.__exit__, args, kwargs)


# ---- other switches


def serve_setter(setter: Any) -> None:
    @serve(setter)
    def throw(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            return f.world.call_native(f, setter, args, kwargs)
        return f.world.recorder.throw(setter, tuple(f.world.for_torch(args)))  # type: ignore[attr-defined]


# gradients are switched by a recorded call; a graph for a compiler does not say of what dtype new tensors are
UNSERVED = {torch._C._set_grad_enabled, torch.set_default_dtype, disable_saved_tensors_hooks}
for _setter in SETTERS.keys() - UNSERVED:
    serve_setter(_setter)


# ---- hooks on saved tensors


@serve(autograd._push_saved_tensors_default_hooks, autograd._pop_saved_tensors_default_hooks)
def serve_saved_tensors_hooks(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Which tensors they are given is up to autograd, and AOTAutograd would call them as it compiles."""
    raise Break(breaks.EFFECT, "hooks on saved tensors, which autograd calls with what operators save")


@serve(autograd._saved_tensors_hooks_disable)
def serve_disable_hooks(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Nothing to a graph, where no such hooks are: what would register one asks the trace's own state."""
    return disable_saved_tensors_hooks(opened(args[1]))  # the first is what pybind11 knows of the function


@serve(autograd._saved_tensors_hooks_enable)
def serve_enable_hooks(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return disable_saved_tensors_hooks(None)


@serve(autograd._saved_tensors_hooks_get_disabled_error_message)
def serve_message(f: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    message = autograd._saved_tensors_hooks_get_disabled_error_message()
    if message is not None and message in f.world.recorder.began.settings[disable_saved_tensors_hooks]:  # type: ignore[attr-defined]
        raise Break(breaks.EFFECT, "hooks on saved tensors that are disabled around the call")
    return message
