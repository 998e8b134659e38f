"""Shared by all measurements: the systems compared, fresh processes, spreads and ratios.

Every sample is taken in a process of its own, so that neither system profits from what the other left in
torch's caches; systems take turns within each repetition, in alternating order, so that a slow minute of
the machine hits both. Processes are forked from a server that has imported torch and transformers and
nothing else: imports are not what is measured.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

PRELOAD = ["torch", "bench.models", "transformers.models.bert.modeling_bert"]
TIMEOUT_S = 900
NO_TIME = "no time was left for it"

Backend = Callable[[torch.fx.GraphModule, list[torch.Tensor]], Callable[..., Any]]


# The systems compared


class Framelift:
    name = "framelift"

    def prepare(self) -> None:
        import framelift

        self.module = framelift

    def compile(self, fn: Callable[..., Any], backend: Backend, **options: Any) -> Callable[..., Any]:
        return self.module.compile(fn, backend=backend, fullgraph=True, **options)

    def reset(self) -> None:
        self.module.reset()


class TorchCompile:
    name = "torch.compile"

    def prepare(self) -> None:
        pass

    def compile(self, fn: Callable[..., Any], backend: Backend, **options: Any) -> Callable[..., Any]:
        return torch.compile(fn, backend=backend, fullgraph=True, **options)

    def reset(self) -> None:
        torch._dynamo.reset()


class TorchCompileUntimed(TorchCompile):
    """torch times its new guards once per compiled frame, for its log; this leaves that out."""

    name = "torch.compile untimed"

    def prepare(self) -> None:
        import torch._dynamo.guards

        # Fails where another torch has no such call: then there is nothing to leave out.
        if hasattr(torch._dynamo.guards, "profile_guard_manager"):
            torch._dynamo.guards.profile_guard_manager = lambda *args: 0.0


System = Framelift | TorchCompile
SYSTEMS: dict[str, type[Framelift] | type[TorchCompile]] = {
    system.name: system for system in (Framelift, TorchCompile, TorchCompileUntimed)
}
REFERENCES = (TorchCompile.name, TorchCompileUntimed.name)


def ready_system(name: str) -> System:
    """The system, imported, and warm from capturing something unrelated."""
    system = SYSTEMS[name]()
    system.prepare()
    tiny = system.compile(lambda x: x * 2, forward_backend)
    tiny(torch.ones(3))
    gc.collect()
    return system


def forward_backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    return gm.forward


# Capture and calls are the work of one thread. Its processor time is the number to look at on a machine that
# is busy with other things; elsewhere both clocks agree.
CLOCK_VARIABLE = "FRAMELIFT_BENCH_CLOCK"
clock = time.thread_time if os.environ.get(CLOCK_VARIABLE) == "cpu" else time.perf_counter


def require_one_graph(graphs: int) -> None:
    """A run that captured nothing is quick and means nothing: it must not count."""
    if graphs != 1:
        raise Failed(f"{graphs} graphs were captured instead of 1")


def seconds(fn: Callable[[], Any]) -> float:
    start = clock()
    fn()
    return clock() - start


# Fresh processes


class Failed(Exception):
    """A measurement that did not come back; the message is the first line of what went wrong."""


class Allowed:
    """Until when samples may be taken. One that has been begun by then ends then too."""

    until = math.inf


def time_left() -> float:
    return Allowed.until - time.monotonic()


def in_fresh_process(job: Callable[..., Any], *args: Any) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, job, args))
    process.start()
    sender.close()
    try:
        timeout = max(0.0, min(TIMEOUT_S, time_left()))
        if not receiver.poll(timeout):
            raise Failed(f"no result within {timeout:.0f} s")
        kind, value = receiver.recv()
    except EOFError:
        process.join()
        raise Failed(f"the process ended with status {process.exitcode}") from None
    finally:
        if process.is_alive():
            process.join(5)
        if process.is_alive():
            process.kill()
        receiver.close()
    if kind == "error":
        raise Failed(value.strip().splitlines()[0][:200])
    return value


def _child(sender: Any, job: Callable[..., Any], args: tuple[Any, ...]) -> None:
    # One thread: the model's own arithmetic is not what is measured, and waiting threads are noise.
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            sender.send(("result", job(*args)))
    except Failed as failure:
        sender.send(("error", str(failure)))
    except BaseException as error:
        sender.send(("error", f"{type(error).__name__}: {error}"))
    finally:
        sender.close()


def take_turns(
    job: Callable[[str, str], Any], subjects: list[str], systems: list[str], repetitions: int, say: Callable
) -> dict[str, dict[str, list[Any]]]:
    """Results as subject -> system -> one sample per repetition; a failure is a sample {"failed": why}. When
    time is up, the repetition that it is in counts only if it is the first one."""
    results: dict[str, dict[str, list[Any]]] = {s: {name: [] for name in systems} for s in subjects}
    for repetition in range(repetitions):
        for subject in subjects:
            for name in systems if repetition % 2 == 0 else reversed(systems):
                say(f"{subject}, {name}, repetition {repetition + 1} of {repetitions}")
                try:
                    sample = in_fresh_process(job, name, subject) if time_left() > 0 else {"failed": NO_TIME}
                except Failed as failure:
                    sample = {"failed": str(failure)}
                if repetition and time_left() <= 0:
                    return {s: {n: runs[:repetition] for n, runs in by.items()} for s, by in results.items()}
                results[subject][name].append(sample)
    return results


# Spreads and ratios


@dataclass(frozen=True)
class Spread:
    """Values of repetitions: summed up by their median."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def pick(samples: list[Any], read: Callable[[Any], float]) -> Spread | None:
    """The spread of one number over the samples, or None if any of them failed."""
    if any("failed" in sample for sample in samples):
        return None
    return Spread(tuple(read(sample) for sample in samples))


def fastest(spreads: Iterator[Spread | None]) -> Spread | None:
    """Of several ways to run the reference, the one with the least median."""
    return min((spread for spread in spreads if spread), key=lambda spread: spread.median, default=None)


def failures(results: dict[str, dict[str, list[Any]]]) -> list[str]:
    """Why there are no numbers where some are missing."""
    found: dict[str, None] = {}
    left_out = 0
    for subject, samples in results.items():
        for name, runs in samples.items():
            whys = [run["failed"] for run in runs if "failed" in run]
            left_out += whys.count(NO_TIME)
            found |= {f"{subject}, {name}: {why}": None for why in whys if why != NO_TIME}
    return [*found, *([f"{left_out} samples: {NO_TIME}"] if left_out else [])]


def ratio(above: Spread | None, below: Spread | None) -> Spread | None:
    """Repetition by repetition, since what ran at the same time is what compares."""
    if above is None or below is None:
        return None
    return Spread(tuple(a / b for a, b in zip(above.values, below.values, strict=True)))


def geometric_mean(ratios: list[Spread | None]) -> Spread | None:
    """Of what was measured: `of_measured` says how much that is."""
    found = [r.values for r in ratios if r is not None]
    if not found:
        return None
    columns = zip(*found, strict=True)
    return Spread(tuple(math.exp(statistics.fmean(map(math.log, column))) for column in columns))


def of_measured(label: str, ratios: list[Spread | None]) -> str:
    """A label for what is made of ratios, with how many of them there are where some are missing."""
    measured = sum(r is not None for r in ratios)
    return label if measured in (0, len(ratios)) else f"{label} ({measured} of {len(ratios)})"


@dataclass(frozen=True)
class Target:
    """One line of the summary. `at_most` turns the comparison round."""

    name: str
    limit: float
    measured: float | None
    at_most: bool = False
    unit: str = "x"

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        met = self.measured <= self.limit if self.at_most else self.measured >= self.limit
        return "met" if met else f"missed by {abs(self.measured - self.limit) / self.limit:.0%}"
