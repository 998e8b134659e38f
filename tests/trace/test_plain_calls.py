"""Calls of modules that are calls of `forward`: changes before and within a call are noticed."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from check import capture, recompiles

X = torch.ones(2, 3)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.hooks: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + 1


def add_one(*args: Any) -> Any:
    return args[-1] + 1


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 10


def set_own(name: str, value: Any) -> Callable[[Block], None]:
    return lambda block: vars(block.linear).__setitem__(name, value)


CHANGES: dict[str, Callable[[Block], Any]] = {
    "forward hook": lambda block: block.linear.register_forward_hook(add_one),
    "pre-hook": lambda block: block.linear.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "backward hook": lambda block: block.linear.register_full_backward_hook(lambda *args: None),
    "hooks replaced": set_own("_forward_hooks", collections.OrderedDict({0: add_one})),
    "hooks of another class": set_own("_forward_hooks", {0: add_one}),
    "own forward": set_own("forward", scaled),
    "own call": set_own("_call_impl", scaled),
    "compiled call": set_own("_compiled_call_impl", scaled),
    "another class": lambda block: setattr(block.linear, "__class__", nn.Identity),
    "forward of the class": lambda block: setattr(block, "linear", Scaled()),
}


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_a_call_runs_is_noticed(name: str) -> None:
    block = Block()
    compiled = framelift.compile(block, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), block(X))
    CHANGES[name](block)
    assert torch.equal(compiled(X), block(X))


@pytest.mark.parametrize(
    "name", sorted(CHANGES.keys() - {"another class"})
)  # which is not set while captured
def test_a_change_within_a_call_is_seen_by_the_next_call_of_the_module(name: str) -> None:
    change = CHANGES[name]

    def fn(block: Block, x: torch.Tensor) -> torch.Tensor:
        before = block.linear(x)
        change(block)
        return before + block.linear(x)

    torch.manual_seed(0)
    one = Block()
    torch.manual_seed(0)
    other = Block()
    expected = fn(one, X)
    assert torch.equal(framelift.compile(fn, backend="eager")(other, X), expected)


def test_hooks_that_come_and_go_leave_a_module_as_it_was() -> None:
    block = Block()
    compiled = capture(block)
    compiled(X)
    block.linear.register_forward_hook(add_one).remove()
    assert torch.equal(compiled(X), block(X))
    assert recompiles(compiled) == 0


def test_hooks_for_all_modules_are_noticed() -> None:
    block = Block()
    compiled = framelift.compile(block, backend="eager")
    compiled(X)
    handle = nn.modules.module.register_module_forward_hook(add_one)
    try:
        assert torch.equal(compiled(X), block(X))
    finally:
        handle.remove()
    assert torch.equal(compiled(X), block(X))


def test_a_dictionary_that_is_written_to_is_not_that_of_the_hooks() -> None:
    """It was another one when the function was captured."""

    def fn(block: Block, held: Any, x: torch.Tensor) -> torch.Tensor:
        held[0] = add_one
        return block(x)

    block = Block()
    compiled = framelift.compile(fn, backend="eager")
    held: Any = collections.OrderedDict()
    assert torch.equal(compiled(block, held, X), block(X)) and held == {0: add_one}
    hooks = block.linear._forward_hooks
    expected = block(X) + 1
    assert torch.equal(compiled(block, hooks, X), expected)


@pytest.mark.parametrize(
    ("name", "reason"),
    {
        "forward hook": "bool(self.linear._forward_hooks) is False, found length 1",
        "own forward": "'forward' not in vars(self.linear), found that it is",
        "hooks of another class": "bool(self.linear._forward_hooks) is False, found length 1",
    }.items(),
)
def test_reasons_to_compile_again_name_the_attribute(name: str, reason: str) -> None:
    block = Block()
    compiled = framelift.compile(block, backend="eager")
    compiled(X)
    CHANGES[name](block)
    compiled(X)
    (state,) = compiled._framelift_context.code_states.values()
    assert state.recompile_reasons == [reason]
