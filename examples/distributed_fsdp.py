"""FSDP2: each block of a sharded transformer is one graph, and training goes as eagerly.

torchrun --nproc-per-node 2 examples/distributed_fsdp.py
"""

import copy
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import framelift

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def sharded(model: nn.Sequential) -> Any:
    mesh = init_device_mesh("cpu", (size,))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


model = nn.Sequential(Block(), Block(), Block())
eager = sharded(copy.deepcopy(model))
compiled = sharded(model)
for n in range(len(compiled)):
    compiled[n] = framelift.compile(compiled[n], backend="aot_eager", fullgraph=True)
optimizers = [torch.optim.AdamW(each.parameters(), 0.01) for each in (eager, compiled)]
for step in range(3):
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(10 * step + rank))
    for each, optimizer in zip((eager, compiled), optimizers, strict=True):
        loss = each(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        print(f"step {step}: loss {loss.item():.4f}")
for expected, found in zip(eager.parameters(), compiled.parameters(), strict=True):
    torch.testing.assert_close(found.to_local(), expected.to_local())
if rank == 0:
    print("parameters are those of eager FSDP")
dist.destroy_process_group()
