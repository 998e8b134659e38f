"""Text encoders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zoo.architecture import IDS, SIZES, VOCABULARY, Architecture, padded_text, text


def encoder(name: str, model: str, **options: Any) -> Architecture:
    return Architecture(name, model, padded_text, SIZES | {"pad_token_id": 0} | options)


ENCODERS = [
    encoder("BERT", "BertModel"),
    replace(encoder("BERT, eager attention", "BertForMaskedLM"), attention="eager"),
    encoder("RoBERTa", "RobertaForSequenceClassification", **IDS),
    encoder("ALBERT", "AlbertModel", embedding_size=16, num_hidden_groups=1),
    encoder("DistilBERT", "DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    encoder("ELECTRA", "ElectraForTokenClassification", embedding_size=16),
    encoder("DeBERTa", "DebertaModel", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    encoder("DeBERTa v2", "DebertaV2Model", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    encoder("MPNet", "MPNetModel", **IDS),
    encoder("XLM-RoBERTa", "XLMRobertaForQuestionAnswering", **IDS),
    encoder("CamemBERT", "CamembertModel", **IDS),
    encoder(
        "MobileBERT", "MobileBertModel", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16
    ),
    encoder("SqueezeBERT", "SqueezeBertModel", embedding_size=32),
    encoder("ConvBERT", "ConvBertModel", embedding_size=16),
    encoder("RoFormer", "RoFormerModel", embedding_size=16),
    encoder("RemBERT", "RemBertModel", input_embedding_size=16, output_embedding_size=16),
    encoder("ERNIE", "ErnieModel"),
    encoder("I-BERT", "IBertModel", **IDS),
    encoder("ESM", "EsmModel", mask_token_id=3, position_embedding_type="rotary"),
    encoder("MRA", "MraModel", block_per_row=2),
    encoder("Nystromformer", "NystromformerModel", num_landmarks=7, segment_means_seq_len=7),
    encoder("YOSO", "YosoModel"),
    encoder("Canine", "CanineModel", num_hash_buckets=64, local_transformer_stride=8, downsampling_rate=4),
    encoder("ModernBERT", "ModernBertModel", local_attention=4, **IDS, cls_token_id=1, sep_token_id=2),
    encoder("NomicBERT", "NomicBertModel"),
    encoder("EuroBERT", "EuroBertModel", num_key_value_heads=2, **IDS),
    encoder("Megatron-BERT", "MegatronBertModel"),
    encoder("RoBERTa prelayernorm", "RobertaPreLayerNormModel", **IDS),
    encoder("XLM", "XLMModel", emb_dim=32, n_layers=2, n_heads=4, n_words=64, pad_index=0, eos_index=2),
    encoder("FlauBERT", "FlaubertModel", emb_dim=32, n_layers=2, n_heads=4, n_words=64, pad_index=0),
    encoder("LayoutLM", "LayoutLMModel", max_2d_position_embeddings=64),
    encoder("BigBird", "BigBirdModel", attention_type="original_full", **IDS),
    encoder("Longformer", "LongformerModel", attention_window=4, **IDS),
    encoder("DPR", "DPRContextEncoder"),
    encoder("X-MOD", "XmodModel", **IDS, languages=["en_XX"], default_language="en_XX"),
    encoder("Splinter", "SplinterModel"),
    Architecture(
        "Funnel",
        "FunnelModel",
        padded_text,
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
            "block_sizes": [1, 1],
        },
    ),
    Architecture(
        "XLNet",
        "XLNetModel",
        padded_text,
        {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
    ),
    Architecture("FNet", "FNetModel", text, SIZES | {"pad_token_id": 0}),
]
