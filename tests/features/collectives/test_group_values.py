"""Process groups, device meshes and placements: read, compared, stored, folded; others are noticed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

import framelift
from check import capture, entries, reasons, why_not
from process_groups import fake_world


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    with fake_world(8, rank=3):
        yield


def start_again() -> None:
    """For the fixture to have something to end."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)


def grid() -> DeviceMesh:
    return init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))


def same(fn: Callable[..., Any], *args: Any) -> Any:
    """Captured whole, with the same plain results, and found again by the second call."""
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        (tensor, *plain), (expected, *values) = compiled(*args), fn(*args)
        assert torch.equal(tensor, expected)
        assert list(map(type, plain)) == list(map(type, values)) and plain == values
    assert why_not(compiled) is None and entries(compiled) == 1
    return compiled


X = torch.ones(3)


# ---- groups


def test_the_world_is_read() -> None:
    def asked(x: torch.Tensor) -> Any:
        assert dist.is_available() and dist.is_initialized()
        return x * dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.group.WORLD.size()

    same(asked, X)


def test_a_group_is_read() -> None:
    group = dist.new_group([1, 3, 5])

    def asked(x: torch.Tensor, g: Any) -> Any:
        ranks = dist.get_process_group_ranks(g)
        return (
            *(x * dist.get_rank(g) + g.size(), dist.get_world_size(g), g.rank(), ranks, dist.get_backend(g)),
            *(dist.get_global_rank(g, 1), dist.get_group_rank(g, 5), g.group_name, g.name()),
            *(
                g is group,
                g == group,
                g is dist.group.WORLD,
                {g: 1}[group],
                [g],
                isinstance(g, dist.ProcessGroup),
            ),
        )

    same(asked, X, group)


def test_another_group_is_noticed() -> None:
    groups = [dist.new_group([3, 4]), dist.new_group([1, 2, 3])]
    compiled = capture(lambda x, g: x * dist.get_world_size(g))
    for group, size in ((groups[0], 2), (groups[1], 3), (None, 8), (groups[0], 2)):
        assert torch.equal(compiled(X, group), X * size)
    assert entries(compiled) == 3  # two groups, and None


def test_another_world_is_noticed() -> None:
    compiled = capture(lambda x: x * (dist.get_world_size() if dist.is_initialized() else -1))
    assert torch.equal(compiled(X), X * 8)
    dist.destroy_process_group()
    assert torch.equal(compiled(X), -X)
    with fake_world(2):
        assert torch.equal(compiled(X), X * 2)
    start_again()


def test_a_group_is_kept_on_an_object() -> None:
    class Layer(torch.nn.Module):
        def __init__(self, group: Any) -> None:
            super().__init__()
            self.group = group

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.group.size()

    layer = Layer(dist.new_group([2, 3]))
    compiled = framelift.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    layer.group = dist.new_group([1, 2, 3])
    assert torch.equal(compiled(X), X * 3)
    assert entries(compiled) == 2  # two groups


def test_a_group_made_inside_breaks() -> None:
    def made(x: torch.Tensor) -> torch.Tensor:
        return x * dist.new_group([0, 3]).size()

    compiled = capture(made, fullgraph=False)
    assert torch.equal(compiled(X), X * 2) and "call of torch.distributed" in reasons(compiled)


# ---- meshes


def test_a_mesh_is_read() -> None:
    mesh = grid()

    def asked(x: torch.Tensor, m: DeviceMesh) -> Any:
        return (
            *(x * m.size(), m.ndim, m.shape, m.size(1), m.device_type, m.mesh_dim_names, m.get_rank()),
            *(m.get_coordinate(), m.get_local_rank("dp"), m.get_local_rank(1), m.get_group("tp").size()),
            *(m.get_all_groups(), m.get_group(0), m is mesh, m == mesh, hash(m) == hash(mesh), [m]),
        )

    same(asked, X, mesh)


def test_parts_of_a_mesh_are_read() -> None:
    mesh = grid()
    mesh._flatten("all")

    def asked(x: torch.Tensor) -> Any:
        dp, tp = mesh["dp"], mesh["tp"]
        return (
            *(x * dp.size(), tp.size(), tp.get_local_rank(), dp != tp, dp == mesh["dp"], dp),
            *(dp.get_group(), mesh["dp", "tp"] is mesh, mesh._flatten("all").size(), tp.ndim),
        )

    same(asked, X)


def test_a_part_of_a_mesh_is_made_anew() -> None:
    mesh = grid()

    def kept(x: torch.Tensor, parts: list[Any]) -> torch.Tensor:
        parts.append(mesh["tp"])
        return x + 1

    compiled, parts = capture(kept), []
    for _ in range(2):
        compiled(X, parts)
    assert parts[0] == parts[1] == mesh["tp"] and parts[0] is not parts[1] and entries(compiled) == 1


def test_another_mesh_is_noticed() -> None:
    compiled = capture(lambda x, m: x * m["tp"].size())
    meshes = [grid(), init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))]
    for mesh, size in ((meshes[0], 4), (meshes[1], 2), (meshes[0], 4)):
        assert torch.equal(compiled(X, mesh), X * size)
    assert entries(compiled) == 2  # two meshes


def test_what_the_program_has_put_on_a_mesh_is_noticed() -> None:
    mesh: Any = grid()
    compiled = capture(lambda x: x * getattr(mesh, "scale", 1))
    for scale in (2, 3):
        assert torch.equal(compiled(X), X * getattr(mesh, "scale", 1))
        mesh.scale = scale
    assert torch.equal(compiled(X), X * 3)


def test_meshes_made_inside_break() -> None:
    mesh = grid()

    def flattened(x: torch.Tensor) -> torch.Tensor:
        return x * mesh._flatten("both").size()

    def made(x: torch.Tensor) -> torch.Tensor:
        return x * grid().size()

    for fn in (flattened, made):
        compiled = capture(fn, fullgraph=False)
        assert torch.equal(compiled(X), X * 8)
        assert set(reasons(compiled)) == {"call of torch.distributed"}
        assert torch.equal(compiled(X), X * 8)


# ---- placements


def test_placements_made_inside() -> None:
    def made(x: torch.Tensor) -> Any:
        placements = [Shard(0), Replicate(), Partial("max")]
        kinds = [p.is_shard() for p in placements], [p.is_replicate() for p in placements]
        return (
            *(x + Shard(1).dim, placements, kinds, Shard(0) == Shard(0), Shard(0) == Shard(1)),
            *(Partial().is_partial(), placements[2].reduce_op, Shard(1).is_shard(1), Shard(0) in placements),
            *(isinstance(placements[0], Shard), {Shard(0): 1}[Shard(0)], repr(Shard(2)), hash(Replicate())),
        )

    same(made, X)


def test_placements_from_outside() -> None:
    def asked(x: torch.Tensor, placements: Any) -> Any:
        dims = [p.dim if p.is_shard() else -1 for p in placements]
        return x + sum(dims), dims, any(isinstance(p, Partial) for p in placements), placements[0]

    compiled = same(asked, X, (Shard(0), Replicate()))
    for placements in ((Shard(0), Replicate()), (Shard(1), Replicate()), (Shard(0), Partial("avg"))):
        assert compiled(X, placements)[1:] == asked(X, placements)[1:]
    assert entries(compiled) == 3  # three kinds of placements


def test_reduce_operations_are_values() -> None:
    def chosen(x: torch.Tensor, op: Any) -> Any:
        return x * (2 if op is dist.ReduceOp.SUM else 3), op == dist.ReduceOp.MAX, [op]

    same(chosen, X, dist.ReduceOp.SUM)
    compiled = capture(chosen)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        assert compiled(X, op)[1:] == chosen(X, op)[1:]
    assert entries(compiled) == 2  # two operations


def test_a_rank_without_a_world_is_an_error_of_torchs() -> None:
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        framelift.compile(lambda x: x * dist.get_rank(), backend="eager")(X)
    start_again()


def test_a_mesh_is_not_kept_alive() -> None:
    mesh = [grid()]

    def described(x: torch.Tensor) -> torch.Tensor:
        return DTensor.from_local(x * mesh[0].size(), mesh[0], [Shard(0), Replicate()]).to_local()

    compiled = capture(described, X)
    kept = weakref.ref(mesh.pop())
    gc.collect()
    assert kept() is None and entries(compiled) == 0
