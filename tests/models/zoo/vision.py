"""Vision: classification, features, detection, segmentation, depth."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from zoo.architecture import SIDE, SIZES, Architecture, Inputs, image, text

IMAGE = {"image_size": SIDE, "patch_size": 8, "num_labels": 5}


def vision(name: str, model: str, **options: Any) -> Architecture:
    given = {k: v for k, v in (SIZES | IMAGE | options).items() if v is not None}
    return Architecture(name, model, image, given)


def video(model: nn.Module) -> Inputs:
    return {"pixel_values": torch.randn(1, 4, 3, SIDE, SIDE)}


def masked(model: nn.Module) -> Inputs:
    """Images, and which of their pixels are not there."""
    mask = torch.ones(2, SIDE, SIDE, dtype=torch.long)
    mask[0, :, 24:] = 0
    return image(model) | {"pixel_mask": mask}


def prompted(model: nn.Module) -> Inputs:
    return image(model) | {"input_points": torch.tensor([[[[3.0, 4.0]]], [[[9.0, 2.0]]]])}


STAGES: dict[str, Any] = {
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "num_stages": 4,
    "num_hidden_layers": 4,  # another name for the same in some configurations
    "patch_size": 2,
}
SWIN: dict[str, Any] = {
    "num_attention_heads": None,
    "num_hidden_layers": None,
    "hidden_size": None,
    "embed_dim": 16,
    "depths": [1, 2],
    "num_heads": [2, 4],
    "window_size": 2,
    "patch_size": 4,
}
RESNET: dict[str, Any] = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
    "layer_type": "basic",
}
DETECTOR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_queries": 6,
    "use_timm_backbone": False,
    "backbone": None,
    "backbone_config": RESNET,
    "use_pretrained_backbone": False,
    "auxiliary_loss": False,
}


def detector(name: str, model: str, **options: Any) -> Architecture:
    return Architecture(name, model, masked, DETECTOR | {"num_labels": 5} | options)


VISION = [
    vision("ViT", "ViTForImageClassification"),
    vision("DeiT", "DeiTForImageClassification"),
    vision("BEiT", "BeitForImageClassification", use_relative_position_bias=True),
    vision("DINOv2", "Dinov2Model"),
    vision("DINOv2 with registers", "Dinov2WithRegistersModel"),
    vision("DINOv3", "DINOv3ViTModel"),
    vision(
        "ViT MAE",
        "ViTMAEForPreTraining",
        decoder_hidden_size=32,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=64,
    ),
    vision("ViT MSN", "ViTMSNForImageClassification"),
    vision("I-JEPA", "IJepaModel"),
    vision("Swin", "SwinForImageClassification", **SWIN),
    vision("Swin v2", "Swinv2ForImageClassification", **SWIN),
    vision(
        "Swin2SR", "Swin2SRForImageSuperResolution", **SWIN | {"patch_size": 1, "image_size": 8, "upscale": 2}
    ),
    vision("ConvNeXT", "ConvNextForImageClassification", **STAGES),
    vision("ConvNeXT v2", "ConvNextV2ForImageClassification", **STAGES),
    vision("ResNet", "ResNetForImageClassification", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    vision(
        "RegNet",
        "RegNetForImageClassification",
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        groups_width=4,
        num_hidden_layers=None,
    ),
    vision(
        "BiT",
        "BitForImageClassification",
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_groups=2,
        num_hidden_layers=None,
    ),
    vision(
        "EfficientNet",
        "EfficientNetForImageClassification",
        width_coefficient=0.25,
        depth_coefficient=0.25,
        hidden_dim=320,
    ),
    vision("MobileNet v1", "MobileNetV1ForImageClassification", depth_multiplier=0.25),
    vision("MobileNet v2", "MobileNetV2ForImageClassification", depth_multiplier=0.25),
    vision(
        "MobileViT",
        "MobileViTForImageClassification",
        patch_size=2,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
    ),
    vision(
        "SegFormer",
        "SegformerForSemanticSegmentation",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        sr_ratios=[4, 2, 1, 1],
    ),
    vision(
        "PVT",
        "PvtForImageClassification",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        patch_sizes=[4, 2, 2, 2],
    ),
    vision(
        "PVT v2",
        "PvtV2ForImageClassification",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
    ),
    vision(
        "PoolFormer", "PoolFormerForImageClassification", hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]
    ),
    vision(
        "CvT",
        "CvtForImageClassification",
        embed_dim=[8, 8, 16],
        num_heads=[1, 1, 2],
        depth=[1, 2, 3],
        num_hidden_layers=None,
        num_attention_heads=None,
    ),
    vision(
        "LeViT",
        "LevitForImageClassification",
        hidden_sizes=[16, 24, 32],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        patch_size=16,
    ),
    vision("FocalNet", "FocalNetForImageClassification", embed_dim=8, depths=[1, 1, 1, 1], patch_size=4),
    vision(
        "Hiera",
        "HieraForImageClassification",
        embed_dim=16,
        depths=[1, 1, 1],
        num_heads=[1, 2, 4],
        patch_size=[7, 7],
        patch_stride=[4, 4],
        patch_padding=[3, 3],
        masked_unit_size=[4, 4],
        image_size=[32, 32],
        query_stride=[2, 2],
        num_query_pool=1,
    ),
    vision(
        "SwiftFormer", "SwiftFormerForImageClassification", embed_dims=[8, 8, 16, 16], depths=[1, 1, 1, 1]
    ),
    vision("YOLOS", "YolosForObjectDetection", image_size=[32, 32], num_detection_tokens=5),
    Architecture("ImageGPT", "ImageGPTModel", text, SIZES | {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    Architecture(
        "TimeSformer", "TimesformerForVideoClassification", video, SIZES | IMAGE | {"num_frames": 4}
    ),
    Architecture("VideoMAE", "VideoMAEForVideoClassification", video, SIZES | IMAGE | {"num_frames": 4}),
    Architecture(
        "ViViT",
        "VivitForVideoClassification",
        video,
        SIZES | IMAGE | {"num_frames": 4, "tubelet_size": [2, 8, 8]},
    ),
    vision(
        "DPT",
        "DPTForDepthEstimation",
        num_hidden_layers=4,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        is_hybrid=False,
    ),
    vision(
        "GLPN",
        "GLPNForDepthEstimation",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=8,
    ),
    vision(
        "UperNet",
        "UperNetForSemanticSegmentation",
        hidden_size=16,
        backbone_config={
            "model_type": "convnext",
            "hidden_sizes": [8, 8, 16, 16],
            "depths": [1, 1, 1, 1],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
        auxiliary_in_channels=16,
        auxiliary_channels=8,
        backbone=None,
    ),
    detector("DETR", "DetrForObjectDetection"),
    detector(
        "DETR, segmentation",
        "DetrForSegmentation",
        d_model=128,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
    ),
    detector("Conditional DETR", "ConditionalDetrForObjectDetection"),
    detector("DAB-DETR", "DabDetrForObjectDetection", hidden_size=32, num_patterns=0),
    detector("Deformable DETR", "DeformableDetrForObjectDetection", num_feature_levels=4),
    detector("Table Transformer", "TableTransformerForObjectDetection"),
    detector(
        "RT-DETR",
        "RTDetrForObjectDetection",
        encoder_hidden_dim=32,
        encoder_in_channels=[8, 16, 16],
        feat_strides=[8, 16, 32],
        decoder_in_channels=[32, 32, 32],
        anchor_image_size=None,
        backbone_config={
            "model_type": "rt_detr_resnet",
            "embedding_size": 8,
            "hidden_sizes": [8, 8, 16, 16],
            "depths": [1, 1, 1, 1],
            "out_features": ["stage2", "stage3", "stage4"],
            "layer_type": "basic",
        },
        num_denoising=0,
    ),
    Architecture(
        "SAM",
        "SamModel",
        prompted,
        {
            "vision_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": SIDE,
                "patch_size": 8,
                "output_channels": 16,
                "num_pos_feats": 8,
                "mlp_dim": 64,
                "window_size": 2,
                "global_attn_indexes": [1],
            },
            "prompt_encoder_config": {
                "hidden_size": 16,
                "image_size": SIDE,
                "patch_size": 8,
                "mask_input_channels": 4,
                "image_embedding_size": 4,
            },
            "mask_decoder_config": {
                "hidden_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "mlp_dim": 32,
                "iou_head_hidden_dim": 16,
            },
        },
    ),
]
