"""A model with five problems, each of which keeps it from being one graph.

    framelift explain --html report.html examples/broken_model.py

shows them: where, why, and what to do. `docs/fixing_a_model.md` goes through all five.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.noise = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x).relu()
        print("largest activation", h.max())
        scale = h.mean().item()
        h = h / (scale + 1e-6)
        limit = np.nanquantile(h.detach().numpy(), 0.9)
        h = h.clamp(max=float(limit))
        if h.std() > 0.5:
            h = h - h.mean()
        self.noise *= 0.9
        return self.outer(h) + self.noise * x


def main() -> None:
    torch.manual_seed(0)
    model = Denoiser()
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(8, 16)
    for _ in range(4):
        x = compiled(x).detach()
    print("result", x.abs().mean())


if __name__ == "__main__":
    main()
