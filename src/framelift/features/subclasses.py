"""What a `__torch_function__` calls: the default one, the context that turns them off, `as_subclass`."""

from __future__ import annotations

from typing import Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.subclasses import DEFAULT_TORCH_FUNCTION, is_known_kind
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import Looks, serve
from framelift.trace.machine import TraceFrame

DISABLED: Any = torch._C.DisableTorchFunctionSubclass


@serve(DEFAULT_TORCH_FUNCTION)
def serve_default(f: TraceFrame, cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    given = f.world.materialize.for_torch([cls, func, types, args, kwargs])
    return f.world.recorder.subclasses.default_torch_function(*given)


@serve(torch.Tensor.as_subclass)
def serve_as_subclass(f: TraceFrame, tensor: Any, /, cls: Any) -> Any:
    tensor, cls = f.world.materialize.for_torch([tensor, cls])
    if not isinstance(cls, type) or not is_known_kind(cls) or cls is torch.nn.Parameter:
        raise Break(breaks.TENSOR_KIND, f"as_subclass({getattr(cls, '__name__', cls)})")
    return f.world.recorder.subclasses.as_subclass(tensor, cls)


@serve(torch._C._is_torch_function_enabled, looks=Looks.DEEP, why="asks for what is guarded")
def serve_is_enabled(f: TraceFrame, /) -> Any:
    return not f.world.recorder.subclasses.disabled and torch._C._is_torch_function_enabled()


@serve(DISABLED)
def serve_disabled(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
    return DISABLED()  # which does nothing until it is entered


@serve(DISABLED.__enter__)
def serve_enter(f: TraceFrame, context: Any, /) -> Any:
    f.world.recorder.contexts.enter_range(opened(context))
    f.world.recorder.subclasses.disable()


@serve(DISABLED.__exit__)
def serve_exit(f: TraceFrame, context: Any, /, *raised: Any) -> Any:
    f.world.recorder.contexts.exit(opened(context))
    f.world.recorder.subclasses.enable()
