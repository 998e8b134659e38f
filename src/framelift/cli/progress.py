"""What is being compiled, on a terminal: which function, which phase, how long already."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framelift.core.records import CompileRecord, Phase, listening

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PHASES = {"trace": "tracing", "backend": "compiling the graph", "backward": "compiling the backward graph"}

DELAY = 0.3
"""What takes no longer than that is not worth a line: to write one is to disturb what stands there."""


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """For a block, if stderr is a terminal; it is left as it was, but for a line that comes and goes."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    showing = Progress(Console(stderr=True))
    try:
        with listening(showing.hear):
            yield
    finally:
        showing.stop()


class Progress:
    """A line at the bottom for the latest thing that is compiled, made anew several times a second."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.active: list[tuple[CompileRecord, Phase, float]] = []
        self.count = 0
        self.live: Any = None
        self.waiting: threading.Timer | None = None
        self.lock = threading.RLock()

    def hear(self, record: CompileRecord, phase: Phase) -> None:
        with self.lock:
            began = next((began for each, _, began in self.active if each is record), time.perf_counter())
            self.active = [each for each in self.active if each[0] is not record]
            if phase == "done":
                self.count += 1
            else:
                self.active = [*self.active, (record, phase, began)]
            if not self.active:
                self.stop()
            elif self.live is None and self.waiting is None:
                self.waiting = threading.Timer(DELAY, self.start)
                self.waiting.daemon = True
                self.waiting.start()

    def start(self) -> None:
        from rich.live import Live

        with self.lock:
            self.waiting = None
            if self.live is not None or not self.active:
                return
            # neither stream is touched: what the program prints goes where it would have gone
            self.live = Live(
                self,
                console=self.console,
                transient=True,
                refresh_per_second=8,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.live.start()

    def stop(self) -> None:
        with self.lock:
            live, self.live = self.live, None
            waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.cancel()
        if live is not None:
            live.stop()

    def __rich__(self) -> Text:
        from rich.text import Text

        # without the lock: whoever holds it may be waiting for what is shown to be finished
        return Text(self.line(), no_wrap=True, overflow="ellipsis", style="dim")

    def line(self) -> str:
        active = self.active  # another list each time
        if not active:
            return ""
        record, phase, began = active[-1]
        seconds = time.perf_counter() - began
        what = f"{record.name} ({record.filename}:{record.line})"
        before = f"; {self.count} before it" if self.count else ""
        return f"framelift: {what}: {PHASES[phase]}, {seconds:.1f} s{before}"
