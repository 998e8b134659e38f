"""Inputs that lie in memory in odd ways."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch


def rand_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    *,
    offset: int = 0,
    requires_grad: bool = False,
) -> torch.Tensor:
    """Random numbers, laid out like this: from a normal distribution, or small integers.

    >>> x = rand_strided((2, 3), (1, 2))
    >>> x.shape, x.stride()
    (torch.Size([2, 3]), (1, 2))
    """
    needed = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if min(size, default=1) <= 0:
        needed = offset
    if dtype is torch.bool:
        memory = torch.randint(0, 2, (needed,), device=device).to(dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        wide = dtype if dtype in (torch.float64, torch.complex128, torch.complex64) else torch.float32
        memory = torch.randn(needed, dtype=wide, device=device).to(dtype)
    else:
        memory = torch.randint(0, 16, (needed,), device=device).to(dtype)
    return memory.as_strided(tuple(size), tuple(stride), offset).requires_grad_(requires_grad)


def random_layouts(
    size: Sequence[int], count: int = 4, seed: int = 0, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """Tensors of one shape, laid out differently: contiguous, with dimensions in another order, with gaps,
    with an offset, expanded. The same ones each time for a seed.

    >>> [x.stride() for x in random_layouts((2, 3), count=2)]
    [(3, 1), (1, 2)]
    """
    chance = random.Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = [rand_strided(size, strides(size, range(len(size))), dtype)]
        while len(made) < count:
            order = list(range(len(size)))
            if len(made) == 1:
                order.reverse()
            else:
                chance.shuffle(order)
            gap = 1 if len(made) == 1 else chance.choice((1, 2, 3))
            found = strides(size, order, gap)
            if len(made) > 2 and chance.random() < 0.3:
                found = tuple(0 if n == order[0] else s for n, s in enumerate(found))
            offset = 0 if len(made) == 1 else chance.choice((0, 1, 5))
            made.append(rand_strided(size, found, dtype, offset=offset))
    return made


def strides(size: Sequence[int], order: Sequence[int], gap: int = 1) -> tuple[int, ...]:
    """Those of a tensor whose dimensions lie in this order, the last one innermost."""
    found, step = [0] * len(size), gap
    for dim in reversed(order):
        found[dim] = step
        step *= max(size[dim], 1)
    return tuple(found)
