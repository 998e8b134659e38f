"""Convolutional, vision and detection models in plain torch, built as timm and torchvision build theirs.

Many small modules and buffers: a convolution, a normalisation and an activation each, squeeze-and-excitation,
shifted windows, a feature pyramid with heads that run at each level.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class ConvNormAct(nn.Module):
    def __init__(
        self, inner: int, outer: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outer)
        self.act: nn.Module = nn.SiLU() if act else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


# ---- residual networks


class Bottleneck(nn.Module):
    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.act = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inner != outer:
            shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.act(self.bn1(self.conv1(x)))
        x = self.act(self.bn2(self.conv2(x)))
        return self.act(self.bn3(self.conv3(x)) + shortcut)


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        inner, self.widths = width, []
        stages = []
        for stage, count in enumerate(blocks):
            layers = []
            for n in range(count):
                layers.append(Bottleneck(inner, width << stage, 2 if n == 0 and stage else 1))
                inner = 4 * (width << stage)
            stages.append(nn.Sequential(*layers))
            self.widths.append(inner)
        self.stages = nn.ModuleList(stages)
        self.head = nn.Linear(inner, classes)

    def features(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.pool(self.stem(x))
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x)[-1].mean((2, 3)))


# ---- inverted residuals with squeeze-and-excitation


class SqueezeExcite(nn.Module):
    def __init__(self, width: int, reduced: int) -> None:
        super().__init__()
        self.conv_reduce, self.act1 = nn.Conv2d(width, reduced, 1), nn.SiLU()
        self.conv_expand, self.gate = nn.Conv2d(reduced, width, 1), nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.conv_expand(self.act1(self.conv_reduce(x.mean((2, 3), keepdim=True))))
        return x * self.gate(scale)


class InvertedResidual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        width = 4 * inner
        self.has_skip = inner == outer and stride == 1
        self.conv_pw = ConvNormAct(inner, width, 1)
        self.conv_dw = ConvNormAct(width, width, 3, stride, groups=width)
        self.se = SqueezeExcite(width, max(1, inner // 4))
        self.conv_pwl = ConvNormAct(width, outer, 1, act=False)
        self.drop_path = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv_pwl(self.se(self.conv_dw(self.conv_pw(x))))
        return self.drop_path(y) + x if self.has_skip else y


STAGES = ((16, 2, 1), (24, 3, 2), (40, 3, 2), (80, 4, 2), (112, 4, 1))
"""(width, blocks, stride)"""


class EfficientNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv_stem, inner = ConvNormAct(3, 16, 3, 2), 16
        stages = []
        for width, count, stride in STAGES:
            blocks = [InvertedResidual(inner, width, stride)]
            blocks += [InvertedResidual(width, width, 1) for _ in range(count - 1)]
            stages.append(nn.Sequential(*blocks))
            inner = width
        self.blocks = nn.Sequential(*stages)
        self.conv_head = ConvNormAct(inner, 320, 1)
        self.global_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(320, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.global_pool(self.conv_head(self.blocks(self.conv_stem(x)))))


# ---- shifted windows


class WindowAttention(nn.Module):
    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.relative_bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        between = (places[:, :, None] - places[:, None]).permute(1, 2, 0) + window - 1
        index = between[..., 0] * (2 * window - 1) + between[..., 1]
        self.register_buffer("relative_index", index, persistent=False)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attn_drop, self.proj_drop = nn.Dropout(0.0), nn.Dropout(0.0)
        self.softmax = nn.Softmax(-1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        windows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(windows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        weights = (query * self.scale) @ key.transpose(-2, -1)
        bias = self.relative_bias[self.relative_index.view(-1)].view(tokens, tokens, -1)
        weights = weights + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            weights = weights.view(-1, count, self.heads, tokens, tokens) + mask.unsqueeze(1).unsqueeze(0)
            weights = weights.view(-1, self.heads, tokens, tokens)
        weights = self.attn_drop(self.softmax(weights))
        return self.proj_drop(self.proj((weights @ value).transpose(1, 2).reshape(windows, tokens, width)))


class SwinBlock(nn.Module):
    def __init__(self, width: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.size, self.window, self.shift = size, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = WindowAttention(width, 4, window)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        mask = None
        if shift:
            number = torch.zeros(1, size, size, 1)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for n, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
                number[:, rows, columns] = n
            parts = self.cut(number).squeeze(-1)
            mask = (parts.unsqueeze(1) != parts.unsqueeze(2)).float() * -100.0
        self.register_buffer("attn_mask", mask, persistent=False)

    def cut(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns, width = x.shape
        step = self.window
        x = x.view(batch, rows // step, step, columns // step, step, width)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, step * step, width)

    def join(self, windows: torch.Tensor) -> torch.Tensor:
        step, size = self.window, self.size
        x = windows.view(-1, size // step, size // step, step, step, windows.shape[-1])
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size, size, windows.shape[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.join(self.attn(self.cut(y), self.attn_mask))
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x[:, rows::2, columns::2] for columns in (0, 1) for rows in (0, 1)]
        return self.reduction(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    def __init__(self, blocks: tuple[int, ...] = (2, 2, 6, 2), size: int = 32, classes: int = 10) -> None:
        super().__init__()
        width, window = 32, 4
        self.patch_embed = nn.Conv2d(3, width, 4, 4)
        layers: list[nn.Module] = []
        for stage, count in enumerate(blocks):
            if stage:
                layers.append(PatchMerging(width))
                width, size = 2 * width, size // 2
            for n in range(count):
                shift = window // 2 if n % 2 and size > window else 0
                layers.append(SwinBlock(width, size, window, shift))
        self.layers = nn.ModuleList(layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(x).permute(0, 2, 3, 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean((1, 2)))


# ---- detection


class FrozenBatchNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((width,), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight.reshape(1, -1, 1, 1), self.bias.reshape(1, -1, 1, 1)
        scale = weight * (self.running_var.reshape(1, -1, 1, 1) + 1e-5).rsqrt()
        return x * scale + (bias - self.running_mean.reshape(1, -1, 1, 1) * scale)


class Pyramid(nn.Module):
    def __init__(self, widths: list[int], width: int) -> None:
        super().__init__()
        self.inner_blocks = nn.ModuleList(nn.Conv2d(each, width, 1) for each in widths)
        self.layer_blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in widths)

    def forward(self, features: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        last = self.inner_blocks[-1](features[-1])
        results = [self.layer_blocks[-1](last)]
        for n in range(len(features) - 2, -1, -1):
            lateral = self.inner_blocks[n](features[n])
            last = lateral + F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[n](last))
        return {str(n): each for n, each in enumerate(results)}


class Head(nn.Module):
    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), FrozenBatchNorm(width), nn.ReLU()]
        self.conv, self.out = nn.Sequential(*layers), nn.Conv2d(width, 9 * outputs, 3, padding=1)
        self.outputs = outputs

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        found = []
        for each in features:
            logits = self.out(self.conv(each))
            batch, _, height, width = logits.shape
            logits = logits.view(batch, -1, self.outputs, height, width).permute(0, 3, 4, 1, 2)
            found.append(logits.reshape(batch, -1, self.outputs))
        return torch.cat(found, 1)


class Detector(nn.Module):
    """As RetinaNet: a backbone, a pyramid, two heads, and boxes around anchors. What is left out is the
    suppression of overlapping boxes, whose number depends on data."""

    def __init__(self, classes: int = 5, width: int = 32) -> None:
        super().__init__()
        self.backbone = ResNet((2, 2, 2, 2))
        self.fpn = Pyramid(self.backbone.widths, width)
        self.classification, self.regression = Head(width, classes), Head(width, 4)
        self.anchor_sizes = [(32.0 * 2**n, 32.0 * 2**n * 2 ** (1 / 3), 48.0 * 2**n) for n in range(4)]
        self.ratios = (0.5, 1.0, 2.0)

    def anchors(self, features: list[torch.Tensor], size: torch.Size) -> torch.Tensor:
        found = []
        for each, sizes in zip(features, self.anchor_sizes, strict=True):
            rows, columns = each.shape[-2:]
            y = torch.arange(rows, device=each.device) * (size[-2] // rows)
            x = torch.arange(columns, device=each.device) * (size[-1] // columns)
            shift_y, shift_x = torch.meshgrid(y, x, indexing="ij")
            shifts = torch.stack([shift_x, shift_y, shift_x, shift_y], -1).reshape(-1, 1, 4)
            cells = [
                [-s * r**-0.5 / 2, -s * r**0.5 / 2, s * r**-0.5 / 2, s * r**0.5 / 2]
                for s in sizes
                for r in self.ratios
            ]
            found.append((shifts + torch.tensor(cells, device=each.device).unsqueeze(0)).reshape(-1, 4))
        return torch.cat(found)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        features = list(self.fpn(self.backbone.features(images)).values())
        scores, offsets = self.classification(features).sigmoid(), self.regression(features)
        anchors = self.anchors(features, images.shape)
        sizes = anchors[:, 2:] - anchors[:, :2]
        centers = anchors[:, :2] + 0.5 * sizes + offsets[..., :2] * sizes
        halves = 0.5 * sizes * offsets[..., 2:].clamp(max=4.135).exp()
        boxes = torch.cat([centers - halves, centers + halves], -1).clamp(min=0, max=images.shape[-1])
        best, labels = scores.max(-1)
        return {"boxes": boxes, "scores": best, "labels": labels}
