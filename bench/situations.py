"""Captures in situations of their own: with another thread at work, in loops with breaks, with many bodies,
of an optimizer with many parameters; and what many functions in one process take, the first and the last.

Functions that are captured in pieces are compiled without `fullgraph`.
"""

from __future__ import annotations

import gc
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from rich.console import Console

from bench import models
from bench.breaks import Pieces
from bench.measure import Failed, Spread, Target, clock, failures, geometric_mean, pick, ratio, take_turns
from bench.memory import peak_bytes
from bench.overhead import recorded_result
from bench.tables import mebibytes, microseconds, milliseconds, show_failures, show_table, times

SYSTEMS = ["framelift", "torch.compile untimed"]
AGAIN = 5
BODIES = 32
PARAMETERS = 300
FUNCTIONS = 1000
QUICK_FUNCTIONS = 300
GROUP = 50
"""So many functions at the beginning are compared with as many at the end."""

Backend = Callable[[torch.fx.GraphModule, list[torch.Tensor]], Callable[..., Any]]


# ---- what is captured


def conditions() -> models.Subject:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(BODIES // 2):
            x = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return x

    return models.Subject(fn, (torch.ones(4),))


def checkpoints() -> models.Subject:
    layers = [torch.nn.Linear(8, 8) for _ in range(BODIES)]

    def fn(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return x

    return models.Subject(fn, (torch.ones(2, 8, requires_grad=True),))


def adam() -> models.Subject:
    parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(PARAMETERS)]
    optimizer = torch.optim.Adam(parameters, lr=0.001, foreach=True)
    for parameter in parameters:
        parameter.grad = torch.ones(4)
    optimizer.step()  # which makes its state
    return models.Subject(lambda: optimizer.step())


def loop_with_breaks() -> models.Subject:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = torch.sin(x) + 1
            print(end="")
            x = torch.cos(x) - 1
        return x

    return models.Subject(fn, (torch.ones(4),))


CAPTURED: dict[str, Callable[[], models.Subject]] = {
    f"{BODIES} bodies of cond": conditions,
    f"{BODIES} bodies of checkpoint": checkpoints,
    f"Adam, {PARAMETERS} parameters": adam,
    "a loop with breaks": loop_with_breaks,
    "BERT 12": lambda: models.build("BERT 12"),
    "BERT 12, a busy thread": lambda: models.build("BERT 12"),
}
BUSY = "a busy thread"
CALLED = (f"Adam, {PARAMETERS} parameters",)


@contextmanager
def busy_thread() -> Iterator[None]:
    """Another thread runs Python code all the time."""
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def capture(system_name: str, subject_name: str) -> dict[str, Any]:
    torch.manual_seed(0)
    subject = CAPTURED[subject_name]()
    pieces = Pieces(system_name)
    graphs = 0

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return recorded_result(gm)

    spent = []
    with torch.enable_grad():
        for _ in range(AGAIN):
            pieces.system.reset()
            graphs = 0
            gc.collect()
            compiled = pieces.compile(subject.target, backend=backend)
            if BUSY in subject_name:
                with busy_thread():
                    spent.append(timed(lambda compiled=compiled: subject.run(compiled)))
            else:
                spent.append(timed(lambda compiled=compiled: subject.run(compiled)))
        if not graphs:
            raise Failed("nothing was captured")
        called = min(timed(lambda: subject.run(compiled)) for _ in range(50))
    return {"capture": statistics.median(spent), "graphs": graphs, "call": called}


def timed(run: Callable[[], Any]) -> float:
    start = clock()
    run()
    return clock() - start


# ---- many functions


def many(system_name: str, count: str) -> dict[str, Any]:
    """What the first and the last functions of a process take, each."""
    pieces = Pieces(system_name)
    lines = ["def fn(x, y):", "    y = torch.sin(x) * {n} + y", "    return [y.view(-1), y.sum()]"]
    source, made = "\n".join(lines), []
    for n in range(int(count)):
        scope: dict[str, Any] = {"torch": torch, "__name__": f"module{n}"}
        exec(source.replace("{n}", str(n)), scope)
        made.append(scope["fn"])
    x, y = torch.ones(4), torch.ones(4)

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        return gm.forward

    compiled = []
    seconds, sizes = [], [resident()]
    for n, fn in enumerate(made):
        compiled.append(pieces.compile(fn, backend=backend))
        start = clock()
        compiled[-1](x, y)
        seconds.append(clock() - start)
        if (n + 1) % GROUP == 0:
            gc.collect()
            sizes.append(resident())
    half = len(sizes) // 2
    return {
        "first": statistics.median(seconds[1 : GROUP + 1]),
        "last": statistics.median(seconds[-GROUP:]),
        "early bytes": max(1, (sizes[half] - sizes[1]) / ((half - 1) * GROUP)),
        "late bytes": max(1, (sizes[-1] - sizes[half]) / ((len(sizes) - 1 - half) * GROUP)),
        "seconds": seconds[1:],
    }


def resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return peak_bytes()


# ---- what explain says


CLAIMS = ("MLP", "BERT 12", "Llama 8", "EfficientNet")


def claim(system_name: str, subject_name: str) -> dict[str, Any]:
    """What `explain` says that the guards of a call take, and what a call takes that does nothing else."""
    import framelift

    subject = models.build(subject_name)
    report = framelift.explain(subject.target)(*subject.args, **subject.kwargs)
    claimed = sum(part.guard_seconds or 0.0 for part in report.parts)
    framelift.reset()
    compiled = framelift.compile(subject.target, backend=lambda gm, inputs: recorded_result(gm))
    for _ in range(20):
        subject.run(compiled)
    rounds = 200
    call = min(timed(lambda: [subject.run(compiled) for _ in range(rounds)]) for _ in range(9)) / rounds
    return {"claimed": claimed, "call": call}


# ---- as a section of the bench


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    count = str(FUNCTIONS if repetitions > 1 else QUICK_FUNCTIONS)
    return {
        "situations": take_turns(capture, list(CAPTURED), SYSTEMS, repetitions, say),
        "many functions": take_turns(many, [count], SYSTEMS, repetitions, say),
        "claims": take_turns(claim, list(CLAIMS), SYSTEMS[:1], repetitions, say),
    }


def spread(samples: dict[str, list[Any]], system: str, what: str) -> Spread | None:
    return pick(samples[system], lambda run: run[what])


def speedup(samples: dict[str, list[Any]], what: str = "capture") -> Spread | None:
    return ratio(spread(samples, SYSTEMS[1], what), spread(samples, SYSTEMS[0], what))


def growth(samples: dict[str, list[Any]], system: str, before: str, after: str) -> Spread | None:
    return ratio(spread(samples, system, after), spread(samples, system, before))


def show(console: Console, results: dict[str, Any]) -> None:
    rows = []
    for subject, samples in results["situations"].items():
        row = [subject]
        for name in SYSTEMS:
            graphs = spread(samples, name, "graphs")
            count = str(int(graphs.median)) if graphs else "-"
            row += [milliseconds(spread(samples, name, "capture")), count]
        rows.append([*row, times(speedup(samples))])
    columns = ["", "framelift", "graphs", SYSTEMS[1], "graphs", "faster by"]
    show_table(console, "Captures in situations of their own", columns, rows)
    rows = [
        [
            subject,
            *(microseconds(spread(results["situations"][subject], name, "call")) for name in SYSTEMS),
            times(speedup(results["situations"][subject], "call")),
        ]
        for subject in CALLED
    ]
    show_table(console, "A step, without what it computes", ["", *SYSTEMS, "cheaper by"], rows)
    for count, samples in results["many functions"].items():
        rows = []
        for name in SYSTEMS:
            first, last = (milliseconds(spread(samples, name, what)) for what in ("first", "last"))
            kept = mebibytes(spread(samples, name, "late bytes"))
            rows.append([name, first, last, times(growth(samples, name, "first", "last"), 2), kept])
        title = f"{int(count):,} functions in one process"
        columns = ["", f"one of the first {GROUP}", "of the last", "last / first", "memory for each"]
        show_table(console, title, columns, rows)
    rows = []
    for subject, samples in results["claims"].items():
        claimed, call = (spread(samples, "framelift", what) for what in ("claimed", "call"))
        rows.append([subject, microseconds(claimed), microseconds(call), times(ratio(claimed, call), 2)])
    columns = ["", "explain's guards", "a call", "guards / call"]
    show_table(console, "What explain says that guards take", columns, rows)
    show_failures(console, failures(results["situations"] | results["many functions"] | results["claims"]))


def targets(results: dict[str, Any]) -> list[Target]:
    # torch.compile captures nothing of a loop with a break
    found = [speedup(samples) for samples in results["situations"].values()]
    mean = geometric_mean([each for each in found if each is not None])
    lines = [Target("situations of their own: geometric mean", 8.0, mean.median if mean else None)]
    for samples in results["many functions"].values():
        grown = growth(samples, "framelift", "first", "last")
        lines.append(
            Target("the last of many functions / first", 1.25, grown.median if grown else None, at_most=True)
        )
    claims = [
        ratio(spread(samples, "framelift", "claimed"), spread(samples, "framelift", "call"))
        for samples in results["claims"].values()
    ]
    most = max(found.median for found in claims if found) if all(claims) else None
    lines.append(Target("explain's guards, of a call", 1.0, most, at_most=True))
    return lines
