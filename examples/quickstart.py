"""Compile a function, call it, and look at what was captured."""

from dataclasses import dataclass, field

import torch

import framelift


@dataclass
class Run:
    scale: float = 2.0
    means: list[torch.Tensor] = field(default_factory=list)


@framelift.compile(fullgraph=True)
def step(x: torch.Tensor, run: Run) -> dict[str, torch.Tensor]:
    y = sum(torch.sin(x * n) for n in range(1, 3)) * run.scale
    run.means.append(y.mean())
    return {"y": y}


run = Run()
print(step(torch.ones(2), run), run.means)
print(framelift.explain(step)(torch.ones(2), run))
