"""`framelift.install()`: torch's own names compile with Framelift, so that libraries use it unchanged.

`torch.compile` and `Module.compile`, and what `torch.compiler` and `torch._dynamo` offer to say what is
captured and how (`REPLACED`), are Framelift's until that is undone. Torch's classes of errors catch
Framelift's errors, its options are Framelift's options, its callbacks are called, its counters count. torch's
compiler is loaded for that, since it is its names that are replaced; nothing of it runs.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import importlib
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from framelift.api import capture_control, comptime, explain, marks, nonstrict, optimize, stance
from framelift.api.compile import compile
from framelift.api.compiled_modules import OptimizedModule, is_compiled_module
from framelift.core import errors, torch_options
from framelift.core.config import OPTIONS, config
from framelift.core.errors import UserError
from framelift.core.records import counters
from framelift.debugging import reporting
from framelift.dispatch import backend_names, frame_hook
from framelift.dispatch.extensions import Observer, RunningCompilation, extensions
from framelift.exporting import torch_entrances

log = logging.getLogger("framelift")

DYNAMO = "torch._dynamo"
DECORATORS = "torch._dynamo.decorators"
EVAL_FRAME = "torch._dynamo.eval_frame"
BOTH = ("torch.compiler", DYNAMO)

REPLACED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "allow_in_graph": (capture_control.allow_in_graph, (*BOTH, DECORATORS)),
    "assume_constant_result": (capture_control.assume_constant_result, BOTH),
    "disable": (capture_control.disable, (*BOTH, DECORATORS)),
    "disallow_in_graph": (capture_control.disallow_in_graph, (DYNAMO, DECORATORS)),
    "disable_nested_graph_breaks": (capture_control.as_it_is, (DYNAMO, DECORATORS)),
    "dont_skip_tracing": (capture_control.as_it_is, (DYNAMO, DECORATORS)),
    "error_on_graph_break": (capture_control.error_on_graph_break, (DYNAMO, DECORATORS)),
    "explain": (explain.explain_as_torch_calls_it, (DYNAMO, EVAL_FRAME)),
    "export": (torch_entrances.export_graph, (DYNAMO, EVAL_FRAME)),
    "forbid_in_graph": (capture_control.forbid_in_graph, (DYNAMO, DECORATORS)),
    "graph_break": (capture_control.graph_break, (DYNAMO, DECORATORS)),
    "is_compiling": (capture_control.is_compiling, (DYNAMO,)),
    "mark_static_address": (marks.mark_static_address, (DYNAMO, DECORATORS)),
    "nonstrict_trace": (nonstrict.nonstrict_trace, (DYNAMO, DECORATORS)),
    "optimize": (optimize.as_torch_calls_it, (DYNAMO, EVAL_FRAME)),
    "optimize_assert": (optimize.optimize_assert, (DYNAMO, EVAL_FRAME)),
    "run": (stance.run, (DYNAMO, DECORATORS)),
    "set_stance": (stance.set_stance, (*BOTH, DECORATORS)),
    "skip_frame": (capture_control.skip_frame, (DYNAMO, DECORATORS)),
    "substitute_in_graph": (capture_control.substitute_in_graph, (*BOTH, DECORATORS)),
    "comptime": (comptime.comptime, ("torch._dynamo.comptime",)),
}
"""Name -> what it is of Framelift's, and in which modules of torch's."""

ERRORS = {
    errors.FrameliftError: "torch._dynamo.exc.TorchDynamoException",
    errors.Unsupported: "torch._dynamo.exc.Unsupported",
    errors.InternalTorchDynamoError: "torch._dynamo.exc.InternalTorchDynamoError",
    errors.TorchRuntimeError: "torch._dynamo.exc.TorchRuntimeError",
    errors.UncapturedHigherOrderOpError: "torch._dynamo.exc.UncapturedHigherOrderOpError",
    errors.BackendCompilerFailed: "torch._dynamo.exc.BackendCompilerFailed",
    errors.InvalidBackend: "torch._dynamo.exc.InvalidBackend",
    errors.UserError: "torch._dynamo.exc.UserError",
    errors.IncorrectUsage: "torch._dynamo.exc.UserError",
    errors.ConstraintViolationError: "torch.fx.experimental.symbolic_shapes.ConstraintViolationError",
    errors.ComptimeError: "torch._dynamo.exc.InternalTorchDynamoError",
    errors.ComptimeAssertionError: "torch._dynamo.exc.InternalTorchDynamoError",
    errors.RecompileError: "torch._dynamo.exc.RecompileError",
    errors.RecompileLimitExceeded: "torch._dynamo.exc.FailOnRecompileLimitHit",
    errors.FailOnRecompileLimitHit: "torch._dynamo.exc.FailOnRecompileLimitHit",
}
"""Class -> torch's, whoever catches which catches ours too."""

_lock = threading.Lock()
_torchs: Any = None
"""What `torch.compile` was before."""
_undone_by: contextlib.ExitStack | None = None
"""Puts back what was replaced beside `torch.compile`, which is done once."""


class Installed:
    """Undoes it: as a context manager at the end of the block, or by `undo()`."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def undo(self) -> None:
        """`torch.compile` is what it was when this was installed; if it is torch's, so are all the names."""
        with _lock:
            torch.compile = self.before
            if self.before is _torchs:
                put_back()

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *raised: object) -> None:
        self.undo()


def install(*, backend: str | None = None) -> Installed:
    """From now on `torch.compile`, and `Module.compile` which calls it, compile with Framelift; libraries
    that call them use it unchanged. So do `torch.compiler.set_stance`, `torch._dynamo.optimize` and the like,
    options in `torch._dynamo.config`, and `except torch._dynamo.exc.Unsupported`. Programs that are exported
    by `torch.export.export(strict=True)` are captured by Framelift. What has been compiled before stays as it
    is. With `backend` everything is compiled with that one, whatever the caller says.

    >>> import torch, framelift
    >>> with framelift.install(backend="eager"):
    ...     double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(1)), len(framelift.entries(double))
    (tensor([2.]), 1)
    """
    global _torchs, _undone_by

    def installed(model: Any = None, **settings: Any) -> Any:
        if backend is not None:
            settings |= {"backend": backend, "mode": None, "options": None}
        return compile(model, **optimize.without_shapes_spec(settings))

    installed.__name__ = installed.__qualname__ = "compile"
    installed.__doc__ = compile.__doc__
    with _lock:
        before = torch.compile
        _torchs = _torchs or before
        vars(installed)["__signature__"] = inspect.signature(_torchs)
        torch.compile = installed
        if _undone_by is None:
            _undone_by = replace_names()
    return Installed(before)


def uninstall() -> None:
    """`torch.compile` is torch's again, however often something was installed."""
    with _lock:
        if _torchs is not None:
            torch.compile = _torchs
        put_back()


def put_back() -> None:
    global _torchs, _undone_by
    _torchs = None
    if _undone_by is not None:
        _undone_by.close()
    _undone_by = None


# ---- names


def replace_names() -> contextlib.ExitStack:
    dynamo = importlib.import_module(DYNAMO)
    stack = contextlib.ExitStack()
    replaced = dict(REPLACED)
    replaced["reset"] = resetting(dynamo.reset), BOTH
    replaced["OptimizedModule"] = known_to_both(dynamo.OptimizedModule), (DYNAMO, EVAL_FRAME)
    replaced["list_backends"] = list_backends, BOTH
    for name, (ours, modules) in replaced.items():
        torchs = getattr(importlib.import_module(modules[-1]), name)
        for module in map(importlib.import_module, modules):
            stack.enter_context(replaced_in(module, name, ours))
        for module in imported_before(name, torchs):
            stack.enter_context(replaced_in(module, name, ours))
    exporter = torch_entrances.program_exporter(torch.export.export)
    stack.enter_context(replaced_in(torch.export, "export", exporter))
    if torch.distributed.is_available():
        checkpoints = importlib.import_module("torch.distributed.checkpoint.state_dict")
        walk = walking_names(checkpoints._get_fqns)
        stack.enter_context(replaced_in(checkpoints, "_get_fqns", walk))
    stack.enter_context(errors_of_torch())
    stack.enter_context(options_of_torch())
    stack.enter_context(observing(TorchsCallbacks()))
    stack.enter_context(observing(TorchsCounters()))
    stack.enter_context(observing(TorchsMetrics()))
    return stack


def imported_before(name: str, torchs: Any) -> list[ModuleType]:
    """The modules of others that have a name of torch's: `from torch._dynamo import OptimizedModule`."""
    found = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return [module for module in found if vars(module).get(name) is torchs and is_clients(module.__name__)]


def is_clients(module: str) -> bool:
    """Whether it uses a compiler. What is distributed over ranks does, of all that is torch's."""
    return module.partition(".")[0] not in ("torch", "framelift") or module.startswith("torch.distributed.")


@contextlib.contextmanager
def replaced_in(module: ModuleType, name: str, ours: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, ours)
    try:
        yield
    finally:
        setattr(module, name, before)


def resetting(torchs: Callable[[], None]) -> Callable[[], None]:
    def reset() -> None:
        """Forgets what was compiled, by Framelift and by torch's compiler."""
        torchs()
        frame_hook.reset()

    return reset


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of backends, without those for debugging; with what was registered with torch."""
    registry = importlib.import_module("torch._dynamo.backends.registry")
    return sorted({*backend_names.list_backends(exclude_tags), *registry.list_backends(exclude_tags)})


class Asked(threading.local):
    """What a thread is in the middle of asking of modules."""

    names = False


_asked = Asked()


def walking_names(torchs: Callable[..., Any]) -> Callable[..., Any]:
    """torch's way along the dotted name of a parameter, which expects `_orig_mod` in it after a module that
    is compiled. Framelift's have the names of the modules they are made of: here they are any module."""

    def walk(*args: Any, **kwargs: Any) -> Any:
        before, _asked.names = _asked.names, True
        try:
            return torchs(*args, **kwargs)
        finally:
            _asked.names = before

    return functools.wraps(torchs)(walk)


def known_to_both(torchs: Any) -> type:
    """The class that modules compiled by either are instances of."""

    class Known(type(OptimizedModule)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return type.__instancecheck__(torchs, value) or (is_compiled_module(value) and not _asked.names)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return torchs(*args, **kwargs)

        def __getattr__(cls, name: str) -> Any:  # its own methods look up what it keeps there
            return getattr(torchs, name)

    return Known("OptimizedModule", (OptimizedModule,), {"__doc__": OptimizedModule.__doc__})


# ---- errors


@contextlib.contextmanager
def errors_of_torch() -> Iterator[None]:
    for ours, path in ERRORS.items():
        module, _, name = path.rpartition(".")
        torchs = getattr(importlib.import_module(module), name)
        errors.also_raised_as[ours] = errors.raised_as_both(ours, torchs)
    try:
        yield
    finally:
        errors.also_raised_as.clear()


# ---- options


@contextlib.contextmanager
def options_of_torch() -> Iterator[None]:
    """What is set in torch's options from now on, and what has been set already, is set in Framelift's."""
    torchs: Any = sys.modules["torch._dynamo.config"]
    kind: Any = type(torchs)
    before, own = kind.__setattr__, vars(kind).get("__setattr__")
    values = {name: getattr(config, name) for name in OPTIONS}

    def set_option(self: Any, name: str, value: Any) -> None:
        before(self, name, value)
        if self is torchs and not name.startswith("_"):
            forward(name, value)

    for name, option in torch_options.OPTIONS.items():
        if option.support in TOLD and hasattr(torchs, name) and not is_default(name, getattr(torchs, name)):
            forward(name, getattr(torchs, name))
    kind.__setattr__ = set_option
    try:
        yield
    finally:
        if own is None:
            del kind.__setattr__
        else:
            kind.__setattr__ = own
        config.put(values)


def same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        return one is other


TOLD = (torch_options.Support.HONOURED, torch_options.Support.REFUSED)
"""Of which options something is done, or said, when they are set."""


def forward(name: str, value: Any) -> None:
    """An option of torch's is set: here too, or it is said why not."""
    option = torch_options.OPTIONS.get(name)
    if option is None or option.support not in TOLD:
        return
    if option.support is torch_options.Support.HONOURED:
        try:
            setattr(config, option.name or name, value)
        except UserError as error:
            log.warning("torch._dynamo.config.%s: %s", name, error)
    elif not is_default(name, value):
        log.warning("torch._dynamo.config.%s is ignored: %s", name, option.sentence)


def is_default(name: str, value: Any) -> bool:
    return same(value, sys.modules["torch._dynamo.config"]._config[name].default)


# ---- callbacks and counters


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    extensions.observers.append(observer)
    try:
        yield
    finally:
        extensions.observers.remove(observer)


class TorchsCallbacks(Observer):
    """Calls what was registered with `torch._dynamo.on_compile_start` and `on_compile_end`."""

    def around_compilation(self, compilation: RunningCompilation) -> contextlib.AbstractContextManager[None]:
        callback: Any = sys.modules["torch._dynamo.callback"]
        trigger = callback.CallbackTrigger.DYNAMO
        made: contextlib.AbstractContextManager[None] = callback.callback_handler.install_callbacks(
            trigger, compilation.record.compile_id
        )
        return made


class TorchsCounters(Observer):
    """What is counted here is counted in `torch._dynamo.utils.counters` too, which others look at."""

    def __init__(self) -> None:
        self.told: dict[str, collections.Counter[str]] = snapshot()

    @contextlib.contextmanager
    def around_compilation(self, compilation: RunningCompilation) -> Iterator[None]:
        self.tell()
        try:
            yield
        finally:
            self.tell()

    def tell(self) -> None:
        torchs = sys.modules["torch._dynamo.utils"].counters
        found = snapshot()
        for group, told in self.told.items():
            if (
                any(found.get(group, told)[name] < count for name, count in told.items())
                or group not in found
            ):
                self.told[group] = (
                    collections.Counter()
                )  # they were reset, and count from the beginning again
        for group, counted in found.items():
            torchs[group].update(counted - self.told.get(group, collections.Counter()))
        self.told = found


SETS = ("compliant_custom_ops", "non_compliant_ops", "restart_reasons")
"""What torch's metrics have sets of."""


class TorchsMetrics(Observer):
    """Each compilation is among those that `torch._dynamo.utils.get_compilation_metrics` tells of."""

    @contextlib.contextmanager
    def around_compilation(self, compilation: RunningCompilation) -> Iterator[None]:
        try:
            yield
        finally:
            utils: Any = sys.modules["torch._dynamo.utils"]
            known = {field.name for field in dataclasses.fields(utils.CompilationMetrics)}
            about = reporting.metrics(compilation.record)
            about |= {name: set(about[name]) for name in SETS}
            made = {name: value for name, value in about.items() if name in known}
            utils._compilation_metrics.append(utils.CompilationMetrics.create(made))


def snapshot() -> dict[str, collections.Counter[str]]:
    return {group: collections.Counter(found) for group, found in counters.items()}
