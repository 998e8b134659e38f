"""Peak memory while capturing: how far the resident size rises above where it was just before."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bench import models
from bench.measure import (
    Spread,
    Target,
    TorchCompile,
    failures,
    pick,
    ratio,
    ready_system,
    require_one_graph,
    take_turns,
)
from bench.tables import mebibytes, show_failures, show_table, times

SUBJECTS = ["1,000 adds", *models.MODELS]
SYSTEMS = ["framelift", TorchCompile.name]


def peak_bytes() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def restart_peak() -> None:
    """Starts the peak from the present size where the system allows it: building a model has one too."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def sample(system_name: str, subject_name: str) -> dict[str, Any]:
    subject = models.build(subject_name)
    subject.run()
    system = ready_system(system_name)
    graphs = 0

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return gm.forward

    gc.collect()
    restart_peak()
    before = peak_bytes()
    subject.run(system.compile(subject.target, backend))
    require_one_graph(graphs)
    # At least a page, so that ratios exist.
    return {"peak": max(peak_bytes() - before, 4096), "before": before}


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {"memory": take_turns(sample, SUBJECTS, SYSTEMS, repetitions, say)}


def share(samples: dict[str, list[Any]]) -> Spread | None:
    mine, reference = (pick(samples[name], lambda run: run["peak"]) for name in SYSTEMS)
    return ratio(mine, reference)


def show(console: Console, results: dict[str, Any]) -> None:
    rows = [
        [
            subject,
            *(mebibytes(pick(samples[name], lambda run: run["peak"])) for name in SYSTEMS),
            times(share(samples), digits=2),
        ]
        for subject, samples in results["memory"].items()
    ]
    title = "Peak memory while capturing, above what was there before"
    show_table(console, title, ["", *SYSTEMS, "framelift / torch.compile"], rows)
    show_failures(console, failures(results["memory"]))


def targets(results: dict[str, Any]) -> list[Target]:
    shares = [share(samples) for samples in results["memory"].values()]
    most = max(s.median for s in shares if s) if all(shares) else None
    return [Target("peak memory, most of torch.compile's", 1.0, most, at_most=True)]
