"""Programs on a CUDA device: one process compiles them, and another finds what that has kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import framelift
from framelift.cache.writing import writer

Compiler = Callable[[Any], Any]
DEVICE = "cuda"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lines = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.lines(x) + x).softmax(-1)


def net() -> Net:
    torch.manual_seed(0)
    return Net().to(DEVICE)


def batch(seed: int = 0) -> torch.Tensor:
    return torch.randn(16, 64, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def inference(compiled: Compiler) -> list[torch.Tensor]:
    run = compiled(net().eval())
    with torch.no_grad():
        return [run(batch()), run(batch(1))]


def training(compiled: Compiler) -> list[torch.Tensor]:
    model = net()
    run, optimizer = compiled(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(3):
        run(batch(n)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach() for parameter in model.parameters()]


def mixed_precision(compiled: Compiler) -> list[torch.Tensor]:
    run = compiled(net())
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        result = run(batch())
    result.float().sum().backward()
    return [result.detach().float()]


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x.cos() * 2


def writing(compiled: Compiler) -> list[torch.Tensor]:
    x = batch()
    return [compiled(written)(x, batch(1)), x]


def viewed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    return y, y[1:].t()


def views(compiled: Compiler) -> list[torch.Tensor]:
    y, part = compiled(viewed)(batch())
    part.add_(1)
    return [y, part]


def with_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print(end="")
    return y.cos() * x


def breaking(compiled: Compiler) -> list[torch.Tensor]:
    return [compiled(with_a_break)(batch())]


def attention(x: torch.Tensor) -> torch.Tensor:
    heads = x.view(1, x.shape[0], 4, 16).transpose(1, 2)
    found = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    return found.transpose(1, 2).reshape(x.shape) * x.shape[0]


def attending(compiled: Compiler) -> list[torch.Tensor]:
    x = batch().requires_grad_()
    result = compiled(attention)(x)
    result.square().sum().backward()
    assert x.grad is not None
    return [result.detach(), x.grad]


PROGRAMS = [inference, training, mixed_precision, writing, views, breaking, attending]


def as_it_is(fn: Any) -> Any:
    return fn


def misses_of_inductor() -> int:
    """How many graphs Inductor had to compile, as torch counts them."""
    counted: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if counted is None else counted.counters["inductor"]["fxgraph_cache_miss"]


def main() -> None:
    found = {}
    for program in PROGRAMS:
        framelift.counters.clear()
        before = misses_of_inductor()
        expected, result = program(as_it_is), program(framelift.compile)
        equal = all(torch.allclose(a, b, atol=1e-3, rtol=1e-2) for a, b in zip(expected, result, strict=True))
        asked = framelift.counters["cache"]
        sums = [float(tensor.double().sum()) for tensor in result]
        found[program.__name__] = equal, asked["hit"], asked["miss"], misses_of_inductor() - before, sums
    writer.finish()
    print(json.dumps(found))


if __name__ == "__main__":
    DEVICE = sys.argv[1] if len(sys.argv) > 1 else DEVICE
    main()
