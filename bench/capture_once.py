"""What it costs to start on many ranks: each captures, or one captures for all (`config.capture_once`).

    python -m bench.capture_once            prints the tables, and writes them into docs/distributed.md

On 2 and 4 real ranks (gloo): the first call of a model, with a backend that does nothing, until the last rank
is done. For 64 ranks that this machine does not have one process does what each of them would do, one after
the other, through a store; what is told is the processor time of all of them together.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import framelift
from framelift.dispatch.restarts import CaptureRuns
from framelift.distributed import ranks
from framelift.distributed.rank_channel import RankChannel

PAGE = Path(__file__).parents[1] / "docs" / "distributed.md"
BEGIN, END = "<!-- capture once: begin -->", "<!-- capture once: end -->"
LAYERS, WIDTH, ROUNDS = 12, 32, 5


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True) for _ in range(LAYERS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def captured(rank_zero_only: bool) -> tuple[float, float]:
    """Seconds by the clock, and of processor time, that the first call takes."""
    compiled = framelift.compile(Model(), backend="eager", fullgraph=True)
    x = torch.zeros(2, 8, WIDTH)
    if dist.is_initialized():
        dist.barrier()
    began, worked = time.perf_counter(), time.process_time()
    with framelift.config.patch(capture_once=rank_zero_only):
        compiled(x)
    return time.perf_counter() - began, time.process_time() - worked


# ---- real ranks


def on_rank(rank: int, size: int, port: int, results: Any) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=limit)
    captured(False)  # what the first capture of a process costs once
    found = {once: [captured(once) for _ in range(ROUNDS)] for once in (False, True)}
    dist.barrier()
    results.put((rank, found))
    dist.destroy_process_group()


def on_ranks(size: int) -> dict[bool, tuple[float, float]]:
    """Capturing by one or not -> median of (seconds until the last rank is ready, processor time of all)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ranks = [context.Process(target=on_rank, args=(n, size, port, results)) for n in range(size)]
    for process in ranks:
        process.start()
    told = [results.get(timeout=300)[1] for _ in ranks]
    for process in ranks:
        process.join()
    return {once: over_ranks([found[once] for found in told]) for once in (False, True)}


def over_ranks(found: list[list[tuple[float, float]]]) -> tuple[float, float]:
    rounds = list(zip(*found, strict=True))
    return (
        statistics.median(max(wall for wall, _ in ranks) for ranks in rounds),
        statistics.median(sum(cpu for _, cpu in ranks) for ranks in rounds),
    )


# ---- ranks that are not there


def simulated(size: int) -> tuple[float, float]:
    """Processor time of all ranks together: each for itself, and one for all."""
    alone = size * statistics.median(captured(False)[1] for _ in range(ROUNDS))
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    channel = RankChannel(dist.group.WORLD)
    channel.size = size
    model, x = Model(), torch.zeros(2, 8, WIDTH)
    together = 0.0
    for rank in range(size):
        channel.rank = rank
        channel.captures.clear()
        began = time.process_time()
        once(channel, model, x)
        together += time.process_time() - began
    dist.destroy_process_group()
    return alone, together


def once(channel: RankChannel, model: nn.Module, x: torch.Tensor) -> None:
    traces: list[int] = []
    original: Callable[..., Any] = CaptureRuns.capture
    replaced: list[tuple[Any, str, Any]] = [
        (ranks, "capture_channel", lambda: channel),
        (CaptureRuns, "capture", lambda *args: traces.append(1) or original(*args)),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        framelift.compile(model, backend="eager", fullgraph=True)(x)
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
    assert len(traces) == (channel.rank == 0), "a rank has captured that should not have"


# ---- the page


def tables() -> str:
    torch.set_num_threads(1)
    lines = [
        f"{LAYERS} layers of `nn.TransformerEncoderLayer`, `eager` backend, median of {ROUNDS}:",
        "",
        "| ranks | | until all are ready | processor time of all ranks |",
        "|---|---|---:|---:|",
    ]
    for size in (2, 4):
        for by_one, (wall, cpu) in on_ranks(size).items():
            lines.append(f"| {size} | {NAMES[by_one]} | {1e3 * wall:,.0f} ms | {1e3 * cpu:,.0f} ms |")
    captured(False)
    alone, together = simulated(64)
    lines.append(f"| 64, simulated | {NAMES[False]} | | {1e3 * alone:,.0f} ms |")
    lines.append(f"| 64, simulated | {NAMES[True]} | | {1e3 * together:,.0f} ms |")
    cores = os.cpu_count()
    lines += ["", f"(Python {sys.version.split()[0]}, torch {torch.__version__}, {cores} cores.)"]
    return "\n".join(lines)


NAMES = {False: "each captures", True: "one captures"}


def main() -> None:
    made = tables()
    print(made)
    page = PAGE.read_text() if PAGE.exists() else ""
    if BEGIN in page:
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
