"""What torch's Python code notes while it compiles or traces, and puts back when it is done with it.

A signal's handler may raise in the middle of putting something back. Then the note would stay: guards that
are never made again (`suppress_guards`), programs that take themselves to be compiled (`_is_compiling_flag`),
modules whose calls go through a tracer. So what there was is kept while torch's code can be interrupted, and
put back if it was. `native/torch_state.cpp` does the same for what is noted in C++. Modules of torch's are
looked for by their names among those that are loaded, and none is imported.
"""

from __future__ import annotations

import contextvars
import functools
import operator
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch

from framelift import _frame
from framelift.core.sentinels import MISSING
from framelift.graph.torch_flags import flags_lock

THREAD_LOCALS = {
    "sympy.core.parameters": ("global_parameters",),
    "torch": ("_GLOBAL_DEVICE_CONTEXT",),
    "torch._dynamo.create_parameter_op": ("_TLS",),
    "torch._dynamo.current_scope_id": ("_current_scope_id",),
    "torch._dynamo.eval_frame": ("dynamo_tls",),
    "torch._dynamo.symbolic_convert": ("tls",),
    "torch._dynamo.utils": ("_current_node", "_dynamo_timed_tls", "_metrics_context_tls"),
    "torch._functorch._aot_autograd.graph_compile": ("_thread_local",),
    "torch._higher_order_ops.invoke_subgraph": ("_invoke_subgraph_call_state",),
    "torch._higher_order_ops.utils": ("_hop_compile_tls",),
    "torch._inductor.freezing_utils": ("_TLS",),
    "torch._inductor.virtualized": ("threadlocal",),
    "torch._library.triton": ("wrap_triton_enabled",),
    "torch._subclasses.fake_tensor": ("fake_tensor_tls",),
    "torch._subclasses.meta_utils": ("tls",),
    "torch.cuda": ("_tls",),
    "torch.distributed._local_tensor": ("_THREAD_LOCAL_TENSOR_MODE",),
    "torch.distributed.device_mesh": ("_mesh_resources",),
    "torch.fx.experimental.proxy_tensor": ("_disable_update_tensor_tracker_tls",),
    "torch.fx.experimental.symbolic_shapes": ("TLS",),
    "torch.fx.traceback": ("_regional_inductor_subgraph_name_tls",),
    "torch.mtia": ("_tls",),
    "torch.serialization": ("_serialization_tls",),
    "torch.utils._sympy.numbers": ("global_parameters",),
    "torch.xpu": ("_tls",),
}
"""Module -> the objects in it that have other attributes in each thread."""

SWITCHES = {
    "torch._dynamo.compiled_autograd": (
        *("active_disable_ctx", "compiled_autograd_enabled", "compiled_autograd_enabled_force_eager"),
        *("depth", "in_compiled_autograd_region"),
    ),
    "torch._dynamo.convert_frame": ("initial_global_state",),
    "torch._dynamo.eval_frame": ("_in_optimized_module", "_stance"),
    "torch._dynamo.trace_rules": ("_force_inline_flag",),
    "torch._dynamo.utils": ("_error_on_graph_break",),
    "torch._export.utils": ("_DISABLE_ATEN_TO_ASSERTION_PASS",),
    "torch._functorch._aot_autograd.logging_utils": ("graph_being_compiled", "nth_graph"),
    "torch._functorch.eager_transforms": ("JVP_NESTING",),
    "torch._higher_order_ops.local_map": ("_DEFER_INLINING",),
    "torch._inductor.async_compile": ("_t0", "_triton_kernel_metrics"),
    "torch._inductor.debug": (
        *("GRAPH_COMPILE_IDS", "GRAPH_EXECUTION_ORDER", "RECORD_GRAPH_EXECUTION", "_pre_grad_graph_id"),
        *("_inductor_kernel_provenance_debug_handle", "_inductor_kernel_stack_trace"),
        *("_inductor_post_to_pre_grad_nodes", "_inductor_pre_grad_node_stack_trace"),
        "_inductor_triton_kernel_to_post_grad_node_info",
    ),
    "torch._inductor.hooks": ("INTERMEDIATE_HOOKS",),
    "torch._library.fake_impl": ("global_ctx_getter",),
    "torch._prims.debug_prims": ("LOAD_TENSOR_READER",),
    "torch._subclasses.fake_tensor": ("RECURSION_COUNT",),
    "torch.autograd.forward_ad": ("_current_level",),
    "torch.autograd.graph": ("_allow_mutation_on_saved_tensors_enabled",),
    "torch.compiler": ("_is_compiling_flag", "_is_non_strict_tracing_flag"),
    "torch.cpu": ("_current_stream",),
    "torch.distributed._local_tensor": ("_LOCAL_RUNNER_MODE", "_PROCESS_MODE"),
    "torch.distributed.tensor._redistribute": (
        *("_DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION", "_FORCE_MIN_COST_REDISTRIBUTION_PLAN"),
    ),
    "torch.fx._lazy_graph_module": ("_force_skip_lazy_graph_module_flag", "_use_lazy_graph_module_flag"),
    "torch.fx._symbolic_trace": ("CURRENT_PATCHER", "_is_fx_tracing_flag"),
    "torch.fx.experimental.proxy_tensor": ("_CURRENT_MAKE_FX_TRACER",),
    "torch.fx.experimental.recording": ("NEST",),
    "torch.fx.traceback": (
        *("_should_preserve_node_meta", "current_meta", "current_replay_node", "should_preserve_node_meta"),
    ),
    "torch.jit._script": ("_TOPLEVEL",),
    "torch.nn.utils.parametrize": ("_cache", "_cache_enabled"),
    "torch.utils._debug_mode._mode": ("_ACTIVE_DEBUG_MODE_COUNT",),
    "torch.utils._device": ("CURRENT_DEVICE",),
    "torch.utils._python_dispatch": (
        *("_is_in_any_mode_without_ignore_compile_internals", "_is_in_non_infra_torch_dispatch_mode"),
        "_is_in_torch_dispatch_mode",
    ),
    "torch.utils.checkpoint": ("_checkpoint_debug_enabled", "_enable_checkpoint_early_stop"),
}
"""Module -> its variables that torch sets for a while, in all threads."""

PATCHED = ("__call__", "__getattr__")
"""The methods of modules that torch's tracer replaces while it traces."""


class CompilerState:
    """Puts back what torch's code has noted, if what runs within this is interrupted or fails."""

    def __enter__(self) -> None:
        locals_, self.variables = places(len(sys.modules))
        scopes = [held.__dict__ for held in locals_]
        self.attributes = [(now, copied(now) if now else NOTHING) for now in scopes]
        with flags_lock:  # no other thread is in the middle of it
            self.values = [read(scope) for scope, _, read in self.variables]
        self.methods = [(name, vars(torch.nn.Module)[name]) for name in PATCHED]
        self.context = contextvars.copy_context()
        self.options = [(entry, entry.user_override) for entry in entries_with_values(len(sys.modules))]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None or _frame.interrupted():
            self.put()

    def put(self) -> None:
        for now, before in self.attributes:
            if not is_same(now, before):
                now.clear()
                now.update(before)
        with flags_lock:
            for (scope, names, _), values in zip(self.variables, self.values, strict=True):
                for name, value in zip(names, values, strict=True):
                    if scope[name] is not value:
                        scope[name] = value
            for name, method in self.methods:
                if vars(torch.nn.Module)[name] is not method:
                    setattr(torch.nn.Module, name, method)
        put_options(self.context)
        for entry, value in self.options:
            entry.user_override = value
        if self.options:
            forget_hashes_of_options()


Variables = tuple[dict[str, Any], tuple[str, ...], Callable[[dict[str, Any]], tuple[Any, ...]]]
"""A module's namespace, names in it, and what reads their values."""


@functools.lru_cache(1)
def places(imported: int) -> tuple[list[Any], list[Variables]]:
    """The objects and variables of those modules that are imported, of which there are so many."""
    held = [scope[name] for scope, names in scopes(THREAD_LOCALS) for name in names]
    several = [(scope, names if len(names) > 1 else names * 2) for scope, names in scopes(SWITCHES) if names]
    return held, [(scope, names, operator.itemgetter(*names)) for scope, names in several]


def scopes(listed: dict[str, tuple[str, ...]]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    for module, names in listed.items():
        if module in sys.modules:
            scope = vars(sys.modules[module])
            yield scope, tuple(name for name in names if name in scope)


def copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """With the stacks among them as they are now."""
    return {name: list(value) if type(value) is list else value for name, value in attributes.items()}


NOTHING: dict[str, Any] = {}


def is_same(now: dict[str, Any], before: dict[str, Any]) -> bool:
    if now.keys() != before.keys():
        return False
    return all(
        now[name] == value if type(value) is list else now[name] is value for name, value in before.items()
    )


OPTIONS = (
    *("torch._dynamo.config", "torch._export.config", "torch._functorch.config", "torch._inductor.config"),
    *("torch._inductor.config_comms", "torch.compiler.config", "torch.distributed.config"),
    *("torch.fx.experimental._config", "torch.utils.serialization.config"),
)
"""Modules of options, which torch sets for a while too: context variables, or values before torch 2.13."""


def put_options(before: contextvars.Context) -> None:
    """Context variables of the program's own, which a signal's handler may have set, stay."""
    now = contextvars.copy_context().items()
    changed = [variable for variable, value in now if before.get(variable, MISSING) is not value]
    options = set(options_of_torch()) if changed else set()
    for variable in options.intersection(changed):
        earlier = before.get(variable, MISSING)
        variable.set(contextvars.Context().run(variable.get) if earlier is MISSING else earlier)


def options_of_torch() -> Iterator[contextvars.ContextVar[Any]]:
    for entry in option_entries():
        if isinstance(entry.user_override, contextvars.ContextVar):
            yield entry.user_override


@functools.lru_cache(1)
def entries_with_values(imported: int) -> list[Any]:
    """What holds the options of those modules that are imported, of which there are so many."""
    return [
        entry for entry in option_entries() if not isinstance(entry.user_override, contextvars.ContextVar)
    ]


def option_entries() -> Iterator[Any]:
    for module in OPTIONS:
        yield from getattr(sys.modules.get(module), "_config", {}).values()


def forget_hashes_of_options() -> None:
    """Where a value is changed in its entry, the module that keeps a hash of them all is not told."""
    for module in OPTIONS:
        if module in sys.modules:
            sys.modules[module]._is_dirty = True  # type: ignore[attr-defined]
