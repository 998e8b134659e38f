"""Comparing a captured program with eager down to torch's own state, and looking at its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import framelift
from check import difference
from framelift.dispatch.restarts import DECIDED_BY_DATA
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
    """Why a function breaks; that without `fullgraph` it gives what eager gives, and with it an error, unless
    it is one of the reasons for which then more is captured."""
    mine, theirs, others = clone_inputs(args), clone_inputs(args), clone_inputs(args)
    before = state()
    refused = False
    try:
        framelift.compile(fn, backend="eager", fullgraph=True)(*others)
    except Unsupported:
        refused = True
    assert state() == before
    compiled = framelift.compile(fn, backend="eager")
    want, got = fn(*mine), compiled(*theirs)
    assert state() == before
    assert repr(want) == repr(got) or difference(want, got) is None
    found = next(r.breaks[0].reason for r in compiled._framelift_context.code_states.values() if r.breaks)
    assert refused or found in DECIDED_BY_DATA
    return found.name


X = torch.arange(12.0).view(3, 4) / 7
W = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
