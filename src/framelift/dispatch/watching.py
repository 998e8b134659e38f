"""Watching what is compiled while a function runs: what `explain` is made from.

Caches are no help: an entry leaves its cache when something dies that its guards would have to find.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field

from framelift.core.breaks import Break
from framelift.core.records import CompileRecord
from framelift.dispatch.code_state import CompiledEntry
from framelift.dispatch.compile_contexts import Context


@dataclass
class Watch:
    """What was compiled, in the order in which it was: in one context, or with None in all."""

    context: Context | None = None
    keeps_entries: bool = True
    """Whether entries are kept for as long as the watch is, which is longer than they might live."""
    records: list[CompileRecord] = field(default_factory=list)
    entries: list[CompiledEntry] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)


watching: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watching", default=None)
_everywhere: Watch | None = None


def watch_everywhere(watch: Watch | None) -> None:
    """Watches all threads, until it is called with None."""
    global _everywhere
    _everywhere = watch


def watch_of(context: Context) -> Watch | None:
    """Who watches a context now, if anyone does."""
    found = watching.get() or _everywhere
    return found if found is not None and found.context in (None, context) else None
