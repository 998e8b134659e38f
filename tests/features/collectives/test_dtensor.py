"""Distributed tensors: captured with what they wrap, on every rank as eagerly, with gradients."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

import framelift
from check import capture, entries, reasons, why_not
from process_groups import fake_world, ranks


def line(name: str = "tp") -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=(name,))


def local(value: Any) -> Any:
    """What this rank has of a value, and where the rest is."""
    if isinstance(value, DTensor):
        return value.to_local().detach(), value.placements, value.shape, value.requires_grad
    if isinstance(value, AsyncCollectiveTensor):
        return value.wait().detach()  # which compiled code has done already
    if isinstance(value, (tuple, list)):
        return [local(one) for one in value]
    return value.detach() if isinstance(value, torch.Tensor) else value


def outcome(fn: Any, args: Any) -> Any:
    """Results and gradients of a call, as this rank has them."""
    args = [one.detach().clone().requires_grad_(one.requires_grad) for one in args]
    result = fn(*args)
    parts = [one for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]
    wholes = [one.full_tensor() if isinstance(one, DTensor) else one for one in parts if one.requires_grad]
    if wholes:
        torch.stack([(one * one).sum() for one in wholes]).sum().backward()
    return local([result, *(one.grad for one in args)])


def close(found: Any, expected: Any) -> None:
    assert type(found) is type(expected), (found, expected)
    if isinstance(found, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(found, (list, tuple)) and not isinstance(found, torch.Size):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            close(one, other)
    else:
        assert found == expected, (found, expected)


def same(fn: Any, *args: Any, backends: Any = ("eager", "aot_eager")) -> None:
    for backend in backends:
        compiled = framelift.compile(fn, backend=backend, fullgraph=True, isolate_recompiles=True)
        for _ in range(2):
            close(outcome(compiled, args), outcome(fn, args))
        assert why_not(compiled) is None and entries(compiled) == 1, (why_not(compiled), entries(compiled))


def given(mesh: DeviceMesh, placement: Any, *sizes: int) -> DTensor:
    torch.manual_seed(0)
    whole = torch.randn(*sizes)
    if isinstance(placement, Partial):
        return DTensor.from_local(whole + dist.get_rank(), mesh, [placement]).requires_grad_()
    return distribute_tensor(whole, mesh, [placement]).requires_grad_()


@ranks(2)
def test_made_inside_and_taken_apart() -> None:
    mesh = line()
    x = (torch.arange(12.0).view(4, 3) + dist.get_rank()).requires_grad_()

    def parts(x: torch.Tensor) -> Any:
        made = DTensor.from_local(x * 2, mesh, [placement])
        return made.to_local() + 1, made.full_tensor() * 3, made.redistribute(mesh, [Replicate()]) * 2

    for placement in (Shard(0), Shard(1), Replicate(), Partial()):
        same(parts, x, backends=("eager", "aot_eager") if placement == Shard(0) else ("aot_eager",))
    same(lambda x: DTensor.from_local(x, mesh, [Shard(-1)]), x)
    grid = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    same(lambda x: DTensor.from_local(x, grid["dp"], [Shard(0)]), x)
    same(lambda x: distribute_tensor(x.detach(), mesh, [Shard(0)], src_data_rank=None) + 1, x)


@ranks(2)
def test_operators_on_every_placement() -> None:
    mesh = line()

    def computed(x: DTensor, y: DTensor) -> Any:
        product = x @ y.t()
        scaled = F.softmax(x * 2 + 1, -1) - x.mean(1, keepdim=True)
        moved = (x * y).redistribute(placements=[Shard(1)])
        return (
            product.redistribute(placements=[Replicate()]),
            scaled,
            (x + y).view(8, 2, 2).transpose(1, 2),
            moved.sum(),
        )

    for placement in (Shard(0), Shard(1), Replicate()):
        same(computed, given(mesh, placement, 8, 4), given(mesh, Shard(0), 8, 4), backends=("aot_eager",))
    same(lambda x: (x + x).redistribute(placements=[Shard(0)]), given(mesh, Partial(), 8, 4))


@ranks(4)
def test_two_dimensions_of_mesh() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = distribute_tensor(torch.arange(16.0).view(4, 4), mesh, [Shard(0), Shard(1)]).requires_grad_()

    def computed(x: DTensor) -> Any:
        assert x.device_mesh["tp"].size() == x.device_mesh.size(1) == 2
        y = x * x.device_mesh.get_coordinate()[0] + (
            x @ x.redistribute(placements=[Replicate(), Replicate()])
        )
        return y, y.full_tensor().sum()

    same(computed, x, backends=("aot_eager",))


@ranks(2)
def test_what_it_says_of_itself_is_folded_and_guarded() -> None:
    mesh = line()

    def described(x: DTensor) -> Any:
        (placement,) = x.placements
        kind = placement.dim if placement.is_shard() else str(placement)
        return x * 2, kind, x.device_mesh is mesh, isinstance(x, DTensor), x.to_local().shape, x.shape

    compiled = capture(described)
    for placement in (Shard(0), Shard(1), Replicate(), Shard(0)):
        x = given(mesh, placement, 4, 4)
        close(local(compiled(x)), local(described(x)))
    assert entries(compiled) == 3  # three placements
    x = given(line("other"), Shard(0), 4, 4)
    close(local(compiled(x)), local(described(x)))
    assert entries(compiled) == 4  # and another mesh


@ranks(2)
def test_what_sets_up_breaks() -> None:
    mesh = line()

    def shared(x: torch.Tensor) -> torch.Tensor:
        return (distribute_tensor(x * 2, mesh, [Shard(0)]) + 1).full_tensor()

    def checked(x: torch.Tensor) -> torch.Tensor:
        return (DTensor.from_local(x * 2, mesh, [Replicate()], run_check=True) + 1).to_local()

    def module(x: torch.Tensor) -> torch.Tensor:
        layer = torch.nn.Linear(3, 3, bias=False)
        torch.nn.init.ones_(layer.weight)
        return distribute_module(layer, mesh)(x).to_local() if isinstance(x, DTensor) else x + layer(x)

    for fn in (shared, checked):
        compiled = capture(fn, fullgraph=False)
        x = torch.ones(4, 3) + dist.get_rank()
        torch.testing.assert_close(compiled(x), fn(x))
        assert set(reasons(compiled)) == {"call of torch.distributed"}


@ranks(2)
def test_functions_of_what_each_rank_has() -> None:
    mesh = line()
    of_parts = local_map(
        lambda x, y: (x.sin() * y.mean(), x.sum()),
        out_placements=([Shard(0)], [Partial()]),
        in_placements=([Shard(0)], [Replicate()]),
        device_mesh=mesh,
        redistribute_inputs=True,
    )
    same(lambda x: of_parts(x * 2, x), given(mesh, Shard(0), 4, 3))


@ranks(2)
def test_losses_of_parts() -> None:
    """A context that changes what operators do is entered for real."""
    mesh = line()

    def loss(x: DTensor, target: torch.Tensor) -> torch.Tensor:
        with loss_parallel():
            return F.cross_entropy(x * 2, target)

    x, target = given(mesh, Shard(1), 4, 6), torch.tensor([0, 5, 3, 1])
    compiled = capture(loss, fullgraph=False)
    close(local(compiled(x, target)), local(loss(x, target)))
    assert "call of torch.distributed" in reasons(compiled)


# ---- tensor parallel


class Attention(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width, bias=False) for _ in range(4))
        self.size = width // heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        attended = F.softmax(q @ k.transpose(-1, -2) / self.size**0.5, -1) @ v
        return self.out(attended.transpose(1, 2).reshape(batch, length, -1))


class Block(torch.nn.Module):
    def __init__(self, width: int = 8, heads: int = 4) -> None:
        super().__init__()
        self.norm, self.attention = torch.nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


PLAN = {
    **{f"attention.{name}": ColwiseParallel for name in "qkv"},
    "attention.out": RowwiseParallel,
    "up": ColwiseParallel,
    "down": RowwiseParallel,
}


def sequence_plan() -> dict[str, Any]:
    return {
        "norm": SequenceParallel(),
        "norm2": SequenceParallel(),
        "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }


def parallel_block(mesh: DeviceMesh, sequence: bool) -> Block:
    torch.manual_seed(1)
    plan = sequence_plan() if sequence else {name: style() for name, style in PLAN.items()}
    return parallelize_module(Block(), mesh, plan)


def trained(run: Any, model: Block, sequence: bool) -> Any:
    """Outputs and parameters of three steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outputs = []
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(2, 4, 8)
        if sequence:
            x = x.chunk(dist.get_world_size(), 1)[dist.get_rank()].contiguous()
        out = run(x)
        (out * out).mean().backward()
        outputs.append(out.detach())
        optimizer.step()
        optimizer.zero_grad()
    return local([*outputs, *model.parameters()])


@ranks(2)
@pytest.mark.parametrize("sequence", [False, True])
def test_tensor_parallel_block(sequence: bool) -> None:
    mesh = line()
    model = parallel_block(mesh, sequence)
    expected = trained(model, model, sequence)
    for backend in ("eager", "aot_eager"):
        model = parallel_block(mesh, sequence)
        compiled = framelift.compile(model, backend=backend, fullgraph=True)
        close(trained(compiled, model, sequence), expected)
        assert why_not(compiled) is None and entries(compiled) == 1


def test_one_rank_of_64() -> None:
    """A block over 8 x 8 ranks is captured as it is on few, and its collectives are in the joint graph."""
    graphs: list[torch.fx.GraphModule] = []

    def keep(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(module)
        return make_boxed_func(module.forward)

    with fake_world(64, rank=11):
        mesh = init_device_mesh("cpu", (8, 8), mesh_dim_names=("dp", "tp"))
        torch.manual_seed(1)
        block = Block(width=16, heads=8)
        model = parallelize_module(block, mesh["tp"], {name: style() for name, style in PLAN.items()})
        assert model.up.weight.to_local().shape == (4, 16)
        backend = functools.partial(aot_module_simplified, fw_compiler=keep)
        compiled = framelift.compile(model, backend=backend, fullgraph=True)
        compiled(torch.ones(2, 4, 16)).sum().backward()
        assert why_not(compiled) is None and entries(compiled) == 1
        assert model.up.weight.grad.shape == (32, 16)
    called = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert sum("all_reduce" in name for name in called) >= 3  # two forward, and those of the gradients


@pytest.mark.inductor
@ranks(2)
def test_inductor_takes_a_parallel_layer() -> None:
    mesh = line()
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
        model = parallelize_module(layers, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
        run = framelift.compile(model, backend="inductor", fullgraph=True) if compiled else model
        run(torch.ones(2, 4)).sum().backward()
        results.append(local([run(torch.ones(2, 4)), *(one.grad for one in model.parameters())]))
    close(*results)


@ranks(2)
def test_with_whom_one_shares_memory_is_guarded() -> None:
    mesh = line()

    def pair(shared: bool) -> tuple[Any, Any]:
        inside, other = torch.arange(4.0), torch.ones(4)
        return DTensor.from_local(inside, mesh, [Shard(0)]), inside if shared else other

    def write_other(x: Any, y: Any) -> Any:
        y.add_(1)
        return x * 2, y * 3

    def write_it(x: Any, y: Any) -> Any:
        x.mul_(3)
        return x + 1, y * 3

    for fn in (write_other, write_it):
        for backend in ("eager", "aot_eager"):
            compiled = framelift.compile(fn, backend=backend)
            for shared in (False, True, False):
                eager, own = pair(shared), pair(shared)
                expected = local([fn(*eager), *eager])
                close(local([compiled(*own), *own]), expected)
