"""Random programs by their seeds: running some of them, and what became of them."""

from __future__ import annotations

import collections
import functools
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from grammar import AREAS
from known_differences import known_difference
from program_runs import Finding, check_program
from program_shrinking import shrink
from program_texts import standalone
from program_writer import Program, Writer

Check = Callable[[str], Finding]
Show = Callable[[str, Callable[[], str]], None]
"""Is given the sort of a difference, and a function that makes the program small."""


def program_of(seed: int) -> Program:
    """Areas take turns; the rest is chance."""
    area = list(AREAS.values())[seed % len(AREAS)]
    return Writer(random.Random(seed).randrange, area).write()


def seeds_of(area: str | None, first: int) -> Iterator[int]:
    """The seeds from `first` on, of programs of the area or of all."""
    if area is None:
        return itertools.count(first)
    offset = (list(AREAS).index(area) - first) % len(AREAS)
    return itertools.count(first + offset, len(AREAS))


@dataclass
class Summary:
    """What became of many programs."""

    programs: int = 0
    captured: int = 0
    broke: int = 0
    raised: int = 0
    refused: int = 0
    lines: int = 0
    areas: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    constructs: Counter[str] = field(default_factory=Counter)
    breaks: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    """Differences for a known reason."""
    sorts: dict[str, list[int]] = field(default_factory=lambda: collections.defaultdict(list))
    """What differs -> the seeds of the programs."""

    def add(self, program: Program, finding: Finding, seconds: float = 0.0) -> None:
        self.programs += 1
        self.captured += bool(finding.graphs) and not finding.breaks
        self.broke += bool(finding.breaks)
        self.raised += finding.raised
        self.refused += finding.refused
        self.lines += program.source.count("\n")
        self.areas[program.area] += 1
        self.seconds[program.area] += seconds
        self.constructs.update(program.constructs)
        self.breaks.update(finding.breaks)

    def merge(self, other: Summary) -> None:
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            elif isinstance(value, Counter):
                getattr(self, name).update(value)
        for sort, seeds in other.sorts.items():
            self.sorts[sort] += seeds

    def share(self, count: int) -> float:
        return count / max(self.programs, 1)

    def report(self) -> str:
        shares = {"captured whole": self.captured, "broke": self.broke, "raised": self.raised}
        shares["refused by fullgraph=True"] = self.refused
        return "\n".join([
            f"{self.programs} programs, {self.share(self.lines):.0f} lines each; "
            + ", ".join(f"{self.share(count):.0%} {name}" for name, count in shares.items()),
            f"{len(self.constructs)} kinds of statements and edits, never {sorted(self.never())}",
            "areas: " + ", ".join(
                f"{count} {name} ({self.seconds[name] / count:.2f} s)" for name, count in self.areas.items()
            ),
            "breaks: " + ", ".join(f"{count} {name}" for name, count in self.breaks.most_common()),
            *(f"known: {count} {reason}" for reason, count in self.known.most_common()),
            f"{sum(map(len, self.sorts.values()))} differ",
            *(f"    {sort}: {len(seeds)}, seeds {seeds[:8]}" for sort, seeds in self.sorts.items()),
        ])  # fmt: skip

    def never(self) -> set[str]:
        entries = {entry.name for name in self.areas for entry in AREAS[name].statements}
        return entries - self.constructs.keys()


def run_seeds(seeds: Iterable[int], check: Check = check_program, show: Show | None = None) -> Summary:
    """Runs the programs of the seeds; `show` is given what differs first of each sort, made small."""
    summary = Summary()
    for seed in seeds:
        program = program_of(seed)
        began = time.perf_counter()
        finding = check(program.source)
        summary.add(program, finding, time.perf_counter() - began)
        if finding.sort is None:
            continue
        if (reason := known_difference(program.source, finding)) is not None:
            summary.known[reason] += 1
            continue
        summary.sorts[finding.sort].append(seed)
        if show is not None and len(summary.sorts[finding.sort]) == 1:
            show(finding.sort, functools.partial(made_small, seed, program.source, finding, check))
    return summary


def made_small(seed: int, source: str, finding: Finding, check: Check = check_program) -> str:
    """The smallest program that was found which differs in the same way, and how."""
    small = shrink(source, functools.partial(is_like, finding, check))
    again = check(small).difference or f"{finding.difference}\n  (not every time)"
    return f"seed {seed}:\n{again}\n\n{standalone(small)}\n"


def is_like(finding: Finding, check: Check, source: str) -> bool:
    """Whether the program differs in the same way, and raises if the other did."""
    try:
        other = check(source)
    except Exception:  # it does not even compile
        return False
    return (other.sort, other.raised) == (finding.sort, finding.raised)
