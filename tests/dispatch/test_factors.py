"""Sums and differences with a factor keep it, whatever Inductor makes of what is around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import framelift

SIZE = 4
Operands = dict[str, Callable[[Tensor, Tensor], Tensor]]

MADE: Operands = {
    "an input": lambda a, b: a,
    "a sum": lambda a, b: a + b,
    "a product": lambda a, b: a @ b,
    "a product that is moved": lambda a, b: (a @ b).t()[None].squeeze(0) / 2,
    "a product with a bias": lambda a, b: F.linear(a, b, b[0]),
    "one of batches": lambda a, b: torch.bmm(a[None], b[None])[0],
    "a convolution": lambda a, b: F.conv2d(a[None, None], b[None, None, :1, :1])[0, 0],
    "a reduction": lambda a, b: a.amax(1, keepdim=True).expand(SIZE, SIZE),
    "of wider numbers": lambda a, b: (a @ b).double(),
    "a row": lambda a, b: b[0],
}
OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: torch.add(x, y, alpha=-0.1),
    "sub": lambda x, y: torch.sub(x, y, alpha=3),
    "lerp": lambda x, y: torch.lerp(x, y.to(x.dtype), 0.25),
    "a number": lambda x, y: torch.add(x, 2, alpha=0.5) * torch.sub(y, 3.0, alpha=2),
}


def matrices(count: int) -> list[Tensor]:
    made = torch.Generator().manual_seed(0)
    return [torch.randn(SIZE, SIZE, generator=made) for _ in range(count)]


@pytest.mark.parametrize("name", OPERATORS)
def test_of_all_that_inductor_has_patterns_for(name: str) -> None:
    operator = OPERATORS[name]

    def every(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> list[Tensor]:
        found = []
        for make in MADE.values():
            found += [operator(make(a, b), c), operator(c, make(a, b)), operator(make(a, b), make(c, d))]
        return found

    given = matrices(4)
    for found, expected in zip(framelift.compile(every)(*given), every(*given), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def attention(q: Tensor, mask: Tensor) -> Tensor:
    scores = torch.add(q @ q.transpose(-1, -2) / 4, mask, alpha=3.0)
    return scores.softmax(-1) @ q


def softmax(x: Tensor, y: Tensor) -> Tensor:
    scaled = x * y
    part = torch.sub(scaled, scaled.amax(-1, keepdim=True), alpha=2).exp()
    return part / part.sum(-1, keepdim=True)


@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("fn", [attention, softmax])
def test_within_what_inductor_replaces_as_a_whole(fn: Any, differentiated: bool) -> None:
    given = [torch.randn(2, 3, 8, 16), torch.randn(8, 8)] if fn is attention else matrices(2)
    for tensor in given:
        tensor.requires_grad_(differentiated)
    found, expected = framelift.compile(fn)(*given), fn(*given)
    torch.testing.assert_close(found, expected)
    if differentiated:
        grads = [torch.autograd.grad(result.square().sum(), given) for result in (found, expected)]
        torch.testing.assert_close(*grads, atol=1e-4, rtol=1e-5)  # sums of many numbers, in another order


def test_a_step_of_training_takes_the_learning_rate() -> None:
    def trained(compiled: Callable[..., Any]) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(SIZE, SIZE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1)

        def step(x: Tensor) -> Tensor:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        run = compiled(step)
        return [*[run(x) for x in matrices(3)], *[p.detach() for p in model.parameters()]]

    torch.testing.assert_close(trained(framelift.compile), trained(lambda fn: fn))


def fused(p: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.add(p, a @ b, alpha=0.5)


def test_a_pass_of_the_programs_own_is_run_too() -> None:
    from torch._inductor.custom_graph_pass import CustomGraphPass

    seen = []

    class Own(CustomGraphPass):
        def __call__(self, graph: torch.fx.Graph) -> None:
            seen.append([node.kwargs.get("alpha") for node in graph.nodes if node.op == "call_function"])

        def uuid(self) -> None:
            return None

    given = matrices(3)
    for own in (Own(), [Own()]):
        seen.clear()
        compiled = framelift.compile(fused, options={"joint_custom_pre_pass": own})
        torch.testing.assert_close(compiled(*given), fused(*given))
        assert seen and not any(any(alphas) for alphas in seen)
        framelift.reset()


def test_what_no_pattern_is_about_is_left_to_one_instruction() -> None:
    from framelift.dispatch.factors import WriteOutFactors

    graph = torch.fx.Graph()
    x, y, z = (graph.placeholder(name) for name in "xyz")
    moment = graph.call_function(torch.ops.aten.add.Tensor, (x, y), {"alpha": 0.9})
    graph.output(graph.call_function(torch.ops.aten.sub.Tensor, (moment, z), {"alpha": 0.1}))
    before = str(graph)
    own = WriteOutFactors(None)
    own(graph)
    assert str(graph) == before
    assert own.uuid() is not None
