"""Many random programs, in processes of their own: one that crashes or hangs is found, the others go on."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import logging
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from program_batches import Summary, program_of, run_seeds
from program_runs import Finding, check_program

CHUNK = 20
"""How many programs a worker is given at a time."""
WORN = 2000
"""After how many programs a worker makes way for another."""
LONGEST = 120
"""After how many seconds of the processor's a program hangs."""
STUCK = 1200
"""The same of a program that waits for something, or for a processor that others use."""


def work(pipe: Connection) -> None:
    """A worker. Seeds come in with the sorts of differences that were shown; each seed goes out before its
    program is run, then what is shown of it, and a summary of it."""
    faulthandler.enable()
    faulthandler.register(signal.SIGVTALRM, chain=True)  # which then ends the process
    logging.getLogger("torch").setLevel(logging.CRITICAL)

    def watched(source: str) -> Finding:
        faulthandler.dump_traceback_later(STUCK, exit=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            return check_program(source)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            faulthandler.cancel_dump_traceback_later()

    def show(sort: str, small: Callable[[], str]) -> None:
        if sort not in shown:
            pipe.send(("shown", sort, small()))
            shown.add(sort)

    while (given := pipe.recv()) is not None:
        seeds, shown = given
        for seed in seeds:
            pipe.send(("begun", seed))
            pipe.send(("ran", run_seeds([seed], watched, show)))


class Worker:
    """One process, and what it has still to do."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.left: list[int] = []
        self.begun = -1
        self.ran = 0

    def give(self, seeds: list[int], shown: set[str]) -> None:
        self.left = list(seeds)
        self.ran += len(seeds)
        self.pipe.send((seeds, shown))

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it may have ended by itself
            self.pipe.send(None)
        self.process.join()
        self.pipe.close()


class Run:
    """Workers with chunks of seeds, until there are no more seeds or no more time."""

    def __init__(self, seeds: Iterator[int], until: float, show: Callable[[str], Any]) -> None:
        self.seeds = seeds
        self.until = until
        self.show = show
        self.summary = Summary()
        self.shown: set[str] = set()
        self.again: list[int] = []
        """Seeds that a worker that crashed had not come to."""
        self.last = -1

    def chunk(self) -> list[int]:
        taken = self.again[:CHUNK]
        del self.again[:CHUNK]
        if time.monotonic() < self.until:
            taken = taken or list(itertools.islice(self.seeds, CHUNK))
        self.last = max([self.last, *taken])
        return taken

    def run(self, jobs: int) -> Summary:
        workers = {}
        for _ in range(jobs):
            if chunk := self.chunk():
                worker = Worker()
                worker.give(chunk, self.shown)
                workers[worker.pipe] = worker
        while workers:
            for pipe in wait(list(workers)):
                worker = workers.pop(pipe)
                if (successor := self.listen(worker)) is not None:
                    workers[successor.pipe] = successor
        return self.summary

    def listen(self, worker: Worker) -> Worker | None:
        """Hears what the worker says; gives who goes on."""
        try:
            what, *rest = worker.pipe.recv()
        except (EOFError, OSError):
            return self.crashed(worker)
        if what == "begun":
            worker.left.remove(rest[0])
            worker.begun = rest[0]
        elif what == "shown":
            self.shown.add(rest[0])
            self.show(rest[1])
        else:
            self.summary.merge(rest[0])
        return worker if worker.left or what != "ran" else self.next(worker)

    def next(self, worker: Worker) -> Worker | None:
        chunk = self.chunk()
        if worker.ran >= WORN or not chunk:
            worker.end()
            if not chunk:
                return None
            worker = Worker()
        worker.give(chunk, self.shown)
        return worker

    def crashed(self, worker: Worker) -> Worker | None:
        """Others come to what it had not run of its chunk."""
        worker.end()
        seed, code = worker.begun, worker.process.exitcode
        sort = f"the process ended with {code}, or hung"
        self.summary.sorts[sort].append(seed)
        self.show(f"seed {seed}: {sort}\n{program_of(seed).source}")
        self.again += worker.left
        return self.next(Worker())


def run_many(
    seeds: Iterator[int], count: int | None, seconds: float | None, jobs: int, show: Callable[[str], Any]
) -> Summary:
    began = time.monotonic()
    until = began + seconds if seconds is not None else float("inf")
    run = Run(itertools.islice(seeds, count), until, show)
    summary = run.run(jobs)
    took = time.monotonic() - began
    show(
        f"{took:.0f} s, {took * jobs / max(summary.programs, 1):.2f} s each; to go on: --seed {run.last + 1}"
    )
    return summary
