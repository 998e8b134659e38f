"""What a `__torch_function__` calls: the default one, the context that turns them off, `as_subclass`; and how
tensors of a subclass are made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType, GetSetDescriptorType, MethodWrapperType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.functions import LEGACY
from framelift.graph.subclasses import DEFAULT_TORCH_FUNCTION, is_known_kind, is_wrapper_class
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import BY_TYPE, HANDLERS, Looks, serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.part import Part
from framelift.trace.world import TraceWorld

DISABLING: Any = (torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction)
"""Contexts in which classes are not asked; the second keeps modes out too."""


@serve(DEFAULT_TORCH_FUNCTION)
@calls_back
def serve_default(f: TraceFrame, cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    given = f.world.materialize.for_torch([cls, func, types, args, kwargs])
    subclasses, invoke = f.world.recorder.subclasses, f.world.calls.invoke
    if given[1] in HANDLERS or is_getter(given[1]):  # `Tensor.backward`, for one
        given.append(lambda fn, args, kwargs: invoke(fn, *args, **kwargs))
    return subclasses.default_torch_function(*given)


def is_getter(func: Any) -> bool:
    """Whether it is by what torch asks for an attribute, of which a fake may have its own."""
    return type(func) is MethodWrapperType and type(func.__self__) is GetSetDescriptorType


@serve(torch.Tensor.as_subclass)
def serve_as_subclass(f: TraceFrame, tensor: Any, /, cls: Any) -> Any:
    tensor, cls = f.world.materialize.for_torch([tensor, cls])
    if not isinstance(cls, type) or not is_known_kind(cls) or cls is torch.nn.Parameter:
        raise Break(breaks.TENSOR_KIND, f"as_subclass({getattr(cls, '__name__', cls)})")
    return f.world.recorder.subclasses.as_subclass(tensor, cls)


@serve(torch._C._is_torch_function_enabled, looks=Looks.DEEP, why="asks for what is guarded")
def serve_is_enabled(f: TraceFrame, /) -> Any:
    return not f.world.recorder.subclasses.disabled and torch._C._is_torch_function_enabled()


def serve_made(context: Any) -> None:
    @serve(context)
    def served(f: TraceFrame, /, *args: Any, **kwargs: Any) -> Any:
        return context()  # which does nothing until it is entered


for _context in DISABLING:
    serve_made(_context)


@serve(*(context.__enter__ for context in DISABLING))
def serve_enter(f: TraceFrame, context: Any, /) -> Any:
    if type(opened(context)) is torch._C.DisableTorchFunction and f.world.recorder.modes.active:
        raise Break(breaks.TORCH_STATE, "DisableTorchFunction within a torch function mode")
    f.world.recorder.contexts.enter_range(opened(context))
    f.world.recorder.subclasses.disable()
    f.world.feature(AllDisabled).open += type(opened(context)) is torch._C.DisableTorchFunction


@serve(*(context.__exit__ for context in DISABLING))
def serve_exit(f: TraceFrame, context: Any, /, *raised: Any) -> Any:
    f.world.recorder.contexts.exit(opened(context))
    f.world.recorder.subclasses.enable()
    f.world.feature(AllDisabled).open -= type(opened(context)) is torch._C.DisableTorchFunction


class AllDisabled(Part):
    """How many `DisableTorchFunction` the program is in. One around the call, which every entry guards, is
    lifted while tracing: torch's Python would not ask the recorder."""

    def start(self) -> None:
        self.open = int(torch._C._is_torch_function_all_disabled())

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        if not self.open:
            yield
            return
        if self.world.recorder.modes.active:
            raise Break(breaks.TORCH_STATE, "DisableTorchFunction within a torch function mode")
        with torch._C._EnableTorchFunction():
            yield


@serve(torch._C._is_torch_function_all_disabled)
def serve_all_disabled(f: TraceFrame, /) -> Any:
    return f.world.feature(AllDisabled).open > 0


# ---- tensors of a subclass that are made


def is_made_here(cls: Any) -> bool:
    """Whether it is a program's class of plain tensors with methods of their own."""
    others = cls in LEGACY or cls is torch.nn.Parameter or is_wrapper_class(cls)
    return not others and issubclass(cls, torch.Tensor) and is_known_kind(cls)


@calls_back
def make_tensor(world: TraceWorld, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`Subclass(...)`, as `type.__call__` does it. What `__new__` gives is a fake, of which only the recorder
    knows that it is one of the class."""
    if not is_made_here(cls):
        return world.calls.by_policy(cls, args, kwargs)
    world.calls.creating(cls)
    made = opened(world.calls.invoke(cls.__new__, cls, *args, **kwargs))
    subclasses = world.recorder.subclasses
    is_one = type(made) is FakeTensor and issubclass(subclasses.class_of(made), cls)
    init: Any = cls.__init__
    if is_one and type(init) is FunctionType:
        world.calls.invoke(init, made, *args, **kwargs)
    return made


BY_TYPE[type(torch.Tensor)] = make_tensor


@serve(torch.Tensor.__new__)
def serve_new(f: TraceFrame, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A tensor is given another class, anything else is made by `torch.Tensor(...)`. Arguments that only
    `__init__` knows are an error, as they are to torch."""
    recorder, cls = f.world.recorder, opened(cls)
    given = [f.world.materialize.for_torch(arg) for arg in args]
    if kwargs or not is_made_here(cls):
        raise Break(breaks.TENSOR_KIND, f"{cls.__name__}.__new__")
    if len(given) == 1 and type(given[0]) is FakeTensor:
        return recorder.subclasses.as_subclass(given[0], cls)
    if not all(type(arg) in (int, torch.SymInt, list, tuple) for arg in given):
        raise Break(breaks.TENSOR_KIND, f"{cls.__name__}.__new__ of something else than a tensor or sizes")
    with recorder.subclasses.not_asked():
        made = recorder.call(torch.Tensor, tuple(given), {})
    return recorder.subclasses.set_class(made, cls)


@serve(torch.Tensor._make_subclass)
def serve_make_subclass(f: TraceFrame, cls: Any, data: Any, require_grad: Any = False, **kwargs: Any) -> Any:
    recorder = f.world.recorder
    cls, data, require_grad = map(f.world.materialize.for_torch, (cls, data, require_grad))
    if kwargs or not is_made_here(cls):
        raise Break(breaks.TENSOR_KIND, f"_make_subclass of {getattr(cls, '__name__', cls)}")
    with recorder.subclasses.not_asked():
        made = recorder.call(torch.Tensor.detach, (data,), {})
        if require_grad:
            recorder.call(torch.Tensor.requires_grad_, (made,), {})
    return recorder.subclasses.set_class(made, cls)
