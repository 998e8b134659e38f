"""State-space models, linear attention, and those that mix them with attention."""

from __future__ import annotations

from zoo.decoders import decoder
from zoo.experts import LATENT, experts

MAMBA = {
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 4,
    "mamba_dt_rank": 4,
}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}

STATE_SPACE = [
    decoder("Mamba", "MambaForCausalLM", state_size=8, use_mambapy=False),
    decoder("Falcon Mamba", "FalconMambaForCausalLM", state_size=8),
    decoder("Mamba 2", "Mamba2ForCausalLM", state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=4),
    experts(
        "Jamba",
        "JambaForCausalLM",
        **MAMBA,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        use_mamba_kernels=False,
    ),
    decoder("Bamba", "BambaForCausalLM", **MAMBA, attn_layer_indices=[1]),
    decoder(
        "Zamba",
        "ZambaForCausalLM",
        n_mamba_heads=2,
        mamba_d_state=8,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        num_hidden_layers=4,
        head_dim=16,
        num_key_value_heads=4,
    ),
    decoder(
        "Zamba 2",
        "Zamba2ForCausalLM",
        n_mamba_heads=8,
        mamba_headdim=8,
        mamba_ngroups=1,
        mamba_d_state=8,
        chunk_size=4,
        layers_block_type=["mamba", "hybrid"],
        num_mem_blocks=1,
        use_mamba_kernels=False,
        adapter_rank=4,
        use_shared_attention_adapter=False,
        head_dim=None,
        num_key_value_heads=4,
    ),
    decoder("Falcon H1", "FalconH1ForCausalLM", **MAMBA | {"mamba_d_ssm": 64}),
    decoder(
        "Nemotron H",
        "NemotronHForCausalLM",
        mamba_num_heads=8,
        mamba_head_dim=8,
        ssm_state_size=8,
        n_groups=1,
        chunk_size=4,
        layers_block_type=["mamba", "attention"],
    ),
    experts(
        "Granite MoE hybrid",
        "GraniteMoeHybridForCausalLM",
        **MAMBA,
        layer_types=["mamba", "attention"],
        shared_intermediate_size=16,
    ),
    decoder("RWKV", "RwkvForCausalLM", attention_hidden_size=32, context_length=64),
    decoder(
        "RecurrentGemma",
        "RecurrentGemmaForCausalLM",
        lru_width=32,
        attention_window_size=4,
        block_types=["recurrent", "attention"],
    ),
    experts("Qwen 3 Next", "Qwen3NextForCausalLM", **DELTA),
    decoder("Qwen 3.5", "Qwen3_5ForCausalLM", **DELTA),
    decoder("LFM 2", "Lfm2ForCausalLM", layer_types=["conv", "full_attention"], block_multiple_of=8),
    experts(
        "MiniMax", "MiniMaxForCausalLM", layer_types=["linear_attention", "full_attention"], block_size=4
    ),
    decoder(
        "xLSTM",
        "xLSTMForCausalLM",
        num_heads=4,
        head_dim=None,
        hidden_size=64,
        qk_dim_factor=1.0,
        chunk_size=16,
        embedding_dim=64,
        num_blocks=2,
    ),
    decoder("OLMo hybrid", "OlmoHybridForCausalLM", **DELTA),
    experts("Kimi Linear", "KimiLinearForCausalLM", **DELTA | LATENT, linear_head_dim=8, linear_num_heads=4),
]
