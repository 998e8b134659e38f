"""What is measured: small functions, and transformers models from config with random weights.

Nothing is downloaded. Widths are those of small published models; vocabularies are cut down, since they
make a model slow to build and change nothing about capture. Models return what they return by default,
caches and ModelOutputs included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from bench import vision_models

TOKENS = 16
VOCABULARY = 1000


@dataclass
class Subject:
    """Something to capture: call `target(*args, **kwargs)`."""

    target: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def run(self, compiled: Callable[..., Any] | None = None) -> Any:
        return (self.target if compiled is None else compiled)(*self.args, **self.kwargs)


def tokens(count: int = TOKENS) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (1, count))


# Small functions


def one_op() -> Subject:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    return Subject(fn, (torch.ones(4),))


def two_arguments() -> Subject:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y + 1

    return Subject(fn, (torch.ones(4), torch.ones(4)))


def chained_adds() -> Subject:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(1000):
            x = x + 1
        return x

    return Subject(fn, (torch.ones(4),))


def mlp() -> Subject:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return Subject(model.eval(), (torch.randn(8, 64),))


# Models


def bert(layers: int) -> Subject:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        num_attention_heads=8,
        intermediate_size=2048,
        num_hidden_layers=layers,
    )
    mask = torch.ones(1, TOKENS, dtype=torch.long)
    return Subject(BertModel(config).eval(), (), {"input_ids": tokens(), "attention_mask": mask})


def gpt2(layers: int) -> Subject:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=512, n_head=8, n_layer=layers, bos_token_id=0, eos_token_id=0
    )
    return Subject(GPT2LMHeadModel(config).eval(), (), {"input_ids": tokens()})


def llama(layers: int) -> Subject:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=688,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_hidden_layers=layers,
    )
    return Subject(LlamaForCausalLM(config).eval(), (), {"input_ids": tokens()})


def vit(layers: int) -> Subject:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        num_hidden_layers=layers,
        image_size=64,
    )
    return Subject(ViTModel(config).eval(), (), {"pixel_values": torch.randn(1, 3, 64, 64)})


def t5(layers: int) -> Subject:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=VOCABULARY, d_model=512, d_kv=64, d_ff=2048, num_heads=8, num_layers=layers)
    inputs = {"input_ids": tokens(), "decoder_input_ids": tokens(8)}
    return Subject(T5ForConditionalGeneration(config).eval(), (), inputs)


def whisper(layers: int) -> Subject:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=384,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        max_source_positions=100,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=0,
    )
    inputs = {"input_features": torch.randn(1, 80, 200), "decoder_input_ids": tokens(8)}
    return Subject(WhisperModel(config).eval(), (), inputs)


def mixtral(layers: int) -> Subject:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        num_hidden_layers=layers,
    )
    # The default way to run experts loops over those that were hit, which depends on data.
    config._experts_implementation = "batched_mm"
    return Subject(MixtralForCausalLM(config).eval(), (), {"input_ids": tokens()})


def image(size: int, made: type[nn.Module], **options: Any) -> Subject:
    return Subject(made(**options).eval(), (torch.randn(1, 3, size, size),))


FUNCTIONS: dict[str, Callable[[], Subject]] = {
    "one op": one_op,
    "two arguments": two_arguments,
    "1,000 adds": chained_adds,
    "MLP": mlp,
}

MODELS: dict[str, Callable[[], Subject]] = {
    "BERT 12": lambda: bert(12),
    "GPT-2 12": lambda: gpt2(12),
    "Llama 8": lambda: llama(8),
    "Llama 32": lambda: llama(32),
    "ViT 12": lambda: vit(12),
    "T5 6+6": lambda: t5(6),
    "Whisper 4+4": lambda: whisper(4),
    "Mixtral 4": lambda: mixtral(4),
    "ResNet 50": lambda: image(64, vision_models.ResNet),
    "EfficientNet": lambda: image(32, vision_models.EfficientNet),
    "Swin": lambda: image(128, vision_models.Swin),
    "Detector": lambda: image(128, vision_models.Detector),
}

GROWTH_LAYERS = (4, 8, 16, 32, 64)
GROWTH: dict[str, Callable[[], Subject]] = {
    f"Llama {layers}": (lambda layers=layers: llama(layers)) for layers in GROWTH_LAYERS
}

SMALL: dict[str, Callable[[], Subject]] = {"BERT 4": lambda: bert(4), "ViT 4": lambda: vit(4)}

ALL = FUNCTIONS | GROWTH | MODELS | SMALL


def build(name: str) -> Subject:
    torch.manual_seed(0)
    return ALL[name]()


def build_on(name: str, device: str) -> Subject:
    built = build(name)
    if device == "cpu":
        return built
    target = built.target.to(device) if isinstance(built.target, nn.Module) else built.target
    moved = {key: value.to(device) for key, value in built.kwargs.items()}
    return Subject(target, tuple(value.to(device) for value in built.args), moved)
