"""Ranks that would decide differently agree, or fail with the reason: none waits for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

import framelift
from check import entries, why_not
from framelift.exc import BackendCompilerFailed, FrameliftError, RankFailed, RanksDisagree
from framelift.testing import EagerAndRecordGraphs
from process_groups import ranks


def rank() -> int:
    return dist.get_rank()


def raised(kind: type[FrameliftError], fn: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(kind) as found:
        fn(*args)
    return str(found.value)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * x.size(0)


def branching(x: torch.Tensor, sine: bool) -> torch.Tensor:
    x = x + 1
    return x.sin() if sine else x.cos()


def printing(x: torch.Tensor, aloud: bool) -> torch.Tensor:
    x = x + 1
    if aloud:
        print(end="")
    return x * 2


# ---- check


@ranks(2, 4)
def test_ranks_that_do_the_same_are_left_alone() -> None:
    with framelift.config.patch(rank_agreement="check"):
        compiled = framelift.compile(scaled, backend="eager", fullgraph=True)
        for size in (3, 4, 5):
            x = torch.randn(size, 2)
            assert torch.equal(compiled(x), scaled(x))
        assert entries(compiled) == 2 and why_not(compiled) is None  # the first size, then any
        uneven = framelift.compile(scaled, backend="eager", fullgraph=True)
        x = torch.randn(3 + rank(), 2)  # each has a size of its own, which is no different decision
        assert torch.equal(uneven(x), scaled(x))


@ranks(2)
def test_differences_are_named() -> None:
    with framelift.config.patch(rank_agreement="check"):
        told = raised(
            RanksDisagree, framelift.compile(branching, backend="eager"), torch.ones(3), rank() == 0
        )
        assert "branching (" in told and "operation 2: sin on rank 0, cos on rank 1" in told, told

        told = raised(RanksDisagree, framelift.compile(printing, backend="eager"), torch.ones(3), rank() == 1)
        assert "where it breaks: nowhere on rank 0, run-time effect: print" in told and "on rank 1" in told

        dynamic = framelift.compile(scaled, backend="eager", dynamic=rank() == 1)
        told = raised(RanksDisagree, dynamic, torch.ones(3, 2))
        assert "varies, number 1: nothing on rank 0, x.shape[0] on rank 1" in told, told

        other = framelift.compile(scaled if rank() else branching, backend="eager")
        told = raised(RanksDisagree, other, *((torch.ones(3),) if rank() else (torch.ones(3), True)))
        assert "rank 0 is capturing branching" in told and "rank 1 is capturing scaled" in told


@ranks(2)
def test_a_rank_that_alone_compiles_again_does_not_wait_for_ever() -> None:
    with framelift.config.patch(rank_agreement="check", rank_agreement_timeout=1):
        compiled = framelift.compile(scaled, backend="eager")
        compiled(torch.ones(3))
        if rank() == 0:
            assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
            time.sleep(1.5)
            told = raised(RankFailed, compiled, torch.ones(4))  # the other has given up
        else:
            began = time.monotonic()
            told = raised(RankFailed, compiled, torch.ones(4))
            assert time.monotonic() - began < 10
        assert "capturing scaled" in told and "rank 1 waited 1 s for rank 0" in told, told
        assert "the last that rank 0 said: having compiled scaled" in told, told
        x = torch.ones(5)  # and nothing is left of it
        assert torch.equal(compiled(x), x * 5)


@ranks(4)
def test_a_failure_on_one_rank_is_raised_on_all_at_once() -> None:
    def failing(graph: Any, inputs: Any) -> Any:
        if rank() == 2:
            raise ValueError("no such instruction")
        return graph.forward

    with framelift.config.patch(rank_agreement="check", rank_agreement_timeout=60):
        compiled = framelift.compile(scaled, backend=failing)
        began = time.monotonic()
        told = raised(BackendCompilerFailed if rank() == 2 else RankFailed, compiled, torch.ones(3))
        assert time.monotonic() - began < 20
        assert "no such instruction" in told and (rank() == 2 or "rank 2 failed with" in told), told
        assert entries(compiled) == 0
        x = torch.ones(3)
        again = framelift.compile(scaled, backend="eager")
        assert torch.equal(again(x), x * 3) and entries(again) == 1


@ranks(2)
def test_a_program_that_raises_on_one_rank_ends_the_others() -> None:
    def picky(x: torch.Tensor, fails: bool) -> torch.Tensor:
        if fails:
            raise ValueError("not this one")
        return x + 1

    with framelift.config.patch(rank_agreement="check"):
        told = raised(RanksDisagree, framelift.compile(picky, backend="eager"), torch.ones(2), rank() == 1)
        assert "is captured on rank 0, raises as it is captured" in told


# ---- agree


@ranks(2, 4)
def test_sizes_that_differ_between_ranks_vary_on_all() -> None:
    kept = EagerAndRecordGraphs()
    with framelift.config.patch(rank_agreement="agree"):
        compiled = framelift.compile(scaled, backend=kept, fullgraph=True)
        for n in range(3):
            x = torch.randn(3 + rank() * 2 + n, 2)
            assert torch.equal(compiled(x), scaled(x))
        assert entries(compiled) == 1 and len(kept.graphs) == 1
        inputs = kept.graphs[0].graph.find_nodes(op="placeholder")
        assert any(type(node.meta["example_value"]) is torch.SymInt for node in inputs)


@ranks(2)
def test_all_compile_again_when_one_has_to() -> None:
    with framelift.config.patch(rank_agreement="agree"):
        compiled = framelift.compile(scaled, backend="eager", fullgraph=True)
        for size in (3, 3, 3 + rank(), 4 - rank()):
            x = torch.randn(size, 2)
            assert torch.equal(compiled(x), scaled(x))
        assert entries(compiled) == 2  # the first size, then any


@ranks(2)
def test_all_break_where_one_breaks() -> None:
    def asking(x: torch.Tensor) -> torch.Tensor:
        return x * (x.sum() * 0 + 2).item()

    with framelift.config.patch(rank_agreement="agree", capture_scalar_outputs=rank() == 1):
        compiled = framelift.compile(asking, backend="eager")
        for _ in range(2):
            x = torch.randn(3)
            assert torch.equal(compiled(x), asking(x))
        records = compiled._framelift_context.code_states.values()
        found = [each for record in records for each in record.breaks]
        names = ["data-dependent value", "break of another rank"]
        assert [each.reason.name for each in found] == [names[rank()]]
        assert [len(record.entries) for record in records] == [1, 1]


@ranks(2)
def test_what_can_not_be_agreed_on_is_an_error() -> None:
    with framelift.config.patch(rank_agreement="agree"):
        told = raised(
            RanksDisagree, framelift.compile(branching, backend="eager"), torch.ones(3), rank() == 0
        )
        assert "operation 2: sin on rank 0, cos on rank 1" in told, told


# ---- who agrees


@ranks(2)
def test_a_group_agrees_on_its_own_and_one_rank_with_nobody() -> None:
    alone = [dist.new_group([n]) for n in range(2)]
    both = dist.new_group([0, 1])
    x = torch.ones(3)
    with framelift.config.patch(rank_agreement="check", rank_agreement_group=alone[rank()].group_name):
        framelift.compile(branching, backend="eager")(x, rank() == 0)
    with framelift.config.patch(rank_agreement="check", rank_agreement_group=both.group_name):
        framelift.reset()
        raised(RanksDisagree, framelift.compile(branching, backend="eager"), x, rank() == 0)
    with framelift.config.patch(rank_agreement="check", rank_agreement_group="no such"):
        framelift.reset()
        raised(framelift.exc.UserError, framelift.compile(branching, backend="eager"), x, True)


def test_without_a_process_group_nobody_is_asked() -> None:
    with framelift.config.patch(rank_agreement="agree"):
        compiled = framelift.compile(scaled, backend="eager")
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    with pytest.raises(framelift.exc.UserError, match="must be one of 'off', 'check', 'agree'"):
        framelift.config.rank_agreement = "maybe"
