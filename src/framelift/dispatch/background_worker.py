"""The process that compiles for another one, which goes on meanwhile: `background` starts it.

It reads jobs, a line each, and says of each what came of it. What it makes is left where Inductor and
AOTAutograd keep what they have compiled; the other process then finds it there. It ends with that process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from framelift.core.config import config

DONE, FAILED, UNUSABLE = "done", "failed", "unusable"
"""What comes of a job: compiled; the backend can't; this process can't."""


def main() -> None:
    answers = take_stdout()
    parent = os.getppid()
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    for line in sys.stdin:
        job = json.loads(line)
        outcome, why = compile_packed(job["path"])
        print(json.dumps({"job": job["job"], "outcome": outcome, "why": why}), file=answers, flush=True)


def take_stdout() -> Any:
    """What compilers print is for nobody."""
    answers = os.fdopen(os.dup(1), "w")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return answers


def environment_like_this() -> dict[str, str]:
    """That of a process which finds the same modules, and keeps things in the same place."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return environment | {"FRAMELIFT_CACHE": str(int(config.cache)), "FRAMELIFT_CACHE_DIR": config.cache_dir}


def end_with(parent: int) -> None:
    """A copy of the other process may hold the pipe open."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def compile_packed(path: str) -> tuple[str, str]:
    try:
        import torch._functorch.config as functorch_config
        import torch._inductor.config as inductor_config

        from framelift.core.errors import BackendCompilerFailed
        from framelift.dispatch.backend_names import lookup_backend
        from framelift.dispatch.backends import run_backend
        from framelift.dispatch.examples import Given
        from framelift.dispatch.packed_graphs import unpack

        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
        packed = unpack(data)
        packed.take_over()
        if not inductor_config.fx_graph_cache or not functorch_config.enable_autograd_cache:
            return UNUSABLE, "Inductor keeps nothing on disk"
        if getattr(inductor_config, "force_disable_caches", False):
            return UNUSABLE, "Inductor keeps nothing on disk"
    except Exception as error:
        return UNUSABLE, f"{type(error).__name__}: {error}"
    try:
        given = Given(mode=packed.mode)
        with functorch_config.patch(force_non_lazy_backward_lowering=True):
            run_backend(
                lookup_backend("inductor"), "inductor", packed.graph, packed.examples, given, **packed.options
            )
    except BackendCompilerFailed as error:
        return FAILED, str(error)
    return DONE, ""


if __name__ == "__main__":
    main()
