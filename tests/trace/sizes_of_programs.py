"""Small programs that are called with many sizes: at how many of them something is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import framelift
from compilations import compiled_at

FROM_ONE = (5, 8, 3, 12, 1, 7, 20, 2)
FROM_ZERO = (5, 8, 3, 12, 0, 1, 7, 20)
ABOVE_ONE = (5, 8, 3, 12, 4, 7, 20, 2)
Make = Callable[[int], tuple[Any, ...]]


class Programs(dict[str, tuple[Callable[..., Any], Make, int, tuple[int, ...]]]):
    """Name -> the program, what makes its arguments for a size, at how many of the sizes something may be
    compiled, and the sizes."""

    def add(self, make: Make, captures: int = 3, sizes: tuple[int, ...] = FROM_ONE) -> Callable[[Any], Any]:
        def register(fn: Any) -> Any:
            self[fn.__name__] = fn, make, captures, sizes
            return fn

        return register

    def check(self, name: str) -> None:
        """Results and arguments are eager's at each size, and compilations few."""
        fn, make, captures, sizes = self[name]
        at, compiled = compiled_at(fn, ((made(make, n), made(make, n)) for n in sizes))
        assert len(at) <= captures, f"compiled for {[sizes[n] for n in at]}\n{framelift.entries(compiled)}"


def made(make: Make, n: int) -> tuple[Any, ...]:
    torch.manual_seed(n)
    return make(n)
