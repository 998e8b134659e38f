"""`optimize`: what `torch._dynamo.optimize` is, the options of `compile` given before the function.

optimize("eager")(fn)              as a decorator
with optimize("eager"): ...        what is called in the block is compiled, as far as it is no function's part
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framelift import _frame
from framelift.api.compile import compile, context_of
from framelift.core.config import config
from framelift.core.errors import IncorrectUsage, UserError
from framelift.dispatch.backend_names import lookup_backend
from framelift.dispatch.compile_contexts import Backend, GuardFail
from framelift.guards.guard import GuardFilter


class OptimizeContext:
    """The options; called with a function, what `compile` gives for it."""

    def __init__(self, backend: str | Backend, **settings: Any) -> None:
        self.settings = {"backend": backend, **settings}
        self.context: Any = None
        self.before: list[tuple[int, Any]] = []

    def __call__(self, fn: Any) -> Any:
        return compile(fn, **self.settings)

    def __enter__(self) -> None:
        if config.raise_on_ctx_manager_usage:
            raise IncorrectUsage(
                "framelift.optimize(...) is used with a context manager. Use it as a decorator, or set "
                "framelift.config.raise_on_ctx_manager_usage = False: then what the block calls is compiled"
            )
        self.context = self.context or context_of(**self.settings)
        self.before.append(_frame.enter_in(self.context))

    def __exit__(self, *raised: object) -> None:
        _frame.leave_in(self.before.pop())


for _method in (OptimizeContext.__enter__, OptimizeContext.__exit__):
    _frame.set_decision(_method.__code__, _frame.SKIP, _frame.REFUSE)


def optimize(
    backend: str | Backend = "inductor",
    *,
    nopython: bool = False,
    error_on_graph_break: bool | None = None,
    guard_export_fn: Callable[[Any], Any] | None = None,
    guard_fail_fn: Callable[[GuardFail], Any] | None = None,
    guard_filter_fn: GuardFilter | None = None,
    disable: bool = False,
    dynamic: bool | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """A decorator that compiles with these options; `nopython` is what `compile` calls `fullgraph`.

    >>> import torch, framelift
    >>> framelift.optimize("eager")(lambda x: x + 1)(torch.ones(1))
    tensor([2.])
    """
    if guard_export_fn is not None:
        raise UserError(
            "guard_export_fn is not offered: guards are given to guard_filter_fn, or see explain()"
        )
    if disable:
        return lambda fn: fn
    settings: dict[str, Any] = {"fullgraph": nopython, "dynamic": dynamic, "recompile_limit": recompile_limit}
    settings |= {"guard_fail_fn": guard_fail_fn, "guard_filter_fn": guard_filter_fn}
    settings |= {"mode": mode, "options": options}
    if isinstance(backend, str):
        lookup_backend(backend)  # which says at once that there is none
    made: Any = OptimizeContext(backend, **settings, isolate_recompiles=isolate_recompiles)
    if error_on_graph_break is None:
        return made
    from framelift.api.capture_control import error_on_graph_break as within

    return lambda fn: made(within(error_on_graph_break)(fn))


def optimize_assert(backend: str | Backend, **settings: Any) -> Any:
    """`optimize` with `nopython=True`."""
    return optimize(backend, **{**settings, "nopython": True})


def without_shapes_spec(settings: dict[str, Any]) -> dict[str, Any]:
    if settings.pop("shapes_spec", None) is not None:
        raise UserError(
            "shapes_spec is not offered: mark_dynamic and config.dynamic_sources say it of tensors"
        )
    return settings


def as_torch_calls_it(backend: Any = "inductor", **settings: Any) -> Any:
    """`torch._dynamo.optimize`, which a `torch.compile` that was imported by name before calls as well."""
    settings = without_shapes_spec(settings)
    settings.pop("package", None)
    if type(backend) is torch._TorchCompileInductorWrapper:
        return optimize("inductor", options=backend.config or None, **settings)
    if type(backend) is torch._TorchCompileWrapper:
        return optimize(backend.compiler_fn, **backend.kwargs, **settings)
    return optimize(backend, **settings)
