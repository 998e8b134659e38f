"""Decoders: models of language that generate, with the cache they have by default."""

from __future__ import annotations

from typing import Any

from zoo.architecture import IDS, SIZES, Architecture, padded_text

GREEDY: dict[str, Any] = {"do_sample": False, "max_new_tokens": 8}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}


def decoder(name: str, model: str, **options: Any) -> Architecture:
    given = SIZES | IDS | GROUPED | options
    return Architecture(name, model, padded_text, {k: v for k, v in given.items() if v is not None}, GREEDY)


DECODERS = [
    decoder("GPT-2", "GPT2LMHeadModel"),
    decoder(
        "GPT-Neo",
        "GPTNeoForCausalLM",
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
    ),
    decoder("GPT-J", "GPTJForCausalLM", rotary_dim=4),
    decoder("GPT-NeoX", "GPTNeoXForCausalLM"),
    decoder("GPT BigCode", "GPTBigCodeForCausalLM"),
    decoder("OpenAI GPT", "OpenAIGPTLMHeadModel", n_embd=32, n_layer=2, n_head=4),
    decoder("OPT", "OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32),
    decoder("BLOOM", "BloomForCausalLM"),
    decoder("Falcon", "FalconForCausalLM", head_dim=None, new_decoder_architecture=True, num_kv_heads=2),
    decoder("Falcon, alibi", "FalconForCausalLM", head_dim=None, alibi=True),
    decoder("MPT", "MptForCausalLM", d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    decoder("CodeGen", "CodeGenForCausalLM", n_embd=32, n_layer=2, n_head=4, rotary_dim=4),
    decoder("CTRL", "CTRLLMHeadModel", n_embd=32, n_layer=2, n_head=4, dff=64),
    decoder("BioGPT", "BioGptForCausalLM"),
    decoder("XGLM", "XGLMForCausalLM", d_model=32, ffn_dim=64, num_layers=2, attention_heads=4),
    decoder("Llama", "LlamaForCausalLM"),
    decoder(
        "Llama, scaled rope",
        "LlamaForCausalLM",
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    decoder(
        "Llama, dynamic rope",
        "LlamaForCausalLM",
        max_position_embeddings=8,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    ),
    decoder("Mistral", "MistralForCausalLM", sliding_window=4),
    decoder("Gemma", "GemmaForCausalLM"),
    decoder("Gemma 2", "Gemma2ForCausalLM", sliding_window=4, query_pre_attn_scalar=8),
    decoder(
        "Gemma 3",
        "Gemma3ForCausalLM",
        sliding_window=4,
        query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention"],
    ),
    decoder("Qwen 2", "Qwen2ForCausalLM"),
    decoder("Qwen 3", "Qwen3ForCausalLM"),
    decoder("Phi", "PhiForCausalLM"),
    decoder("Phi 3", "Phi3ForCausalLM", sliding_window=4),
    decoder("StableLM", "StableLmForCausalLM"),
    decoder("StarCoder 2", "Starcoder2ForCausalLM"),
    decoder("Cohere", "CohereForCausalLM"),
    decoder(
        "Cohere 2",
        "Cohere2ForCausalLM",
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
    ),
    decoder("OLMo", "OlmoForCausalLM"),
    decoder("OLMo 2", "Olmo2ForCausalLM"),
    decoder("OLMo 3", "Olmo3ForCausalLM", sliding_window=4),
    decoder("Granite", "GraniteForCausalLM"),
    decoder("GLM", "GlmForCausalLM"),
    decoder("GLM 4", "Glm4ForCausalLM"),
    decoder("Helium", "HeliumForCausalLM"),
    decoder("Nemotron", "NemotronForCausalLM"),
    decoder("Persimmon", "PersimmonForCausalLM"),
    decoder("SmolLM 3", "SmolLM3ForCausalLM"),
    decoder("DiffLlama", "DiffLlamaForCausalLM"),
    decoder(
        "Exaone 4",
        "Exaone4ForCausalLM",
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
    ),
    decoder("BitNet", "BitNetForCausalLM"),
    decoder("Arcee", "ArceeForCausalLM"),
    decoder("Apertus", "ApertusForCausalLM"),
    decoder("Doge", "DogeForCausalLM"),
    decoder("NanoChat", "NanoChatForCausalLM"),
    decoder(
        "ModernBERT decoder",
        "ModernBertDecoderForCausalLM",
        local_attention=4,
        cls_token_id=1,
        sep_token_id=2,
    ),
    decoder("BERT generation", "BertGenerationDecoder", is_decoder=True),
]
