"""Hooks that a captured function registers on tensors from outside: autograd calls them as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import framelift
from check import check, entries
from framelift.exc import Unsupported

Log = list[Any]


def gradient_changed(x: Any, log: Log) -> Any:
    x.register_hook(lambda grad: grad * 2)
    return x * 3


def with_a_closure(x: Any, log: Log) -> Any:
    shift = x.detach().sin()

    def hook(grad: Any) -> Any:
        log.append(grad.sum().item())
        return grad + shift

    x.register_hook(hook)
    return x * 3


def noted(log: Log, factor: int, grad: Any) -> Any:
    log.append(factor)
    return grad * factor


def with_a_partial(x: Any, log: Log) -> Any:
    x.register_hook(functools.partial(noted, log, 5))
    return x * 3


def two_in_order(x: Any, log: Log) -> Any:
    x.register_hook(lambda grad: (log.append("first"), grad + 1)[1])
    x.register_hook(lambda grad: (log.append("second"), grad * 2)[1])
    return x.sin()


def method_of_a_list(x: Any, log: Log) -> Any:
    inside = x * 1
    inside.register_hook(lambda grad: grad * 2)
    x.register_hook(log.append)
    return inside * 3


def that_removes_itself(x: Any, log: Log) -> Any:
    handle = x.register_hook(lambda grad: (log.append("once"), handle.remove())[1])
    return x * 3


def removed_again(x: Any, log: Log) -> Any:
    handle = x.register_hook(lambda grad: grad * 2)
    y = x * 3
    handle.remove()
    return y


def kept(x: Any, log: Log) -> Any:
    log.append(x.register_hook(lambda grad: grad * 2))
    return x * 3


def kept_and_removed(x: Any, log: Log) -> Any:
    handle = x.register_hook(lambda grad: grad * 2)
    handle.remove()
    log.append(handle)
    return x * 3


def after_accumulation(x: Any, log: Log) -> Any:
    x.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad.sum().item()))
    return x * 3


def state_of_an_object(x: Any, log: Log) -> Any:
    class Counter:
        calls = 0

    counter = Counter()

    def hook(grad: Any) -> None:
        counter.calls += 1
        log.append(counter.calls)

    x.register_hook(hook)
    return x * x


HOOKS = [gradient_changed, with_a_closure, with_a_partial, two_in_order, method_of_a_list, removed_again]
HOOKS += [that_removes_itself, kept, kept_and_removed, after_accumulation]


def outcome(call: Any, computed: bool) -> Any:
    """Gradients and what hooks note, in two backward passes of one call."""
    leaf = torch.arange(3.0, requires_grad=True)
    log: Log = []
    out = call(leaf * 1 if computed else leaf, log)
    for _ in range(2):
        out.sum().backward(retain_graph=True)
    handles = [one for one in log if isinstance(one, RemovableHandle)]
    left = [type(one) is RemovableHandle and len(one.hooks_dict_ref() or ()) for one in handles]
    for one in handles:
        one.remove()
    out.sum().backward()
    assert leaf.grad is not None
    texts = [str(one) for one in log if not isinstance(one, RemovableHandle)]
    return leaf.grad.tolist(), texts, left


@pytest.mark.parametrize("computed", [False, True], ids=["leaf", "computed"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", HOOKS, ids=lambda fn: fn.__name__)
def test_a_hook_does_what_it_does_eagerly(fn: Callable[..., Any], backend: str, computed: bool) -> None:
    if computed and fn is after_accumulation:
        pytest.skip("it is for leaves")
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        assert outcome(compiled, computed) == outcome(fn, computed)
    assert entries(compiled) == 1


def test_a_hook_with_a_local_class_is_registered_after_a_break() -> None:
    compiled = framelift.compile(state_of_an_object, backend="eager")
    assert outcome(compiled, False) == outcome(state_of_an_object, False)


def test_hooks_of_parameters_are_registered_in_each_call() -> None:
    layer = torch.nn.Linear(2, 2)

    def fn(x: Any) -> Any:
        handles = [parameter.register_hook(lambda grad: grad * 2) for parameter in layer.parameters()]
        return layer(x).sum(), handles

    def gradients(call: Any) -> Any:
        layer.zero_grad()
        found, handles = call(torch.ones(2))
        found.backward()
        for handle in handles:
            handle.remove()
        return [parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None]

    compiled = framelift.compile(fn, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(gradients(compiled), gradients(fn))


def test_a_handle_goes_on_behind_a_break() -> None:
    def fn(x: Any) -> Any:
        handle = x.register_hook(lambda grad: grad * 2)
        print("between")
        handle.remove()
        return x * 3

    x = torch.ones(2, requires_grad=True)
    framelift.compile(fn, backend="eager")(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 3.0))


def written_to(x: Any) -> Any:
    x.register_hook(lambda grad: grad * 2)
    x.mul_(2)
    return x * 3


def differentiated(x: Any) -> Any:
    x.register_hook(lambda grad: grad * 2)
    return torch.autograd.grad((x * 3).sum(), x)[0]


def in_a_body(x: Any) -> Any:
    return torch.cond(
        x.sum() > 0, lambda y: (x.register_hook(lambda grad: grad * 2), y * 2)[1], torch.sin, (x,)
    )


REFUSED = {
    written_to: "Tensor.register_hook on a tensor that is written to",
    differentiated: "gradients behind a hook on a tensor from outside",
    in_a_body: "Tensor.register_hook on a tensor from outside, in a function of an operator",
}


@pytest.mark.parametrize("fn", REFUSED, ids=lambda fn: fn.__name__)
def test_what_a_region_could_not_do_is_refused(fn: Callable[..., Any]) -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(Unsupported, match=REFUSED[fn]):
        framelift.compile(fn, backend="eager", fullgraph=True)(x * 1)


def test_a_tensor_without_gradients_takes_no_hook() -> None:
    def fn(x: Any) -> Any:
        return x.register_hook(lambda grad: grad)

    check(fn, torch.ones(2), fullgraph=False)
