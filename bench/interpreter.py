"""What the interpreter takes for an instruction: plain programs, interpreted without tensors or guards."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from rich.console import Console

from bench.measure import Target, seconds
from bench.tables import show_table

LIMIT_US = 4.0
ROUNDS = 200
AGAIN = 7


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def moved(self, by: int) -> Point:
        return Point(self.x + by, self.y - by)


def arithmetic() -> int:
    total = 0
    for n in range(ROUNDS):
        total = total + n * 3 if n % 2 else total - n // 2
    return total


def objects() -> int:
    point = Point(0, 0)
    for n in range(ROUNDS):
        point = point.moved(n)
    return point.x


def containers() -> int:
    found: dict[str, list[int]] = {}
    for n in range(ROUNDS):
        found.setdefault(f"key{n % 7}", []).append(n)
    return sum(len(values) for values in found.values() if values[0] < 5)


def calls() -> int:
    def add(a: int, b: int = 1, *more: int, scale: int = 2) -> int:
        return (a + b + len(more)) * scale

    total = 0
    for n in range(ROUNDS):
        total += add(n) + add(n, 2, 3, scale=1)
    return total


def generators() -> int:
    def numbers() -> Iterator[int]:
        for n in range(ROUNDS):
            yield n + 1

    return sum(n for n in numbers() if n % 3)


def exceptions() -> int:
    caught = 0
    for n in range(ROUNDS):
        try:
            if n % 4 == 0:
                raise ValueError(n)
        except ValueError as error:
            caught += error.args[0]
    return caught


SUBJECTS: list[Callable[[], int]] = [arithmetic, objects, containers, calls, generators, exceptions]


def instructions(subject: Callable[[], int]) -> int:
    """How many CPython executes for it."""
    counted = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        subject()
    finally:
        sys.settrace(before)
    return counted


def measure(repetitions: int, progress: Callable[[str], None]) -> dict[str, Any]:
    from framelift.interpreter.plain import interpret

    found = {}
    for subject in SUBJECTS:
        progress(subject.__name__)
        assert interpret(subject) == subject()
        count = instructions(subject)
        times = [seconds(lambda subject=subject: interpret(subject)) for _ in range(AGAIN * repetitions)]  # type: ignore[misc]
        found[subject.__name__] = {"instructions": count, "seconds": statistics.median(times)}
    return {"interpreter": found}


def show(console: Console, measured: dict[str, Any]) -> None:
    rows = [
        [name, str(found["instructions"]), f"{microseconds(found):.2f}"]
        for name, found in measured["interpreter"].items()
    ]
    rows.append(["mean", "", f"{mean(measured):.2f}"])
    show_table(console, "Interpreter", ["program", "instructions", "us each"], rows, footer=1)


def microseconds(found: dict[str, Any]) -> float:
    return found["seconds"] / found["instructions"] * 1e6


def mean(measured: dict[str, Any]) -> float:
    return statistics.mean(map(microseconds, measured["interpreter"].values()))


def targets(measured: dict[str, Any]) -> list[Target]:
    return [Target("an instruction, interpreted", LIMIT_US, mean(measured), at_most=True, unit=" us")]
