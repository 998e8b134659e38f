"""A rank that is killed, late, or somewhere else: an error with the rank and the collective, and no hang."""

from __future__ import annotations

import os
import signal
import time
import traceback
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import framelift
from check import entries
from framelift.exc import RankFailed, RanksDisagree
from process_groups import ranks, run_on_ranks, start

LIMIT = 4.0
"""Seconds after which collectives give up in these tests."""


def summed(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def outcome(fn: Any, *args: Any) -> tuple[str, float]:
    """What is said of an error, and after how long."""
    began = time.monotonic()
    try:
        fn(*args)
    except Exception:
        return traceback.format_exc(), time.monotonic() - began
    return "", time.monotonic() - began


def steps_until_a_rank_is_killed(backend: str) -> dict[str, Any]:
    start(timeout=LIMIT)
    compiled = framelift.compile(summed, backend=backend)
    weight = nn.Parameter(torch.ones(3))
    (compiled(weight) * torch.arange(3.0)).sum().backward()
    before = weight.grad.clone() if weight.grad is not None else None
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    said, seconds = outcome(compiled, weight)
    kept = before is not None and weight.grad is not None and torch.equal(weight.grad, before)
    plain = framelift.compile(lambda x: x + 1, backend=backend)(torch.ones(2)).tolist()
    return {
        "said": said,
        "seconds": seconds,
        "kept": kept and bool((weight == 1).all()),
        "entries": entries(compiled),
        "plain": plain,
    }


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_rank_killed_in_the_middle_of_a_step(backend: str) -> None:
    first, second = run_on_ranks(steps_until_a_rank_is_killed, 2, limit=60, group=False, backend=backend)
    assert (first.kind, second.kind) == ("ok", "died")
    found = first.result
    assert "rank 0 of 2 was in the graph of summed, with these collectives" in found["said"], found["said"]
    assert "all_reduce in group" in found["said"] and "in summed" in found["said"]
    assert found["seconds"] < LIMIT + 5
    assert found["kept"] and found["entries"] == 1 and found["plain"] == [2.0, 2.0]


def ddp_steps_until_a_rank_is_killed() -> tuple[str, float]:
    start(timeout=LIMIT)
    model = framelift.compile(DDP(nn.Linear(4, 4)), backend="aot_eager")
    for _ in range(2):
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
    loss = model(torch.ones(2, 4)).sum()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(loss.backward)


def test_a_rank_killed_between_forward_and_backward_of_a_ddp() -> None:
    first, second = run_on_ranks(ddp_steps_until_a_rank_is_killed, 2, limit=60, group=False)
    assert (first.kind, second.kind) == ("ok", "died"), first
    said, seconds = first.result
    assert "RuntimeError" in said and seconds < LIMIT + 5


def a_rank_is_late(seconds: float) -> tuple[str, float]:
    start(timeout=LIMIT)
    compiled = framelift.compile(summed, backend="eager")
    compiled(torch.ones(3))
    if dist.get_rank() == 1:
        time.sleep(seconds)
    said, waited = outcome(compiled, torch.ones(3))
    if not said:
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 5.0))
    return said, waited


def test_a_rank_that_is_late() -> None:
    for one in run_on_ranks(a_rank_is_late, 2, limit=60, group=False, seconds=1.5):
        assert one.kind == "ok" and one.result[0] == "", one
    first, second = run_on_ranks(a_rank_is_late, 2, limit=60, group=False, seconds=LIMIT + 2)
    assert first.kind == second.kind == "ok", (first, second)
    said, waited = first.result
    assert "rank 0 of 2 was in the graph of summed" in said and waited < LIMIT + 5, said
    assert second.result[0], "the other had given up"


@ranks(2)
def test_shapes_that_do_not_match_are_named_before_anything_is_sent() -> None:
    x = torch.ones(3 + dist.get_rank())
    with framelift.config.patch(rank_agreement="check"):
        compiled = framelift.compile(summed, backend="eager")
        with pytest.raises(RanksDisagree) as found:
            compiled(x)
        assert "all_reduce of torch.float32 (3)" in str(found.value) and "(4)" in str(found.value)
        assert "on rank 0" in str(found.value) and "on rank 1" in str(found.value)
        assert "line" in str(found.value) and entries(compiled) == 0
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 5.0))


@ranks(4)
def test_groups_may_differ_from_each_other() -> None:
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    group = halves[dist.get_rank() // 2]

    def within(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, group=group)
        return y

    with framelift.config.patch(rank_agreement="check"):
        compiled = framelift.compile(within, backend="eager")
        x = torch.ones(3 + dist.get_rank() // 2)
        assert torch.equal(compiled(x), x * 4)
        with pytest.raises(RanksDisagree, match="on rank 2, .* on rank 3"):
            framelift.reset()
            framelift.compile(within, backend="eager")(torch.ones(max(3, dist.get_rank() + 1)))


@ranks(2)
def test_a_rank_that_is_late_to_compile() -> None:
    with framelift.config.patch(rank_agreement="check", rank_agreement_timeout=1):
        compiled = framelift.compile(summed, backend="eager")
        time.sleep(2.5 * dist.get_rank())
        began = time.monotonic()
        with pytest.raises(RankFailed, match="rank 0 waited 1 s for rank 1"):
            compiled(torch.ones(3))
        assert time.monotonic() - began < 10


@ranks(2)
def test_a_group_that_is_closed() -> None:
    pair = dist.new_group([0, 1])

    def within(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y, group=pair)
        return y

    compiled = framelift.compile(within, backend="eager")
    x = torch.ones(3)
    assert torch.equal(compiled(x), x * 4)
    dist.destroy_process_group(pair)
    said, _ = outcome(compiled, x)
    assert "process group" in said and f"rank {dist.get_rank()} of 2 was in the graph of" in said, said
    assert "all_reduce in group" in said
    pair = dist.new_group([0, 1])  # and another one is another one
    assert torch.equal(compiled(x), x * 4)
    everyone = framelift.compile(summed, backend="eager")
    assert torch.equal(everyone(x), x * 5)
    dist.destroy_process_group()
    lines = [outcome(fn, x)[0].strip().rpartition("\n")[2] for fn in (summed, everyone)]
    assert lines[0] == lines[1] != "", lines
