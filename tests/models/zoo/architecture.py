"""A row of the tables: which model, how small, what it is called with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

BATCH = 2
TOKENS = 7
VOCABULARY = 64
SIDE = 32
"""Of an image."""

Inputs = dict[str, Any]

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,
}
IDS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@dataclass
class Case:
    """A model, and what makes the arguments of a call of it: new ones each time, with the same values."""

    model: nn.Module
    make_inputs: Callable[[nn.Module], Inputs]

    def inputs(self) -> Inputs:
        torch.manual_seed(1)
        return self.make_inputs(self.model)


@dataclass(frozen=True)
class Architecture:
    name: str
    model: str
    """The name of the class in transformers."""
    inputs: Callable[[nn.Module], Inputs]
    options: dict[str, Any] = field(default_factory=dict)
    """What is given to the class of its config."""
    generates: dict[str, Any] | None = None
    """The options of `generate`, for those that can: its inputs are those of the call."""
    trains: bool = True
    attention: str | None = None
    experts: str | None = None

    def build(self) -> Case:
        torch.manual_seed(0)
        cls = getattr(transformers, self.model)
        config = cls.config_class(**self.options)
        if self.attention is not None:
            config._attn_implementation = self.attention
        if self.experts is not None:
            config._experts_implementation = self.experts
        return Case(cls(config).eval(), self.inputs)


def token_ids(count: int = TOKENS, batch: int = BATCH) -> torch.Tensor:
    """None of them is one that pads, begins or ends."""
    return torch.randint(3, VOCABULARY, (batch, count))


def text(model: nn.Module) -> Inputs:
    return {"input_ids": token_ids()}


def padded_text(model: nn.Module) -> Inputs:
    """The first sequence is shorter, padded on the left."""
    ids, mask = token_ids(), torch.ones(BATCH, TOKENS, dtype=torch.long)
    ids[0, :2], mask[0, :2] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def image(model: nn.Module) -> Inputs:
    return {"pixel_values": torch.randn(BATCH, 3, SIDE, SIDE)}
