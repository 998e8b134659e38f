"""What a `__torch_function__` calls: torch's own, the switch that turns them off, changes of class."""

from __future__ import annotations

from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.subclasses import DEFAULT_TORCH_FUNCTION, is_known_kind
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame

DISABLED: Any = torch._C.DisableTorchFunctionSubclass


@serve(DEFAULT_TORCH_FUNCTION)
def serve_ordinary(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    return world.recorder.subclasses.default_torch_function(
        *world.materialize.for_torch(args), **world.materialize.for_torch(kwargs)
    )


@serve(torch.Tensor.as_subclass)
def serve_as_subclass(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    world: Any = f.world
    tensor, cls = world.materialize.for_torch([*args, *kwargs.values()])
    if not isinstance(cls, type) or not is_known_kind(cls) or cls is torch.nn.Parameter:
        raise Break(breaks.TENSOR_KIND, f"as_subclass({getattr(cls, '__name__', cls)})")
    return world.recorder.subclasses.as_subclass(tensor, cls)


@serve(DISABLED)
def serve_disabled(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return DISABLED()  # which does nothing until it is entered


@serve(DISABLED.__enter__)
def serve_enter(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    recorder: Any = f.world.recorder
    recorder.contexts.enter_range(opened(args[0]))
    recorder.subclasses.disabled += 1


@serve(DISABLED.__exit__)
def serve_exit(f: TraceFrame, args: list[Any], kwargs: dict[str, Any]) -> Any:
    recorder: Any = f.world.recorder
    recorder.contexts.exit(opened(args[0]))
    recorder.subclasses.disabled -= 1
