"""Comparing a captured program with eager down to torch's own state, and looking at its graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import difference
from framelift.exc import Unsupported
from framelift.testing import CompileCounterWithBackend, clone_inputs

F = torch.nn.functional


def check(fn: Callable[..., Any], *args: Any, backend: str = "eager") -> list[torch.fx.Node]:
    """Compares with eager: results, arguments, random numbers, torch's state. Gives the graph's calls."""
    mine, theirs = clone_inputs(args), clone_inputs(args)
    keeping = CompileCounterWithBackend(backend)
    torch.manual_seed(0)
    want = fn(*mine)
    after = torch.rand(1)
    torch.manual_seed(0)
    before = state()
    got = framelift.compile(fn, backend=keeping, fullgraph=True)(*theirs)
    assert state() == before
    assert torch.equal(torch.rand(1), after), "the stream of random numbers"
    assert (found := difference(want, got)) is None, found
    assert (found := difference(mine, theirs, path="arguments")) is None, found
    (graph,) = keeping.graphs
    return [node for node in graph.graph.nodes if node.op.startswith("call")]


def state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch._C._len_torch_function_stack(),
        torch.get_default_device(),
        autocast_depth(),
    )


def autocast_depth() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def reason(fn: Callable[..., Any], *args: Any) -> str:
    """Why a function breaks; that it gives what eager gives, and is an error with `fullgraph`, unless what it
    breaks for is captured then."""
    mine, theirs = clone_inputs(args), clone_inputs(args)
    before = state()
    compiled = framelift.compile(fn, backend="eager")
    want, got = fn(*mine), compiled(*theirs)
    assert state() == before
    assert repr(want) == repr(got) or difference(want, got) is None
    found = next(
        r.breaks[0].reason.name for r in compiled._framelift_context.code_states.values() if r.breaks
    )
    whole = framelift.compile(fn, backend="eager", fullgraph=True)
    if found in DECIDED_BY_DATA:
        with contextlib.suppress(Unsupported):
            got = whole(*clone_inputs(args))
            assert repr(want) == repr(got) or difference(want, got) is None
    else:
        with pytest.raises(Unsupported):
            whole(*clone_inputs(args))
    assert state() == before
    return found


DECIDED_BY_DATA = ("data-dependent value", "data-dependent shape")


X = torch.arange(12.0).view(3, 4) / 7
W = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
