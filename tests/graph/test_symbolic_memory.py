"""Operators with symbols are remembered beyond one trace, as far as the same is known of the symbols."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.graph import recorder, symbolic_memory
from sameness import alike


@pytest.fixture
def symbolic_runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that are run on fakes, from now on and with nothing remembered."""
    symbolic_memory.forget()
    ran: list[Any] = []
    run_on_fakes = recorder.Recorder.run

    def run(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        ran.append(getattr(func, "__name__", func))
        return run_on_fakes(self, func, args, kwargs)

    monkeypatch.setattr(recorder.Recorder, "run", run)
    return ran


def layers(x: torch.Tensor, weight: torch.Tensor) -> Any:
    first, second = torch.nn.functional.linear(x, weight).sin(), torch.nn.functional.linear(x, weight)
    return (first * second).transpose(0, 1), x[:, None].expand(-1, 2, -1).sum((0, 1)), x.detach().view(-1)


def test_operators_with_symbols_are_not_run_again_by_the_next_capture(symbolic_runs: list[Any]) -> None:
    x, weight = torch.randn(5, 4), torch.randn(6, 4)
    for _ in range(2):
        symbolic_runs.clear()
        compiled = framelift.compile(layers, backend="eager", dynamic=True)
        for n in (5, 8, 3):
            x = torch.randn(n, 4)
            alike(layers(x, weight), compiled(x, weight))
        framelift.reset()
    assert symbolic_runs == []


def test_what_is_known_of_symbols_is_part_of_the_key(symbolic_runs: list[Any]) -> None:
    def cut(x, n, asks):
        if asks:
            assert x.shape[0] > 4
        return x[:4] * 2, torch.cat([x, x[:n]]), x.reshape(2, -1)

    for asks in (False, True, False):
        for sizes in ((6, 2), (8, 8), (4, 1), (3, 5), (2, 9)):
            compiled = framelift.compile(lambda *args: cut(*args), backend="eager", dynamic=True)
            for rows, n in (sizes, (16, 7), (6, 6), (10, 2)):
                args = torch.randn(rows, 3), n, asks and rows > 4
                check_both(cut, compiled, args)
            framelift.reset()


def check_both(fn: Callable[..., Any], compiled: Callable[..., Any], args: Any) -> None:
    try:
        expected = fn(*args)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            compiled(*args)
    else:
        alike(expected, compiled(*args))


def test_a_call_that_relies_on_a_size_is_made_in_every_capture(symbolic_runs: list[Any]) -> None:
    fn = lambda x: x.view(2, -1) + 1
    for _ in range(2):
        symbolic_runs.clear()
        compiled = framelift.compile(fn, backend="eager", dynamic=True)
        for n in (6, 8):
            alike(fn(torch.ones(n)), compiled(torch.ones(n)))
        with pytest.raises(RuntimeError, match="invalid for input of size 7"):
            compiled(torch.ones(7))
        framelift.reset()
    assert "view" in symbolic_runs


def test_empty_constants_have_keys(symbolic_runs: list[Any]) -> None:
    def grow(x):
        kept = [torch.tensor([]) for _ in range(4)]
        return [torch.cat([each, x], -1) for each in kept], torch.tensor([]).tolist()

    compiled = framelift.compile(grow, backend="eager", dynamic=True, fullgraph=True)
    for n in (3, 5):
        alike(grow(torch.ones(n, 2)), compiled(torch.ones(n, 2)))
    assert symbolic_runs.count("cat") == 1


def test_states_of_knowledge_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    symbolic_memory.forget()
    monkeypatch.setattr(symbolic_memory, "LIMIT", 10)
    fn = lambda x: (x.sin().cos().tan() + 1).exp().sum(0) * 2
    for n in range(2, 12):
        compiled = framelift.compile(fn, backend="eager", dynamic=True)
        alike(fn(torch.ones(n, 3)), compiled(torch.ones(n, 3)))
        assert len(symbolic_memory._states) <= 10
        assert len(symbolic_memory._kept) <= 20
        framelift.reset()
