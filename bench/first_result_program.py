"""The program of which `first_result` takes the time: builds a model, compiles it, runs it once.

    python -m bench.first_result_program framelift "BERT 4" cpu

It prints JSON: seconds from the start of the process, by part, on the wall clock, and the processor time of
the process and of those that it has started and that have ended. What belongs to which part is found out by
wrapping torch's own entrances, the same for every system; a part within another is not counted twice.
"""

from __future__ import annotations

import functools
import importlib._bootstrap as import_system
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

STARTED = "FRAMELIFT_BENCH_STARTED"
"""The variable in which whoever starts the process says when it did, as `time.time()` has it."""

PARTS = {
    "python": "the interpreter, torch and the model's library",
    "model": "building the model",
    "import": "modules of the compilers",
    "capture": "from frame to graph, guards, and running the result",
    "AOTAutograd": "functional graphs, forward and backward",
    "Inductor": "lowering, scheduling, generated code",
    "probes": "which vector instructions there are",
    "kernels": "waiting for what compiles the generated code",
}

ENTRANCES = {
    "torch._inductor.compile_fx": {"compile_fx": "AOTAutograd", "_compile_fx_inner": "Inductor"},
    "torch._inductor.cpu_vec_isa": {"pick_vec_isa": "probes"},
    "torch._inductor.async_compile": {"AsyncCompile.wait": "kernels"},
    "torch._inductor.cpp_builder": {"CppBuilder.build": "kernels"},
}
"""Module -> what in it begins a part."""


def clocks() -> tuple[float, float]:
    """The time, and the processor time so far."""
    used = os.times()
    return time.time(), used.user + used.system + used.children_user + used.children_system


class Parts:
    """Seconds by part; the part that was entered last is the one whose time goes by."""

    def __init__(self) -> None:
        self.wall = dict.fromkeys(PARTS, 0.0)
        self.processor = dict.fromkeys(PARTS, 0.0)
        self.entered = ["python"]
        self.since = float(os.environ.get(STARTED, time.time())), 0.0

    def enter(self, part: str) -> None:
        self.count()
        self.entered.append(part)

    def leave(self) -> None:
        self.count()
        self.entered.pop()

    def count(self) -> None:
        wall, processor = clocks()
        self.wall[self.entered[-1]] += wall - self.since[0]
        self.processor[self.entered[-1]] += processor - self.since[1]
        self.since = wall, processor

    def within(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        main = import_thread

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            is_inner = self.entered[-1] == "probes" or main != current_thread()
            if is_inner:  # a probe builds a program, too; what other threads do, nobody waits for
                return function(*args, **kwargs)
            self.enter(part)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return run


def current_thread() -> int:
    import _thread

    return _thread.get_ident()


import_thread = current_thread()


def watch_imports(parts: Parts) -> None:
    """Counts what is imported from now on, and wraps the entrances of a module when it is there."""
    load = import_system._find_and_load
    counted = parts.within("import", load)

    @functools.wraps(load)
    def find_and_load(name: str, *args: Any) -> Any:
        found = (load if parts.entered[-1] == "import" else counted)(name, *args)
        wrap_entrances(name, parts)
        return found

    import_system._find_and_load = find_and_load
    for name in list(ENTRANCES):  # libraries of models import some of it
        wrap_entrances(name, parts)


def wrap_entrances(module: str, parts: Parts) -> None:
    if module in ENTRANCES and module in sys.modules:
        for path, part in ENTRANCES.pop(module).items():
            wrap(sys.modules[module], path, part, parts)


def wrap(owner: Any, path: str, part: str, parts: Parts) -> None:
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    if hasattr(owner, name):  # another torch may have it elsewhere: then its time is with the part around it
        setattr(owner, name, parts.within(part, getattr(owner, name)))


def main(system: str, subject: str, device: str) -> None:
    parts = Parts()
    import torch

    torch.set_num_threads(1)
    if subject != "one op":
        import transformers.models.bert.modeling_bert  # noqa: F401
    from bench import models

    parts.count()
    parts.entered = ["import"]
    watch_imports(parts)
    began = clocks()
    run = compiled(system, "eager" if subject == "one op" else "inductor")
    named = clocks()
    parts.enter("model")
    name, _, training = subject.partition(", ")
    built = models.build_on(name, device)
    parts.leave()
    parts.enter("capture")
    called = clocks()
    with torch.set_grad_enabled(bool(training)):
        result = run(built.target, built.args, built.kwargs)
        if training:
            next(iter(result.values())).sum().backward()
    if device != "cpu":
        torch.cuda.synchronize()
    parts.leave()
    ended = clocks()
    told = {
        clock: {
            "parts": found,
            "name": named[n] - began[n],
            "call": ended[n] - called[n],
        }
        for n, (clock, found) in enumerate([("wall", parts.wall), ("cpu", parts.processor)])
    }
    print(json.dumps(told))


def step(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return model(*args, **kwargs)


def compiled(system: str, backend: str) -> Callable[..., Any]:
    """Before there is a model, as a decorator would have it."""
    if system == "eager":
        return step
    if system == "framelift":
        from framelift import compile

        return compile(step, backend=backend, fullgraph=True)
    import torch

    return torch.compile(step, backend=backend, fullgraph=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
