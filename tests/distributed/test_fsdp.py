"""FSDP2 (`fully_shard`) on a small transformer: training steps are eager's, each block is one graph."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import framelift
from check import Comparison
from process_groups import ranks

WIDTH = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def sharded(model: Transformer, **options: Any) -> Transformer:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def whole_model(model: Transformer, **options: Any) -> tuple[Any, list[Any]]:
    compiled = framelift.compile(sharded(model, **options), backend="aot_eager")
    return compiled, [compiled._framelift_context]


def each_block(model: Transformer, **options: Any) -> tuple[Any, list[Any]]:
    sharded(model, **options)
    for n, block in enumerate(model.blocks):
        model.blocks[n] = framelift.compile(block, backend="aot_eager", fullgraph=True)
    return model, [block._framelift_context for block in model.blocks]


def each_block_before_it_is_sharded(model: Transformer, **options: Any) -> tuple[Any, list[Any]]:
    for n, block in enumerate(model.blocks):
        model.blocks[n] = framelift.compile(block, backend="aot_eager", fullgraph=True)
    contexts = [block._framelift_context for block in model.blocks]
    return sharded(model, **options), contexts


FORMS = {form.__name__: form for form in (whole_model, each_block, each_block_before_it_is_sharded)}


def train(model: Any, optimizer: torch.optim.Optimizer, tokens: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of FSDP's own, that the last linear layer gives a view
        logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


def trains_alike(form: str, **options: Any) -> list[Any]:
    torch.manual_seed(0)
    model = Transformer()
    other = copy.deepcopy(model)
    eager = sharded(model, **options)
    compiled, contexts = FORMS[form](other, **options)
    optimizers = [torch.optim.AdamW(each.parameters(), 0.01) for each in (model, other)]
    for n in range(3):
        torch.manual_seed(10 * n + dist.get_rank())
        tokens = torch.randint(0, 32, (2, 6))
        losses = [train(*each, tokens) for each in zip((eager, compiled), optimizers, strict=True)]
        for read in (lambda p: p.to_local().detach(), lambda p: p.grad.to_local()):
            parts = [[read(p) for p in each.parameters()] for each in (model, other)]
            Comparison().same([losses[0], parts[0]], [losses[1], parts[1]], f"step {n}")
        for optimizer in optimizers:
            optimizer.zero_grad()
    return [record for context in contexts for record in context.code_states.values()]


@ranks(2)
@pytest.mark.parametrize(("form", "keeps"), [(form, form == "each_block") for form in FORMS])
def test_steps_are_those_of_eager_fsdp(form: str, keeps: bool) -> None:
    records = trains_alike(form, reshard_after_forward=not keeps)
    assert not any(record.skipped for record in records)
    graphs = [one.capture for record in records for one in record.entries if one.capture.ops]
    if form == "whole_model":  # FSDP's hooks are around each block, and not in graphs
        found = {each.context for record in records for each in record.breaks if "fsdp" in each.context}
        assert all("(gathers parameters, and frees them)" in context for context in found), found
        assert {name.rpartition(".")[2].split()[0] for name in found} == {"_pre_forward", "_post_forward"}
        assert [len(each.ops) for each in graphs].count(18) == 2
    else:
        assert [record.name for record in records] == 2 * ["Block.forward"]
        assert [len(each.ops) for each in graphs] == 2 * [18]


@ranks(2)
def test_mixed_precision() -> None:
    trains_alike("each_block", mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


@ranks(2)
def test_a_whole_step_around_a_sharded_model() -> None:
    torch.manual_seed(0)
    model, other = Transformer(), Transformer()
    other.load_state_dict(model.state_dict())
    eager, inner = sharded(model), sharded(other)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, other)]
    compiled = framelift.compile(train, backend="aot_eager")
    for n in range(3):
        tokens = torch.randint(0, 32, (2, 6))
        losses = train(eager, optimizers[0], tokens), compiled(inner, optimizers[1], tokens)
        parts = [[p.to_local().detach() for p in each.parameters()] for each in (model, other)]
        Comparison().same([losses[0], parts[0]], [losses[1], parts[1]], f"step {n}")
        for optimizer in optimizers:
            optimizer.zero_grad()
