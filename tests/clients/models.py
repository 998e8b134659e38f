"""Libraries of models, and of what is done to images and sound: timm, torchvision, kornia, MONAI,
ultralytics, speechbrain, sentence-transformers; botorch and torchrl, which optimise."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clients.how import How, client
from clients.training import state


def picture(n: int, side: int, channels: int = 3, seed: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.rand(n, channels, side, side, generator=made)


def sound(n: int, length: int) -> torch.Tensor:
    return torch.randn(n, length, generator=torch.Generator().manual_seed(1)) / 3


def load_torchvision() -> None:
    """timm and ultralytics import it. Its wheels on the package index have kernels for CUDA only: one for
    non-maximum suppression stands in, and torchvision itself computes the rest in Python."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        given = "Tensor dets, Tensor scores, float iou_threshold"
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", f"({given}) -> Tensor")
        torch.library.impl("torchvision::nms", "CPU")(suppress)
        import torchvision.ops.boxes

        torchvision.ops.boxes._assert_has_ops = lambda: None


def suppress(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    corners = torch.minimum(boxes[:, None, 2:], boxes[:, 2:]), torch.maximum(boxes[:, None, :2], boxes[:, :2])
    shared = (corners[0] - corners[1]).clamp(min=0).prod(2)
    overlaps = shared / (areas[:, None] + areas - shared) > threshold
    left = torch.ones(len(boxes), dtype=torch.bool)
    kept = []
    for n in scores.argsort(descending=True, stable=True).tolist():
        if left[n]:
            kept.append(n)
            left &= ~overlaps[n]
    return torch.tensor(kept, dtype=torch.int64)


# ---- timm


@client("timm: a ViT and a ConvNeXt, two sizes of batches, features", "timm")
def timm_models(how: How) -> Any:
    import timm

    found = []
    small: dict[str, Any] = {"num_classes": 5, "pretrained": False}
    for name, settings in (
        ("vit_tiny_patch16_224", {"img_size": 32, "patch_size": 8, "depth": 2}),
        ("convnext_atto", {"depths": (1, 1, 1, 1)}),
        ("resnet18", {}),
    ):
        torch.manual_seed(0)
        model = timm.create_model(name, **small, **settings).eval()
        compiled = how.compile(model)
        with torch.no_grad():
            found += [compiled(picture(n, 32)) for n in (1, 2)]
            found.append(model.forward_features(picture(1, 32)))
    return found


@client("timm: trained, with its optimizer, averaged weights and loss", "timm")
def timm_trained(how: How) -> Any:
    import timm
    import timm.loss
    import timm.optim
    import timm.utils

    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=4)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
    average = timm.utils.ModelEmaV3(model, decay=0.5)
    loss = timm.loss.LabelSmoothingCrossEntropy(0.1)
    compiled = how.compile(model)
    losses = []
    for step in range(3):
        out = loss(compiled(picture(4, 32, seed=step)), torch.arange(4))
        optimizer.zero_grad()
        out.backward()
        optimizer.step()
        average.update(timm.utils.unwrap_model(compiled))
        losses.append(out.item())
    return losses, state(average.module), list(timm.utils.unwrap_model(compiled).state_dict())


# ---- torchvision


@client("torchvision: detection, trained and asked", "torchvision")
def torchvision_detection(how: How) -> Any:
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.mobilenetv3 import mobilenet_v3_small

    torch.manual_seed(0)
    backbone: Any = mobilenet_v3_small().features[:4]
    backbone.out_channels = 24
    anchors = AnchorGenerator(((8, 16, 32),), ((0.5, 1.0, 2.0),))
    model = FasterRCNN(
        backbone, 3, min_size=48, max_size=64, rpn_anchor_generator=anchors, box_detections_per_img=5
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    compiled, losses = how.compile(model), []
    for step in range(2):
        boxes = torch.tensor([[4.0, 4.0, 30.0, 30.0], [10.0, 8.0, 40.0, 28.0]])
        target = {"boxes": boxes, "labels": torch.tensor([1, 2])}
        torch.manual_seed(step)
        parts = compiled([picture(1, 48, seed=step)[0]], [target])
        sum(parts.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append({name: part.item() for name, part in parts.items()})
    compiled.eval()
    with torch.no_grad():
        return losses, [compiled([picture(1, side, seed=side)[0]]) for side in (48, 56)]


@client("torchvision: transforms of images, boxes clipped and chosen", "torchvision")
def torchvision_transforms(how: How) -> Any:
    from torchvision.ops import box_iou, nms, roi_align
    from torchvision.transforms import v2

    steps = [v2.Resize((20, 24), antialias=True), v2.Normalize([0.5] * 3, [0.2] * 3), v2.CenterCrop(16)]
    compose = how.compile(v2.Compose(steps))

    def chosen(boxes: torch.Tensor, scores: torch.Tensor, image: torch.Tensor) -> Any:
        kept = nms(boxes, scores, 0.5)
        return kept, box_iou(boxes, boxes), roi_align(image, [boxes], 3, 0.5)

    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 11.0, 11.0], [20.0, 4.0, 30.0, 20.0]])
    found = [compose(picture(1, side)) for side in (30, 40)]
    return found, how.compile(chosen)(boxes, torch.tensor([0.5, 0.9, 0.4]), picture(1, 32))


# ---- kornia


@client("kornia: filters, geometry, augmentations, losses", "kornia")
def kornia_images(how: How) -> Any:
    import kornia

    def changed(image: torch.Tensor, angle: torch.Tensor) -> Any:
        image = kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0))
        edges = kornia.filters.sobel(image)
        turned = kornia.geometry.transform.rotate(image, angle)
        grey = kornia.color.rgb_to_grayscale(turned)
        return edges, kornia.losses.ssim_loss(image, turned, 5), kornia.color.rgb_to_lab(image), grey

    compiled = how.compile(changed)
    found = [compiled(picture(2, side), torch.tensor([10.0, 20.0])) for side in (16, 20)]
    augment = nn.Sequential(
        kornia.augmentation.RandomHorizontalFlip(p=1.0), kornia.augmentation.ColorJiggle(0.1)
    )
    torch.manual_seed(3)
    return found, how.compile(augment)(picture(2, 12))


# ---- MONAI


@client("MONAI: a U-Net trained on volumes, asked by windows", "monai")
def monai_unet(how: How) -> Any:
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    torch.manual_seed(0)
    model = UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), num_res_units=1
    )
    optimizer, loss = torch.optim.Adam(model.parameters(), 1e-3), DiceCELoss(to_onehot_y=True, softmax=True)
    compiled, losses = how.compile(model), []
    volume = torch.rand(2, 1, 16, 16, 16, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        out = loss(compiled(volume), (volume > 0.5).long())
        optimizer.zero_grad()
        out.backward()
        optimizer.step()
        losses.append(out.item())
    model.eval()
    with torch.no_grad():
        asked = sliding_window_inference(torch.ones(1, 1, 20, 20, 20), (16, 16, 16), 1, compiled)
    return losses, asked, state(model)


# ---- ultralytics


@client("ultralytics: YOLOv8 for two sizes, losses of a batch", "ultralytics")
def ultralytics_yolo(how: How) -> Any:
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    torch.manual_seed(0)
    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False)
    model.args = get_cfg()
    compiled = how.compile(model)
    batch = {
        "img": picture(2, 64),
        "batch_idx": torch.tensor([0.0, 1.0]),
        "cls": torch.tensor([[1.0], [2.0]]),
        "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.4, 0.6, 0.3, 0.5]]),
    }
    total, parts = compiled(batch)
    total.sum().backward()
    grads = [p.grad.sum() for p in model.parameters() if p.grad is not None]
    compiled.eval()
    with torch.no_grad():
        return parts, grads, [compiled(picture(1, side))[0] for side in (64, 96)]


# ---- speechbrain


@client("speechbrain: features of sound, an ECAPA-TDNN, a CRDNN", "speechbrain")
def speechbrain_features(how: How) -> Any:
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
    from speechbrain.nnet.losses import nll_loss
    from speechbrain.processing.features import InputNormalization

    torch.manual_seed(0)
    features, normalize = Fbank(n_mels=20), InputNormalization(norm_type="sentence")
    model = ECAPA_TDNN(20, lin_neurons=6, channels=[8] * 5, attention_channels=4, se_channels=4)

    def step(waves: torch.Tensor, lengths: torch.Tensor) -> Any:
        found = normalize(features(waves), lengths)
        return model(found, lengths)

    compiled, results = how.compile(step), []
    for length in (4000, 6000):
        out = compiled(sound(2, length), torch.tensor([1.0, 0.5]))
        loss = nll_loss(out.squeeze(1).log_softmax(-1).unsqueeze(1), torch.tensor([[1], [2]]))
        loss.backward()
        results += [out, loss]
    return results, [p.grad for p in model.parameters()]


# ---- sentence-transformers


@client("sentence-transformers: sentences encoded, a step of a loss", "sentence-transformers")
def sentence_embeddings(how: How) -> Any:
    from sentence_transformers import SentenceTransformer, losses
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    with tempfile.TemporaryDirectory() as place:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"a small program of tensors is fast".split()]
        (Path(place) / "vocab.txt").write_text("\n".join(words))
        torch.manual_seed(0)
        shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(place)
        BertTokenizer(str(Path(place) / "vocab.txt")).save_pretrained(place)
        words_of = Transformer(place)
    model = SentenceTransformer(modules=[words_of, Pooling(16)], device="cpu").eval()
    compiled = how.compile(model)
    with torch.no_grad():
        found = [model.encode(["a small program", "of tensors"], convert_to_tensor=True)]
        found.append(compiled(model.tokenize(["a program is fast", "tensors"]))["sentence_embedding"])
    loss = losses.CosineSimilarityLoss(model)
    asked = [model.tokenize(["a small program"]), model.tokenize(["of tensors"])]
    how.compile(loss)(asked, torch.tensor([0.5])).backward()
    return found, [p.grad for p in model.parameters()]


# ---- botorch


@client("botorch: a Gaussian process fitted, an acquisition function optimised", "botorch")
def botorch_step(how: How) -> Any:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    torch.manual_seed(0)
    x = torch.rand(6, 2, dtype=torch.float64)
    y = (x.sin().sum(-1, keepdim=True) - 1) * 2
    model = SingleTaskGP(x, y).eval()
    gains = LogExpectedImprovement(model, best_f=y.max())
    compiled, results = how.compile(gains), []
    for n in (3, 5):
        asked = torch.linspace(0, 1, 2 * n, dtype=torch.float64).reshape(n, 1, 2).requires_grad_()
        found = compiled(asked)
        found.sum().backward()
        results += [found, asked.grad]
    return results


# ---- torchrl


@client("torchrl: an actor's loss, replayed", "torchrl")
def torchrl_loss(how: How) -> Any:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss, SoftUpdate

    torch.manual_seed(0)
    actor = QValueActor(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),
        in_keys=["observation"],
        action_space="one_hot",
    )
    loss = DQNLoss(actor, action_space="one_hot", delay_value=True)
    update, optimizer = SoftUpdate(loss, eps=0.9), torch.optim.Adam(loss.parameters(), 1e-2)
    compiled, losses = how.compile(loss), []
    policy = how.compile(
        TensorDictModule(actor.module[0] if hasattr(actor, "module") else actor, ["observation"], ["values"])
    )
    for step in range(3):
        made = torch.Generator().manual_seed(step)
        observed = torch.randn(5, 4, generator=made)
        data = TensorDict(
            {
                "observation": observed,
                "action": torch.eye(3)[torch.arange(5) % 3],
                "next": {
                    "observation": observed + 1,
                    "reward": torch.rand(5, 1, generator=made),
                    "done": torch.zeros(5, 1, dtype=torch.bool),
                    "terminated": torch.zeros(5, 1, dtype=torch.bool),
                },
            },
            [5],
        )
        out = compiled(data)["loss"]
        optimizer.zero_grad()
        out.backward()
        optimizer.step()
        update.step()
        losses.append(out.item())
    asked = policy(TensorDict({"observation": torch.ones(2, 4)}, [2]))
    return losses, state(actor), asked["values"]
