"""How long something takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framelift.api.profiler import finish


@dataclass(frozen=True)
class Timing:
    """Seconds for one call, each of several."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.seconds)

    def __str__(self) -> str:
        return f"{self.median * 1e3:.3f} ms (best {self.best * 1e3:.3f} ms of {len(self.seconds)})"


def time_model(
    model: Callable[..., Any], *args: Any, times: int = 10, warmup: int = 2, **kwargs: Any
) -> Timing:
    """Calls a function or a model with the same arguments a few times, and then `times` times with a clock.

    What it computes on an accelerator is waited for.

    >>> import torch
    >>> timing = time_model(torch.sin, torch.ones(10), times=3)
    >>> len(timing.seconds), timing.best <= timing.median
    (3, True)
    """
    for _ in range(warmup):
        model(*args, **kwargs)
    found = []
    for _ in range(times):
        finish()
        began = time.perf_counter()
        model(*args, **kwargs)
        finish()
        found.append(time.perf_counter() - began)
    return Timing(tuple(found))
