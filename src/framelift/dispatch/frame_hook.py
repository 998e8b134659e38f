"""Answers the frame hook: a user's frame has no entry that holds, so compile it, or let it run.

A compiled function runs in a *context* (its options); each code object keeps one cache of entries
per context. A frame that can't be captured runs as plain Python from then on in that context, with
the reason kept, and the functions it calls are looked at on their own.
"""

from __future__ import annotations

import logging
from types import FunctionType
from typing import Any, Literal

import torch
from torch.fx import _symbolic_trace

from framelift import _frame, _guards
from framelift.core import policy, stance, tracers
from framelift.core.config import config
from framelift.core.errors import BackendCompilerFailed, ComptimeError
from framelift.core.records import compile_records, counters
from framelift.dispatch import recompiles
from framelift.dispatch.compilation import Compilation, Replacement, skip
from framelift.dispatch.compile_contexts import (
    CodeState,
    Context,
    GuardFail,
    contexts,
    number_from_the_beginning,
)
from framelift.dispatch.extensions import extensions
from framelift.dispatch.shared_contexts import forget_shared
from framelift.dispatch.stand_ins import is_first_call
from framelift.graph.torch_flags import flags_lock, without_saved_tensors_hooks

log = logging.getLogger("framelift")


def reset() -> None:
    """Forgets everything that was compiled, and why anything was not."""
    with flags_lock:
        for context in contexts():
            context.forget()
        forget_shared()
        number_from_the_beginning()
        counters.clear()
        compile_records.clear()


def on_cache_miss(
    fn: FunctionType, arguments: list[Any]
) -> Replacement | _frame.Stop | Literal[False] | None:
    """What the hook runs in the frame's place. None: the frame as it is; False: that, and nothing below it is
    looked at."""
    context: Context | None = _frame.context()
    if context is None:
        return None
    if not stance.compiles():
        return refuse_to_compile(context, fn, arguments)
    if torch._C._len_torch_dispatch_stack():
        return None  # such modes would not: what they make of an operator's result is not known
    if is_watched_by_torch():
        return False
    state = context.state_of(fn.__code__)
    if recompiles.has_stopped(context, state):
        return None
    if stance.get() == "eager_then_compile" and is_first_call(state, fn, arguments):
        return False
    with state.lock, without_saved_tensors_hooks():
        found = find_entry(state, fn, arguments)
        if extensions.ranks.all_have_entry(state, found is not None):
            return found
        return compile_frame(context, state, fn, arguments)


def is_watched_by_torch() -> bool:
    """Whether another of torch's tools runs the program to see what it does (`torch.jit.trace`, `torch.fx`),
    or to do something else with it (`torch.func.vmap`): what it sees must be the program."""
    c = torch._C
    if c._get_tracing_state() is not None or c._functorch.maybe_current_level() is not None:
        return True
    return bool(_symbolic_trace._is_fx_tracing_flag)


def find_entry(state: CodeState, fn: FunctionType, arguments: list[Any]) -> Replacement | None:
    """What another thread has compiled since this one looked, if it fits; or what fits now that no other
    thread's compiler has changed torch's flags."""
    with flags_lock:
        for entry in state.entries:
            inputs = entry.capture.program.native.collect(fn, arguments)
            native = entry.native
            if inputs is not None and native is not None:
                return native.region, tuple(inputs)
    return None


def refuse_to_compile(context: Context, fn: FunctionType, arguments: list[Any]) -> Replacement | None:
    """Nothing fits, and the stance is to compile nothing: the frame runs as it is, or that is an error."""
    if not stance.fails():
        return None
    state = context.state_of(fn.__code__)
    if (found := find_entry(state, fn, arguments)) is not None:
        return found
    if state.entries:
        raise recompiles.refused_compilation(state, recompiles.explain_miss(state, fn, arguments))
    if not (state.skipped or state.empty or state.failures):  # otherwise there is nothing to compile
        raise recompiles.refused_compilation(state, None)
    return None


def compile_frame(
    context: Context, state: CodeState, fn: FunctionType, arguments: list[Any]
) -> Replacement | _frame.Stop | Literal[False] | None:
    """Compiles the frame, unless it is to run as plain Python or has as many entries as it may have."""
    code = fn.__code__
    if _frame.get_cache(code, context) is False:
        return None
    if not extensions.ranks.meet_on_each_call():
        _frame.set_cache(code, state.cache, context)
    is_prepared = False
    if state.pending:
        from framelift.dispatch.background import pending_for

        pending = pending_for(state, fn, arguments)
        if pending is not None and pending.progress in ("compiling", "failed"):
            return False
        if pending is not None:
            state.pending.remove(pending)
            is_prepared = True
    limit = recompiles.limit_reached(context, state)
    if limit is not None:
        recompiles.stop_recompiling(context, state, limit, fn, arguments)
        return None
    state.skipped = None
    if len(state.cache):
        again = recompiles.explain_miss(state, fn, arguments)
        recompiles.report_recompilation(context, state, again)
        if context.guard_fail_fn is not None:
            for failure in again.by_failure():
                reason = "; ".join(filter(None, (str(failure), failure.mismatch)))
                context.guard_fail_fn(GuardFail(reason, code))
    counters["frames"]["total"] += 1
    try:
        return Compilation(context, state, fn, arguments, is_prepared).run()
    except (BackendCompilerFailed, ComptimeError) as error:
        if not config.suppress_errors or context.fullgraph:
            raise
        log.warning("%s runs as plain Python (config.suppress_errors): %s", state.what, why := str(error))
        skip(context, state, why)
        return None


_frame.set_callbacks(policy.decide, on_cache_miss)
_frame.set_debuggers(tracers.is_debugger, (policy.OWN_FILES, "<framelift "))
_frame.set_dispatch(_guards.dispatch)
_frame.set_torch_state(_guards.torch_state)
