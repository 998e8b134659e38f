"""Sizes that vary: time to capture with symbols, and what a call costs that checks them.

A capture is with all sizes as symbols from the start (`dynamic=True`), or the one that follows when a size
has changed. Calls are those of `overhead`, with all sizes as symbols and with sizes that are fixed.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from torch.utils import _pytree as pytree

from bench import models, overhead
from bench.capture import same
from bench.measure import (
    REFERENCES,
    SYSTEMS,
    Failed,
    Spread,
    Target,
    failures,
    fastest,
    geometric_mean,
    of_measured,
    pick,
    ratio,
    ready_system,
    seconds,
    take_turns,
)
from bench.tables import microseconds, milliseconds, show_failures, show_table, times

CAPTURED = ["1,000 adds", "BERT 12", "GPT-2 12", "Llama 8", "T5 6+6", "Mixtral 4"]
CALLED = ["two arguments", "MLP", "BERT 12", "Llama 8"]
AGAIN = 4
MOMENTS = {"all": "Capture with all sizes as symbols", "changed": "Capture when a size has changed"}


def longer(value: Any) -> Any:
    """A quarter more of whatever is in the last dimension."""
    return torch.cat([value, value[..., : value.shape[-1] // 4]], -1)


def capture(system_name: str, subject_name: str) -> dict[str, Any]:
    subject = models.build(subject_name)
    args, kwargs = pytree.tree_map_only(torch.Tensor, longer, (subject.args, subject.kwargs))
    other = models.Subject(subject.target, args, kwargs)
    expected = other.run()
    eager = statistics.median(seconds(other.run) for _ in range(5))
    system = ready_system(system_name)
    graphs: list[torch.fx.GraphModule] = []
    results: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    def timed(**options: Any) -> float:
        system.reset()
        graphs.clear(), results.clear()
        compiled = system.compile(subject.target, backend, **options)
        if not options:
            subject.run(compiled)
        before = len(graphs)
        gc.collect()
        spent = seconds(lambda: results.append(other.run(compiled))) - eager
        if len(graphs) != before + 1:
            raise Failed(f"{len(graphs) - before} graphs were captured instead of one")
        if not same(expected, results[0]):
            raise Failed("the result differs from eager's")
        return spent

    timed(dynamic=True)  # what the first capture with symbols in a process imports is not counted
    return {
        "all": statistics.median(timed(dynamic=True) for _ in range(AGAIN)),
        "changed": statistics.median(timed() for _ in range(AGAIN)),
    }


def call(system_name: str, subject_name: str) -> dict[str, Any]:
    fixed = overhead.sample(system_name, subject_name)["call"]
    return {"fixed": fixed, "symbols": overhead.sample(system_name, subject_name, dynamic=True)["call"]}


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {
        "symbols": take_turns(capture, CAPTURED, list(SYSTEMS), repetitions, say),
        "symbols, calls": take_turns(call, CALLED, overhead.SYSTEMS, repetitions, say),
    }


def spread(samples: dict[str, list[Any]], system: str, what: str) -> Spread | None:
    return pick(samples[system], lambda run: run[what])


def speedup(samples: dict[str, list[Any]], moment: str) -> Spread | None:
    reference = fastest(spread(samples, name, moment) for name in REFERENCES)
    return ratio(reference, spread(samples, "framelift", moment))


def speedups(results: dict[str, Any], moment: str) -> list[Spread | None]:
    return [speedup(samples, moment) for samples in results["symbols"].values()]


def show(console: Console, results: dict[str, Any]) -> None:
    for moment, title in MOMENTS.items():
        rows = [
            [
                subject,
                *(milliseconds(spread(samples, name, moment)) for name in ("framelift", *REFERENCES)),
                times(speedup(samples, moment)),
            ]
            for subject, samples in results["symbols"].items()
        ]
        found = speedups(results, moment)
        rows.append([of_measured("geometric mean", found), "", "", "", times(geometric_mean(found))])
        columns = ["", "framelift", "torch.compile", "same, untimed", "faster by"]
        show_table(console, title, columns, rows, footer=1)
    rows = []
    for subject, samples in results["symbols, calls"].items():
        fixed, mine = (spread(samples, "framelift", what) for what in ("fixed", "symbols"))
        reference = spread(samples, overhead.SYSTEMS[1], "symbols")
        cells = [microseconds(fixed), microseconds(mine), times(ratio(mine, fixed), digits=2)]
        rows.append([subject, *cells, microseconds(reference), times(ratio(mine, reference), digits=2)])
    columns = ["", "fixed sizes", "symbols", "symbols / fixed", "torch.compile", "framelift / torch.compile"]
    show_table(console, "A call that checks sizes", columns, rows)
    show_failures(console, failures(results["symbols"] | results["symbols, calls"]))


def targets(results: dict[str, Any]) -> list[Target]:
    lines = []
    for moment, title in MOMENTS.items():
        each = speedups(results, moment)
        least = min((found.median for found in each if found), default=None) if all(each) else None
        lines.append(Target(f"{title.lower()}: least", 8.0, least))
    return lines
