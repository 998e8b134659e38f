"""DistributedDataParallel, compiled: gradients are eager's, and buckets are sent while backward goes on.

torchrun --nproc-per-node 2 examples/distributed_ddp.py
"""

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import framelift

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
events: list[str] = []


class Noted(torch.autograd.Function):
    """Notes when backward comes to a layer."""

    @staticmethod
    def forward(x: torch.Tensor, layer: int) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.layer = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        events.append(f"backward of layer {ctx.layer}")
        return gradient, None


def send(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    events.append(f"bucket {bucket.index()} is sent")
    mean = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(mean, async_op=True).get_future().then(lambda done: done.value()[0])


def noted(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    """A backend that runs a part of the graph as it is, and notes when its backward begins."""
    part = len([event for event in events if event == "compiled"])
    events.append("compiled")

    def run(*args: torch.Tensor) -> Any:
        return [Noted.apply(output, part) for output in graph(*args)]

    return run


model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())))
eager = DistributedDataParallel(copy.deepcopy(model), bucket_cap_mb=0.01)
ddp = DistributedDataParallel(model, bucket_cap_mb=0.01)
ddp.register_comm_hook(None, send)
compiled = framelift.compile(ddp, backend=noted, fullgraph=True)
for step in range(3):
    events[:] = [event for event in events if event == "compiled"]
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(10 * step + rank))
    for each in (eager, compiled):
        each.zero_grad()
        each(x).square().sum().backward()
    for expected, found in zip(eager.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)
if rank == 0:
    print(*(event for event in events if event != "compiled"), sep="\n")
    print("gradients are those of eager DDP")
dist.destroy_process_group()
