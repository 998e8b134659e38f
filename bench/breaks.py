"""Time to capture a function with a break in it, at several call depths.

Every subject does the same 96 operations, spread evenly over its functions, and the innermost of them calls
something in the middle that can't be captured. What differs is only how many frames are open at the break.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console

from bench.measure import Failed, Spread, Target, failures, pick, ratio, ready_system, seconds, take_turns
from bench.tables import milliseconds, show_failures, show_table, times

DEPTHS = (1, 2, 4, 8)
OPERATIONS = 96
SYSTEMS = ["framelift", "torch.compile untimed"]
AGAIN = 9


class Pieces:
    """The system, for functions that are not captured whole."""

    def __init__(self, name: str) -> None:
        self.system = ready_system(name)
        self.compile: Callable[..., Any] = (
            self.system.module.compile if name == "framelift" else torch.compile  # type: ignore[union-attr]
        )


def subject(depth: int) -> Callable[[torch.Tensor], torch.Tensor]:
    half = OPERATIONS // (2 * depth)
    inside = {"torch": torch, "half": half, "effect": lambda: print(end="")}
    lines = []
    for level in range(depth):
        inner = f"level{level + 1}(x)" if level + 1 < depth else "effect() or x"
        lines += [f"def level{level}(x):", *["    x = torch.sin(x)"] * half, f"    x = {inner}"]
        lines += [*["    x = x + 1"] * half, "    return x"]
    exec("\n".join(lines), inside)
    return inside["level0"]  # type: ignore[return-value]


def sample(system_name: str, subject_name: str) -> dict[str, Any]:
    pieces = Pieces(system_name)
    graphs: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(len(gm.graph.nodes))
        return gm.forward

    x = torch.ones(3)
    spent = []
    for _ in range(AGAIN):
        fn = subject(int(subject_name))
        pieces.system.reset()
        graphs.clear()
        gc.collect()
        compiled = pieces.compile(fn, backend=backend)
        results: list[torch.Tensor] = []
        spent.append(seconds(lambda compiled=compiled, results=results: results.append(compiled(x))))
        if not torch.equal(results[0], fn(x)):
            raise Failed("the result differs from eager's")
    return {"capture": statistics.median(spent), "graphs": len(graphs)}


def measure(repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {"breaks": take_turns(sample, [str(depth) for depth in DEPTHS], SYSTEMS, repetitions, say)}


def spread(samples: dict[str, list[Any]], system: str) -> Spread | None:
    return pick(samples[system], lambda run: run["capture"])


def show(console: Console, results: dict[str, Any]) -> None:
    rows = []
    for depth, samples in results["breaks"].items():
        row = [f"depth {depth}"]
        for name in SYSTEMS:
            graphs = pick(samples[name], lambda run: run["graphs"])
            row += [milliseconds(spread(samples, name)), str(int(graphs.median)) if graphs else "-"]
        rows.append([*row, times(ratio(spread(samples, SYSTEMS[1]), spread(samples, SYSTEMS[0])))])
    columns = ["", "framelift", "graphs", "torch.compile untimed", "graphs", "faster by"]
    show_table(console, "Capture with a break at a call depth", columns, rows)
    show_failures(console, failures(results["breaks"]))


def targets(results: dict[str, Any]) -> list[Target]:
    deep, shallow = (spread(results["breaks"][str(depth)], "framelift") for depth in (DEPTHS[-1], DEPTHS[0]))
    growth = ratio(deep, shallow)
    limit = 1.5
    return [
        Target("break at depth 8 / depth 1", limit, growth.median if growth else None, at_most=True),
    ]
