"""Blocks that a model repeats are compiled once (`config.share_blocks`): results, gradients, writes and
random numbers are eager's; what differs in anything is no copy."""

from __future__ import annotations

import copy
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import framelift
from framelift.dispatch import backends, block_calls
from framelift.dispatch.backend_names import lookup_backend
from framelift.dispatch.backends import on_fakes
from framelift.dispatch.examples import Given
from tests.check import difference

T = torch.Tensor


@pytest.fixture(autouse=True)
def sharing() -> Iterator[None]:
    framelift.counters["repeated_blocks"].clear()
    with framelift.config.patch(share_blocks="always", cache=False):
        yield


def shared() -> tuple[int, int]:
    """(blocks that were compiled once, calls of them)."""
    found = framelift.counters["repeated_blocks"]
    assert not found["refused by the backend"]
    return found["compiled"], found["called"]


class Layer(nn.Module):
    """Attention and a small network, as a transformer has them."""

    def __init__(self, size: int = 16, p: float = 0.0, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm, self.out_norm = nn.LayerNorm(size, eps=eps), nn.LayerNorm(size, eps=eps)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.drop = nn.Dropout(p)
        self.is_causal = False

    def forward(self, x: T, mask: T | None = None) -> T:
        b, t, h = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, h // 2).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.is_causal)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(b, t, h)))
        return x + self.down(nn.functional.gelu(self.up(self.out_norm(x))))


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(16, 4)

    def forward(self, x: T, *rest: Any) -> T:
        for layer in self.layers:
            x = layer(x, *rest)
        return self.head(x)


def stack(n: int = 4, make: Callable[..., nn.Module] = Layer, **kwargs: Any) -> Stack:
    torch.manual_seed(0)
    return Stack([make(**kwargs) for _ in range(n)])


def run(model: nn.Module, *args: Any, trains: bool = True, seed: int = 1) -> dict[str, Any]:
    """All that a call does."""
    torch.manual_seed(seed)
    given = [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, T) else a for a in args]
    found: dict[str, Any] = {"result": model(*given)}
    if trains:
        leaves = [r for r in torch.utils._pytree.tree_leaves(found["result"]) if r.requires_grad]
        sum((r * torch.arange(r.numel()).view_as(r).cos()).sum() for r in leaves).backward()
    found["gradients"] = [p.grad for p in model.parameters()]
    found["given"] = [(a, a.grad) if isinstance(a, T) else a for a in given]
    found["buffers"] = list(model.buffers())
    found["next"] = torch.rand(2)
    return found


def check(
    model: nn.Module,
    *args: Any,
    expected: tuple[int, int],
    backend: Any = "aot_eager",
    is_close: bool = False,
    trains: bool = True,
    **options: Any,
) -> Any:
    """Equal to eager and to the whole graph, with so many blocks compiled for so many calls."""
    plain, whole, blocks = [copy.deepcopy(model) for _ in range(3)]
    framelift.counters["repeated_blocks"].clear()
    compiled = framelift.compile(blocks, backend=backend, fullgraph=True, isolate_recompiles=True, **options)
    found = run(compiled, *args, trains=trains)
    assert shared() == expected
    eager = run(plain, *args, trains=trains)
    with framelift.config.patch(share_blocks="never"):
        other = run(framelift.compile(whole, backend=backend, **options), *args, trains=trains)
    if is_close:
        torch.testing.assert_close(found, eager)
    else:
        assert (wrong := difference(eager, found)) is None, wrong
    torch.testing.assert_close(found, other)
    return compiled


X = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("trains", [True, False])
def test_equal_layers_are_compiled_once(trains: bool) -> None:
    with torch.set_grad_enabled(trains):
        check(stack(), X.clone().requires_grad_(trains), expected=(1, 4), trains=trains)


def test_without_the_option_a_graph_is_compiled_whole() -> None:
    with framelift.config.patch(share_blocks="never"):
        run(framelift.compile(stack(), backend="aot_eager"), X)
    assert shared() == (0, 0)


def test_a_layer_whose_input_requires_grad_is_no_copy_of_one_whose_input_does_not() -> None:
    check(stack(), X.clone().requires_grad_(), expected=(1, 4))
    check(stack(), X, expected=(1, 3))


def one_flag(model: Stack) -> None:
    model.layers[2].is_causal = True


def another_eps(model: Stack) -> None:
    model.layers[2].norm.eps = 1e-6


def another_size(model: Stack) -> None:
    model.layers[2].up, model.layers[2].down = nn.Linear(16, 48), nn.Linear(48, 16)


def no_bias(model: Stack) -> None:
    model.layers[2].out.bias = None


def frozen(model: Stack) -> None:
    model.layers[2].requires_grad_(False)


def another_type(model: Stack) -> None:
    class Doubled(Layer):
        pass

    model.layers[2] = Doubled()


@pytest.mark.parametrize("change", [one_flag, another_eps, another_size, no_bias, frozen])
def test_a_layer_that_differs_is_no_copy(change: Callable[[Stack], None]) -> None:
    model = stack()
    change(model)
    check(model, X.clone().requires_grad_(), expected=(1, 3))


def test_layers_of_two_kinds_are_two_blocks() -> None:
    torch.manual_seed(0)
    model = Stack([Layer(), Layer(eps=1e-3), Layer(), Layer(eps=1e-3)])
    check(model, X.clone().requires_grad_(), expected=(2, 4))


def test_constants_that_are_equal_but_not_the_same_differ() -> None:
    class Scaled(Layer):
        def __init__(self, by: Any) -> None:
            super().__init__()
            self.by = by

        def forward(self, x: T) -> T:
            return super().forward(x * self.by)

    numbers = [0.0, -0.0, 0, 1, 1.0, True, 1.0]
    torch.manual_seed(0)
    model = Stack([Scaled(by) for by in numbers])
    run(framelift.compile(model, backend="aot_eager"), X.clone().requires_grad_())
    # around the only two that are the same, what is within all of them is
    assert shared()[1] == 2 or shared()[0] > 1
    check(Stack([Scaled(1.0), Scaled(1.0)]), X.clone().requires_grad_(), expected=(1, 2))


def test_parameters_that_layers_share() -> None:
    model = stack()
    model.layers[1] = model.layers[0]
    model.layers[2].qkv = model.layers[3].qkv
    check(model, X.clone().requires_grad_(), expected=(1, 4))


def test_what_comes_from_around_the_loop_is_given_to_each() -> None:
    mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -1e9)
    check(stack(), X.clone().requires_grad_(), mask.requires_grad_(), expected=(1, 4))


@pytest.mark.parametrize("trains", [True, False])
def test_sizes_that_vary(trains: bool) -> None:
    with torch.set_grad_enabled(trains):
        given = X.clone().requires_grad_(trains)
        compiled = check(stack(), given, expected=(1, 4), trains=trains, dynamic=True)
        plain = stack()
        for b, t in [(3, 7), (4, 9)]:
            other = torch.randn(b, t, 16)
            compiled.zero_grad()
            assert difference(run(plain, other, trains=False), run(compiled, other, trains=False)) is None


def test_dropout_draws_what_it_draws_eagerly() -> None:
    check(stack(p=0.5), X.clone().requires_grad_(), expected=(1, 4))


class Statistics(nn.Module):
    """A block that writes to its buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm, self.after = nn.Linear(16, 16), nn.BatchNorm1d(16), Layer()

    def forward(self, x: T) -> T:
        b, t, h = x.shape
        return self.after(self.norm(self.mix(x).tanh().view(b * t, h)).view(b, t, h) + x)


def test_of_blocks_that_write_only_what_is_pure_in_them_is_shared() -> None:
    model = stack(3, Statistics)
    run(framelift.compile(copy.deepcopy(model), backend="aot_eager"), X)
    assert shared()[1] == 0  # what comes behind a write may be kept for gradients
    check(model, X, expected=(0, 0))
    check(model.eval(), X.clone().requires_grad_(), expected=(1, 3))


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()
        self.register_buffer("cache", torch.zeros(2, 8, 16))

    def forward(self, x: T, at: T) -> T:
        self.cache.index_copy_(1, at, x)
        return self.layer(x) + self.cache.sum(1, keepdim=True).sin().cos().exp().tanh()


def test_a_cache_that_blocks_write_to() -> None:
    with torch.no_grad():
        check(stack(3, Cached), X, torch.arange(5), expected=(0, 0), trains=False)


class Growing(nn.Module):
    """Gives what it has computed beside its result, as a layer with a cache does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.key = Layer(), nn.Linear(16, 16)

    def forward(self, x: T, past: T) -> tuple[T, T]:
        key = self.key(x).view(2, 5, 2, 8).transpose(1, 2)
        return self.layer(x) + past.mean(), torch.cat([past, key], 2)


class Decoder(Stack):
    def forward(self, x: T, *past: T) -> Any:
        kept = []
        for layer, before in zip(self.layers, past, strict=True):
            x, key = layer(x, before)
            kept.append(key)
        return self.head(x), kept


def test_several_results_of_a_block() -> None:
    torch.manual_seed(0)
    model = Decoder([Growing() for _ in range(3)])
    past = [torch.randn(2, 2, 3, 8) for _ in range(3)]
    check(model, X.clone().requires_grad_(), *past, expected=(1, 3))
    check(model, X.clone().requires_grad_(), past[0], past[0], past[2], expected=(1, 3))


class Viewing(nn.Module):
    """Gives a view of what it is given, or of its result."""

    def __init__(self, of_input: bool) -> None:
        super().__init__()
        self.layer, self.of_input = Layer(), of_input

    def forward(self, x: T) -> tuple[T, T]:
        y = self.layer(x).tanh()
        return y, (x if self.of_input else y).transpose(1, 2)


@pytest.mark.parametrize("of_input", [True, False])
def test_views_among_the_results(of_input: bool) -> None:
    class Model(Stack):
        def forward(self, x: T) -> Any:
            views = []
            for layer in self.layers:
                x, view = layer(x)
                views.append(view)
            return x, views

    torch.manual_seed(0)
    # what is within them, a `Layer`, is shared
    model = Model([Viewing(of_input) for _ in range(3)])
    check(model, X.clone().requires_grad_(), expected=(1, 3), is_close=True)


def test_grad_mode_and_autocast_within_the_graph() -> None:
    class Model(Stack):
        def forward(self, x: T) -> T:
            x = self.layers[0](self.layers[1](x))
            with torch.no_grad():
                frozen = self.layers[2](self.layers[3](x))
            with torch.autocast("cpu", torch.bfloat16):
                x = self.layers[0](self.layers[1](x + frozen)).float()
            return self.head(self.layers[2](x))

    torch.manual_seed(0)
    check(Model([Layer() for _ in range(4)]), X.clone().requires_grad_(), expected=(1, 3))


def test_autocast_around_the_call() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        check(stack(), X.to(torch.bfloat16).requires_grad_(), expected=(1, 4))


def test_smaller_modules_that_are_equal_are_found_where_larger_ones_differ() -> None:
    class Outer(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.inner, self.n = Layer(), n

        def forward(self, x: T) -> T:
            for k in range(self.n):
                x = (x * (k + 2)).sin()
            return self.inner(x)

    torch.manual_seed(0)
    check(Stack([Outer(n) for n in (1, 2, 3)]), X.clone().requires_grad_(), expected=(1, 3))


def test_a_backend_that_refuses_the_calls_gets_the_whole_graph() -> None:
    aot = lookup_backend("aot_eager")

    @on_fakes
    def strict(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if any("invoke_subgraph" in str(node.target) for node in graph.graph.nodes):
            raise ValueError("no subgraphs")
        return aot(graph, inputs)

    model, given = stack(), X.clone().requires_grad_()
    found = run(framelift.compile(copy.deepcopy(model), backend=strict), given)
    assert difference(run(model, given), found) is None
    assert framelift.counters["repeated_blocks"]["refused by the backend"] == 1


def test_other_backends_get_the_graph_as_it_is() -> None:
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append(str(graph.graph))
        return graph.forward

    run(framelift.compile(stack(), backend=backend), X)
    assert len(seen) == 1 and "invoke_subgraph" not in seen[0]


# ---- with Inductor


def test_inductor_training() -> None:
    """Gradients were wrong where Inductor used the memory of what they need for something else."""
    compiled = check(stack(), X.clone().requires_grad_(), expected=(1, 4), backend="inductor", is_close=True)
    assert compiled is not None


def test_inductor_inference_with_sizes_that_vary() -> None:
    with torch.no_grad():
        compiled = check(
            stack(), X, expected=(1, 4), backend="inductor", is_close=True, trains=False, dynamic=True
        )
        other = torch.randn(3, 9, 16)
        torch.testing.assert_close(compiled(other), stack()(other))


def test_inductor_draws_another_mask_in_each_layer() -> None:
    class Dropping(nn.Module):
        def forward(self, x: T, given: T) -> T:
            mask = nn.functional.dropout(torch.ones_like(given), 0.5)
            return torch.cat([x, (mask * 2).sin().cos().tanh().exp().sin().cos()[None]])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Dropping() for _ in range(3)])

        def forward(self, given: T) -> Any:
            return [layer(given[None], given) for layer in self.layers]

    compiled = framelift.compile(Model())
    masks = [result[1] for result in compiled(torch.zeros(64))]
    assert shared() == (1, 3)
    assert not any(
        torch.equal(a, b) for a, b in [(masks[0], masks[1]), (masks[1], masks[2]), (masks[0], masks[2])]
    )


def test_inductor_with_eager_random_numbers() -> None:
    check(
        stack(3, p=0.5),
        X.clone().requires_grad_(),
        expected=(1, 3),
        backend="inductor",
        is_close=True,
        options={"fallback_random": True},
    )


class Linear(nn.Module):
    """Its result is what it is given, but for what the dropout leaves out."""

    def forward(self, x: T) -> T:
        x = nn.functional.dropout(x, 0.25)
        for _ in range(4):
            x = (x * 3).view(-1) / 3
        return x.view(32)


def test_inductor_differentiates_with_the_mask_that_it_has_drawn() -> None:
    model = nn.Sequential(*[Linear() for _ in range(3)])
    x = torch.rand(32).add(1).requires_grad_()
    found = framelift.compile(model)(x)
    found.sum().backward()
    assert shared() == (1, 3)
    assert 0 < int(found.count_nonzero()) < 32
    torch.testing.assert_close(x.grad, (found / x).detach())


def test_large_blocks_are_shared_by_default() -> None:
    model, small = stack(3), mock.patch.multiple(block_calls, LEAST_WORK=1 << 10, LEAST_WORK_AT_BORDER=1)
    with framelift.config.patch(share_blocks="large"), small, torch.no_grad():
        torch.testing.assert_close(framelift.compile(model)(X), model(X))
    assert shared() == (1, 3)


@pytest.mark.parametrize("least", [{"LEAST_WORK": 1 << 20}, {"LEAST_WORK_AT_BORDER": 1 << 20}, {}])
def test_which_blocks_are_large(least: dict[str, int]) -> None:
    seen = []

    def is_large(*args: Any) -> bool:
        seen.append(known(*args))
        return False

    known = block_calls.is_large
    sizes = {"LEAST_WORK": 1 << 10, "LEAST_WORK_AT_BORDER": 1} | least
    any_backend = mock.patch.object(backends, "shares_blocks", lambda *about: True)
    small, watched = (
        mock.patch.multiple(block_calls, **sizes),
        mock.patch.object(block_calls, "is_large", is_large),
    )
    with framelift.config.patch(share_blocks="large"), any_backend, small, watched, torch.no_grad():
        framelift.compile(stack(3), backend="aot_eager")(X)
    assert seen[0] is (not least) and shared() == (0, 0)


def test_where_blocks_are_looked_for_by_default() -> None:
    inductor, given = lookup_backend("inductor"), [X, X.clone().requires_grad_(), 3]
    looks = backends.shares_blocks
    for option, on in (("large", True), ("always", True), ("never", False)):
        with framelift.config.patch(share_blocks=option), torch.no_grad():
            assert looks(inductor, given, Given(), {}) is on
    with framelift.config.patch(share_blocks="large"):
        assert not looks(inductor, given, Given(), {})  # it could be differentiated
        assert looks(inductor, given[:1], Given(), {})
        assert not looks(inductor, given[:1], Given(symbols=mock.Mock()), {})
        assert not looks(inductor, given[:1], Given(), {"mode": "max-autotune"})
        assert not looks(lookup_backend("aot_eager"), given[:1], Given(), {})
        assert not looks(inductor, [X.to("meta")], Given(), {})


def test_in_inference_mode() -> None:
    model = stack()
    with torch.inference_mode():
        found = framelift.compile(model, backend="aot_eager")(X)
        assert torch.equal(found, model(X)) and found.is_inference()
    assert shared() == (1, 3)  # the first one's input is no inference tensor


def test_a_loaded_capture_shares_its_blocks(tmp_path: Any) -> None:
    """A graph that the backend compiles again in the next process."""
    program = """
import torch, framelift
from tests.dispatch.test_repeated_blocks import X, stack

with torch.no_grad():
    framelift.compile(stack(), backend="aot_eager")(X)
assert framelift.counters["repeated_blocks"]["called"] == 4, framelift.counters
print(framelift.counters["cache"]["hit"])
"""
    root = str(pathlib.Path(__file__).parents[2])
    environment = os.environ | {"FRAMELIFT_CACHE_DIR": str(tmp_path), "FRAMELIFT_SHARE_BLOCKS": "always"}
    environment |= {"FRAMELIFT_CACHE": "1", "PYTHONPATH": f"{root}/src:{root}"}
    for hits in ("0", "1"):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == hits
