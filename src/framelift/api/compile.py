"""`framelift.compile`: on functions, methods, modules and classes, as a function or as a decorator."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import logging
import sys
import typing
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
from framelift.dispatch.backend_names import backend_name, lookup_backend
from framelift.dispatch.backends import comes_with_framelift
from framelift.dispatch.compile_contexts import Backend, Context, GuardFail
from framelift.dispatch.cudagraphs import begin_step
from framelift.dispatch.preparation import prepare_machine
from framelift.dispatch.shared_contexts import shared_context
from framelift.guards.guard import GuardFilter

log = logging.getLogger("framelift")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    name: str | None = None,
    background: bool = False,
    guard_fail_fn: Callable[[GuardFail], Any] | None = None,
    guard_filter_fn: GuardFilter | None = None,
) -> Any:
    """Compiles a function, method or module; without one, gives a decorator.

    The result behaves as the original: same values, side effects and errors. `fullgraph=True` makes
    anything that can't be captured an error. `dynamic` says whether sizes and numbers may vary in what is
    compiled: all of them, none, or (None) those that turn out to. `backend` is a name (see
    `list_backends`) or a callable `(GraphModule, example_inputs) -> callable`, by default Inductor or what
    `torch.compiler.set_default_backend` says; `mode` and `options` are for Inductor; a backend of one's own
    is called with those that are given. Of a class the calls of all instances are compiled.
    `recompile_limit` is how many entries a code object may have in this compiled function, in place of
    `framelift.config.recompile_limit`; with `isolate_recompiles` the limit on the entries of a code object in
    all compiled functions together does not count for this one.
    `background=True` has Inductor compile in another process while calls run as plain Python; what was
    compiled is in use from the next call on (`pending_compilations`, `wait_for_compilations`).
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
    backend = default_backend() if backend is None else backend
    settings = {name: value for name, value in locals().items() if name != "model"}
    check_watching(name, guard_fail_fn=guard_fail_fn, guard_filter_fn=guard_filter_fn)
    check_limits(recompile_limit, isolate_recompiles)
    check_background(background, backend)
    if options is not None and "guard_filter_fn" in options:  # which is where torch.compile has it
        guard_filter_fn = guard_filter_fn or options["guard_filter_fn"]
        options = {name: value for name, value in options.items() if name != "guard_filter_fn"}
        settings |= {"options": options, "guard_filter_fn": guard_filter_fn}
    if model is None:
        return functools.partial(compile, **settings)
    if not callable(model):
        raise TypeError(f"framelift.compile takes a function or a module, not a {type(model).__name__}")
    if disable or config.config.disable:
        return model
    if isinstance(model, type):
        return decorate_class(model, compile, lambda method: compile(method, **settings))
    model = uncompiled(model)
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return model  # which TorchScript has compiled: there are no frames to look at
    if backend == "inductor":
        prepare_machine()
    target = entrance(model)
    context = make_context(fullgraph, backend, mode, options)
    context.dynamic, context.settings, context.background = dynamic, settings, background
    context.recompile_limit, context.isolate_recompiles = recompile_limit, isolate_recompiles
    context.name, context.guard_fail_fn, context.guard_filter_fn = name, guard_fail_fn, guard_filter_fn
    if not isolate_recompiles and (code := code_of(target)) is not None:
        context = shared_context(code, context)
    made = compiled_module if isinstance(model, torch.nn.Module) else compiled_function
    compiled = made(model, target, context, caller(context))
    context.users.set(compiled, None)
    return compiled


def default_backend() -> str | Backend:
    """What `torch.compiler.set_default_backend` has set, which loads torch's compiler; Inductor otherwise."""
    ask = getattr(torch.compiler, "get_default_backend", None)  # not before torch 2.12
    if ask is None or "torch._dynamo" not in sys.modules:
        return "inductor"
    found: str | Backend = ask()
    return found


def context_of(**settings: Any) -> Context:
    """The context of a block in which everything is compiled (`optimize`)."""
    asked = settings.get("mode"), settings.get("options")
    context = make_context(settings.get("fullgraph", False), settings["backend"], *asked)
    context.settings = settings
    for name in ("dynamic", "recompile_limit", "isolate_recompiles", "guard_fail_fn", "guard_filter_fn"):
        setattr(context, name, settings.get(name))
    return context


def make_context(
    fullgraph: bool, backend: str | Backend, mode: str | None, options: dict[str, Any] | None
) -> Context:
    found = lookup_backend(backend)
    name = backend_name(backend)
    if mode is not None and options is not None:
        raise UserError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if not comes_with_framelift(found):  # these get them as torch.compile gives them
        asked = {"mode": None if mode == "default" else mode, "options": options}
        return Context(found, name, fullgraph, {key: value for key, value in asked.items() if value})
    if backend == "inductor":
        return Context(found, name, fullgraph, inductor_options(mode, options))
    if mode not in (None, "default") or options:
        log.warning("the backend %s has no options; it ignores mode=%r and options=%r", name, mode, options)
    return Context(found, name, fullgraph)


def inductor_options(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """Inductor's own preset of that name, or the options by the names that they have there."""
    if not options and mode in (None, "default"):
        return {}
    import torch._inductor as inductor  # which is large, and not needed before

    if not options:
        presets = inductor.list_mode_options()
        if mode not in presets:
            raise UserError(f"Unrecognized mode={mode}, should be one of: {', '.join(presets)}")
        return dict(presets[mode])
    known = inductor.list_options()
    wanted = {option.replace("-", "_"): value for option, value in options.items()}
    for option in wanted:
        if option not in known:
            close = difflib.get_close_matches(option, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UserError(f"Unexpected optimization option {option}, Inductor has no such option{hint}")
        check_option(option, wanted[option])
    return wanted


def check_option(option: str, value: Any) -> None:
    inductors: Any = importlib.import_module("torch._inductor.config")

    kind = inductors.get_type(option)
    if typing.get_origin(kind) is None and not isinstance(value, kind):
        known, given = type(getattr(inductors, option)).__name__, type(value).__name__
        raise UserError(f"Unexpected type of attr {option}, got {given} should be {known}")


def check_limits(recompile_limit: int | None, isolate_recompiles: bool) -> None:
    if recompile_limit is not None:
        config.check("recompile_limit", recompile_limit, "framelift.compile: ")
    if type(isolate_recompiles) is not bool:
        raise UserError(
            f"framelift.compile: isolate_recompiles must be a bool, not {isolate_recompiles!r:.80}"
        )


def check_background(background: bool, backend: str | Backend) -> None:
    if type(background) is not bool:
        raise UserError(f"framelift.compile: background must be a bool, not {background!r:.80}")
    if background and backend != "inductor":
        name = backend_name(backend)
        raise UserError(f"framelift.compile: background=True is for the backend inductor, not for {name}")


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
