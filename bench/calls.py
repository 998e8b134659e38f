"""Cost of a call when everything is compiled: what is paid on top of the graph.

The backend computes on its first call only and then returns that result again, so what is left is
the wrapper, the guards, collecting inputs and rebuilding the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console

from bench import models
from bench.measure import (
    Spread,
    Target,
    TorchCompile,
    clock,
    failures,
    geometric_mean,
    pick,
    ratio,
    ready_system,
    require_one_graph,
    take_turns,
)
from bench.tables import microseconds, show_failures, show_table, times

SUBJECTS = ["two arguments", "MLP", "BERT 12", "Llama 8", "Llama 32"]
SYSTEMS = ["framelift", TorchCompile.name]
BATCHES = 20
BATCH_S = 0.05


def recorded_result(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    result = None

    def run(*args: Any) -> Any:
        nonlocal result
        if result is None:
            result = gm.forward(*args)
        return result

    return run


def sample(system_name: str, subject_name: str) -> dict[str, Any]:
    subject = models.build(subject_name)
    system = ready_system(system_name)
    graphs: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(gm)
        return recorded_result(gm)

    compiled = system.compile(subject.target, backend)
    args, kwargs = subject.args, subject.kwargs
    for _ in range(20):
        compiled(*args, **kwargs)
    require_one_graph(len(graphs))

    def batch(count: int) -> float:
        start = clock()
        for _ in range(count):
            compiled(*args, **kwargs)
        return (clock() - start) / count

    count = max(10, int(BATCH_S / batch(10)))
    # The least of several batches: whatever else the machine does can only add.
    return {"call": min(batch(count) for _ in range(BATCHES)), "calls": count * BATCHES}


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {"calls": take_turns(sample, SUBJECTS, SYSTEMS, repetitions, say)}


def share(samples: dict[str, list[Any]]) -> Spread | None:
    mine, reference = (pick(samples[name], lambda run: run["call"]) for name in SYSTEMS)
    return ratio(mine, reference)


def overall(results: dict[str, Any]) -> Spread | None:
    return geometric_mean([share(samples) for samples in results["calls"].values()])


def show(console: Console, results: dict[str, Any]) -> None:
    rows = [
        [
            subject,
            *(microseconds(pick(samples[name], lambda run: run["call"])) for name in SYSTEMS),
            times(share(samples), digits=2),
        ]
        for subject, samples in results["calls"].items()
    ]
    rows.append(["geometric mean", "", "", times(overall(results), digits=2)])
    title = "A call when everything is compiled"
    show_table(console, title, ["", *SYSTEMS, "framelift / torch.compile"], rows, footer=1)
    show_failures(console, failures(results["calls"]))


def targets(results: dict[str, Any]) -> list[Target]:
    mean = overall(results)
    return [Target("cost of a call, of torch.compile's", 1 / 3, mean.median if mean else None, at_most=True)]
