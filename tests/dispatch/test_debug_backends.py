"""The backends for debugging: results and gradients are eager's, and each finds what it is for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.core.errors import FrameliftError

RIGHT = """eager eager_noexcept eager_debug pre_dispatch_eager ts aot_ts aot_eager
aot_eager_default_partitioner""".split()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", RIGHT)
def test_results_and_gradients_are_eagers(backend: str) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    grads = []
    for run in (net, framelift.compile(net, backend=backend, fullgraph=True)):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        out = run(x)
        out.sum().backward()
        grads.append((out.detach(), x.grad))
    torch.testing.assert_close(grads[1], grads[0])


def test_they_are_listed_with_their_tag() -> None:
    every, without = framelift.list_backends(), framelift.list_backends(exclude_tags=("debug",))
    assert set(RIGHT) <= set(every) and not set(RIGHT) & set(without) and "inductor" in without


def test_an_error_of_a_graph_is_the_captures() -> None:
    def fn(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[at]

    compiled = framelift.compile(fn, backend="eager_noexcept")
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises((FrameliftError, IndexError)) as raised:
        compiled(torch.ones(3), torch.tensor([7]))
    chain: list[Any] = [raised.value, raised.value.__cause__, raised.value.__context__]
    assert any(isinstance(error, IndexError) for error in chain)


def test_an_operator_that_writes_what_it_says_it_reads_is_found() -> None:
    with torch.library._scoped_library("framelift_debug_test", "FRAGMENT") as library:
        library.define("sly(Tensor x) -> Tensor")
        library.impl("sly", lambda x: x.add_(1).clone(), "CPU")
        library._register_fake("sly", torch.empty_like)
        compiled = framelift.compile(torch.ops.framelift_debug_test.sly, backend="eager_debug")
        with pytest.raises(RuntimeError, match="mutable"):
            compiled(torch.ones(2))
