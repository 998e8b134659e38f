"""Text with images or sound, and other things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo.architecture import (
    BATCH,
    IDS,
    SIDE,
    SIZES,
    VOCABULARY,
    Architecture,
    Inputs,
    image,
    padded_text,
    text,
    token_ids,
)
from zoo.decoders import GREEDY, GROUPED

IMAGE_TOKEN = VOCABULARY - 1
TEXT: dict[str, Any] = SIZES | IDS | GROUPED | {"vocab_size": VOCABULARY}
PATCHES: dict[str, Any] = SIZES | {"image_size": SIDE, "patch_size": 8, "projection_dim": 16}
IMAGE_PATCHES = (SIDE // 8) ** 2


def both(model: nn.Module) -> Inputs:
    return padded_text(model) | image(model)


def between(count: int = IMAGE_PATCHES, **more: Callable[[], Any]) -> Callable[[nn.Module], Inputs]:
    """Text with the places of so many patches of an image in it."""

    def inputs(model: nn.Module) -> Inputs:
        ids = torch.cat(
            [token_ids(2), torch.full((BATCH, count), IMAGE_TOKEN), token_ids(3).clamp(max=IMAGE_TOKEN - 1)],
            1,
        )
        made = {name: make() for name, make in more.items()}
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | image(model) | made

    return inputs


LLAMA = TEXT | {"model_type": "llama"}
CLIP_VISION = PATCHES | {"model_type": "clip_vision_model"}
SIGLIP_VISION = PATCHES | {"model_type": "siglip_vision_model"}

MULTIMODAL = [
    Architecture(
        "CLIP",
        "CLIPModel",
        both,
        {"text_config": TEXT | {"projection_dim": 16}, "vision_config": PATCHES, "projection_dim": 16},
    ),
    Architecture(
        "Chinese-CLIP",
        "ChineseCLIPModel",
        both,
        {"text_config": TEXT, "vision_config": PATCHES, "projection_dim": 16},
    ),
    Architecture(
        "AltCLIP",
        "AltCLIPModel",
        both,
        {"text_config": TEXT | {"project_dim": 16}, "vision_config": PATCHES, "projection_dim": 16},
    ),
    Architecture(
        "CLIPSeg",
        "CLIPSegForImageSegmentation",
        both,
        {
            "text_config": TEXT,
            "vision_config": PATCHES | {"num_hidden_layers": 3},
            "projection_dim": 16,
            "extract_layers": [1, 2],
            "reduce_dim": 16,
            "decoder_num_attention_heads": 4,
            "decoder_intermediate_size": 32,
        },
    ),
    Architecture("SigLIP", "SiglipModel", both, {"text_config": TEXT, "vision_config": PATCHES}),
    Architecture(
        "OWL-ViT",
        "OwlViTForObjectDetection",
        both,
        {"text_config": TEXT, "vision_config": PATCHES, "projection_dim": 32},
    ),
    Architecture(
        "GroupViT",
        "GroupViTModel",
        both,
        {
            "text_config": TEXT,
            "vision_config": PATCHES
            | {"depths": [1, 1], "num_group_tokens": [0, 4], "num_output_groups": [0, 4]},
            "projection_dim": 16,
            "projection_intermediate_dim": 32,
        },
    ),
    Architecture(
        "CLAP",
        "ClapModel",
        lambda model: (
            padded_text(model)
            | {"input_features": torch.randn(BATCH, 1, 64, 16), "is_longer": torch.tensor([[False], [False]])}
        ),
        {
            "text_config": TEXT | {"projection_dim": 16},
            "audio_config": {
                "hidden_size": 32,
                "num_mel_bins": 16,
                "spec_size": 32,
                "window_size": 4,
                "patch_size": 4,
                "patch_stride": [4, 4],
                "depths": [1, 1],
                "num_attention_heads": [2, 2],
                "patch_embeds_hidden_size": 16,
                "projection_dim": 16,
                "num_hidden_layers": 2,
            },
            "projection_dim": 16,
        },
    ),
    Architecture(
        "BLIP",
        "BlipForConditionalGeneration",
        both,
        {"text_config": TEXT | {"is_decoder": True}, "vision_config": PATCHES, "projection_dim": 16},
    ),
    Architecture(
        "BLIP, retrieval",
        "BlipForImageTextRetrieval",
        both,
        {"text_config": TEXT, "vision_config": PATCHES, "projection_dim": 16},
    ),
    Architecture(
        "BLIP-2",
        "Blip2ForConditionalGeneration",
        between(4),
        {
            "text_config": TEXT | {"model_type": "opt", "ffn_dim": 64, "word_embed_proj_dim": 32},
            "vision_config": PATCHES,
            "qformer_config": SIZES | {"encoder_hidden_size": 32},
            "num_query_tokens": 4,
            "image_token_index": IMAGE_TOKEN,
        },
        GREEDY,
    ),
    Architecture(
        "LLaVA",
        "LlavaForConditionalGeneration",
        between(),
        {
            "text_config": LLAMA,
            "vision_config": CLIP_VISION,
            "image_token_index": IMAGE_TOKEN,
            "vision_feature_layer": -1,
        },
        GREEDY,
    ),
    Architecture(
        "VipLLaVA",
        "VipLlavaForConditionalGeneration",
        between(),
        {
            "text_config": LLAMA,
            "vision_config": CLIP_VISION,
            "image_token_index": IMAGE_TOKEN,
            "vision_feature_layers": [-1, -2],
        },
        GREEDY,
    ),
    Architecture(
        "PaliGemma",
        "PaliGemmaForConditionalGeneration",
        between(token_type_ids=lambda: torch.zeros(BATCH, IMAGE_PATCHES + 5, dtype=torch.long)),
        {
            "text_config": TEXT | {"model_type": "gemma"},
            "vision_config": SIGLIP_VISION,
            "image_token_index": IMAGE_TOKEN,
            "projection_dim": 32,
            "hidden_size": 32,
        },
        GREEDY,
    ),
    Architecture(
        "Gemma 3, images",
        "Gemma3ForConditionalGeneration",
        between(4, token_type_ids=lambda: torch.zeros(BATCH, 9, dtype=torch.long)),
        {
            "text_config": TEXT
            | {
                "model_type": "gemma3_text",
                "sliding_window": 4,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "vision_config": SIGLIP_VISION,
            "image_token_id": IMAGE_TOKEN,
            "image_token_index": IMAGE_TOKEN,
            "mm_tokens_per_image": 4,
        },
        GREEDY,
    ),
    Architecture(
        "InternVL",
        "InternVLForConditionalGeneration",
        between(4),
        {
            "text_config": TEXT | {"model_type": "qwen2"},
            "vision_config": SIZES
            | {"image_size": [SIDE, SIDE], "patch_size": [8, 8], "model_type": "internvl_vision"},
            "image_token_id": IMAGE_TOKEN,
        },
        GREEDY,
    ),
    Architecture(
        "Idefics 3",
        "Idefics3ForConditionalGeneration",
        between(4, pixel_values=lambda: torch.randn(BATCH, 1, 3, SIDE, SIDE)),
        {"text_config": LLAMA, "vision_config": PATCHES, "image_token_id": IMAGE_TOKEN, "scale_factor": 2},
        GREEDY,
    ),
    Architecture(
        "SmolVLM",
        "SmolVLMForConditionalGeneration",
        between(4, pixel_values=lambda: torch.randn(BATCH, 1, 3, SIDE, SIDE)),
        {"text_config": LLAMA, "vision_config": PATCHES, "image_token_id": IMAGE_TOKEN, "scale_factor": 2},
        GREEDY,
    ),
    Architecture("ViLT", "ViltForQuestionAnswering", both, SIZES | {"image_size": SIDE, "patch_size": 8}),
    Architecture(
        "VisualBERT",
        "VisualBertModel",
        lambda model: padded_text(model) | {"visual_embeds": torch.randn(BATCH, 3, 16)},
        SIZES | {"visual_embedding_dim": 16},
    ),
    Architecture(
        "LXMERT",
        "LxmertModel",
        lambda model: (
            padded_text(model)
            | {"visual_feats": torch.randn(BATCH, 3, 16), "visual_pos": torch.rand(BATCH, 3, 4)}
        ),
        SIZES | {"visual_feat_dim": 16, "l_layers": 1, "x_layers": 1, "r_layers": 1},
    ),
    Architecture(
        "BridgeTower",
        "BridgeTowerModel",
        both,
        {
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "text_config": TEXT | {"hidden_size": 64},
            "vision_config": PATCHES | {"num_hidden_layers": 2, "hidden_size": 64},
        },
    ),
    Architecture(
        "FLAVA",
        "FlavaModel",
        both,
        {
            "text_config": TEXT,
            "image_config": PATCHES,
            "multimodal_config": SIZES,
            "hidden_size": 32,
            "projection_dim": 16,
        },
    ),
    Architecture("GIT", "GitForCausalLM", both, SIZES | IDS | {"vision_config": PATCHES}, GREEDY),
    Architecture(
        "Vision encoder decoder",
        "VisionEncoderDecoderModel",
        lambda model: image(model) | {"decoder_input_ids": token_ids(4)},
        {
            "encoder": PATCHES | {"model_type": "vit"},
            "decoder": SIZES | IDS | {"model_type": "bert", "is_decoder": True, "add_cross_attention": True},
            "decoder_start_token_id": 1,
            "pad_token_id": 0,
        },
        GREEDY,
    ),
    Architecture(
        "Vision text dual encoder",
        "VisionTextDualEncoderModel",
        both,
        {
            "vision_config": PATCHES | {"model_type": "vit"},
            "text_config": SIZES | {"model_type": "bert"},
            "projection_dim": 16,
        },
    ),
    Architecture(
        "Donut encoder",
        "DonutSwinModel",
        image,
        {
            "image_size": SIDE,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 2],
            "num_heads": [2, 4],
            "window_size": 2,
        },
    ),
    Architecture(
        "Perceiver",
        "PerceiverForMaskedLM",
        text,
        {
            "vocab_size": VOCABULARY,
            "d_model": 16,
            "d_latents": 16,
            "num_latents": 4,
            "num_blocks": 1,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
            "max_position_embeddings": 7,
        },
    ),
    Architecture(
        "Decision Transformer",
        "DecisionTransformerModel",
        lambda model: {
            "states": torch.randn(BATCH, 3, 5),
            "actions": torch.randn(BATCH, 3, 2),
            "rewards": torch.randn(BATCH, 3, 1),
            "returns_to_go": torch.randn(BATCH, 3, 1),
            "timesteps": torch.arange(3).repeat(BATCH, 1),
            "attention_mask": torch.ones(BATCH, 3),
        },
        {"state_dim": 5, "act_dim": 2, "hidden_size": 32, "n_layer": 2, "n_head": 4, "max_ep_len": 16},
    ),
    Architecture(
        "PatchTST",
        "PatchTSTForPrediction",
        lambda model: {"past_values": torch.randn(BATCH, 16, 2)},
        {
            "context_length": 16,
            "patch_length": 4,
            "patch_stride": 4,
            "num_input_channels": 2,
            "d_model": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "prediction_length": 4,
            "do_mask_input": False,
        },
    ),
    Architecture(
        "PatchTSMixer",
        "PatchTSMixerForPrediction",
        lambda model: {"past_values": torch.randn(BATCH, 16, 2)},
        {
            "context_length": 16,
            "patch_length": 4,
            "patch_stride": 4,
            "num_input_channels": 2,
            "d_model": 16,
            "num_layers": 2,
            "prediction_length": 4,
        },
    ),
    Architecture(
        "Time Series Transformer",
        "TimeSeriesTransformerModel",
        lambda model: {
            "past_values": torch.randn(BATCH, 12),
            "past_time_features": torch.randn(BATCH, 12, 1),
            "past_observed_mask": torch.ones(BATCH, 12),
            "future_values": torch.randn(BATCH, 4),
            "future_time_features": torch.randn(BATCH, 4, 1),
        },
        {
            "prediction_length": 4,
            "context_length": 8,
            "lags_sequence": [1, 2, 4],
            "num_time_features": 1,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
        },
    ),
]
