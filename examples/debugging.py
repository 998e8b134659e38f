"""A function that breaks and is compiled again, to look at with the tools of docs/debugging.md."""

from __future__ import annotations

import torch


def attention(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.T, dim=-1)


@torch.compile(backend="eager")
def step(x: torch.Tensor, scale: int) -> torch.Tensor:
    y = attention(x, x) * scale
    print("largest", y.max().item())
    return y.sum(0) + 1


if __name__ == "__main__":
    step(torch.ones(2, 3), 2)
    step(torch.ones(2, 3), 3)
