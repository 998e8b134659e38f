"""`framelift.compile`: on functions, methods and modules, as a function or as a decorator; and
`framelift.install()`, which makes it `torch.compile` for all who call that."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

import framelift.api.extensions
import framelift.dispatch.debug_backends
import framelift.dispatch.frame_hook  # noqa: F401 (which answers the hook)
from framelift import _frame
from framelift.api.capture_control import decorate_class
from framelift.api.compiled_modules import compiled_module
from framelift.api.entrances import code_of, entrance, uncompiled
from framelift.core import config
from framelift.core.errors import UserError
from framelift.dispatch.backends import backend_name, comes_with_framelift, lookup_backend
from framelift.dispatch.compile_contexts import Backend, Context, GuardFail
from framelift.dispatch.cudagraphs import begin_step
from framelift.dispatch.shared_contexts import shared_context
from framelift.guards.guard import GuardFilter

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
    dynamic: bool | None = None,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    name: str | None = None,
    guard_fail_fn: Callable[[GuardFail], Any] | None = None,
    guard_filter_fn: GuardFilter | None = None,
) -> Any:
    """Compiles a function, method or module; without one, gives a decorator.

    The result behaves as the original: same values, side effects and errors. `fullgraph=True` makes
    anything that can't be captured an error. `dynamic` says whether sizes and numbers may vary in what is
    compiled: all of them, none, or (None) those that turn out to. `backend` is a name (see
    `list_backends`) or a callable `(GraphModule, example_inputs) -> callable`; `mode` and `options` are
    for Inductor; a backend of one's own is called with those that are given.
    `recompile_limit` is how many entries a code object may have in this compiled function, in place of
    `framelift.config.recompile_limit`; with `isolate_recompiles` the limit on the entries of a code object in
    all compiled functions together does not count for this one.
    `name` is what records and logs call it. `guard_fail_fn` is told each guard that fails before something is
    compiled again. `guard_filter_fn` is given a list of guards, and says of each whether to keep it: one that
    is not kept is not checked, and what follows if it does not hold is the caller's concern.

    >>> import torch, framelift
    >>> @framelift.compile(backend="eager")
    ... def f(x, y):
    ...     return torch.sin(x) + y
    >>> f(torch.zeros(2), torch.ones(2))
    tensor([1., 1.])
    """
    settings = {name: value for name, value in locals().items() if name != "model"}
    check_watching(name, guard_fail_fn=guard_fail_fn, guard_filter_fn=guard_filter_fn)
    check_limits(recompile_limit, isolate_recompiles)
    if model is None:
        return functools.partial(compile, **settings)
    if not callable(model):
        raise TypeError(f"framelift.compile takes a function or a module, not a {type(model).__name__}")
    if disable:
        return model
    if isinstance(model, type):
        return decorate_class(model, lambda method: compile(method, **settings))
    model = uncompiled(model)
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return model  # which TorchScript has compiled: there are no frames to look at
    target = entrance(model)
    context = make_context(fullgraph, backend, mode, options)
    context.dynamic, context.settings = dynamic, settings
    context.recompile_limit, context.isolate_recompiles = recompile_limit, isolate_recompiles
    context.name, context.guard_fail_fn, context.guard_filter_fn = name, guard_fail_fn, guard_filter_fn
    if not isolate_recompiles and (code := code_of(target)) is not None:
        context = shared_context(code, context)
    made = compiled_module if isinstance(model, torch.nn.Module) else compiled_function
    compiled = made(model, target, context, caller(context))
    context.users.set(compiled, None)
    return compiled


def make_context(
    fullgraph: bool, backend: str | Backend, mode: str | None, options: dict[str, Any] | None
) -> Context:
    found = lookup_backend(backend)
    name = backend_name(backend)
    if mode is not None and options is not None:
        raise UserError("give either mode or options, not both")
    if not comes_with_framelift(found):  # these get them as torch.compile gives them
        asked = {"mode": None if mode == "default" else mode, "options": options}
        return Context(found, name, fullgraph, {key: value for key, value in asked.items() if value})
    if mode is not None and mode not in MODES:
        raise UserError(f"there is no mode {mode!r}; known are: {', '.join(MODES)}")
    if (mode is not None or options) and backend != "inductor":
        raise UserError(f"mode and options are for the inductor backend, not for {name!r}")
    return Context(found, name, fullgraph, dict(MODES[mode] if mode else options or {}))


def check_limits(recompile_limit: int | None, isolate_recompiles: bool) -> None:
    if recompile_limit is not None:
        config.check("recompile_limit", recompile_limit, "framelift.compile: ")
    if type(isolate_recompiles) is not bool:
        raise UserError(
            f"framelift.compile: isolate_recompiles must be a bool, not {isolate_recompiles!r:.80}"
        )


def check_watching(name: str | None, **functions: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise UserError(f"framelift.compile: name must be a string, not {name!r:.80}")
    for option, fn in functions.items():
        if fn is not None and not callable(fn):
            raise UserError(f"framelift.compile: {option} must be a function, not {fn!r:.80}")


def caller(context: Context) -> Callable[..., Any]:
    """What calls a target in its context."""
    replays = context.backend_name == "cudagraphs" or context.options.get("triton.cudagraphs")
    if not replays and not config.config.compiled_autograd:
        return _frame.call_in
    settings = {**context.settings, "fullgraph": False} if config.config.compiled_autograd else None

    def call_in(context: Context, target: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        from framelift.api.compiled_autograd import compiled_autograd  # which needs `compile`

        if replays:
            begin_step()
        with compiled_autograd(**settings) if settings is not None else contextlib.nullcontext():
            return _frame.call_in(context, target, *args, **kwargs)

    return call_in


def compiled_function(
    fn: Callable[..., Any], target: Callable[..., Any], context: Context, call_in: Callable[..., Any]
) -> Callable[..., Any]:
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return call_in(context, target, *args, **kwargs)

    functools.update_wrapper(compiled, fn if hasattr(fn, "__name__") else target)
    vars(compiled).update(__wrapped__=fn, _framelift_context=context, _framelift_wrapper=compiled.__code__)
    vars(compiled).update(seen_by_torchs_compiler(compiled, fn))
    return compiled


def seen_by_torchs_compiler(compiled: Callable[..., Any], fn: Callable[..., Any]) -> dict[str, Any]:
    """Attributes by which `torch.compile` knows a wrapper: it compiles the function itself, and Framelift has
    no part in it, as with any other function that is compiled anew."""
    return {
        "_torchdynamo_inline": fn,
        "_torchdynamo_orig_callable": fn,
        "_torchdynamo_wrapper_id": id(compiled),
    }


_lock = threading.Lock()
_torchs: Any = None
"""What `torch.compile` was before."""


class Installed:
    """Undoes it: as a context manager at the end of the block, or by `undo()`."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def undo(self) -> None:
        """`torch.compile` is what it was when this was installed."""
        torch.compile = self.before

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *raised: object) -> None:
        self.undo()


def install(*, backend: str | None = None) -> Installed:
    """From now on `torch.compile`, and `Module.compile` which calls it, compile with Framelift; libraries
    that call them use it unchanged. What has been compiled before stays as it is. With `backend` everything
    is compiled with that one, whatever the caller says.

    >>> import torch, framelift
    >>> with framelift.install(backend="eager"):
    ...     double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(1)), len(framelift.entries(double))
    (tensor([2.]), 1)
    """
    global _torchs

    def installed(model: Any = None, **settings: Any) -> Any:
        if backend is not None:
            settings |= {"backend": backend, "mode": None, "options": None}
        return compile(model, **settings)

    installed.__name__ = installed.__qualname__ = "compile"
    installed.__doc__ = compile.__doc__
    with _lock:
        before = torch.compile
        _torchs = _torchs or before
        torch.compile = installed
    return Installed(before)


def uninstall() -> None:
    """`torch.compile` is torch's again, however often something was installed."""
    global _torchs
    with _lock:
        if _torchs is not None:
            torch.compile = _torchs
        _torchs = None
