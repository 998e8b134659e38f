"""Exports: the time until a program is there, beside `torch.export.export(strict=True)`.

Both begin with a module and its arguments, and end with a program that torch's verifier has passed. The part
that brings a graph to torch's operators is torch's own in both.
"""

from __future__ import annotations

import gc
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.export
from rich.console import Console

from bench import models
from bench.capture import same
from bench.measure import (
    Failed,
    Spread,
    Target,
    failures,
    geometric_mean,
    pick,
    ratio,
    seconds,
    take_turns,
)
from bench.tables import milliseconds, show_failures, show_table, times

EXPORTED = ["MLP", "BERT 12", "GPT-2 12", "Llama 8", "ViT 12"]
AGAIN = 3
OURS, TORCHS = "framelift", "torch.export"


def exporter(system: str) -> Callable[..., torch.export.ExportedProgram]:
    if system == TORCHS:
        return lambda *given: torch.export.export(*given, strict=True)
    import framelift

    return framelift.export


def export(system: str, subject_name: str) -> dict[str, Any]:
    subject = models.build(subject_name)
    model: Any = subject.target
    for module in model.modules():  # a cache in the result is an object that torch does not know
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False
    expected = subject.run()
    make = exporter(system)
    made: list[torch.export.ExportedProgram] = []

    def timed() -> float:
        made.clear()
        torch._dynamo.reset()
        gc.collect()
        return seconds(lambda: made.append(make(model, subject.args, subject.kwargs)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timed()  # what the first export in a process imports is not counted
        spent = statistics.median(timed() for _ in range(AGAIN))
        if not same(expected, subject.run(made[0].module())):
            raise Failed("the result differs from eager's")
    return {"seconds": spent}


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {"export": take_turns(export, EXPORTED, [OURS, TORCHS], repetitions, say)}


def spread(samples: dict[str, list[Any]], system: str) -> Spread | None:
    return pick(samples[system], lambda run: run["seconds"])


def speedups(results: dict[str, Any]) -> list[Spread | None]:
    return [ratio(spread(samples, TORCHS), spread(samples, OURS)) for samples in results["export"].values()]


def show(console: Console, results: dict[str, Any]) -> None:
    found = speedups(results)
    rows = [
        [subject, *(milliseconds(spread(samples, system)) for system in (OURS, TORCHS)), times(faster)]
        for (subject, samples), faster in zip(results["export"].items(), found, strict=True)
    ]
    rows.append(["geometric mean", "", "", times(geometric_mean(found))])
    show_table(console, "Time until a program is exported", ["", OURS, TORCHS, "faster by"], rows, footer=1)
    show_failures(console, failures(results["export"]))


def targets(results: dict[str, Any]) -> list[Target]:
    mean = geometric_mean(speedups(results))
    return [Target("export: geometric mean", 5.0, None if mean is None else mean.median)]
