"""One compilation for all sizes: what becomes a symbol, what is relied on, and what is said about it."""

import torch

import framelift


@framelift.compile(backend="eager")
def pooled(x: torch.Tensor, rounds: int) -> torch.Tensor:
    n = x.shape[0]
    if n > 4:
        return x.view(n * 2, -1).sum(0) * rounds
    return x.sum(0)


for n in (6, 7, 20, 300, 3):
    pooled(torch.ones(n, 8), n + 1)
print(framelift.entries(pooled))


@framelift.compile(backend="eager")
def in_pairs(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 2, 3).sum(1)


x = torch.ones(4, 3)
framelift.mark_dynamic(x, 0, min=2, max=64)
try:
    in_pairs(x)
except framelift.exc.ConstraintViolated as error:
    print(f"\n{error}")
