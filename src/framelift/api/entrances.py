"""What is entered when something is compiled and called: the function whose frame the hook looks at."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from framelift import _frame
from framelift.core import policy

_lock = threading.Lock()


def uncompiled(model: Any) -> Any:
    """What was compiled before is compiled afresh: the newer options replace the older."""
    if isinstance(model, types.MethodType):
        return types.MethodType(uncompiled(model.__func__), model.__self__)
    if isinstance(model, torch.nn.Module):
        if type(model).__module__ == "torch._dynamo.eval_frame":  # what torch.compile makes of a module
            return uncompiled(model._orig_mod)
        call = type(model).__call__
        compiled = isinstance(call, types.FunctionType) and policy.calls_compiled_module(call)
        return object.__getattribute__(model, "_orig_mod") if compiled else model
    if isinstance(model, types.FunctionType) and policy.is_compiled(model):
        return vars(model)["__wrapped__"]
    known = getattr(model, "__dict__", {})
    if known.get("_torchdynamo_wrapper_id") == id(model) and not known.get("_torchdynamo_disable"):
        return uncompiled(known["_torchdynamo_orig_callable"])  # what torch.compile makes of a function
    return model


def not_captured(wrapper: Any, why: str) -> Callable[..., Any]:
    """A call of it in a compiled function is a break."""
    _frame.set_decision(wrapper.__code__, _frame.SKIP, _frame.REFUSE)
    wrapper._framelift_disable = why
    return wrapper


def copied_function(fn: types.FunctionType) -> types.FunctionType:
    """The same function with a code object of its own, whose frames run as they are: those of `fn` itself are
    looked at as before."""
    code = fn.__code__.replace()
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__, made.__qualname__ = fn.__kwdefaults__, fn.__qualname__
    _frame.set_decision(code, _frame.SKIP, _frame.REFUSE)
    return made


def frame_of(target: Any) -> Any:
    """The function whose frame is entered when the target is called."""
    if isinstance(target, torch.nn.Module):
        target = target.forward
    while isinstance(target, functools.partial):
        target = target.func
    if not isinstance(target, (types.FunctionType, types.MethodType)):
        target = type(target).__call__
    return getattr(target, "__func__", target)


def code_of(target: Any) -> types.CodeType | None:
    fn = frame_of(target)
    return fn.__code__ if isinstance(fn, types.FunctionType) else None


def in_user_code(target: Any) -> bool:
    """Whether calling the target enters a frame that the hook looks at."""
    fn = frame_of(target)
    return isinstance(fn, types.FunctionType) and policy.is_user_code(policy.module_name(fn))


def entrance(target: Any) -> Callable[..., Any]:
    """A function of its own that calls the target: a frame to capture where the target has none.

    torch's own modules and functions are not looked at as frames, since every model shares their code.
    """
    if in_user_code(target):
        return target
    fn = target  # as the inputs of the graph are called after it: `l_fn_parameters_weight_`

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    code = entrance_code(call.__code__, target)
    scope = {"__name__": "entrance"}  # no module of Framelift's: what comes after a break is looked at too
    return types.FunctionType(code, scope, code.co_name, None, call.__closure__)


_entrance_codes: dict[tuple[str, ...], types.CodeType] = {}


def entrance_code(code: types.CodeType, target: Any) -> types.CodeType:
    """One for all targets of a name and a class, so that layers of a kind share what is compiled."""
    name = getattr(target, "__name__", type(target).__name__)
    this = getattr(target, "__self__", target)
    kind = this if isinstance(this, (type, types.ModuleType, types.FunctionType)) else type(this)
    index = (name, kind.__name__, getattr(kind, "__module__", None) or "")
    with _lock:
        found = _entrance_codes.get(index)
        if found is None:
            found = _entrance_codes[index] = code.replace(co_name=name, co_qualname=name)
        return found
