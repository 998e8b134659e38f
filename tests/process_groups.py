"""Tests that run on every rank of a real process group.

    @ranks(2, 4)
    def test_sums() -> None:                         # runs on each of 2, then on each of 4 ranks (gloo)
        same(lambda x: summed(x), torch.ones(3) * dist.get_rank())

A function decorated with `ranks` is a test like any other for pytest (with parameters that can be pickled),
whose body runs on every rank with the default group made. It fails when it fails on one rank, and says what
happened on each. Ranks are processes that live as long as pytest does and take one test after the other, each
with a group of its own; they are forked off a server that has imported torch, so that a test costs what it
does and no start-up. After a test that failed, hung or lost a rank new ones are made. Nothing waits for more
than `LIMIT` seconds.

`run_on_ranks` gives what happened on each rank instead, for tests in which ranks are meant to fail.
`fake_world` is torch's fake group: this process is one rank of many, and nothing is sent.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime
import faulthandler
import functools
import importlib
import inspect
import logging
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import DeviceMesh

import framelift
from check import COPIES, Comparison, Outcome, compare, copied, entries, run, why_not

LIMIT = 90.0  # seconds that a test may take on all ranks
GRACE = 10.0  # seconds that the others have once a rank has failed: they may wait for it
COLLECTIVE_LIMIT = 30.0  # seconds after which gloo itself gives up


COPIES |= dict.fromkeys((dist.ProcessGroup, DeviceMesh), lambda value, memo: value)
warnings.filterwarnings("ignore", message=".*is deprecated", category=FutureWarning)
warnings.filterwarnings("ignore", message="c10d::", category=UserWarning)


@dataclasses.dataclass
class Happened:
    """What one rank did: `kind` is ok, raised, died or hung."""

    rank: int
    kind: str
    text: str = ""
    result: Any = None

    def __str__(self) -> str:
        return f"---- rank {self.rank}: {self.kind}\n{self.text}".rstrip()


# ---- tests


def ranks(*sizes: int, limit: float = LIMIT) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test that runs on all ranks of worlds of these sizes."""

    def decorated(body: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(body)
        def test(world_size: int, **given: Any) -> None:
            failed = [one for one in run_on_ranks(body, world_size, limit=limit, **given) if one.kind != "ok"]
            if failed:
                pytest.fail("\n".join(map(str, failed)), pytrace=False)

        wanted = inspect.signature(body)
        size = inspect.Parameter("world_size", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = wanted.replace(parameters=[size, *wanted.parameters.values()])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("world_size", sizes)(test)

    return decorated


def run_on_ranks(
    body: Callable[..., Any], world_size: int, limit: float = LIMIT, group: bool = True, **given: Any
) -> list[Happened]:
    """Runs a function of a module's top level on each rank.

    What it returns must be picklable, and hold no tensors. With `group` false it makes its group by `start`.
    """
    world = WORLDS.get(world_size) or World(world_size)
    WORLDS[world_size] = world
    task = Task(inspect.getfile(body), body.__module__, body.__qualname__, given, group)
    outcomes = world.run(task, limit)
    if any(one.kind != "ok" for one in outcomes):
        del WORLDS[world_size]  # what its ranks have sent to each other is anybody's guess
        world.close()
    return outcomes


def same(
    fn: Callable[..., Any],
    *args: Any,
    backends: tuple[Any, ...] = ("eager", "aot_eager"),
    calls: int = 2,
    fullgraph: bool = True,
    again: bool = True,
) -> Any:
    """On each rank: `fn` compiled does what it does plainly, to results, arguments and the gradients of both.

    The last compiled function is given; the calls after the first must hit its entry, with `again`.
    """
    for backend in backends:
        compiled = framelift.compile(fn, backend=backend, fullgraph=fullgraph, isolate_recompiles=True)
        plain, copies = copied((args, {})), copied((args, {}))
        for _ in range(calls):
            expected, found = run(fn, *plain), run(compiled, *copies)
            if expected.error is not None:
                raise expected.error
            for outcome in (expected, found):
                run_backward(outcome)
            compare(expected, found)
            Comparison().same(gradients(plain), gradients(copies), "gradients")
        if fullgraph:
            assert why_not(compiled) is None, why_not(compiled)
            assert entries(compiled) > 0
            assert not again or entries(compiled) == 1, f"{entries(compiled)} entries"
    return compiled


def run_backward(outcome: Outcome) -> None:
    leaves = torch.utils._pytree.tree_leaves(outcome.result)
    total = [one.sum() for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]
    if total:
        torch.stack(
            [one.full_tensor() if hasattr(one, "full_tensor") else one for one in total]
        ).sum().backward()


def gradients(arguments: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(arguments)
    return [one.grad for one in leaves if isinstance(one, torch.Tensor) and one.is_leaf]


@contextlib.contextmanager
def fake_world(size: int, rank: int = 0) -> Iterator[None]:
    """This process is `rank` of a group of `size` that sends nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


# ---- the processes


@dataclasses.dataclass
class Task:
    """A function for all ranks, by name, since functions made by decorators can't be pickled."""

    path: str
    module: str
    name: str
    given: dict[str, Any]
    group: bool
    store: str = ""

    def function(self) -> Callable[..., Any]:
        folder = os.path.dirname(self.path)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        found: Any = importlib.import_module(self.module)
        for name in self.name.split("."):
            found = getattr(found, name)
        return inspect.unwrap(found)


class World:
    """The processes of one group, each at the end of a pipe."""

    def __init__(self, size: int) -> None:
        context = torch.multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["preloaded"])
        self.size = size
        self.folder = tempfile.TemporaryDirectory(prefix="ranks")
        self.tasks = 0
        self.pipes, self.processes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve,
                args=(theirs, rank, size, self.stacks_of(rank)),
                name=f"rank {rank}",
                daemon=True,
            )
            with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1"):
                process.start()  # the first starts the server too, which has nothing else to find modules by
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def stacks_of(self, rank: int) -> str:
        return os.path.join(self.folder.name, f"stacks{rank}")

    def run(self, task: Task, limit: float) -> list[Happened]:
        self.tasks += 1
        task.store = os.path.join(self.folder.name, f"store{self.tasks}")
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.send(task)
        until = time.monotonic() + limit
        outcomes: dict[int, Happened] = {}
        while len(outcomes) < self.size:
            waiting = {self.pipes[rank]: rank for rank in range(self.size) if rank not in outcomes}
            ready = multiprocessing.connection.wait(waiting, max(0.0, until - time.monotonic()))
            if not ready:
                break
            for pipe in ready:
                rank = waiting[pipe]  # type: ignore[index]
                outcomes[rank] = self.received(rank)
                if outcomes[rank].kind != "ok":
                    until = min(until, time.monotonic() + GRACE)
        return [outcomes.get(rank) or self.hung(rank) for rank in range(self.size)]

    def received(self, rank: int) -> Happened:
        try:
            return self.pipes[rank].recv()
        except (EOFError, OSError):
            self.processes[rank].join(GRACE)
            return Happened(rank, "died", f"exit code {self.processes[rank].exitcode}")

    def hung(self, rank: int) -> Happened:
        """Where it is, which it writes down when it is asked by a signal."""
        process = self.processes[rank]
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(0.3)
        with contextlib.suppress(OSError), open(self.stacks_of(rank)) as written:
            return Happened(rank, "hung", written.read())
        return Happened(rank, "hung")

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()  # which a rank that waits for a task takes for the end
        for process in self.processes:
            process.join(0.5)
            if process.is_alive():
                process.kill()
                process.join()
        self.folder.cleanup()


WORLDS: dict[int, World] = {}


@atexit.register
def close_worlds() -> None:
    for world in WORLDS.values():
        world.close()
    WORLDS.clear()


# ---- what a rank does


def serve(pipe: Any, rank: int, size: int, stacks: str) -> None:
    """Takes tasks until the pipe is closed."""
    torch.set_num_threads(1)
    with open(stacks, "w") as file:
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        while True:
            try:
                task = pipe.recv()
            except EOFError:
                return
            pipe.send(done(task, rank, size))


def done(task: Task, rank: int, size: int) -> Happened:
    faults: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: faults.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    log = logging.getLogger("framelift.trace.faults")
    log.addHandler(handler)
    torch.manual_seed(rank)
    try:
        os.environ.update(
            RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), FRAMELIFT_TEST_STORE=task.store
        )
        if task.group:
            start()
            dist.barrier()  # a rank that is done leaves the group, which others may still be joining
        result = task.function()(**task.given)
        assert not faults, "\n".join(faults)
        return Happened(rank, "ok", result=result)
    except BaseException:
        return Happened(rank, "raised", traceback.format_exc())
    finally:
        log.removeHandler(handler)
        stop()


def start(timeout: float = COLLECTIVE_LIMIT) -> None:
    """Makes the default group of this rank's test."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.environ["FRAMELIFT_TEST_STORE"], size)
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)


def stop() -> None:
    """Leaves nothing of a test to the next one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        framelift.reset()
        if dist.is_initialized():
            dist.destroy_process_group()
