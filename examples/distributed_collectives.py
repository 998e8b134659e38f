"""Collectives in one graph, checked against eager.

torchrun --nproc-per-node 2 examples/distributed_collectives.py
"""

import torch
import torch.distributed as dist

import framelift

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def shared(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.relu(x) * (dist.get_rank() + 1)
    dist.all_reduce(y)
    gathered = y.new_empty(dist.get_world_size() * y.shape[0], y.shape[1])
    dist.all_gather_into_tensor(gathered, y + x)
    return y, gathered.softmax(-1)


targets: list[str] = []


def told(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
    """A backend that notes what is called, and runs the graph as it is."""
    targets.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
    return module


torch.manual_seed(rank)
x = torch.randn(4, 3)
compiled = framelift.compile(shared, backend=told, fullgraph=True)
for found, expected in zip(compiled(x), shared(x), strict=True):
    torch.testing.assert_close(found, expected)
if rank == 0:
    print(*(target for target in targets if "functional" in target), sep="\n")
    print(f"{size} ranks agree with eager")
dist.destroy_process_group()
