"""A compiled function as it is known at run time: its options, and the state of each code object.

A *context* is what a compiled function runs in. It has a `CodeState` for each code object that was looked at
in it, which has the entries.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

from framelift import _frame
from framelift.dispatch.code_state import CodeState, CodeStates
from framelift.guards.guard import GuardFilter

Backend = Callable[..., Callable[..., Any]]
"""Takes a graph module and example inputs, and gives what runs the graph."""


class GuardFail(NamedTuple):
    """What `guard_fail_fn` is told."""

    reason: str
    """The guard that failed, and what was found: `n == 2, found 3`."""
    orig_code: CodeType


@dataclass(eq=False)
class Context:
    """The options of a compiled function; what `_frame.call_in` is given."""

    backend: Backend
    backend_name: str
    fullgraph: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None
    """Whether sizes and numbers are symbols: all, none, or those that turn out to change."""
    recompile_limit: int | None = None
    """In place of the one in `framelift.config`."""
    name: str | None = None
    """What the user calls it, in records and logs."""
    guard_fail_fn: Callable[[GuardFail], Any] | None = None
    """Is told each guard that fails, before it is compiled again."""
    guard_filter_fn: GuardFilter | None = None
    """Says which guards to keep."""
    isolate_recompiles: bool = False
    """Neither counts what others have compiled against itself, nor the other way round."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What `compile` was called with."""
    code_states: CodeStates = field(default_factory=CodeStates)
    broken_places: set[Any] = field(default_factory=set)
    """Where there were breaks: each is reported once."""

    def __post_init__(self) -> None:
        with _contexts_lock:
            _contexts.add(self)

    def state_of(self, code: CodeType) -> CodeState:
        return self.code_states.of(code)

    def forget(self) -> None:
        for state in self.code_states.values():
            if state.code is not None:
                _frame.set_cache(state.code, None, self)
        self.code_states.clear()
        self.broken_places.clear()


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
_contexts_lock = threading.Lock()


def contexts() -> list[Context]:
    with _contexts_lock:
        return list(_contexts)


def entries_everywhere(code: CodeType) -> int:
    """How many entries a code object has, in all contexts that share a limit."""
    states = [context.code_states.get(code) for context in contexts() if not context.isolate_recompiles]
    return sum(len(state.entries) for state in states if state is not None)
