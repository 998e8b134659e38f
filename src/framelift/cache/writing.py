"""Writes entries when the program has gone on: a moment after the last one was made, or at exit.

A thread does it, so that the first result does not wait for it. What is left when the program ends is written
then. A process that was forked has nothing to write: its parent does.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable

from framelift.cache.files import keep_within_limit
from framelift.dispatch.object_names import NotPortableError

log = logging.getLogger("framelift.cache")

PAUSE = 1.0
"""Seconds without a new entry before something is written."""


class Writer:
    def __init__(self) -> None:
        self.forget()
        atexit.register(self.finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self.lock = threading.Lock()
        """Held while something is written."""
        self.waiting: list[Callable[[], None]] = []
        self.at_exit: list[Callable[[], None]] = []
        self.added = threading.Event()
        self.thread: threading.Thread | None = None
        self.failed = False
        """Whether it was said that nothing can be written."""

    def add(self, write: Callable[[], None]) -> None:
        self.waiting.append(write)
        self.added.set()
        if self.thread is None:
            self.thread = threading.Thread(target=self.run, name="framelift cache", daemon=True)
            self.thread.start()

    def add_at_exit(self, write: Callable[[], None]) -> None:
        """If nothing else has it written before."""
        self.at_exit.append(write)

    def finish(self) -> None:
        self.waiting += self.at_exit
        self.at_exit = []
        self.flush()

    def run(self) -> None:
        while True:
            self.added.wait()
            while self.added.is_set():
                self.added.clear()
                self.added.wait(PAUSE)
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting, here and now."""
        with self.lock:
            wrote = bool(self.waiting)
            while self.waiting:
                self.attempt(self.waiting.pop(0))
            if wrote:
                try:
                    keep_within_limit()
                except OSError as error:
                    log.info("the cache could not be looked through: %s", error)

    def attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except NotPortableError as error:
            log.info("a capture is not kept on disk: %s", error)
        except OSError as error:
            level = logging.DEBUG if self.failed else logging.WARNING
            log.log(level, "captures can't be kept on disk: %s", error)
            self.failed = True
        except Exception:  # the program is none the worse for it
            log.info("a capture could not be packed", exc_info=True)


writer = Writer()
