"""What is being compiled by a command, on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from framelift.core.records import listening
from framelift.debugging.progress import Progress, is_terminal

DELAY = 0.3
"""Seconds: who has started a command waits for it, and for nothing else."""


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """For a block, if stderr is a terminal; it is left as it was, but for a line that comes and goes."""
    if not is_terminal(sys.stderr):
        yield
        return
    showing = Progress(sys.stderr, DELAY)
    try:
        with listening(showing.hear):
            yield
    finally:
        showing.stop()
