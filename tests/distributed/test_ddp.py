"""DistributedDataParallel, compiled around and inside: gradients are eager's, and communication overlaps."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.utils.checkpoint
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import framelift
from check import Comparison
from framelift.dispatch.backends import on_fakes
from framelift.distributed import data_parallel
from process_groups import ranks

CAP = 0.01
"""In megabytes: a bucket that one layer of the models below fills."""


class Net(nn.Module):
    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def parallel(model: nn.Module, where: str, backend: Any, fullgraph: bool = True, **options: Any) -> Any:
    options = {"bucket_cap_mb": CAP, **options}
    if where == "inside":
        return DDP(framelift.compile(model, backend=backend, fullgraph=fullgraph), **options)
    return framelift.compile(DDP(model, **options), backend=backend, fullgraph=fullgraph)


def context_of(compiled: Any) -> Any:
    return getattr(compiled, "_framelift_context", None) or compiled.module._framelift_context


def graphs(compiled: Any) -> int:
    records = context_of(compiled).code_states.values()
    assert not any(record.skipped for record in records), [record.skipped for record in records]
    return sum(one.capture.graph is not None for record in records for one in record.entries)


def step(model: Any, x: torch.Tensor, seed: int) -> Any:
    torch.manual_seed(seed)
    result = model(x)
    outputs = torch.utils._pytree.tree_leaves(result)
    torch.stack([(output.float() ** 2).sum() for output in outputs]).sum().backward()
    return result


def gradients_of(model: nn.Module) -> list[torch.Tensor | None]:
    """Copies: where in a bucket a gradient lies depends on when it is ready."""
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def trains_alike(
    model: nn.Module,
    where: str,
    backend: Any = "aot_eager",
    inputs: Callable[[int], torch.Tensor] = lambda n: torch.randn(4, 64),
    fullgraph: bool = True,
    exact: bool = True,
    **options: Any,
) -> Any:
    """Three steps of SGD, eager and compiled: results, gradients and states are the same."""
    other = copy.deepcopy(model)
    eager = DDP(model, **{"bucket_cap_mb": CAP, **options})
    compiled = parallel(other, where, backend, fullgraph, **options)
    optimizers = [torch.optim.SGD(each.parameters(), 0.01) for each in (model, other)]
    for n in range(3):
        x = inputs(n)
        expected, found = step(eager, x, n), step(compiled, x, n)
        gradients = [gradients_of(each) for each in (model, other)]
        states = [list(each.state_dict().values()) for each in (model, other)]
        if exact:
            Comparison().same(
                [expected, gradients[0], states[0]], [found, gradients[1], states[1]], f"step {n}"
            )
        else:
            torch.testing.assert_close(
                (found, gradients[1], states[1]), (expected, gradients[0], states[0]), rtol=1e-4, atol=1e-4
            )
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return compiled


# ---- against eager DDP, on real ranks

OPTIONS: list[dict[str, Any]] = [
    {},
    {"static_graph": True},
    {"find_unused_parameters": True},
    {"gradient_as_bucket_view": True},
]


@ranks(2)
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_gradients_are_those_of_eager_ddp(where: str) -> None:
    for backend, options in (("eager", OPTIONS[0]), *(("aot_eager", options) for options in OPTIONS)):
        compiled = trains_alike(Net(), where, backend, **options)
        assert graphs(compiled) == 1


class Unused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)
        return self.spare(x) if x.size(0) > 4 else x


@ranks(2)
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_parameter_that_one_rank_does_not_use(where: str) -> None:
    rows = 4 + dist.get_rank()
    trains_alike(Unused(), where, inputs=lambda n: torch.randn(rows, 64), find_unused_parameters=True)
    trains_alike(Unused(), where, inputs=lambda n: torch.randn(4 + n, 64), find_unused_parameters=True)


@ranks(2)
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_no_sync_accumulates_gradients_of_this_rank(where: str) -> None:
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    eager, compiled = DDP(model, bucket_cap_mb=CAP), parallel(other, where, "aot_eager")
    for n in range(4):
        x = torch.randn(4, 64)
        for each in (eager, compiled):
            with each.no_sync() if n % 2 == 0 else contextlib.nullcontext():
                step(each, x, n)
        Comparison().same(
            [p.grad for p in model.parameters()], [p.grad for p in other.parameters()], f"step {n}"
        )
    first = next(iter(other.parameters())).grad
    assert first is not None
    gathered = [torch.empty_like(first) for _ in range(2)]
    dist.all_gather(gathered, first)
    torch.testing.assert_close(gathered[0], gathered[1])


@ranks(2)
def test_a_function_that_calls_a_ddp_goes_on_behind_it() -> None:
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    eager, inner = DDP(model, bucket_cap_mb=CAP), DDP(other, bucket_cap_mb=CAP)
    called: Any = eager

    def loss(x: torch.Tensor) -> torch.Tensor:
        return called(x * 2).sin().sum()

    compiled = framelift.compile(loss, backend="aot_eager")
    for n in range(3):
        x = torch.randn(4, 64)
        called = eager
        loss(x).backward()
        called = inner
        compiled(x).backward()
        Comparison().same(
            [p.grad for p in model.parameters()], [p.grad for p in other.parameters()], f"step {n}"
        )
    assert graphs(compiled) == 3  # in front of it, of the model, behind it
    (found,) = [b for record in context_of(compiled).code_states.values() for b in record.breaks]
    assert found.reason.name == "run-time effect"
    assert "DistributedDataParallel.forward (makes ready for the reduction of gradients)" in found.context


# ---- the order of events


class Events:
    """A backend and a hook for DDP's buckets that note when backwards run and when communication begins."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.parts = 0

    def backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
        from torch._functorch.compilers import nop

        part = self.parts
        self.parts += 1

        def backward(graph: torch.fx.GraphModule, inputs: Any) -> Any:
            def run(*args: Any) -> Any:
                self.seen.append(f"backward {part}")
                return graph(*args)

            return make_boxed_func(run)

        return aot_module_simplified(graph, inputs, fw_compiler=nop, bw_compiler=backward)

    def bucket(self, state, bucket):  # type: ignore[no-untyped-def]  # DDP reads annotations
        self.seen.append(f"bucket {bucket.index()}")
        mean = bucket.buffer().div_(dist.get_world_size())
        return dist.all_reduce(mean, async_op=True).get_future().then(lambda done: done.value()[0])


@ranks(2)
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_buckets_are_sent_between_the_backwards_of_parts(where: str) -> None:
    order = events_of_a_step(where)
    assert order[0] == "backward 3"
    for part in (3, 2, 1):  # the bucket of a part is on its way before the next part's backward
        assert (
            f"bucket {3 - part}"
            in order[order.index(f"backward {part}") : order.index(f"backward {part - 1}")]
        )
    with framelift.config.patch(optimize_ddp=False):
        order = events_of_a_step(where)
        assert order[0] == "backward 0" and all(event.startswith("bucket") for event in order[1:])


def events_of_a_step(where: str) -> list[str]:
    events = Events()
    compiled = parallel(Net(4), where, on_fakes(events.backend))
    getattr(compiled, "_orig_mod", compiled).register_comm_hook(None, events.bucket)
    for n in range(2):  # DDP makes its buckets after the first
        events.seen.clear()
        step(compiled, torch.randn(4, 64), n)
    return events.seen


# ---- where graphs are cut, in a group of one


@contextlib.contextmanager
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


class Changing(nn.Module):
    """All that a cut has to go around."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(64, 64) for _ in range(3))
        self.norm, self.drop = nn.BatchNorm1d(64), nn.Dropout(0.3)
        self.register_buffer("calls", torch.zeros(()))
        self.tied = nn.Linear(64, 64)
        self.tied.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.calls += 1
        h = self.one(x)
        view = h[:, :32]
        h = self.drop(self.two(h.relu()))
        view.mul_(2)  # what the first layer gave
        with torch.no_grad():
            scale = self.three.weight.std()
            first = self.two(x)
        with torch.autocast("cpu", torch.bfloat16):
            h = self.three(h)
            h = h * 2
        h = self.norm(h.float()) * scale
        parts = h.split(32, dim=1)
        last = self.tied(torch.cat(parts, 1))
        return last, view, h + first


class Checkpointed(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return x


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "layers": (lambda: Net(4), 4),
    "torch's own module": (lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), 2),
    "all kinds of changes": (Changing, 2),
    "checkpoints": (Checkpointed, 3),
    "one bucket": (lambda: Net(1), 1),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_models_in_parts_do_what_they_do_whole(name: str, backend: str) -> None:
    make, count = MODELS[name]
    with alone(), counted_parts() as parts:
        compiled = trains_alike(make(), "outside", backend)
        assert graphs(compiled) == 1
    assert parts == [count]


@contextlib.contextmanager
def counted_parts() -> Iterator[list[int]]:
    found: list[int] = []
    original = data_parallel.compile_in_parts

    def counting(ddp: Any, graph: Any, inputs: Any, symbols: Any, compile_part: Any) -> Any:
        calls = []
        made = original(ddp, graph, inputs, symbols, lambda *args: calls.append(1) or compile_part(*args))
        found.append(len(calls) or 1)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_parallel, "compile_in_parts", counting)
        yield found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parts_take_sizes_that_vary(backend: str) -> None:
    class Sized(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).view(x.size(0) * 2, -1) * x.size(0)

    with alone(), counted_parts() as parts:
        compiled = trains_alike(
            Sized(), "inside", backend, lambda n: torch.randn(4 + n, 64), exact=False
        )  # AOTAutograd marks its results
        assert graphs(compiled) == 2  # the first size, then any
    assert parts == [3, 3]


def test_parts_agree_with_inductor_about_strides() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
    net = net.to(memory_format=torch.channels_last)
    with alone(), counted_parts() as parts:
        trains_alike(
            net, "outside", "inductor", lambda n: torch.randn(2, 3, 6, 6), exact=False, bucket_cap_mb=0.001
        )
    assert parts == [2]


def test_graphs_without_gradients_are_whole() -> None:
    with alone(), counted_parts() as parts, torch.no_grad():
        compiled = parallel(Net(), "outside", "eager")
        compiled(torch.randn(2, 64))
    assert parts == []


def test_a_failing_backend_says_so() -> None:
    def failing(graph: Any, inputs: Any) -> Any:
        raise ValueError("no")

    with alone(), pytest.raises(framelift.exc.BackendCompilerFailed, match="ValueError: no"):
        parallel(Net(), "outside", failing)(torch.randn(2, 64))
