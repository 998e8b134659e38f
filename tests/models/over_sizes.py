"""Programs that are called with many random sizes: at how many calls something is compiled.

Results are eager's at every size.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

import framelift
from compilations import compiled_at

CALLS = 20
Make = Callable[[Callable[[int, int], int]], tuple[Any, ...]]


class Models(dict[str, tuple[Callable[[], Callable[..., Any]], Make, int]]):
    """Name -> what makes it, what draws its arguments, and at how many calls something may be compiled."""

    def add(self, make: Make, calls: int = 2) -> Callable[[Any], Any]:
        """A class of modules, or a function that makes what is compiled."""

        def register(build: Any) -> Any:
            self[build.__name__] = build, make, calls
            return build

        return register

    def check(self, name: str) -> None:
        at, compiled = compilations(name, *self[name][:2])
        assert len(at) <= self[name][2], f"compiled at calls {at}\n{framelift.entries(compiled)}"


def compilations(name: str, build: Callable[[], Any], make: Make) -> tuple[list[int], Any]:
    """The calls at which something is compiled."""
    torch.manual_seed(0)
    source = random.Random(name)

    def calls() -> Iterator[tuple[Any, Any]]:
        for call in range(CALLS):
            numbers = itertools.count()
            # the first calls differ in each size: what has not changed yet can't be known to vary
            draw = lambda least, most: (
                source.randint(least, most) if call > 1 else least + call + next(numbers) % (most - least)
            )
            arguments = make(draw)
            yield arguments, copy.deepcopy(arguments)

    with framelift.config.patch(recompile_limit=CALLS), torch.no_grad():
        return compiled_at(build(), calls())
