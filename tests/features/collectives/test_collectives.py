"""Collectives are functional ones in the graph, and do what they do eagerly on every rank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import permute_tensor
from torch.utils.checkpoint import checkpoint

import framelift
from check import capture, entries, reasons, why_not
from framelift.testing import EagerAndRecordGraphs
from process_groups import fake_world, ranks, same

OPERATIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


def mine(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that each rank has another of."""
    return (torch.arange(torch.Size(sizes).numel()).reshape(sizes) + dist.get_rank() + 1).to(dtype)


def targets(fn: Any, *args: Any) -> list[str]:
    """What the graph of a function calls."""
    kept = EagerAndRecordGraphs()
    framelift.compile(fn, backend=kept, fullgraph=True)(*args)
    (graph,) = kept.graphs
    return [str(node.target) for node in graph.graph.nodes if node.op.startswith("call")]


@ranks(2)
def test_every_reduction() -> None:
    for name in OPERATIONS:
        op = getattr(dist.ReduceOp, name)
        dtype = torch.int32 if name[0] == "B" else torch.float32

        def reduced(x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            dist.all_reduce(y, op=op)
            return y * 2

        same(reduced, mine(3, dtype=dtype), backends=("eager",))


@ranks(2, 4)
def test_all_forms_with_groups() -> None:
    """All of them in one function, in the world and in a group of two, on inputs and on what it has made."""
    n = dist.get_world_size()
    pairs = [dist.new_group([at, at + 1]) for at in range(0, n, 2)]
    pair = pairs[dist.get_rank() // 2]

    def all_forms(x: torch.Tensor, out: torch.Tensor, group: Any) -> Any:
        size = dist.get_world_size(group)
        dist.all_reduce(x, group=group)
        y = x * (dist.get_rank(group) + 1)
        dist.broadcast(y, src=dist.get_global_rank(group or dist.group.WORLD, 1), group=group)
        dist.broadcast(x, group_src=0, group=group)
        parts = list(x.new_empty(size, *x.shape).unbind())
        dist.all_gather(parts, x + y, group=group)
        gathered = x.new_empty(size * x.shape[0], *x.shape[1:])
        dist.all_gather_into_tensor(gathered, y, group=group)
        dist.all_gather_into_tensor(out, x[:1], group=group)
        scattered = torch.empty_like(x)
        dist.reduce_scatter_tensor(scattered, gathered + 1, op=dist.ReduceOp.MAX, group=group)
        dist.reduce_scatter(y, [part + n for n, part in enumerate(parts)], group=group)
        swapped = torch.empty_like(gathered)
        dist.all_to_all_single(swapped, gathered * scattered.sum(), group=group)
        taken = [torch.empty_like(x) for _ in range(size)]
        dist.all_to_all(taken, [part * 2 for part in parts], group=group)
        return y, parts, gathered, scattered, swapped, taken, x.sum()

    same(all_forms, mine(4, 3), torch.empty(n, 3), None)
    same(all_forms, mine(4, 3), torch.empty(2, 3), pair)


@ranks(2)
def test_uneven_splits_and_scalars() -> None:
    rank = dist.get_rank()

    def split(x: torch.Tensor) -> Any:
        ours, theirs = (1, 2) if rank == 0 else (2, 1)
        out = x.new_empty(3 if rank else 2, 2) if rank else x.new_empty(2, 2)
        sizes = [1, 1] if rank == 0 else [2, 1]
        dist.all_to_all_single(
            out, x, output_split_sizes=sizes, input_split_sizes=[1, 2] if rank == 0 else [1, 1]
        )
        scalars = [torch.zeros(()) for _ in range(2)]
        dist.all_gather(scalars, x.sum())
        return out, scalars, ours, theirs

    same(split, mine(3 if rank == 0 else 2, 2))


@ranks(2)
def test_collectives_by_their_older_names_are_captured() -> None:
    def older(x: torch.Tensor) -> Any:
        gathered = x.new_empty(2 * x.shape[0])
        dist._all_gather_base(gathered, x)
        scattered = torch.empty_like(x)
        dist._reduce_scatter_base(scattered, gathered)
        return gathered, scattered

    same(older, mine(4))


@ranks(2)
def test_autograd_sees_nothing_of_them() -> None:
    """As eagerly, where a collective changes the values and not the gradients."""

    def trained(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = (x * weight).sum(0)
        dist.all_reduce(y)
        dist.broadcast(weight, src=0)
        return y * 3

    same(trained, mine(2, 3), mine(3).requires_grad_())


@ranks(2)
def test_they_are_called_even_if_nobody_uses_what_they_give() -> None:
    def unused(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x.clone())
        return x + 1

    same(unused, mine(3))
    assert "all_reduce" in str(targets(unused, mine(3)))


@ranks(2)
def test_another_group_is_noticed() -> None:
    def summed(x: torch.Tensor, group: Any) -> torch.Tensor:
        y = x.clone()
        dist.all_reduce(y, group=group)
        return y

    alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
    compiled = capture(summed)
    for group in (None, alone, dist.group.WORLD, None, alone):
        x = mine(3)
        assert torch.equal(compiled(x, group), summed(x, group))
    assert entries(compiled) == 3  # None, the group of one, the world


@ranks(2)
def test_the_default_group_made_anew_is_noticed() -> None:
    from process_groups import start

    def summed(x: torch.Tensor) -> torch.Tensor:
        y = x * dist.get_world_size()
        dist.all_reduce(y)
        return y

    compiled = capture(summed)
    before = compiled(mine(3))
    dist.destroy_process_group()
    import os

    os.environ["FRAMELIFT_TEST_STORE"] += "again"
    start()
    assert torch.equal(compiled(mine(3)), before) and entries(compiled) == 1
    assert why_not(compiled) is None


@ranks(2)
def test_sizes_may_vary() -> None:
    def summed(x: torch.Tensor) -> Any:
        gathered = x.new_empty(2 * x.shape[0])
        dist.all_gather_into_tensor(gathered, x)
        dist.all_reduce(x)
        return gathered, x

    compiled = framelift.compile(summed, backend="aot_eager", fullgraph=True, dynamic=True)
    for size in (3, 4, 7):
        found, expected = mine(size), mine(size)
        for one, other in zip(compiled(found), summed(expected)):
            assert torch.equal(one, other)
    assert entries(compiled) == 1


# ---- functional collectives


@ranks(2)
def test_functional_collectives_with_gradients() -> None:
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))

    def called(x: torch.Tensor) -> Any:
        group = dist.group.WORLD
        reduced = functional.all_reduce(x * 2, "sum", group)
        gathered = functional.all_gather_tensor_autograd(x + 1, 1, mesh)
        scattered = functional.reduce_scatter_tensor_autograd(gathered, "sum", 0, (mesh, 0))
        swapped = functional.all_to_all_single_autograd(x * reduced, None, None, mesh.get_group())
        sent = functional.broadcast(x.detach(), 1, group)
        waited = functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x * x, "sum", group.group_name))
        return reduced + 0, gathered * 2, scattered - 1, swapped + sent, waited * 1

    same(called, mine(4, 2).requires_grad_())


@ranks(2)
def test_a_tensor_that_is_waited_for_comes_in() -> None:
    from torch.distributed import _functional_collectives as functional

    def used(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = framelift.compile(used, backend="aot_eager")
    waiting = functional.all_reduce(mine(3), "sum", dist.group.WORLD)
    assert torch.equal(
        compiled(waiting) + 0, used(functional.all_reduce(mine(3), "sum", dist.group.WORLD)) + 0
    )


@pytest.mark.inductor
@ranks(2)
def test_inductor_takes_them() -> None:
    def summed(x: torch.Tensor) -> Any:
        y = torch.relu(x) * 2
        dist.all_reduce(y)
        gathered = y.new_empty(2 * y.shape[0], y.shape[1])
        dist.all_gather_into_tensor(gathered, y + 1)
        return gathered * 3, y

    same(summed, mine(4, 3), backends=("inductor",))


@ranks(2)
def test_what_is_waited_for() -> None:
    """Handles may be kept, and be alive where a capture ends."""

    def waits(x: torch.Tensor) -> torch.Tensor:
        work = dist.all_reduce(x, async_op=True)
        y = torch.ones(3) * 2
        work.wait()
        return x * 2 + y

    def several(x: torch.Tensor) -> Any:
        made = [x * 2, x + 1]
        works = [dist.all_reduce(each, async_op=True) for each in made]
        works.append(dist.broadcast(x, 1, async_op=True))
        return all(work.wait() for work in works), made, x + 1

    for fn in (waits, several):
        same(fn, mine(3))

    def interrupted(x: torch.Tensor) -> torch.Tensor:
        work = dist.all_reduce(x, async_op=True)
        framelift.graph_break()
        work.wait()
        return x * 2

    def asked(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x, async_op=True).get_future().wait()
        return x * 2

    for fn in (interrupted, asked):
        same(fn, mine(3), fullgraph=False)


@ranks(2)
def test_a_tensor_is_sent_around() -> None:
    def permuted(x: torch.Tensor) -> torch.Tensor:
        return permute_tensor(x * 2, [1, 0], dist.group.WORLD) + 1

    same(permuted, mine(3))


# ---- what is not captured


@ranks(2)
def test_what_has_no_functional_form_breaks() -> None:
    rank = dist.get_rank()

    def barrier(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.barrier()
        return y + 1

    def sends(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if rank == 0:
            dist.send(y, 1)
        else:
            dist.recv(y, 0)
        return y + 1

    def objects(x: torch.Tensor) -> Any:
        found = [None, None]
        dist.all_gather_object(found, {"rank": rank})
        return x * 2, found

    def reduces(x: torch.Tensor) -> torch.Tensor:
        dist.reduce(x, 0)
        return x * 2 if rank == 0 else x.new_zeros(3)

    def strided(x: torch.Tensor) -> torch.Tensor:
        y = torch.ones(2, 3).t() * x[0]
        dist.all_reduce(y)
        return y * 2

    for fn in (barrier, sends, objects, reduces, strided):
        compiled = same(fn, mine(3), fullgraph=False)
        assert "call of torch.distributed" in reasons(compiled), fn


def test_refusals_say_what_and_why() -> None:
    with fake_world(4):

        def asks(x: torch.Tensor) -> None:
            dist.all_reduce(x, async_op=True).get_future()

        def scaled(x: torch.Tensor) -> None:
            dist.all_reduce(x, op=dist.ReduceOp.PREMUL_SUM)

        def shaped(x: torch.Tensor) -> None:
            dist.all_gather_into_tensor(torch.empty(5), x)

        for fn, words in ((asks, "async_op"), (scaled, "PREMUL_SUM"), (shaped, "as large as all inputs")):
            with pytest.raises(framelift.exc.Unsupported, match=words):
                framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(3))


def test_the_graph_of_a_wide_world() -> None:
    with fake_world(64, rank=5):

        def summed(x: torch.Tensor) -> torch.Tensor:
            dist.all_reduce(x)
            out = x.new_empty(64 * 3)
            dist.all_gather_into_tensor(out, x)
            return out

        found = targets(summed, torch.ones(3))
        assert [name for name in found if "functional" in name] == [
            "_c10d_functional.all_reduce",
            "_c10d_functional.wait_tensor",
            "_c10d_functional.all_gather_into_tensor",
            "_c10d_functional.wait_tensor",
        ]


# ---- where they are called


class Reduced(torch.autograd.Function):
    """Summed over the ranks forward, handed on backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        y = x.clone()
        dist.all_reduce(y, group=group)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


class Copied(torch.autograd.Function):
    """Handed on forward, summed over the ranks backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        summed = grad.contiguous().clone()
        dist.all_reduce(summed, group=ctx.group)
        return summed, None


@ranks(2)
def test_in_functions_of_autograd_and_checkpoints() -> None:
    def parallel(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(Copied.apply(x, dist.group.WORLD) @ up)
        return Reduced.apply(hidden @ down, dist.group.WORLD)

    def kept(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        return checkpoint(parallel, x, up, down, use_reentrant=False) * 2

    for fn in (parallel, kept):
        same(fn, mine(4, 3).requires_grad_(), mine(3, 2).requires_grad_(), mine(2, 3).requires_grad_())


@ranks(2)
def test_a_step_that_averages_its_gradients() -> None:
    def trained(backend: str | None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
            optimizer.step()
            return loss.detach()

        run = step if backend is None else framelift.compile(step, backend=backend, fullgraph=True)
        losses = [run(mine(5, 3) / (step_number + 1)) for step_number in range(3)]
        if backend is not None:
            assert why_not(run) is None and entries(run) > 0
        return [*losses, *(parameter.detach() for parameter in model.parameters())]

    expected = trained(None)
    for backend in ("eager", "aot_eager"):
        for found, other in zip(trained(backend), expected):
            torch.testing.assert_close(found, other)
