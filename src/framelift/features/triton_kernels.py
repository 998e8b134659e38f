"""Triton kernels of the program's own: a launch is one node of the graph.

`kernel[grid](...)`, `kernel.run(..., grid=grid)` and `wrap_triton(kernel)[grid](...)` become torch's operator
`triton_kernel_wrapper_mutation`, which AOTAutograd makes functional and Inductor compiles into its own code.
The graph refers to the kernel, and to arguments that it can't hold, by their places in torch's table of them.

A grid that is a function is called while tracing, for each configuration of `triton.autotune`, since the
operator wants them all. Of autotune, `configs` and `key` are captured. Everything else - hooks, values to be
reset or restored, pruning, heuristics - breaks and says so; such a kernel is launched for real.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
import torch.fx
from torch._higher_order_ops import triton_kernel_wrap
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation
from torch._library.triton import wrap_triton

from framelift import _frame
from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.core.sentinels import MISSING
from framelift.graph.deferred import symbolic_shapes
from framelift.graph.symbols import SYMBOLIC
from framelift.guards.kinds import Check
from framelift.interpreter.pending import opened
from framelift.rules.constants import wrap_by_identity
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, calls_back
from framelift.trace.type_rules import type_rule
from framelift.trace.world import TraceWorld

OPTIONS = ("num_warps", "num_stages", "num_consumer_groups", "num_buffers_warp_spec", "num_cpu_threads")
"""Options of a launch which are otherwise part of a configuration."""

GRAPHABLE = (*torch.fx.node.base_types, *SYMBOLIC)
"""Kinds of arguments that a graph holds."""

_served: Any = None
"""The module of Triton's whose classes are served."""


def prepare() -> None:
    """Serves Triton's classes, if it is there: nothing of it is known before the program imports it."""
    global _served
    found: Any = sys.modules.get("triton.runtime.autotuner")
    if found is None or found is _served:
        return
    jit: Any = sys.modules["triton.runtime.jit"]
    triton: Any = sys.modules["triton"]
    constexpr = getattr(jit, "ConstexprFunction", None)
    if constexpr is not None:  # what such functions are since Triton 3.6
        serve(constexpr.__call__)(serve_constexpr)
        type_rule(constexpr, wrap=wrap_by_identity)
    serve(triton.cdiv)(serve_cdiv)
    serve(triton.next_power_of_2)(serve_next_power_of_2)
    serve(jit.KernelInterface.__getitem__)(serve_getitem)
    for cls in (jit.JITFunction, found.Autotuner, found.Heuristics):
        serve(cls.run)(serve_run)
        type_rule(cls, wrap=wrap_by_identity)
    _served = found


class Launcher:
    """`kernel[grid]`, to be called with the kernel's arguments."""

    def __init__(self, kernel: Any, grid: Any) -> None:
        self.kernel, self.grid = kernel, grid

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a launch is served by the trace")


@serve(wrap_triton)
def serve_wrap_triton(f: TraceFrame, triton_kernel: Any, /) -> Any:
    """A kernel is traced with or without it."""
    return opened(triton_kernel)


def serve_cdiv(f: TraceFrame, x: Any, y: Any) -> Any:
    """How many blocks there are, which grids ask for."""
    x, y = f.world.materialize.for_torch([x, y])
    return (x + y - 1) // y


def serve_next_power_of_2(f: TraceFrame, n: Any) -> Any:
    triton: Any = sys.modules["triton"]
    return _frame.untouched(triton.next_power_of_2, definite(f.world.materialize.for_torch(n)))


def serve_constexpr(f: TraceFrame, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A function of numbers, which kernels may call as well."""
    triton: Any = sys.modules["triton"]
    function, args, kwargs = f.world.materialize.for_torch([function, args, kwargs])
    if function is triton.cdiv:
        return serve_cdiv(f, *args, **kwargs)
    named = {name: definite(value) for name, value in kwargs.items()}
    return _frame.untouched(function, *map(definite, args), **named)


def serve_getitem(f: TraceFrame, self: Any, grid: Any) -> Any:
    kernel = opened(self)
    check_kernel(kernel)  # before there is something that can't be made again
    return Launcher(kernel, opened(grid))


@serve(Launcher.__call__)
@calls_back
def serve_launch(f: TraceFrame, launcher: Any, /, *args: Any, **kwargs: Any) -> None:
    launcher = opened(launcher)
    Launch(f.world, launcher.kernel, launcher.grid).record(args, kwargs)


@calls_back
def serve_run(
    f: TraceFrame, kernel: Any, /, *args: Any, grid: Any = MISSING, warmup: Any = False, **kwargs: Any
) -> None:
    """`kernel.run(*args, grid=grid, warmup=False)`: what `kernel[grid]` calls."""
    if grid is MISSING:
        raise unsupported("a launch of a Triton kernel without a grid")
    if opened(warmup):
        raise unsupported("a Triton kernel run with warmup=True")
    Launch(f.world, opened(kernel), opened(grid)).record(args, kwargs)


def unsupported(what: str) -> Break:
    return Break(breaks.TRITON, what)


class Launch:
    """One launch of a kernel, and how it is recorded."""

    def __init__(self, world: TraceWorld, kernel: Any, grid: Any) -> None:
        self.world, self.grid = world, grid
        check_kernel(kernel)
        self.kernel = kernel

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        options = {name: self.constant(name, kwargs.pop(name)) for name in OPTIONS if name in kwargs}
        if options:
            self.kernel = with_options(self.kernel, options)
        given = self.named(args, kwargs)
        grids = [self.grid_for(given, config) for config in configurations(self.kernel)]
        constants = {name for name in given if not isinstance(given[name], GRAPHABLE)}
        fixed = {name: self.constant(name, given[name]) for name in constants}
        settings = {
            "kernel_idx": kernel_side_table.add_kernel(self.kernel),
            "constant_args_idx": kernel_side_table.add_constant_args(fixed),
            "grid": grids,
            "tma_descriptor_metadata": {},
            "kwargs": {name: value for name, value in given.items() if name not in constants},
        }
        self.add_node(settings)

    # ---- arguments

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by their names; Triton compiles anew for each value of a constant one."""
        names, fixed = parameters(self.kernel)
        given = dict(zip(names, args, strict=False))
        unknown = [name for name in kwargs if name not in names or name in given]
        if len(args) > len(names) or unknown:
            wrong = f"{unknown[0]!r}" if unknown else f"{len(args)} of them"
            name = name_of(self.kernel)
            raise unsupported(f"arguments that the Triton kernel {name} does not take: {wrong}")
        shown = {name: self.world.materialize.for_torch(value) for name, value in (given | kwargs).items()}
        return {name: definite(value) if name in fixed else value for name, value in shown.items()}

    def constant(self, name: str, value: Any) -> Any:
        """A value that the graph does not see: it must always be this one."""
        value = opened(value)
        if isinstance(value, torch.Tensor) or type(value) in SYMBOLIC:
            raise unsupported(f"{name} of a Triton kernel must be a constant")
        known = self.world.inputs.known.get(id(value))
        if known is not None and value is not None and not isinstance(value, (int, float, str)):
            self.world.guards.add(known.source, Check.IS, value)
        elif type(value).__module__.partition(".")[0] == "triton" and known is None:
            raise unsupported(f"{name} of a Triton kernel is a {type(value).__name__} made inside")
        return value

    # ---- the grid

    def grid_for(self, given: dict[str, Any], config: dict[str, Any]) -> tuple[Any, ...]:
        grid = self.grid
        if callable(grid):
            grid = self.world.calls.invoke(grid, {**given, **config})
        found = self.world.materialize.for_torch(grid)
        sizes = tuple(found) if isinstance(found, (tuple, list)) else None
        if sizes is None or not 1 <= len(sizes) <= 3 or not all(map(is_size, sizes)):
            raise unsupported(f"the grid of {name_of(self.kernel)} is no tuple of one to three numbers")
        return (*sizes, *(1,) * (3 - len(sizes)))

    # ---- the node

    def add_node(self, settings: dict[str, Any]) -> None:
        recorder = self.world.recorder
        tensors = {k: v for k, v in settings["kwargs"].items() if isinstance(v, torch.Tensor)}
        with torch._C.DisableTorchFunction():
            recorder.builder.record(triton_kernel_wrapper_mutation, (), settings, None, pure=False)
            recorder.note_changes([tensors[name] for name in written(settings, tensors)], [*tensors.values()])


def is_size(value: Any) -> bool:
    return type(value) is int or type(value) is torch.SymInt


def definite(value: Any) -> Any:
    return symbolic_shapes.guard_scalar(value) if type(value) in SYMBOLIC else value


def written(settings: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """The arguments that the kernel writes to, if Triton can tell: all of them, if not."""
    given = {name: settings[name] for name in inspect.signature(mutated).parameters if name in settings}
    try:
        return [name for name in mutated(**given) if name in tensors]
    except Exception:
        return list(tensors)


mutated: Any = triton_kernel_wrap.get_mutated_tensors


# ---- kernels


def innermost(kernel: Any) -> Any:
    """The compiled function itself."""
    return kernel.fn if is_tuned(kernel) else kernel


def is_tuned(kernel: Any) -> bool:
    return isinstance(kernel, _served.Autotuner)


def name_of(kernel: Any) -> str:
    return str(innermost(kernel).__name__)


def parameters(kernel: Any) -> tuple[list[str], set[str]]:
    """All names, and those of constants."""
    found = innermost(kernel).params
    return [each.name for each in found], {each.name for each in found if each.is_constexpr}


def configurations(kernel: Any) -> list[dict[str, Any]]:
    return [dict(config.kwargs) for config in kernel.configs] if is_tuned(kernel) else [{}]


def with_options(kernel: Any, options: dict[str, Any]) -> Any:
    """The same kernel, tuned for nothing but options."""
    if is_tuned(kernel):
        raise unsupported(f"{', '.join(options)} given to {name_of(kernel)}, which triton.autotune sees to")
    config = _served.Config({}, **options)
    return _served.autotune(configs=[config], key=[])(kernel)


def check_kernel(kernel: Any) -> None:
    """Breaks if the operator would not do what Triton does."""
    jit: Any = sys.modules["triton.runtime.jit"]
    if not isinstance(innermost(kernel), jit.JITFunction):
        raise unsupported(f"a Triton kernel with {type(innermost(kernel)).__name__.lower()}")
    if getattr(innermost(kernel), "pre_run_hooks", None):
        raise unsupported(f"hooks of the Triton kernel {name_of(kernel)}")
    if not is_tuned(kernel):
        return
    for what, asked in TUNING.items():
        if asked(kernel):
            asked_for = f"triton.autotune of {name_of(kernel)} with {what}"
            raise unsupported(f"{asked_for}; configs and key are captured")
    for name in (*OPTIONS, "num_ctas"):
        if name in parameters(kernel)[0]:
            raise unsupported(f"a parameter {name} of the Triton kernel {name_of(kernel)}, which is tuned")


TUNING: dict[str, Any] = {
    "pre_hook": lambda k: getattr(k, "user_defined_pre_hook", False) or any(c.pre_hook for c in k.configs),
    "post_hook": lambda k: getattr(k, "user_defined_post_hook", False),
    "reset_to_zero": lambda k: getattr(k, "reset_to_zero", None),
    "restore_value": lambda k: getattr(k, "restore_value", None),
    "prune_configs_by": lambda k: k.perf_model is not None or k.early_config_prune is not None,
    "use_cuda_graph": lambda k: getattr(k, "use_cuda_graph", False),
    "do_bench": lambda k: getattr(k, "_do_bench", None) is not None,
}
"""Other arguments of `triton.autotune` -> whether a kernel has it."""
