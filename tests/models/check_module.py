"""Comparing a compiled module with the module itself: outputs, gradients and all of its state."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import framelift
from sameness import alike


def check_module(
    make: Any,
    *args: torch.Tensor,
    calls: int = 3,
    backend: str = "eager",
    fullgraph: bool = True,
    exact: bool = True,
) -> None:
    """Two modules made alike, one compiled: outputs, gradients and whole state after each call."""
    torch.manual_seed(0)
    eager = make()
    module = copy.deepcopy(eager)
    compiled = framelift.compile(module, backend=backend, fullgraph=fullgraph)
    for n in range(calls):
        outputs, inputs = [], []
        for callee in (eager, compiled):
            given = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
            torch.manual_seed(n)
            out = callee(*given)
            loss = total(out)
            if loss.requires_grad:
                loss.backward()
            outputs.append(out)
            inputs.append([a.grad for a in given])
        if exact:
            alike(plain(outputs[0]), plain(outputs[1]))
            alike([inputs[0], state_of(eager)], [inputs[1], state_of(module)])
        else:
            close(*outputs)
            torch.testing.assert_close(inputs[0], inputs[1])
            torch.testing.assert_close(state_of(eager)[:2], state_of(module)[:2])
    for record in compiled._framelift_context.code_states.values():
        assert not fullgraph or not record.breaks, record.breaks


def total(out: Any) -> torch.Tensor:
    if isinstance(out, torch.Tensor):
        return out.float().sum()
    if not isinstance(out, (dict, list, tuple)):
        return torch.zeros(())
    parts = out.values() if isinstance(out, dict) else out
    return sum((total(part) for part in parts if part is not None), torch.zeros(()))


def close(want: Any, got: Any) -> None:
    """The same but for rounding."""
    (ours, shape), (theirs, other) = pytree.tree_flatten(plain(want)), pytree.tree_flatten(plain(got))
    assert shape == other
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b


def plain(out: Any) -> Any:
    """The values alone: graphs of autograd are compared by their gradients."""
    if isinstance(out, torch.Tensor):
        return out.detach().clone()
    if isinstance(out, dict):
        return {k: plain(v) for k, v in out.items()}
    return type(out)(map(plain, out)) if isinstance(out, (list, tuple)) else out


def state_of(module: nn.Module) -> list[Any]:
    tensors = {name: value.clone() for name, value in module.state_dict().items()}
    gradients = {name: p.grad for name, p in module.named_parameters()}
    own = {
        (name, key): value
        for name, sub in module.named_modules()
        for key, value in vars(sub).items()
        if isinstance(value, (int, str, list)) and key != "_non_persistent_buffers_set"
    }
    return [tensors, gradients, plain(own)]


def x3(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, 3 * 4).reshape(shape or (3, 4))
