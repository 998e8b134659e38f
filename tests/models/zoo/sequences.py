"""Encoders with decoders."""

from __future__ import annotations

from typing import Any

from torch import nn

from zoo.architecture import IDS, SIZES, Architecture, Inputs, padded_text, token_ids
from zoo.decoders import GREEDY


def both(model: nn.Module) -> Inputs:
    return padded_text(model) | {"decoder_input_ids": token_ids(5)}


def pair(name: str, model: str, generates: bool = True, **options: Any) -> Architecture:
    given = {k: v for k, v in (SIZES | IDS | TWO | options).items() if v is not None}
    return Architecture(name, model, both, given, GREEDY if generates else None)


TWO: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
T5: dict[str, Any] = {
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
}

SEQUENCES = [
    pair("T5", "T5ForConditionalGeneration", **T5),
    pair("mT5", "MT5ForConditionalGeneration", **T5),
    pair("UMT5", "UMT5ForConditionalGeneration", **T5),
    pair("LongT5", "LongT5ForConditionalGeneration", **T5, local_radius=3, global_block_size=4),
    pair(
        "LongT5, transient global",
        "LongT5ForConditionalGeneration",
        **T5,
        local_radius=3,
        global_block_size=4,
        encoder_attention_type="transient-global",
    ),
    pair(
        "Switch Transformers",
        "SwitchTransformersForConditionalGeneration",
        **T5,
        num_experts=4,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        expert_capacity=8,
    ),
    pair("BART", "BartForConditionalGeneration"),
    pair("mBART", "MBartForConditionalGeneration"),
    pair("Pegasus", "PegasusForConditionalGeneration"),
    pair(
        "PEGASUS-X",
        "PegasusXForConditionalGeneration",
        block_size=4,
        num_global_tokens=4,
        stagger_local_blocks=True,
    ),
    pair("Marian", "MarianMTModel"),
    pair("Blenderbot", "BlenderbotForConditionalGeneration"),
    pair("M2M 100", "M2M100ForConditionalGeneration"),
    pair(
        "NLLB MoE",
        "NllbMoeForConditionalGeneration",
        num_experts=4,
        encoder_sparse_step=2,
        decoder_sparse_step=2,
        expert_capacity=8,
    ),
    pair("PLBart", "PLBartForConditionalGeneration"),
    pair("MVP", "MvpForConditionalGeneration"),
    pair(
        "LED",
        "LEDForConditionalGeneration",
        attention_window=4,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
    ),
    pair("BigBird-Pegasus", "BigBirdPegasusForConditionalGeneration", attention_type="original_full"),
    Architecture(
        "ProphetNet",
        "ProphetNetForConditionalGeneration",
        both,
        IDS
        | {
            "vocab_size": 64,
            "hidden_size": 32,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": 64,
            "ngram": 2,
        },
        GREEDY,
    ),
    pair("FSMT", "FSMTForConditionalGeneration", langs=["en", "de"], src_vocab_size=64, tgt_vocab_size=64),
]
