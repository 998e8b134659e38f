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
    """What was compiled, in the order in which it was: in one context, or with None in all."""

    context: Any = None
    keeps_compiled: bool = True
    """Whether entries are kept for as long as the watch is, which is longer than they might live."""
    records: list[CompileRecord] = field(default_factory=list)
    compiled: list[Any] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)


watching: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watching", default=None)
_everywhere: Watch | None = None


def watch_everywhere(watch: Watch | None) -> None:
    """Watches all threads, until it is called with None."""
    global _everywhere
    _everywhere = watch


def watch() -> Watch | None:
    return watching.get() or _everywhere


def is_kept() -> bool:
    """Whether what is compiled now is kept by who watches."""
    found = watch()
    return found is not None and found.keeps_compiled


def watch_of(context: Any) -> Watch | None:
    """Who watches a context now, if anyone does."""
    found = watch()
    return found if found is not None and found.context in (None, context) else None
