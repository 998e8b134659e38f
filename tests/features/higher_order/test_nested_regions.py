"""`nested_compile_region`: calls that do the same share one body; what is no body is part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import framelift
from check import check, entries, why_not
from framelift.testing import CompileCounterWithBackend

WEIGHTS = [torch.nn.Parameter(torch.linspace(-n, n, 9).reshape(3, 3)) for n in (1, 2)]
SEEN: list[torch.Tensor] = []


@torch.compiler.nested_compile_region
def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x @ weight).relu() + 1


@torch.compiler.nested_compile_region
def outer(x: torch.Tensor) -> torch.Tensor:
    return block(block(x, WEIGHTS[0]), WEIGHTS[1]) * 2


@torch.compiler.nested_compile_region
def pair(x: torch.Tensor, times: int) -> Any:
    return {"a": x * times, "b": (x.detach() + 1, times)}


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.norm(self.linear(x)).relu()


torch.manual_seed(0)
LAYERS = torch.nn.Sequential(*(Layer() for _ in range(3)))


def twice(x: Any) -> Any:
    return block(block(x, WEIGHTS[0]), WEIGHTS[1])


def nested(x: Any) -> Any:
    return outer(outer(x))


def layers(x: Any) -> Any:
    return LAYERS(x)


def structures(x: Any) -> Any:
    found = pair(pair(x, 2)["a"], 2)
    return found["a"] + found["b"][0] + found["b"][1]


def other_numbers(x: Any) -> Any:
    return pair(pair(x, 2)["a"], 3)["a"]


def gradient_inside(x: Any) -> Any:
    return torch.autograd.grad(block(x, WEIGHTS[0]).sum(), x)[0] + x


def transformed(x: Any) -> Any:
    rows = torch.vmap(block, (0, None))(x, WEIGHTS[0])
    return rows + torch.func.grad(lambda y: block(y, WEIGHTS[0]).sum())(x)


def in_a_checkpoint(x: Any) -> Any:
    return checkpoint(block, x, WEIGHTS[0], use_reentrant=False)


def made_inside(x: Any) -> Any:
    @torch.compiler.nested_compile_region
    def scaled(y: torch.Tensor) -> torch.Tensor:
        return y.sin() * x

    return scaled(scaled(x + 1))


SHARED = {made_inside: 1, twice: 1, nested: 1, layers: 1, structures: 1, other_numbers: 2, gradient_inside: 1}
SHARED |= {transformed: 0, in_a_checkpoint: 0}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", SHARED, ids=lambda fn: fn.__name__)
def test_results_and_gradients(fn: Callable[..., Any], backend: str) -> None:
    kept = CompileCounterWithBackend(backend)
    compiled = framelift.compile(fn, backend=kept, fullgraph=True)
    for n in range(2):
        x = (torch.arange(6.0).reshape(2, 3) - n).requires_grad_()
        expected, found = fn(x), compiled(x)
        torch.testing.assert_close(found, expected)
        grads = [torch.autograd.grad(out.sum(), x)[0] for out in (expected, found)]
        torch.testing.assert_close(*grads)
    assert entries(compiled) == 1 and why_not(compiled) is None
    assert sum(name.startswith("subgraph") for name, _ in kept.graphs[0].named_children()) == SHARED[fn]


@pytest.mark.parametrize(("backend", "sizes", "count"), [("aot_eager", (2, 3, 4), 2), ("inductor", (2,), 1)])
def test_inductor_and_sizes_that_vary(backend: str, sizes: tuple[int, ...], count: int) -> None:
    compiled = framelift.compile(twice, backend=backend, fullgraph=True)
    with torch.no_grad():
        for n in sizes:
            x = torch.arange(3.0 * n).reshape(n, 3)
            torch.testing.assert_close(compiled(x), twice(x))
    assert entries(compiled) == count


def changes_its_argument(x: Any, seen: Any) -> Any:
    region = lambda y: (y.add_(1), y.sin())[1]
    y = x * 2
    return marked(region)(y) + y


def gives_what_it_is_given(x: Any, seen: Any) -> Any:
    return marked(lambda y: (y, y.view(-1)))(x)


def draws(x: Any, seen: Any) -> Any:
    torch.manual_seed(3)
    return marked(lambda y: y + torch.rand(3))(x)


def leaves_something_behind(x: Any, seen: Any) -> Any:
    return marked(lambda y: (seen.append(y * 2), y + 1)[1])(x)


def switches(x: Any, seen: Any) -> Any:
    found = marked(lambda y: (torch.set_grad_enabled(False), y + 1)[1])(x)
    torch.set_grad_enabled(True)
    return found


def gives_an_object(x: Any, seen: Any) -> Any:
    return marked(lambda y: Holder(y * 2))(x).value + 1


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


def marked(fn: Any) -> Any:
    return lambda *args: called(fn, *args)


@torch.compiler.nested_compile_region
def called(fn: Any, *args: Any) -> Any:
    return fn(*args)


def test_hooks_are_those_of_the_graph_around() -> None:
    def fn(x: Any) -> Any:
        y = x * 1
        kept, handle = called(hooked, y)
        removed, other = called(hooked, y)
        other.remove()
        return kept * 2 + removed + y

    def hooked(y: Any) -> Any:
        y.register_hook(lambda grad: grad * 3)
        z = y.sin()
        return z, z.register_hook(lambda grad: grad * 5)

    for backend in ("eager", "aot_eager"):
        x = torch.arange(3.0).requires_grad_()
        compiled = framelift.compile(fn, backend=backend, fullgraph=True)
        grads = [torch.autograd.grad(call(x).sum(), x)[0] for call in (compiled, fn)]
        torch.testing.assert_close(*grads)
        assert entries(compiled) == 1 and why_not(compiled) is None


DISSOLVED = [changes_its_argument, gives_what_it_is_given, draws, leaves_something_behind]
DISSOLVED += [switches, gives_an_object]


@pytest.mark.parametrize("fn", DISSOLVED, ids=lambda fn: fn.__name__)
def test_what_is_no_body_is_part_of_the_graph(fn: Callable[..., Any]) -> None:
    check(fn, torch.arange(6.0).reshape(2, 3), [], calls=2)
