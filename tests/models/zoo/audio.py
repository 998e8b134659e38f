"""Audio: features, recognition, codecs, speech."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from zoo.architecture import BATCH, IDS, SIZES, Architecture, Inputs, token_ids
from zoo.decoders import GREEDY
from zoo.sequences import TWO

SAMPLES = 400


def wave(model: nn.Module) -> Inputs:
    return {"input_values": torch.randn(BATCH, SAMPLES)}


def codec_wave(model: nn.Module) -> Inputs:
    return {"input_values": torch.randn(BATCH, 1, SAMPLES)}


def spectrum(model: nn.Module) -> Inputs:
    return {"input_features": torch.randn(BATCH, 8, 20), "decoder_input_ids": token_ids(4)}


def frames(model: nn.Module) -> Inputs:
    return {"input_features": torch.randn(BATCH, 20, 8), "decoder_input_ids": token_ids(4)}


def speech(name: str, model: str, **options: Any) -> Architecture:
    return Architecture(name, model, wave, SIZES | IDS | SMALL | options)


SMALL: dict[str, Any] = {
    "conv_dim": (8, 8),
    "conv_kernel": (4, 4),
    "conv_stride": (4, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "num_codevectors_per_group": 8,
    "codevector_dim": 16,
    "proj_codevector_dim": 16,
    "mask_time_prob": 0.0,
    "output_hidden_size": 32,
    "feat_extract_norm": "layer",
}

AUDIO = [
    speech("wav2vec 2", "Wav2Vec2ForCTC"),
    speech("wav2vec 2, masked", "Wav2Vec2Model", mask_time_prob=0.3, mask_time_length=2),
    speech("wav2vec 2, classification", "Wav2Vec2ForSequenceClassification"),
    speech("HuBERT", "HubertForCTC"),
    speech("WavLM", "WavLMForCTC"),
    speech("Data2Vec audio", "Data2VecAudioForCTC", conv_pos_kernel_size=3, num_conv_pos_embeddings=2),
    speech("UniSpeech", "UniSpeechForCTC"),
    speech("UniSpeech-SAT", "UniSpeechSatForCTC"),
    speech("SEW", "SEWForCTC", squeeze_factor=2),
    speech("SEW-D", "SEWDForCTC", squeeze_factor=2),
    speech("wav2vec 2 Conformer", "Wav2Vec2ConformerForCTC", position_embeddings_type="rotary"),
    Architecture(
        "wav2vec 2 BERT",
        "Wav2Vec2BertModel",
        lambda model: {"input_features": torch.randn(BATCH, 20, 8)},
        SIZES | IDS | {"feature_projection_input_dim": 8, "mask_time_prob": 0.0},
    ),
    Architecture(
        "Whisper",
        "WhisperForConditionalGeneration",
        spectrum,
        SIZES
        | IDS
        | TWO
        | {
            "num_mel_bins": 8,
            "max_source_positions": 10,
            "max_target_positions": 32,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        GREEDY,
    ),
    Architecture(
        "Speech2Text",
        "Speech2TextForConditionalGeneration",
        frames,
        SIZES
        | IDS
        | TWO
        | {
            "input_feat_per_channel": 8,
            "num_conv_layers": 2,
            "conv_channels": 16,
            "max_source_positions": 64,
            "max_target_positions": 32,
        },
        GREEDY,
    ),
    Architecture(
        "Moonshine",
        "MoonshineForConditionalGeneration",
        lambda model: {"input_values": torch.randn(BATCH, 4000), "decoder_input_ids": token_ids(4)},
        SIZES
        | IDS
        | {
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "decoder_start_token_id": 1,
        },
        GREEDY,
    ),
    Architecture(
        "Audio Spectrogram Transformer",
        "ASTForAudioClassification",
        lambda model: {"input_values": torch.randn(BATCH, 24, 16)},
        SIZES
        | {"max_length": 24, "num_mel_bins": 16, "patch_size": 4, "frequency_stride": 4, "time_stride": 4},
    ),
    Architecture(
        "EnCodec",
        "EncodecModel",
        codec_wave,
        {
            "hidden_size": 16,
            "num_filters": 4,
            "upsampling_ratios": [4, 2],
            "codebook_size": 16,
            "codebook_dim": 16,
            "num_lstm_layers": 1,
            "target_bandwidths": [24.0],
        },
        trains=False,
    ),
    Architecture(
        "DAC",
        "DacModel",
        codec_wave,
        {
            "encoder_hidden_size": 8,
            "downsampling_ratios": [2, 4],
            "decoder_hidden_size": 16,
            "upsampling_ratios": [4, 2],
            "n_codebooks": 2,
            "codebook_size": 16,
            "codebook_dim": 4,
        },
    ),
    Architecture(
        "Mimi",
        "MimiModel",
        codec_wave,
        {
            "hidden_size": 16,
            "num_filters": 4,
            "upsampling_ratios": [4, 2],
            "codebook_size": 16,
            "upsample_groups": 16,
            "codebook_dim": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "intermediate_size": 32,
            "vector_quantization_hidden_dimension": 16,
            "num_quantizers": 3,
            "head_dim": 8,
        },
        trains=False,
    ),
    Architecture(
        "SpeechT5",
        "SpeechT5ForSpeechToText",
        lambda model: {"input_values": torch.randn(BATCH, SAMPLES), "decoder_input_ids": token_ids(4)},
        SIZES | IDS | SMALL | TWO | {"decoder_start_token_id": 1},
    ),
    Architecture(
        "VITS",
        "VitsModel",
        lambda model: {"input_ids": token_ids()},
        SIZES
        | {
            "ffn_dim": 64,
            "flow_size": 16,
            "spectrogram_bins": 9,
            "window_size": 2,
            "prior_encoder_num_flows": 1,
            "duration_predictor_num_flows": 1,
            "duration_predictor_filter_channels": 16,
            "upsample_initial_channel": 16,
            "upsample_rates": [4, 2],
            "upsample_kernel_sizes": [8, 4],
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1]],
            "posterior_encoder_num_wavenet_layers": 1,
            "prior_encoder_num_wavenet_layers": 1,
            "wavenet_dilation_rate": 1,
            "num_attention_heads": 2,
        },
        trains=False,
    ),
]
