"""Forward hooks of modules: they are run in their order, and one that is registered anew compiles nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from check import entries

X = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, 1.0, 1.5]))

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return (x * self.weight).tanh() * scale


def compiled_call(layer: Layer) -> Callable[..., Any]:
    return framelift.compile(lambda x: layer(x, scale=2.0) + 1, backend="eager")


def multiplying(factor: Any) -> Callable[..., Any]:
    return lambda module, args, out: out * factor


ANEW: dict[str, Callable[[Layer, int], Any]] = {
    "forward": lambda layer, n: layer.register_forward_hook(lambda m, args, out: out * 2),
    "before": lambda layer, n: layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,)),
    "before, no tuple": lambda layer, n: layer.register_forward_pre_hook(lambda m, args: args[0] + 1),
    "a tensor that it closes over": lambda layer, n: layer.register_forward_hook(
        multiplying(torch.full((3,), float(n)))
    ),
    "a number that it closes over": lambda layer, n: layer.register_forward_hook(multiplying(n + 2)),
    "gives nothing": lambda layer, n: layer.register_forward_hook(lambda m, args, out: None),
}


@pytest.mark.parametrize("name", ANEW)
def test_a_hook_registered_for_each_call(name: str) -> None:
    layer = Layer()
    compiled, counts = compiled_call(layer), []
    for n in range(6):
        handle = ANEW[name](layer, n)
        assert torch.equal(compiled(X), layer(X, scale=2.0) + 1)
        handle.remove()
        counts.append(entries(compiled))
    assert counts[-1] <= 2, counts


def test_a_hook_that_keeps_what_it_sees() -> None:
    layer = Layer()
    compiled = compiled_call(layer)
    for _ in range(5):
        seen: list[Any] = []
        handle = layer.register_forward_hook(lambda m, args, out: seen.append((args, out.detach())))  # noqa: B023
        compiled(X)
        handle.remove()
        ((given,), out) = seen[0]
        assert len(seen) == 1 and given is X and torch.equal(out, layer(X, scale=2.0))
    assert entries(compiled) == 1


def test_the_hooks_are_guarded() -> None:
    """Which they are, how many, in which order, and that there are some."""
    layer = Layer()
    compiled = compiled_call(layer)
    add, double = (lambda m, args, out: out + 1), (lambda m, args, out: out * 2)
    handles: list[Any] = []
    for hooks in ([], [add], [double], [add, double], [double, add], [add, add], [], [add]):
        for handle in handles:
            handle.remove()
        handles = [layer.register_forward_hook(hook) for hook in hooks]
        assert torch.equal(compiled(X), layer(X, scale=2.0) + 1)
    layer._forward_hooks.move_to_end(handles[0].id)
    handles.append(layer.register_forward_hook(double, prepend=True))
    assert torch.equal(compiled(X), layer(X, scale=2.0) + 1)


OTHERS: dict[str, Callable[[Layer, list[Any]], Any]] = {
    "with keyword arguments": lambda layer, log: layer.register_forward_hook(
        lambda m, args, kwargs, out: out * kwargs["scale"], with_kwargs=True
    ),
    "before, with keyword arguments": lambda layer, log: layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True
    ),
    "always called": lambda layer, log: layer.register_forward_hook(
        lambda m, args, out: log.append("always"), always_call=True
    ),
    "a break": lambda layer, log: layer.register_forward_hook(lambda m, args, out: print("seen")),
    "an object": lambda layer, log: layer.register_forward_hook(Doubling()),
    "a module": lambda layer, log: layer.register_forward_pre_hook(Shifting()),
    "of all modules": lambda layer, log: nn.modules.module.register_module_forward_hook(
        lambda m, args, out: out * 3
    ),
}


class Doubling:
    def __call__(self, module: Any, args: Any, out: Any) -> Any:
        return out * 2


class Shifting(nn.Module):
    def forward(self, module: Any, args: Any) -> Any:
        return (args[0] - 1,)


@pytest.mark.parametrize("name", OTHERS)
def test_other_hooks(name: str, capsys: Any) -> None:
    layer = Layer()
    compiled = compiled_call(layer)
    for _ in range(3):
        outcomes = []
        for fn in (lambda x: layer(x, scale=2.0) + 1, compiled):
            log: list[Any] = []
            handle = OTHERS[name](layer, log)
            plain = layer.register_forward_hook(lambda m, args, out: out + 0.5)
            try:
                outcomes.append((fn(X), log, capsys.readouterr().out))
            finally:
                handle.remove()
                plain.remove()
        (expected, *others), (found, *found_others) = outcomes
        assert torch.equal(found, expected) and found_others == others


def test_hooks_that_change_hooks() -> None:
    """One that is registered before forward is called after it; one that removes itself has run."""

    def run(layer: Layer, log: list[str], fn: Callable[..., Any]) -> Any:
        def once(module: Any, args: Any) -> None:
            log.append("before")
            handle.remove()
            later.append(module.register_forward_hook(lambda m, args, out: log.append("registered")))

        later: list[Any] = []
        handle = layer.register_forward_pre_hook(once)
        last = layer.register_forward_hook(lambda m, args, out: log.append("after"))
        out = [fn(X), fn(X)]
        for each in (*later, last):
            each.remove()
        return out

    layer = Layer()
    compiled = compiled_call(layer)
    for _ in range(2):
        log: list[str] = []
        found: list[str] = []
        expected = run(layer, log, lambda x: layer(x, scale=2.0) + 1)
        got = run(layer, found, compiled)
        assert all(map(torch.equal, got, expected)) and found == log
    assert not layer._forward_hooks and not layer._forward_pre_hooks


def test_an_error_of_a_hook() -> None:
    layer = Layer()
    compiled = compiled_call(layer)

    def failing(module: Any, args: Any, out: Any) -> None:
        raise KeyError("hook")

    for _ in range(2):
        handle = layer.register_forward_hook(failing)
        with pytest.raises(KeyError, match="hook"):
            compiled(X)
        handle.remove()
        assert torch.equal(compiled(X), layer(X, scale=2.0) + 1)
