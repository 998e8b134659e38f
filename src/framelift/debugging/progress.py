"""What is being compiled, on a terminal: which function, which phase, how far, how long already.

A line comes when a compilation takes longer than a second, below whatever the program has written, and goes
when it is over; the cursor is where it was. Where stderr is no terminal nothing is written.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import Any, TextIO

from framelift.core.config import config
from framelift.core.records import CompileRecord, Phase

DELAY = 1.0
"""Seconds: what takes no longer is not worth a line."""
PAUSE = 0.125
"""Seconds between one line and the next."""

BELOW = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[K"
"""Makes sure that there is a line below (which may scroll, but leaves the column), keeps the place, goes to
the beginning of that line and clears it."""
BACK = "\x1b8"
"""Where the cursor was."""

PHASES = {"trace": "tracing", "backend": "compiling", "backward": "compiling the backward graph"}


class Progress:
    """Shows the latest thing that is compiled. All threads are heard; one at a time writes."""

    def __init__(self, stream: TextIO, delay: float = DELAY) -> None:
        self.stream, self.delay = stream, delay
        self.active: list[tuple[CompileRecord, Phase, float]] = []
        self.count = 0
        """How many compilations are over."""
        self.kernels_before = 0
        self.over = threading.Event()
        self.is_shown = False
        self.lock = threading.RLock()

    def hear(self, record: CompileRecord, phase: Phase) -> None:
        with self.lock:
            began = next((began for each, _, began in self.active if each is record), time.perf_counter())
            before, self.active = self.active, [each for each in self.active if each[0] is not record]
            if phase == "done":
                self.count += 1
            else:
                self.active.append((record, phase, began))
            if self.active and not before:
                self.over, self.kernels_before = threading.Event(), generated_kernels()
                threading.Thread(target=self.draw, args=(self.over,), daemon=True).start()
            elif before and not self.active:
                self.stop()

    def stop(self) -> None:
        with self.lock:
            self.over.set()
            if self.is_shown:
                self.is_shown = False
                self.write("")

    def draw(self, over: threading.Event) -> None:
        pause = self.delay
        while not over.wait(pause):
            with self.lock:
                if over.is_set():
                    return
                self.is_shown, pause = True, PAUSE
                self.write(self.line())

    def write(self, line: str) -> None:
        try:
            width = shutil.get_terminal_size().columns - 1  # a full line would make some terminals go on
            self.stream.write(f"{BELOW}{line[:width]}{BACK}")
            self.stream.flush()
        except (OSError, ValueError):  # it was closed
            self.over.set()

    def line(self) -> str:
        with self.lock:
            if not self.active:
                return ""
            record, phase, began = self.active[-1]
        seconds = time.perf_counter() - began
        what = f"{record.name} ({record.filename}:{record.line})"
        return f"framelift: {what}: {self.step(record, phase)}, {seconds:.1f} s{self.before}"

    def step(self, record: CompileRecord, phase: Phase) -> str:
        kernels = generated_kernels() - self.kernels_before
        nodes = f" a graph of {record.nodes} nodes" if phase == "backend" and record.nodes else ""
        return f"{PHASES[phase]}{nodes}" + (f", {kernels} kernels" if kernels > 0 else "")

    @property
    def before(self) -> str:
        return f"; {self.count} before it" if self.count else ""


def generated_kernels() -> int:
    """How many kernels Inductor has generated so far, if it is there."""
    metrics: Any = sys.modules.get("torch._inductor.metrics")
    return getattr(metrics, "generated_kernel_count", 0)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether lines can come and go there."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


_shown: Progress | None = None


def show_on_terminal(record: CompileRecord, phase: Phase) -> None:
    """For any program, unless `config.progress` is off."""
    global _shown
    if _shown is None or _shown.stream is not sys.stderr:
        if not config.progress or not is_terminal(sys.stderr):
            return
        _shown = Progress(sys.stderr)
    if config.progress or _shown.active:
        _shown.hear(record, phase)


def forget_shown() -> None:
    """In a process that was forked: the thread that draws is not there, and may have held the lock."""
    global _shown
    _shown = None


os.register_at_fork(after_in_child=forget_shown)
