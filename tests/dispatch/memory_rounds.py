"""Compiles and drops, many times over: what is left behind, by type and in bytes.

Run as a program it is the long version of `test_memory_stays_flat`: 10,000 functions, each with a code
object of its own, 100 models, and a few through Inductor.
"""

from __future__ import annotations

import argparse
import collections
import gc
import linecache
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import framelift
from framelift.core.records import counters

SOURCES = [
    "def f(x, n={n}): return x.sin() + n",
    "def g(x): return x * 2\ndef f(x): return g(x) + g(x + 1)",
    "class C:\n    def __init__(self, x): self.x = x\n    def go(self): return C(self.x * 2)\n"
    "def f(x): return C(x).go().x + {n}",
    "def f(x):\n    y = x + 1\n    print(end='')\n    return y * 2",
    "def f(x):\n    for n in range(3):\n        x = x + n\n        print(end='')\n    return x",
    "def f(x):\n    def g(y): return x + y\n    return g",
    "def f(x):\n    if x.sum() > 0: return x + 1\n    return x - 1",
]
"""Small programs of different kinds: each is compiled from a code object of its own."""


def a_round_of_a_function(n: int) -> Any:
    namespace: dict[str, Any] = {"__name__": "made_up"}
    exec(SOURCES[n % len(SOURCES)].format(n=n % 3), namespace)
    made = framelift.compile(namespace["f"], backend="eager")
    namespace["again"] = made  # what is compiled leads to itself
    for _ in range(2):
        made(torch.ones(4))
    return made


def a_round_of_a_model(backend: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))
    made = framelift.compile(model, backend=backend)
    made(torch.ones(2, 8)).sum().backward()


OURS = "framelift"
COUNTED = set("function cell Graph GraphModule Node FakeTensor Parameter Tensor type".split())
"""Types of others that an entry would keep."""


SOURCES_KEPT = "generated sources"


class Census:
    """How many objects of each type there are. Code objects are counted by the functions and generators that
    have them and by what is known of them, since the collector does not list them."""

    def __init__(self) -> None:
        gc.collect()
        gc.collect()
        counts: collections.Counter[str] = collections.Counter()
        codes = set()
        for thing in gc.get_objects():
            cls = type(thing)
            if str(cls.__module__).startswith(OURS) or cls.__name__ in COUNTED:
                counts[cls.__name__] += 1
            if cls.__name__ == "function":
                codes.add(id(thing.__code__))
        counts["code"] = len(codes)
        counts[SOURCES_KEPT] = sum(name.startswith("<") for name in linecache.cache)
        self.counts = counts
        self.blocks = sys.getallocatedblocks()

    def growth(self, before: Census, tolerance: int = 2, ours_only: bool = False) -> dict[str, int]:
        """What there is more of; a few may be on their way."""
        more = {name: count - before.counts[name] for name, count in self.counts.items()}
        others = {*COUNTED, "code", SOURCES_KEPT} if ours_only else set()
        return {name: count for name, count in more.items() if count > tolerance and name not in others}


def resident() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


class Report:
    """Says how things stand, and what has grown since the first time."""

    def __init__(self, what: str, bytes_allowed: int, blocks_allowed: int, ours_only: bool = False) -> None:
        self.what, self.bytes_allowed, self.blocks_allowed = what, bytes_allowed, blocks_allowed
        self.ours_only = ours_only
        self.first: tuple[Census, int] | None = None
        self.began = time.perf_counter()

    def __call__(self, rounds: int) -> bool:
        """Whether it is flat."""
        census, size = Census(), resident()
        seconds = time.perf_counter() - self.began
        stands = f"{size / 2**20:7.1f} MiB, {census.blocks:8d} blocks, {seconds:.0f} s"
        print(f"{self.what}, after {rounds:6d}: {stands}", flush=True)
        if self.first is None:
            self.first = census, size
            return True
        old, old_size = self.first
        problems = census.growth(old, ours_only=self.ours_only)
        more_bytes, more_blocks = size - old_size, census.blocks - old.blocks
        if problems or more_bytes > self.bytes_allowed or more_blocks > self.blocks_allowed:
            print(f"  grown by {more_bytes / 2**20:.1f} MiB and {more_blocks} blocks: {problems}", flush=True)
            return False
        return True


def functions(rounds: int) -> bool:
    """Flat from a fifth on: until then torch's tables and ours fill. What is allowed is what an allocator may
    hold back: less than a kilobyte and a quarter of a block for each round, where an entry has hundreds."""
    report = Report("functions", bytes_allowed=6 * 2**20, blocks_allowed=rounds // 4)
    flat = True
    for n in range(rounds + 1):
        if n and n % (rounds // 5) == 0:
            counters.clear()
            flat = report(n) and flat
        a_round_of_a_function(n)
    return flat


def models(backend: str, rounds: int) -> bool:
    """Inductor keeps the code that it has generated, and what belongs to that: about 400 blocks a round."""
    keeps = backend == "inductor"
    blocks = rounds * (600 if keeps else 40)
    report = Report(f"models, {backend}", rounds * 2**18, blocks, ours_only=keeps)
    flat = True
    for n in range(rounds + 1):
        if n and n % max(rounds // 5, 1) == 0:
            flat = report(n) and flat
        a_round_of_a_model(backend)
    return flat


def main() -> int:
    parser = argparse.ArgumentParser(description="Compiles and drops, and looks at what is left.")
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--inductor", type=int, default=10)
    options = parser.parse_args()
    flat = [
        functions(options.functions),
        models("eager", options.models),
        models("inductor", options.inductor) if options.inductor else True,
    ]
    return 0 if all(flat) else 1


if __name__ == "__main__":
    sys.exit(main())
