"""`flex_attention`: functions that change scores, masks made inside and outside, what they close over."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.attention import flex_attention as module
from torch.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
)

import framelift
from check import entries, recompiles, why_not
from framelift.exc import Unsupported
from framelift.testing import EagerAndRecordGraphs

BIAS = torch.linspace(-1, 1, 2 * 16 * 16).reshape(2, 16, 16)
LENGTHS = torch.tensor([5, 9])


@pytest.fixture(autouse=True)
def plain_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Called plainly it would compile itself by torch.compile: neither side of a comparison may."""
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(torch, "compile", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def inputs(n: int = 16, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 2, n, 8, generator=generator) for _ in range(3)]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


OUTSIDE = create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)


def plain(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v)


def scored(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 2 + (i - j) * 0.1)


def biased(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + BIAS[h, i, j])


def closed_over(q: Any, k: Any, v: Any) -> Any:
    slopes, times = q.mean((0, 2, 3)), q.dim()
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (i - j) * times)


def masked(q: Any, k: Any, v: Any) -> Any:
    mask = create_block_mask(causal, None, None, q.shape[2], k.shape[2], device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=mask)


def looked_up(q: Any, k: Any, v: Any) -> Any:
    mask = lambda b, h, i, j: (i >= j) & (j < LENGTHS[b])
    blocks = create_block_mask(mask, q.shape[0], None, q.shape[2], k.shape[2], device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, lambda s, b, h, i, j: s + BIAS[0, i, j], blocks)


def both_masks(q: Any, k: Any, v: Any) -> Any:
    mask = and_masks(causal, lambda b, h, i, j: i - j < 4)
    blocks = create_block_mask(mask, None, None, q.shape[2], k.shape[2], device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=blocks, scale=0.3)


def from_outside(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, block_mask=OUTSIDE)


def grouped(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True, kernel_options={"BLOCK_M": 16})


def with_sums(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q, k, v, return_lse=True), flex_attention(q, k, v, return_aux=AuxRequest(lse=True))


def strided(q: Any, k: Any, v: Any) -> Any:
    return flex_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)


def dense_mask(q: Any, k: Any, v: Any) -> Any:
    return create_mask(lambda b, h, i, j: j < LENGTHS[b], 2, 1, q.shape[2], k.shape[2], device="cpu")


PROGRAMS = [plain, scored, biased, closed_over, masked, looked_up, both_masks, from_outside, grouped]
PROGRAMS += [with_sums, strided, dense_mask]
CASES = [(fn, "eager") for fn in PROGRAMS] + [(fn, "aot_eager") for fn in (closed_over, looked_up, grouped)]


@pytest.mark.parametrize(("fn", "backend"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_it_is_captured_whole(fn: Callable[..., Any], backend: str) -> None:
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for seed in range(2):
        torch.testing.assert_close(compiled(*inputs(seed=seed)), fn(*inputs(seed=seed)))
    assert recompiles(compiled) == 0 and why_not(compiled) is None


def test_inductor_takes_it() -> None:
    compiled = framelift.compile(biased, backend="inductor", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs()), biased(*inputs()), rtol=1e-4, atol=1e-5)
    assert entries(compiled) == 1


def test_the_graph_has_one_call_with_two_bodies() -> None:
    kept = EagerAndRecordGraphs()
    framelift.compile(biased, backend=kept)(*inputs())
    (node,) = kept.graphs[0].graph.find_nodes(
        op="call_function", target=torch.ops.higher_order.flex_attention
    )
    score, mask = (kept.graphs[0].get_submodule(one.target) for one in (node.args[3], node.args[4][-1]))
    assert [len(one.graph.find_nodes(op="placeholder")) for one in (score, mask)] == [6, 4]
    assert [len(buffers) for buffers in node.args[-2:]] == [1, 0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_what_a_score_is_changed_by(backend: str) -> None:
    """On a CPU torch has none for query, key and value."""
    bias = torch.nn.Parameter(BIAS.clone())

    def fn(q: Any, k: Any, v: Any) -> Any:
        change = lambda s, b, h, i, j: s * 1.5 + bias[h, i, j].tanh()
        out, aux = flex_attention(q, k, v, change, return_aux=AuxRequest(lse=True))
        return out, aux.lse

    def by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT / 8**0.5 * 1.5 + bias.tanh()
        return scores.softmax(-1) @ v, scores.logsumexp(-1)

    def gradient(call: Any) -> torch.Tensor:
        out, sums = call(*inputs())
        return torch.autograd.grad((out * torch.arange(8.0)).sum() + sums.sum(), bias)[0]

    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    torch.testing.assert_close(gradient(compiled), gradient(by_hand), rtol=1e-4, atol=1e-5)
    assert entries(compiled) == 1 and why_not(compiled) is None


def test_what_torch_refuses_is_refused_in_its_words() -> None:
    q, k, v = inputs()
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        framelift.compile(plain, backend="eager", fullgraph=True)(q.requires_grad_(), k, v)


def test_sizes_may_vary() -> None:
    compiled = framelift.compile(masked, backend="eager", fullgraph=True)
    for n in (16, 24, 40, 35, 43):
        torch.testing.assert_close(compiled(*inputs(n)), masked(*inputs(n)))
    assert entries(compiled) == 2  # sizes that fill their blocks, and those that do not, are one


def test_a_mask_is_an_argument_like_any_other() -> None:
    def fn(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return flex_attention(q, k, v, block_mask=mask)

    def up_to(lengths: torch.Tensor) -> Any:
        found = lambda b, h, i, j: j < lengths[b]
        return create_block_mask(found, 2, None, 16, 16, device="cpu", BLOCK_SIZE=8)

    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for lengths in ([3, 7], [16, 1]):  # closed over, and none of the guards' business
        mask = up_to(torch.tensor(lengths))
        torch.testing.assert_close(compiled(*inputs(), mask), fn(*inputs(), mask))
    assert entries(compiled) == 1
    torch.testing.assert_close(compiled(*inputs(), OUTSIDE), fn(*inputs(), OUTSIDE))
    assert entries(compiled) == 2  # another function, for any batch


def test_a_mask_may_be_given_back() -> None:
    def fn(n: int) -> Any:
        return create_block_mask(causal, None, None, n, n, device="cpu", BLOCK_SIZE=8)

    found = framelift.compile(fn, backend="eager", fullgraph=True)(16)
    assert found.mask_mod is causal and torch.equal(found.to_dense(), OUTSIDE.to_dense())
    torch.testing.assert_close(flex_attention(*inputs(), block_mask=found), masked(*inputs()))


WRONG = {
    "score_mod of flex_attention: it must give one tensor": (lambda s, b, h, i, j: (s, s), causal),
    "score_mod of flex_attention: it gives a tensor of shape (3,), not one element": (
        lambda s, b, h, i, j: s.expand(3),
        causal,
    ),
    "mask_mod of flex_attention: it gives a tensor of dtype torch.int32, not of torch.bool": (
        None,
        lambda b, h, i, j: i,
    ),
    "generator of random numbers: score_mod of flex_attention": (
        lambda s, b, h, i, j: s + torch.rand(()),
        causal,
    ),
    "a change to a tensor from outside in score_mod of flex_attention": (
        lambda s, b, h, i, j: s + BIAS.add_(1).sum(),
        causal,
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_functions_are_named(message: str) -> None:
    score_mod, mask_mod = WRONG[message]
    mask = create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    mask.mask_mod = mask_mod
    fn = lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod, block_mask=mask)
    with pytest.raises(Unsupported) as raised:
        framelift.compile(fn, backend="eager", fullgraph=True)(*inputs())
    assert message in str(raised.value) and f'File "{__file__}"' in str(raised.value)
