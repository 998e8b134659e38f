"""A tensor-parallel layer, trained compiled and plainly.

torchrun --nproc-per-node 2 examples/distributed_tensors.py
"""

import copy

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import framelift

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def trained(layer: Layer, compiled: bool) -> list[float]:
    """The losses of three steps, of a layer whose weights are spread over the ranks."""
    layer = parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    run = framelift.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        torch.manual_seed(step)
        loss = (run(torch.randn(4, 8)) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses


torch.manual_seed(0)
layer = Layer()
expected, found = trained(copy.deepcopy(layer), compiled=False), trained(layer, compiled=True)
torch.testing.assert_close(found, expected)
if dist.get_rank() == 0:
    print(f"losses of {dist.get_world_size()} ranks, compiled: {[round(loss, 4) for loss in found]}")
dist.destroy_process_group()
