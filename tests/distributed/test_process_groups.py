"""The ranks that tests run on: what happens on one rank is told, and nothing hangs."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist

import framelift
from process_groups import fake_world, ranks, run_on_ranks, same


@ranks(2, 4)
def test_all_ranks_run_in_one_group() -> None:
    total = torch.ones(())
    dist.all_reduce(total)
    assert total.item() == dist.get_world_size()


@ranks(2)
@pytest.mark.parametrize("factor", [2, 3])
def test_parameters_reach_the_ranks(factor: int) -> None:
    same(lambda x: x * factor, torch.randn(3, requires_grad=True))


def one_rank_fails() -> int:
    if dist.get_rank() == 1:
        raise ValueError("as planned")
    return dist.get_rank()


def one_rank_dies() -> None:
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def one_rank_hangs() -> None:
    if dist.get_rank() == 1:
        time.sleep(100)


def a_fault_of_framelift() -> None:
    import logging

    logging.getLogger("framelift.trace.faults").error("a fault")


def test_what_each_rank_did_is_told() -> None:
    failed = run_on_ranks(one_rank_fails, 2)
    assert [one.kind for one in failed] == ["ok", "raised"] and failed[0].result == 0
    assert "as planned" in failed[1].text
    died = run_on_ranks(one_rank_dies, 2)
    assert [one.kind for one in died] == ["ok", "died"] and "-9" in died[1].text
    assert run_on_ranks(dist.get_rank, 2)[0].kind == "ok"  # so that starting processes does not count
    hung = run_on_ranks(one_rank_hangs, 2, limit=10)
    assert [one.kind for one in hung] == ["ok", "hung"] and "one_rank_hangs" in hung[1].text
    assert "a fault" in run_on_ranks(a_fault_of_framelift, 2)[0].text


def test_a_fake_world_has_as_many_ranks_as_one_likes() -> None:
    with fake_world(64, rank=3):
        assert (dist.get_rank(), dist.get_world_size()) == (3, 64)
        compiled = framelift.compile(lambda x: x + 1, backend="eager")
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert not dist.is_initialized()


GROUP_ENDS = """
import pathlib, sys, torch, torch.distributed as dist, framelift
dist.init_process_group("gloo", "file://" + sys.argv[1], rank=0, world_size=1)
framelift.compile(lambda x: x + dist.get_rank(), backend="eager")(torch.ones(2))
dist.destroy_process_group()
print(*((task / "comm").read_text() for task in pathlib.Path("/proc/self/task").iterdir()))
"""


def test_a_group_ends_when_it_is_destroyed(tmp_path: pathlib.Path) -> None:
    """Threads of one that went on would abort the process at exit, now and then."""
    command = [sys.executable, "-c", GROUP_ENDS, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout and "gloo" not in done.stdout, done.stdout
