"""What Inductor needs to know of a machine, found out while the program builds its model.

The first time that Inductor compiles for a CPU on a machine it tries programs to find out which vector
instructions there are, and makes a header ready that all kernels include: many seconds, of which nothing
depends on the program. So with `config.prepare` the first `compile()` on a machine has another process do
that. Inductor's own locks see to it that nothing is done twice: where the program gets there first, it waits
for the rest. When it is done, a mark in the user's cache folder says so, and nothing is started any more.

It is a process, and not a thread: two threads that import torch's modules, which import each other in
circles, get modules that are half there, and what is forked meanwhile has locks that nobody will release.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from framelift.core import user_cache
from framelift.core.config import config
from framelift.dispatch.backend_names import lookup_backend
from framelift.dispatch.backends import run_backend
from framelift.dispatch.background_worker import end_with, environment_like_this
from framelift.dispatch.vector_probes import keep, log, machine, probe_ahead

FOLDER = "prepared"
CLAIMED = ".claimed"
"""Who makes a file with this ending does it; others leave it to them."""
STALE = 600.0
"""Seconds after which nobody is at it any more."""
COMMAND = ("-m", "framelift.dispatch.preparation")


@functools.cache
def prepare_machine() -> subprocess.Popen[bytes] | None:
    """Once in a process, when it is known that Inductor will be used."""
    if not is_worth_it():
        return None
    try:
        mark = mark_of_machine()
        if mark.exists() or not claim(mark.with_suffix(CLAIMED)):
            return None
        return start(mark)
    except OSError as error:
        log.debug("the machine is not made ready: %s", error)
        return None


def is_worth_it() -> bool:
    """Whether there is a processor for another process, and CPUs are what is compiled for."""
    if not (config.prepare and config.cache) or not sys.executable or not hasattr(os, "sched_getaffinity"):
        return False
    has_gpu = torch.version.cuda is not None and os.path.exists("/proc/driver/nvidia")
    return len(os.sched_getaffinity(0)) > 1 and not has_gpu


def mark_of_machine() -> Path:
    facts = [sys.version, *machine(os.environ.get("CXX", "g++"))]
    name = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    return user_cache.user_cache_dir() / FOLDER / name


def claim(path: Path) -> bool:
    """Whether it falls to this process."""
    user_cache.make_private_dir(path.parent.parent)
    user_cache.make_private_dir(path.parent)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > STALE:
            path.unlink()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def start(mark: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, *COMMAND, str(mark)],
        env=environment_like_this(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            mark.with_suffix(CLAIMED).unlink(missing_ok=True)

    atexit.register(end)
    return process


# ---- the other process


def main(mark: str) -> None:
    import threading

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    path = Path(mark)
    try:
        make_ready()
        keep(path)
    finally:
        path.with_suffix(CLAIMED).unlink(missing_ok=True)


def make_ready() -> None:
    """Compiling anything at all leaves behind what is the same for all that is compiled."""
    probe_ahead()  # which needs less of Inductor
    graph = torch.fx.symbolic_trace(lambda x: (x.sin() + 1,))
    run_backend(lookup_backend("inductor"), "inductor", graph, [torch.ones(64)])


if __name__ == "__main__":
    main(sys.argv[1])
