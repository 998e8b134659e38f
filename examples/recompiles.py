"""Why a model is compiled again, and what happens at the limit: the program of docs/recompiles.md."""

import logging
import sys

import torch

import framelift

logging.basicConfig(level=logging.INFO, format="[%(name)s] %(message)s", stream=sys.stdout)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.drop(self.norm(x))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block() for _ in range(2)])

    def forward(self, x: torch.Tensor, cfg: dict[str, str]) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.relu() if cfg["mode"] == "fast" else x.sigmoid()


net = framelift.compile(Net(), backend="eager", dynamic=False, recompile_limit=6)
net(torch.ones(2, 4), {"mode": "fast"})
net(torch.ones(2, 4), {"mode": "slow"})
net.layers[1].eval()
net(torch.ones(2, 4), {"mode": "slow"})
for size in (3, 4, 5, 6):
    net(torch.ones(size, 4), {"mode": "slow"})

print()
print(framelift.entries(net))
