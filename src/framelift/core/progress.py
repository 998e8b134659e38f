"""What is being compiled at the moment, for who shows it: which frame, and in which phase."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

from framelift.core.records import CompileRecord

Phase = Literal["trace", "backend", "backward", "done"]
Listener = Callable[[CompileRecord, Phase], None]

_listener: Listener | None = None


def report(record: CompileRecord, phase: Phase) -> None:
    """A phase begins; `done` is the end of the last one. What goes wrong with showing it stops nothing."""
    if _listener is not None:
        with contextlib.suppress(Exception):
            _listener(record, phase)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """One listener at a time, for all threads."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before
