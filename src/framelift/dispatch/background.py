"""Graphs that are compiled in another process while the program goes on (`compile(..., background=True)`).

The frame is captured in the thread that calls it, which is quick, and the graph is sent to a process of its
own that has Inductor compile it (`background_worker`). Until that is done, calls for which the guards of the
capture hold run as plain Python. Then the next one is compiled as any other, and finds in the caches of
Inductor and AOTAutograd what the other process has left there. So nothing relies on the other process:
whatever it did, the graph is compiled here, from the caches or not.

It is not a thread since a compiler changes what all threads see: AOTAutograd traces in anomaly mode and puts
the states of random generators back as they were, tracers replace methods of `nn.Module`. A program that runs
meanwhile would draw the same numbers twice.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal

import torch

from framelift.core.records import CompileRecord
from framelift.dispatch import recompiles
from framelift.dispatch.background_worker import DONE, FAILED, UNUSABLE, environment_like_this
from framelift.dispatch.capture import Capture
from framelift.dispatch.compile_contexts import CodeState, Context, Pending
from framelift.dispatch.object_names import NotPortableError
from framelift.dispatch.packed_graphs import pack
from framelift.graph.torch_flags import flags_lock

log = logging.getLogger("framelift")


@dataclass
class Worker:
    """The process that compiles, from here."""

    process: subprocess.Popen[bytes]
    folder: str
    """Where graphs are put for it."""
    jobs: dict[int, Pending] = field(default_factory=dict)
    heard: bytes = b""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def send(self, data: bytes, pending: Pending) -> None:
        number = next(self.numbers)
        path = os.path.join(self.folder, f"{number}.graph")
        with open(path, "wb") as file:
            file.write(data)
        assert self.process.stdin is not None
        # a line is shorter than what a pipe takes at once: this does not wait for the other process
        self.process.stdin.write(json.dumps({"job": number, "path": path}).encode() + b"\n")
        self.process.stdin.flush()
        self.jobs[number] = pending

    def listen(self, seconds: float = 0.0) -> None:
        """Takes note of what is done."""
        out = self.process.stdout
        assert out is not None
        while self.jobs and select.select([out], [], [], seconds)[0]:
            seconds = 0.0
            got = os.read(out.fileno(), 65536)
            if not got:
                self.lose()
                return
            *lines, self.heard = (self.heard + got).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                pending = self.jobs.pop(answer["job"], None)
                if pending is not None:
                    settle(pending, answer["outcome"], answer["why"])

    def lose(self) -> None:
        status = self.process.wait()
        for pending in self.jobs.values():
            settle(pending, FAILED, f"the process that compiled it has ended with status {status}")
        self.jobs.clear()
        self.end()

    def end(self) -> None:
        global _worker
        if _worker is self:
            _worker = None
        atexit.unregister(self.end)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # and the compilers that it has started
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_worker: Worker | None = None
_lock = threading.RLock()


COMMAND = ("-m", "framelift.dispatch.background_worker")


def running_worker() -> Worker:
    """Starts it if there is none."""
    global _worker
    if _worker is None:
        process = subprocess.Popen(
            [sys.executable, *COMMAND],
            env=environment_like_this(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it is the program that Ctrl-C is for
        )
        _worker = Worker(process, tempfile.mkdtemp(prefix="framelift-"))
        atexit.register(_worker.end)
    return _worker


def forget_worker() -> None:
    """In a process that was forked, which hears nothing of what comes of the other one's compilations."""
    global _worker, _lock
    _lock = threading.RLock()
    if _worker is not None:
        atexit.unregister(_worker.end)
        for pending in _worker.jobs.values():
            pending.progress = "unusable"
        _worker = None


os.register_at_fork(after_in_child=forget_worker)


def settle(pending: Pending, outcome: str, why: str) -> None:
    pending.progress, pending.why = OUTCOMES[outcome], why
    if outcome == DONE:
        log.info("%s is compiled; that took %.1f s in the background", pending.name, pending.seconds)
    elif outcome == FAILED:
        log.warning("%s runs as plain Python: it could not be compiled: %s", pending.name, why)
    else:
        log.info("%s is not compiled in the background: %s", pending.name, why)


OUTCOMES: dict[str, Literal["done", "failed", "unusable"]]
OUTCOMES = {DONE: "done", FAILED: "failed", UNUSABLE: "unusable"}


# ---- what a compilation asks


def compiles_here() -> bool:
    """Whether graphs are compiled while the program waits, whatever it has asked for."""
    if not sys.executable or os.name != "posix":
        return True
    # ranks wait for each other's compilations, and their graphs may be cut into parts
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def postpone(context: Context, state: CodeState, capture: Capture, record: CompileRecord) -> bool:
    """Whether the graph is now compiled elsewhere; if not, it has to be compiled here."""
    if compiles_here() or capture.run_as_captured is not None:
        return False
    if len(state.pending) + len(state.cache) >= recompiles.limit(context, state):
        return False
    try:
        data = pack(capture, context.options)
        pending = Pending(state.what, capture.program)
        with _lock:
            running_worker().send(data, pending)
    except NotPortableError as error:
        log.info("%s is not compiled in the background: %s", state.what, error)
        return False
    except OSError as error:
        log.warning("%s is not compiled in the background: %s", state.what, error)
        return False
    capture.release()
    state.pending.append(pending)
    record.background = True
    log.info("%s is compiled in the background; it runs as plain Python until then", state.what)
    return True


def pending_for(state: CodeState, fn: FunctionType, arguments: list[Any]) -> Pending | None:
    """The graph that would be the one for a call, if it is compiled elsewhere or was to be."""
    with _lock:
        if _worker is not None:
            _worker.listen()
    with flags_lock:  # another thread's compiler may have set flags
        for pending in state.pending:
            if pending.program.native.collect(fn, arguments) is not None:
                return pending
    return None


# ---- what users ask


def pending_compilations() -> list[Pending]:
    """The graphs that are compiled in the background now, the oldest first."""
    with _lock:
        if _worker is None:
            return []
        _worker.listen()
        return list(_worker.jobs.values())


def wait_for_compilations(timeout: float | None = None) -> bool:
    """Waits until nothing is compiled in the background any more, or for so many seconds; says whether
    nothing is. What was compiled is in use from the next call on."""
    ends = None if timeout is None else time.monotonic() + timeout
    while pending_compilations():
        left = PAUSE if ends is None else min(PAUSE, ends - time.monotonic())
        if left <= 0:
            return False
        with _lock:
            if _worker is not None:
                _worker.listen(left)
    return True


PAUSE = 0.1
"""Seconds for which others have to wait for the lock."""
