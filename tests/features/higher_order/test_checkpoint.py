"""Selective checkpoints: what decides what is kept goes into the graph with the function."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.wrap import wrap
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import framelift
from check import entries, why_not
from framelift.exc import Unsupported

MM = torch.ops.aten.mm.default
WEIGHT = torch.nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))
ASKED: list[Any] = []


def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    ASKED.append(op)
    return CheckpointPolicy.MUST_SAVE if op is MM else CheckpointPolicy.PREFER_RECOMPUTE


def contexts() -> Any:
    return create_selective_checkpoint_contexts(policy)


OUTSIDE = functools.partial(create_selective_checkpoint_contexts, policy)


def body(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid((x @ WEIGHT).sin() @ WEIGHT)


def by_a_function(x: Any) -> Any:
    return checkpoint(body, x, use_reentrant=False, context_fn=contexts)


def by_a_partial(x: Any) -> Any:
    return checkpoint(body, x, use_reentrant=False, context_fn=OUTSIDE)


def by_a_list(x: Any) -> Any:
    chosen = functools.partial(create_selective_checkpoint_contexts, [MM])
    return checkpoint(body, x, use_reentrant=False, context_fn=chosen)


def by_a_closure(x: Any) -> Any:
    kept = [MM]

    def decide(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    decided = lambda: create_selective_checkpoint_contexts(decide)
    return checkpoint(body, x, use_reentrant=False, context_fn=decided)


def by_a_set(x: Any) -> Any:
    def decide(kept: Any, ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    chosen = functools.partial(create_selective_checkpoint_contexts, functools.partial(decide, {MM}))
    return checkpoint(body, x, use_reentrant=False, context_fn=chosen)


def of_a_wrapped_function(x: Any) -> Any:
    return checkpoint(lambda y: wrap(body, y), x, use_reentrant=False)


WAYS = [by_a_function, by_a_partial, by_a_list, by_a_closure, by_a_set, of_a_wrapped_function]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", WAYS, ids=lambda f: f.__name__)
def test_it_changes_nothing_about_results(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in range(2):
        x = (torch.arange(6.0).reshape(2, 3) - n).requires_grad_()
        expected, found = fn(x), compiled(x)
        torch.testing.assert_close(found, expected)
        grads = [torch.autograd.grad(out.sum(), [x, WEIGHT]) for out in (expected, found)]
        torch.testing.assert_close(*grads)
    assert entries(compiled) == 1 and why_not(compiled) is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_policy_is_asked(backend: str) -> None:
    compiled = framelift.compile(by_a_function, backend=backend, fullgraph=True)
    ASKED.clear()
    compiled(torch.ones(2, 3, requires_grad=True))
    assert MM in ASKED


def test_tensors_of_the_function_have_no_say() -> None:
    def fn(x: Any) -> Any:
        total = x.sum()
        return checkpoint(body, x, use_reentrant=False, context_fn=lambda: (total, contexts())[1])

    with pytest.raises(Unsupported, match="context_fn that refers to a FakeTensor"):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2, 3, requires_grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_reentrant_checkpoint_has_the_same_gradients(backend: str) -> None:
    def fn(x: Any) -> Any:
        return checkpoint(body, x, use_reentrant=True)

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    grads = []
    for call in (compiled, fn):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        WEIGHT.grad = None
        call(x).sum().backward()
        grads.append((x.grad, WEIGHT.grad))
    WEIGHT.grad = None
    torch.testing.assert_close(*grads)


def test_a_reentrant_checkpoint_without_gradients_warns_and_calls_the_function() -> None:
    def fn(x: Any) -> Any:
        return checkpoint(body, x, use_reentrant=True)

    told, results = [], []
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for each in (fn, compiled, compiled):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            results.append(each(torch.ones(2, 3)))
        told.append([(str(w.message), w.category, w.filename, w.lineno) for w in given])
    assert told[0] and told[0] == told[1] == told[2]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])
        assert not result.requires_grad


def with_a_branch(x: Any) -> Any:
    def branches(a: Any) -> Any:
        return torch.cond(a.sum() > 0, lambda v: v.sin() * 2, lambda v: v.cos(), (a,))

    return checkpoint(branches, x * 2, use_reentrant=False).exp()


def without_the_state_of_random_numbers(x: Any) -> Any:
    return checkpoint(body, x, use_reentrant=False, preserve_rng_state=False)


def reentrant_without_the_state_of_random_numbers(x: Any) -> Any:
    return checkpoint(body, x, use_reentrant=True, preserve_rng_state=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "fn",
    [
        with_a_branch,
        without_the_state_of_random_numbers,
        reentrant_without_the_state_of_random_numbers,
    ],
    ids=lambda f: f.__name__,
)
def test_what_changes_no_result_is_captured_whole(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    given = [torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_() for _ in range(2)]
    results = [call(x) for call, x in zip((fn, compiled), given, strict=True)]
    for result in results:
        result.sum().backward()
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(given[0].grad, given[1].grad)


def test_random_numbers_that_are_drawn_anew_are_a_break() -> None:
    def fn(x: Any) -> Any:
        drawing = lambda a: torch.nn.functional.dropout(a, 0.5)
        return checkpoint(drawing, x, use_reentrant=False, preserve_rng_state=False)

    with pytest.raises(Unsupported, match="preserve_rng_state=False of what draws numbers"):
        framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))
