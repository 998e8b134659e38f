"""Libraries that train, wrap and save models: accelerate, Lightning, peft, transformers."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clients.how import BACKEND, How, client

Batch = tuple[torch.Tensor, torch.Tensor]


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))


def batches(count: int = 4, size: int = 6) -> list[Batch]:
    made = torch.Generator().manual_seed(1)
    draw = lambda n: torch.randn(size, n, generator=made)
    return [(draw(8), draw(4)) for _ in range(count)]


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


# ---- accelerate


@client("accelerate: prepare, accumulate, unwrap, save, load", "accelerate")
def accelerate_training(how: How) -> Any:
    from accelerate import Accelerator
    from accelerate.utils import extract_model_from_parallel, is_compiled_module

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = how.compile(perceptron())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    torch.manual_seed(3)
    losses = []
    for x, y in batches():
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    bare = accelerator.unwrap_model(model, keep_torch_compile=False)
    kept = extract_model_from_parallel(model, keep_torch_compile=True)
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_model(model, folder)
        accelerator.save_state(f"{folder}/state")
        before = state(bare)
        with torch.no_grad():
            for parameter in bare.parameters():
                parameter.zero_()
        accelerator.load_state(f"{folder}/state")
        files = sorted(path.name for path in Path(folder).iterdir())
    known = (type(bare).__name__, is_compiled_module(kept) == how.known)
    return losses, state(bare), before, files, known


@client("accelerate: compiled by its own plugin", "accelerate", by_library=True)
def accelerate_plugin(how: How) -> Any:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, dynamo_backend=BACKEND if how.compiles else "no")
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    torch.manual_seed(3)
    for x, y in batches():
        accelerator.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    unwrapped = accelerator.unwrap_model(model, keep_torch_compile=False)
    return state(unwrapped), list(accelerator.get_state_dict(unwrapped))


@client("accelerate: each layer compiled (compile_regions)", "accelerate", by_library=True)
def accelerate_regions(how: How) -> Any:
    from accelerate.utils import compile_regions, has_compiled_regions

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16) for _ in range(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    model = Stack().eval()
    if how.compiles:
        model = compile_regions(model, backend=BACKEND)
    result = model(batches()[0][0][None])
    return result.detach(), bool(has_compiled_regions(model)) == how.compiles


# ---- Lightning


def lightning_module() -> Any:
    from lightning.pytorch import LightningModule

    class Regression(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = perceptron()
            self.losses: list[float] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: Batch, index: int) -> torch.Tensor:
            loss = nn.functional.mse_loss(self(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
            self.losses.append(outputs["loss"].item())

        def validation_step(self, batch: Batch, index: int) -> None:
            self.log("validation", nn.functional.mse_loss(self(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), 1e-2)
            return {
                "optimizer": optimizer,
                "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2),
            }

    return Regression()


def fit(module: Any, folder: str) -> tuple[Any, Any]:
    from lightning.pytorch import Trainer

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(max_epochs=2, accelerator="cpu", default_root_dir=folder, **quiet)
    torch.manual_seed(3)
    load = lambda made: torch.utils.data.DataLoader(made, batch_size=None)
    trainer.fit(module, load(batches()), load(batches(1)))
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    return trainer, metrics


@client("Lightning: a compiled module is fitted, saved, loaded", "lightning")
def lightning_fit(how: How) -> Any:
    module = lightning_module()
    with tempfile.TemporaryDirectory() as folder:
        trainer, metrics = fit(how.compile(module), folder)
        trainer.save_checkpoint(f"{folder}/kept.ckpt")
        kept = torch.load(f"{folder}/kept.ckpt", weights_only=False)["state_dict"]
        again = type(module).load_from_checkpoint(f"{folder}/kept.ckpt")
    return metrics, module.losses, kept, state(again)


@client("Lightning: Fabric, compiled before and after its set-up", "lightning")
def lightning_fabric(how: How) -> Any:
    from lightning.fabric import Fabric

    found = []
    for inner in (True, False):
        fabric = Fabric(accelerator="cpu", devices=1)
        fabric.launch()
        net = perceptron()
        model = how.compile(net) if inner else net
        model, optimizer = fabric.setup(model, torch.optim.SGD(net.parameters(), 0.1))
        model = model if inner else how.compile(model)
        torch.manual_seed(3)
        for x, y in batches():
            fabric.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
        found.append(state(net))
    return found


# ---- peft


def tiny_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 50}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, pad_token_id=0))


TOKENS = torch.arange(1, 13).reshape(2, 6)


@client("peft: LoRA trained, adapters switched, merged, saved, loaded", "peft", "transformers")
def peft_lora(how: How) -> Any:
    from peft import LoraConfig, PeftModel, get_peft_model

    base = tiny_llama()
    original = copy.deepcopy(base)
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, init_lora_weights=False)
    torch.manual_seed(1)
    tuned = get_peft_model(base, config)
    model = how.compile(tuned)
    optimizer = torch.optim.AdamW([p for p in tuned.parameters() if p.requires_grad], 1e-2)
    losses = []
    for _ in range(3):
        loss = model(input_ids=TOKENS, labels=TOKENS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    found: list[Any] = [losses]
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        model.eval()
        with model.disable_adapter():
            found.append(model(input_ids=TOKENS).logits)
        found.append(model(input_ids=TOKENS).logits)
        model.save_pretrained(folder)
        again = how.compile(PeftModel.from_pretrained(original, folder).eval())
        found.append(again(input_ids=TOKENS).logits)
        found.append(sorted(path.name for path in Path(folder).iterdir()))
        merged = how.compile(tuned.merge_and_unload())
        found.append(merged(input_ids=TOKENS).logits)
    return found


# ---- transformers


@client(
    "transformers: Trainer with torch_compile, saved, loaded", "transformers", "accelerate", by_library=True
)
def transformers_trainer(how: How) -> Any:
    from transformers import LlamaForCausalLM, Trainer, TrainingArguments

    model = tiny_llama()
    data = [{"input_ids": row, "labels": row} for row in TOKENS.repeat(4, 1)]
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"max_steps": 4, "per_device_train_batch_size": 2, "learning_rate": 1e-2}
        options |= {"use_cpu": True, "report_to": [], "save_strategy": "no", "disable_tqdm": True}
        if how.compiles:
            options |= {"torch_compile": True, "torch_compile_backend": BACKEND}
        trainer = Trainer(model, TrainingArguments(folder, **options, seed=5), train_dataset=data)
        loss = trainer.train().training_loss
        trainer.save_model(f"{folder}/kept")
        kept = LlamaForCausalLM.from_pretrained(f"{folder}/kept")
    return loss, state(model), state(kept)


@client("transformers: generate with dynamic and static caches", "transformers")
def transformers_generate(how: How) -> Any:
    model = tiny_llama().eval()
    found = []
    model.forward = how.compile(model.forward)
    for cache in ("dynamic", "static"):
        options: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": cache}
        found.append(model.generate(TOKENS, attention_mask=torch.ones_like(TOKENS), **options))
    return found
