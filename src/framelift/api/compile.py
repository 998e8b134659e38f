"""`framelift.compile`: on functions, methods and modules, as a function or as a decorator."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from framelift import _frame
from framelift.core.errors import UserError
from framelift.runtime.backends import Backend, backend_name, lookup_backend
from framelift.runtime.frames import Context

MODES = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
}
"""Inductor's presets, by the names that torch gives them."""


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compiles a function, method or module; without one, gives a decorator.

    The result behaves as the original: same values, side effects and errors. `fullgraph=True` makes
    anything that can't be captured an error. `backend` is a name (see `list_backends`) or a callable
    `(GraphModule, example_inputs) -> callable`; `mode` and `options` are for Inductor.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x, y):
    ...     return torch.sin(x) + y
    >>> f(torch.zeros(2), torch.ones(2))
    tensor([1., 1.])
    """
    settings = {"fullgraph": fullgraph, "backend": backend, "mode": mode, "options": options, "disable": disable}
    if model is None:
        return functools.partial(compile, **settings)  # type: ignore[arg-type]
    if not callable(model):
        raise TypeError(f"framelift.compile takes a function or a module, not a {type(model).__name__}")
    if disable:
        return model
    context = make_context(fullgraph, backend, mode, options)
    if isinstance(model, torch.nn.Module):
        return CompiledModule(model, context)
    return compiled_function(model, context)


def make_context(fullgraph: bool, backend: str | Backend, mode: str | None, options: dict[str, Any] | None) -> Context:
    found = lookup_backend(backend)
    name = backend_name(backend)
    if mode is not None and options is not None:
        raise UserError("give either mode or options, not both")
    if mode is not None and mode not in MODES:
        raise UserError(f"there is no mode {mode!r}; known are: {', '.join(MODES)}")
    if (mode is not None or options) and backend != "inductor":
        raise UserError(f"mode and options are for the inductor backend, not for {name!r}")
    return Context(found, name, fullgraph, dict(MODES[mode] if mode else options or {}))


def compiled_function(fn: Callable[..., Any], context: Context) -> Callable[..., Any]:
    call_in = _frame.call_in

    def compiled(*args: Any, **kwargs: Any) -> Any:
        return call_in(context, fn, *args, **kwargs)

    target = fn
    if not isinstance(fn, (types.FunctionType, types.MethodType, functools.partial)):
        target = type(fn).__call__ if hasattr(type(fn), "__call__") else fn  # type: ignore[assignment] # noqa: B004
    functools.update_wrapper(compiled, target)
    compiled.__wrapped__ = fn  # type: ignore[attr-defined]
    compiled._framelift_context = context  # type: ignore[attr-defined]
    return compiled


class CompiledModule(torch.nn.Module):
    """A compiled module: the original in all things but that calling it runs compiled code.

    Attributes, parameters, hooks and state are the original's own (`_orig_mod`).
    """

    def __init__(self, module: torch.nn.Module, context: Context) -> None:
        object.__setattr__(self, "_orig_mod", module)
        object.__setattr__(self, "_framelift_context", context)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _frame.call_in(self._framelift_context, self._orig_mod, *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _frame.call_in(self._framelift_context, self._orig_mod.forward, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_orig_mod"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    @property
    def __class__(self) -> type:  # type: ignore[override]
        # isinstance(compiled, TheModel) holds, as it does for the original
        return type(object.__getattribute__(self, "_orig_mod"))

    def __getattribute__(self, name: str) -> Any:
        if name in OWN:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_orig_mod"), name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), "_orig_mod"})

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]  # type: ignore[index]

    def __repr__(self) -> str:
        return f"CompiledModule({self._orig_mod!r})"

    def __reduce__(self) -> Any:
        return restored, (self._orig_mod, self._framelift_context.settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        import copy

        return CompiledModule(copy.deepcopy(self._orig_mod, memo), self._framelift_context)


OWN = frozenset(
    {"_orig_mod", "_framelift_context", "__call__", "__class__", "forward", "__reduce__", "__reduce_ex__", "__deepcopy__"}
)
"""What a compiled module answers itself; everything else is asked of the original."""


def restored(module: torch.nn.Module, settings: dict[str, Any]) -> Any:
    """A compiled module that comes out of a pickle."""
    return compile(module, **settings)
