"""Contexts that stand in for others: the same options with another backend, for as long as a stance holds.

`set_stance(force_backend=...)` has every compiled function use that backend, and what was compiled with its
own is there again afterwards. `aot_eager_then_compile` has the first call use `aot_eager`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from framelift.core.weakly import PerCode
from framelift.dispatch.backend_names import backend_name, lookup_backend
from framelift.dispatch.compile_contexts import Backend, CodeState, CodeStates, Context


def forcing(backend: str | Backend) -> Callable[[Context], Context]:
    """In which context a call is, with this backend in the place of its own."""
    found, name = lookup_backend(backend), backend_name(backend)
    return lambda context: context if context.backend is found else stand_in(context, found, name)


def aot_eager_at_first(context: Context) -> Context:
    """The first call of a compiled function is in a context of its own, whose sizes are known afterwards."""
    first = context.stand_ins.get("aot_eager")
    if first is None:
        return stand_in(context, lookup_backend("aot_eager"), "aot_eager")
    for state in first.code_states.values():
        if state.code is not None and state.entries:
            into = context.state_of(state.code)
            into.first_seen = into.first_seen or state.entries[0].capture.program.relied_on
    return context


def stand_in(context: Context, backend: Backend, name: str) -> Context:
    found = context.stand_ins.get(name)
    if found is None or found.backend is not backend:
        found = context.stand_ins[name] = dataclasses.replace(
            context,
            backend=backend,
            backend_name=name,
            options={},
            code_states=CodeStates(),
            broken_places=set(),
            users=PerCode(),
            stand_ins={},
        )
    return found


def is_first_call(state: CodeState, fn: FunctionType, arguments: list[Any]) -> bool:
    """Whether a function has not been called yet, with the stance `eager_then_compile`: then its sizes are
    noted, so that those that are others the next time are symbols at once."""
    if state.first_seen is not None or state.entries or state.skipped:
        return False
    state.first_seen = {}
    for name, value in zip(fn.__code__.co_varnames, arguments, strict=False):
        if isinstance(value, torch.Tensor):
            state.first_seen[name] = tuple(value.shape)
        elif type(value) in (int, float):
            state.first_seen[name] = value
    return True
