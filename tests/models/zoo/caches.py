"""Decoders with each kind of cache: the first call of a sequence, or the second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, QuantizedCache, StaticCache

from zoo.architecture import Architecture, Inputs, token_ids
from zoo.decoders import GREEDY, GROUPED, IDS, SIZES

LENGTH = 16


def dynamic(model: nn.Module) -> Any:
    return DynamicCache(config=model.config)


def static(model: nn.Module) -> Any:
    return StaticCache(config=model.config, max_cache_len=LENGTH)


def quantized(model: nn.Module) -> Any:
    return QuantizedCache("fp8", config=model.config)


def empty(make: Callable[[nn.Module], Any]) -> Callable[[nn.Module], Inputs]:
    """Arguments with a cache that has nothing in it yet."""

    def inputs(model: nn.Module) -> Inputs:
        return {"input_ids": token_ids(), "past_key_values": make(model)}

    return inputs


def filled(make: Callable[[nn.Module], Any]) -> Callable[[nn.Module], Inputs]:
    """Arguments with a cache into which a sequence has gone already, and the token after it."""

    def inputs(model: nn.Module) -> Inputs:
        cache = make(model)
        with torch.no_grad():
            model(input_ids=token_ids(), past_key_values=cache)
        return {"input_ids": token_ids(1), "past_key_values": cache}

    return inputs


def row(
    name: str, model: str, inputs: Callable[[nn.Module], Inputs], kind: str | None, **options: Any
) -> Architecture:
    generates = None if kind is None else GREEDY | {"cache_implementation": kind}
    return Architecture(name, model, inputs, SIZES | IDS | GROUPED | options, generates, trains=False)


WINDOWS = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}

CACHES = [
    row("Llama, dynamic, empty", "LlamaForCausalLM", empty(dynamic), None),
    row("Llama, dynamic", "LlamaForCausalLM", filled(dynamic), None),
    row("Llama, static, empty", "LlamaForCausalLM", empty(static), None),
    row("Llama, static", "LlamaForCausalLM", filled(static), None),
    row("Llama, quantized, empty", "LlamaForCausalLM", empty(quantized), None),
    row("Llama, quantized", "LlamaForCausalLM", filled(quantized), None),
    row("Mistral, dynamic sliding", "MistralForCausalLM", filled(dynamic), None, sliding_window=4),
    row("Mistral, static sliding", "MistralForCausalLM", filled(static), None, sliding_window=4),
    row("Gemma 3, dynamic hybrid", "Gemma3ForCausalLM", filled(dynamic), None, **WINDOWS),
    row("Gemma 3, static hybrid", "Gemma3ForCausalLM", filled(static), None, **WINDOWS),
    row("Qwen 3, static", "Qwen3ForCausalLM", filled(static), None),
]
