"""Transformers models from config: captured whole, forward and gradients as eager's.

The architectures are those that `make bench` measures, with fewer layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers.models.llama import modeling_llama

import framelift
from bench import models
from framelift.testing import EagerAndRecordGraphs

ARCHITECTURES: dict[str, Callable[[int], models.Subject]] = {
    "BERT": models.bert,
    "GPT-2": models.gpt2,
    "Llama": models.llama,
    "ViT": models.vit,
    "T5": models.t5,
    "Whisper": models.whisper,
    "Mixtral": models.mixtral,
}


def build(name: str) -> models.Subject:
    torch.manual_seed(0)
    return ARCHITECTURES[name](2)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a ModelOutput, caches included, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors(item)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors(item)]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return [t for item in vars(value).values() for t in tensors(item)]
    return []


def gradients(subject: models.Subject, run: Callable[..., Any]) -> dict[str, torch.Tensor]:
    subject.target.zero_grad()
    out = subject.run(run)
    first = tensors(out)[0]
    first.float().pow(2).mean().backward()
    return {n: p.grad for n, p in subject.target.named_parameters() if p.grad is not None}


class Talking(modeling_llama.LlamaDecoderLayer):
    """A layer that can't be captured whole."""

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        out = super().forward(hidden_states, *args, **kwargs)
        print("a layer")
        return out


def test_a_print_in_every_layer(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    layers = 12
    subject = models.llama(layers)
    for module in subject.target.modules():
        if type(module) is modeling_llama.LlamaDecoderLayer:
            module.__class__ = Talking
    kept = EagerAndRecordGraphs()
    compiled = framelift.compile(subject.target, backend=kept)
    with torch.no_grad():
        expected = tensors(subject.run())
        for _ in range(2):
            found = tensors(subject.run(compiled))
            assert all(map(torch.equal, expected, found)) and len(expected) == len(found)
    assert len(kept.graphs) == layers + 1  # one more than prints
    assert capsys.readouterr().out == "a layer\n" * layers * 3


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_forward_is_identical(name: str) -> None:
    subject = build(name)
    compiled = framelift.compile(subject.target, backend="eager", fullgraph=True)
    with torch.no_grad():
        expected, found = subject.run(), subject.run(compiled)
        again = subject.run(compiled)
    assert type(found) is type(expected)
    for other in (found, again):
        assert len(tensors(other)) == len(tensors(expected))
        for a, b in zip(tensors(expected), tensors(other), strict=True):
            assert torch.equal(a, b)
    records = compiled._framelift_context.code_states.values()
    assert [len(record.entries) for record in records] == [1]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients_are_identical(name: str) -> None:
    subject = build(name)
    expected = {n: g.clone() for n, g in gradients(subject, subject.target).items()}
    compiled = framelift.compile(subject.target, backend="eager", fullgraph=True)
    found = gradients(subject, compiled)
    assert found.keys() == expected.keys()
    for n, gradient in expected.items():
        torch.testing.assert_close(found[n], gradient, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_gradients_through_aot_autograd(name: str) -> None:
    subject = build(name)
    expected = {n: g.clone() for n, g in gradients(subject, subject.target).items()}
    found = gradients(subject, framelift.compile(subject.target, backend="aot_eager", fullgraph=True))
    for n, gradient in expected.items():
        torch.testing.assert_close(found[n], gradient, rtol=1e-4, atol=1e-6)


def test_forward_and_gradients_through_inductor() -> None:
    subject = build("Llama")
    expected = {n: g.clone() for n, g in gradients(subject, subject.target).items()}
    compiled = framelift.compile(subject.target, fullgraph=True)
    found = gradients(subject, compiled)
    for n, gradient in expected.items():
        torch.testing.assert_close(found[n], gradient, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(subject.run(compiled).logits, subject.run().logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Llama", "BERT"])
def test_another_sequence_length_is_noticed(name: str) -> None:
    subject = build(name)
    compiled = framelift.compile(subject.target, backend="eager", fullgraph=True)
    with torch.no_grad():
        subject.run(compiled)
        shorter = {k: v[:, :7] for k, v in subject.kwargs.items()}
        found, expected = compiled(**shorter), subject.target(**shorter)
    for a, b in zip(tensors(expected), tensors(found), strict=True):
        assert torch.equal(a, b)
