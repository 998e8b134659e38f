"""Mixtures of experts. Those whose experts run one after the other depend on data; batched, they do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zoo.architecture import Architecture
from zoo.decoders import decoder

FEW: dict[str, Any] = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}


def experts(name: str, model: str, kind: str | None = "batched_mm", **options: Any) -> Architecture:
    return replace(decoder(name, model, **FEW | options), experts=kind)


LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "head_dim": 8,
    "num_key_value_heads": 4,
}

EXPERTS = [
    experts("Mixtral", "MixtralForCausalLM"),
    experts("Mixtral, one by one", "MixtralForCausalLM", "eager"),
    experts("Mixtral, grouped", "MixtralForCausalLM", "grouped_mm"),
    experts("Qwen 2 MoE", "Qwen2MoeForCausalLM"),
    experts("Qwen 3 MoE", "Qwen3MoeForCausalLM"),
    experts("OLMoE", "OlmoeForCausalLM"),
    experts("DeepSeek V2", "DeepseekV2ForCausalLM", **LATENT),
    experts("DeepSeek V3", "DeepseekV3ForCausalLM", **LATENT),
    experts("PhiMoE", "PhimoeForCausalLM"),
    experts("GPT-OSS", "GptOssForCausalLM", sliding_window=4),
    experts("GraniteMoE", "GraniteMoeForCausalLM"),
    experts("JetMoE", "JetMoeForCausalLM", kv_channels=8, num_key_value_heads=2),
    experts(
        "DBRX",
        "DbrxForCausalLM",
        d_model=32,
        n_heads=4,
        n_layers=2,
        max_seq_len=64,
        ffn_config={"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32},
        attn_config={"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
    ),
    experts(
        "GLM 4 MoE",
        "Glm4MoeForCausalLM",
        n_shared_experts=1,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
    ),
    experts("ERNIE 4.5 MoE", "Ernie4_5_MoeForCausalLM", moe_num_experts=4, moe_k=2, moe_num_shared_experts=1),
    experts("Llama 4", "Llama4ForCausalLM", intermediate_size_mlp=64, attention_chunk_size=4),
    experts(
        "dots.llm1", "Dots1ForCausalLM", n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1
    ),
    experts("MiniMax M2", "MiniMaxM2ForCausalLM", rotary_dim=8),
    experts(
        "LongCat Flash",
        "LongcatFlashForCausalLM",
        **LATENT
        | {
            "ffn_hidden_size": 64,
            "expert_ffn_hidden_size": 16,
            "num_layers": 2,
            "moe_topk": 2,
            "zero_expert_num": 2,
        },
    ),
]
