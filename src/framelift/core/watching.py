"""Watching what is compiled while a function runs: what `explain` is made from.

Caches do not tell: an entry goes when something dies that its guards would have to find.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field
from typing import Any

from framelift.core.breaks import Break
from framelift.core.records import CompileRecord


@dataclass
class Watch:
    """What was compiled in one context, in the order in which it was."""

    context: Any
    records: list[CompileRecord] = field(default_factory=list)
    compiled: list[Any] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)


watching: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watching", default=None)


def watch_of(context: Any) -> Watch | None:
    """Who watches a context now, if anyone does."""
    watch = watching.get()
    return watch if watch is not None and watch.context is context else None
