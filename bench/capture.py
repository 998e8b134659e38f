"""Time to capture, with a backend that only hands the graph back.

A sample is the first call less an eager call, in a process that has captured something unrelated before;
then the same after a reset, several times if it is quick. torch.compile is run as it is and without timing
its own guards, and the faster of the two is what counts.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from torch.utils import _pytree as pytree

from bench import models
from bench.measure import (
    REFERENCES,
    SYSTEMS,
    Failed,
    Spread,
    Target,
    TorchCompileUntimed,
    failures,
    fastest,
    geometric_mean,
    of_measured,
    pick,
    ratio,
    ready_system,
    require_one_graph,
    seconds,
    take_turns,
)
from bench.tables import milliseconds, show_failures, show_table, times

SMALL = ["one op", "1,000 adds"]
AGAIN = 5
AGAIN_S = 3.0
MOMENTS = ("first", "second")
WANTED = {"first": (10.0, 8.0), "second": (15.0, 8.0)}
"""How many times faster captures are to be: in the mean, and each."""


def sample(system_name: str, subject_name: str) -> dict[str, Any]:
    subject = models.build(subject_name)
    expected = subject.run()
    eager = statistics.median(seconds(subject.run) for _ in range(5))
    system = ready_system(system_name)
    nodes: list[int] = []
    results: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        nodes.append(len(gm.graph.nodes))
        return gm.forward

    def capture() -> float:
        system.reset()
        nodes.clear()
        results.clear()
        gc.collect()
        compiled = system.compile(subject.target, backend)
        spent = seconds(lambda: results.append(subject.run(compiled))) - eager
        require_one_graph(len(nodes))
        if spent <= 0:
            raise Failed("the first call took no longer than an eager one: too noisy to tell")
        return spent

    first = capture()
    if not same(expected, results[0]):
        raise Failed("the result differs from eager's")
    again = [capture()]
    while len(again) < AGAIN and sum(again) < AGAIN_S:
        again.append(capture())
    return {
        "first": first,
        "second": statistics.median(again),
        "eager": eager,
        "nodes": sum(nodes),
    }


def same(expected: Any, actual: Any) -> bool:
    mine, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    return len(mine) == len(theirs) and all(
        torch.equal(a, b) for a, b in zip(mine, theirs, strict=True) if isinstance(a, torch.Tensor)
    )


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    results = take_turns(sample, SMALL + list(models.MODELS), list(SYSTEMS), repetitions, say)
    # Depths that are not among the models already; torch.compile only as its faster self.
    depths = [name for name in models.GROWTH if name not in models.MODELS]
    growth = take_turns(
        sample, depths, [SYSTEMS["framelift"].name, TorchCompileUntimed.name], repetitions, say
    )
    return {"capture": results, "growth": growth}


def show(console: Console, results: dict[str, Any]) -> None:
    for moment in MOMENTS:
        rows = []
        for subject, samples in results["capture"].items():
            mine = spread(samples, "framelift", moment)
            references = [spread(samples, name, moment) for name in REFERENCES]
            rows.append(
                [
                    subject,
                    milliseconds(mine),
                    *(milliseconds(r) for r in references),
                    times(speedup(samples, moment)),
                ]
            )
        for label, subjects in (("geometric mean, models", list(models.MODELS)), ("of all", None)):
            found = speedups(results, moment, subjects)
            rows.append([of_measured(label, found), "", "", "", times(geometric_mean(found))])
        title = {"first": "First capture in a process", "second": "Capture again, after reset"}[moment]
        show_table(
            console, title, ["", "framelift", "torch.compile", "same, untimed", "faster by"], rows, footer=2
        )
    rows = []
    for layers, samples in depths(results).items():
        mine, reference = spread(samples, "framelift", "second"), spread(samples, REFERENCES[1], "second")
        per_layer = Spread(tuple(v / layers for v in mine.values)) if mine else None
        rows.append(
            [
                f"{layers} layers",
                milliseconds(mine),
                milliseconds(per_layer),
                milliseconds(reference),
                times(ratio(reference, mine)),
            ]
        )
    columns = ["Llama", "framelift", "per layer", "torch.compile untimed", "faster by"]
    show_table(console, "Growth with layers (capture again)", columns, rows)
    show_failures(console, failures(results["capture"] | results["growth"]))


def targets(results: dict[str, Any]) -> list[Target]:
    lines = []
    for moment in MOMENTS:
        label = "first capture" if moment == "first" else "capture again"
        each = speedups(results, moment, None)
        mean = geometric_mean(each)
        least = min((s.median for s in each if s), default=None)
        wanted, wanted_of_each = WANTED[moment]
        name = of_measured(f"{label}: geometric mean", each)
        lines.append(Target(name, wanted, mean.median if mean else None))
        lines.append(Target(of_measured(f"{label}: least", each), wanted_of_each, least))
    lines.append(Target("cost of a layer, deep / shallow", 1.1, growth_factor(results), at_most=True))
    return lines


def growth_factor(results: dict[str, Any]) -> float | None:
    """What a layer adds at the deep end over what it adds at the shallow end: 1 is linear growth."""
    cost = {n: spread(samples, "framelift", "second") for n, samples in depths(results).items()}
    if any(s is None for s in cost.values()):
        return None
    median = {n: s.median for n, s in cost.items() if s}
    return ((median[64] - median[32]) / 32) / ((median[16] - median[4]) / 12)


def depths(results: dict[str, Any]) -> dict[int, dict[str, list[Any]]]:
    known = results["capture"] | results["growth"]
    return {n: known[f"Llama {n}"] for n in models.GROWTH_LAYERS}


def spread(samples: dict[str, list[Any]], system: str, moment: str) -> Spread | None:
    return pick(samples[system], lambda run: run[moment])


def speedup(samples: dict[str, list[Any]], moment: str) -> Spread | None:
    reference = fastest(spread(samples, name, moment) for name in REFERENCES)
    return ratio(reference, spread(samples, "framelift", moment))


def speedups(results: dict[str, Any], moment: str, subjects: list[str] | None) -> list[Spread | None]:
    chosen = results["capture"] if subjects is None else {s: results["capture"][s] for s in subjects}
    return [speedup(samples, moment) for samples in chosen.values()]
