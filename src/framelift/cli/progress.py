"""What is being compiled, on a terminal: which function, which phase, how long already."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framelift.core.progress import Phase, heard_by
from framelift.core.records import CompileRecord

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PHASES = {"trace": "tracing", "backend": "compiling the graph", "backward": "compiling the backward graph"}


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """For a block, if stderr is a terminal; it is left as it was, but for a line that comes and goes."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    showing = Progress(Console(stderr=True))
    try:
        with heard_by(showing.hear):
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
        self.lock = threading.RLock()

    def hear(self, note: CompileRecord, phase: Phase) -> None:
        with self.lock:
            began = next((began for each, _, began in self.active if each is note), time.perf_counter())
            self.active = [each for each in self.active if each[0] is not note]
            if phase == "done":
                self.count += 1
            else:
                self.active.append((note, phase, began))
            if self.active:
                self.start()
            else:
                self.stop()

    def start(self) -> None:
        from rich.live import Live

        if self.live is None:
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
        if live is not None:
            live.stop()

    def __rich__(self) -> Text:
        from rich.text import Text

        with self.lock:
            return Text(self.line(), no_wrap=True, overflow="ellipsis", style="dim")

    def line(self) -> str:
        if not self.active:
            return ""
        note, phase, began = self.active[-1]
        seconds = time.perf_counter() - began
        what = f"{note.name} ({note.filename}:{note.line})"
        before = f"; {self.count} before it" if self.count else ""
        return f"framelift: {what}: {PHASES[phase]}, {seconds:.1f} s{before}"
