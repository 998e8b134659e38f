"""Nested tensors of jagged layout: coming in, made inside, differentiated; one capture for all lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import framelift
from check import entries, reasons

BACKENDS = ["eager", "aot_eager"]


def nested(*lengths: int, width: int = 5, offsets: torch.Tensor | None = None, grad: bool = False) -> Any:
    """A nested tensor of items of these lengths."""
    if offsets is None:
        offsets = torch.tensor([sum(lengths[:n]) for n in range(len(lengths) + 1)])
    values = torch.randn(sum(lengths), width)
    return torch.nested.nested_tensor_from_jagged(values, offsets).detach().requires_grad_(grad)


def same(found: Any, expected: Any) -> None:
    """Results are alike: nested tensors in what they hold, and in which sizes are nested."""
    assert type(found) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, torch.Tensor) and expected.is_nested:
        assert found.dim() == expected.dim() and found.requires_grad is expected.requires_grad
        same(found.offsets(), expected.offsets())
        same(found.values().detach(), expected.values().detach())
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected


def branch_on_shapes(a: Any, b: Any) -> Any:
    return a + b if a.shape == b.shape else a.sin()


PROGRAMS: dict[str, Callable[..., Any]] = {
    "unary": lambda x: x.sin() * 2,
    "values": lambda x: x.values() * 2,
    "offsets": lambda x: (x.offsets().diff(), x.lengths()),
    "parts": lambda x: x._values + x._offsets[0],
    "unbind": lambda x: x.unbind(),
    "loop": lambda x: sum(item.sum() for item in x.unbind()),
    "lengths": lambda x: [item.shape[0] for item in x.unbind()],
    "padded": lambda x: x.to_padded_tensor(0.0),
    "padded by a function": lambda x: torch.nested.to_padded_tensor(x, 0.0, (3, 5, 4)),
    "rebuilt": lambda x: torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()),
    "facts": lambda x: (x.cos(), x.is_nested, x.dim(), x.size(0), x.size(-1), x.layout is torch.jagged),
    "sizes": lambda x: x.view(x.size(0), x.size(1), 1, 5).squeeze(2) * 2,
    "linear": lambda x: functional.linear(x, torch.ones(4, 5)),
    "matmul": lambda x: x @ torch.ones(5, 3),
    "sum": lambda x: (x.sum(dim=1), x.mean(dim=-1), x.sum()),
    "softmax": lambda x: torch.softmax(x, dim=-1),
    "layer_norm": lambda x: functional.layer_norm(x, (5,)),
    "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "transposed": lambda x: x.transpose(1, 2).sin().transpose(1, 2),
    "cat": lambda x: (torch.cat([x, x], dim=-1), torch.chunk(x, 5, dim=-1)[0]),
    "copies": lambda x: (x.clone(), x.detach(), x.to(torch.float64), torch.zeros_like(x)),
    "is_instance": lambda x: (x + 1, isinstance(x, torch.Tensor) and type(x).__name__),
    "compared": lambda x: (x.sin(), x.shape[1] == x.shape[2], x.shape == (x * 2).shape),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_capture_serves_all_lengths(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    compiled = framelift.compile(program, backend=backend, fullgraph=True, isolate_recompiles=True)
    for lengths in ((2, 3, 4), (3, 4, 6), (7, 2, 5)):
        x = nested(*lengths)
        same(compiled(x), program(x))
    assert entries(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_number_of_items_is_another_capture_and_then_a_symbol(backend: str) -> None:
    program = PROGRAMS["padded"]
    compiled = framelift.compile(program, backend=backend, fullgraph=True, isolate_recompiles=True)
    for lengths in ((2, 3, 4), (3, 4, 6, 2), (7, 2, 5, 2, 3), (2, 9)):
        x = nested(*lengths)
        same(compiled(x), program(x))
    assert entries(compiled) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_the_same_where_the_lengths_are_the_same_tensor(backend: str) -> None:
    compiled = framelift.compile(branch_on_shapes, backend=backend, fullgraph=True, isolate_recompiles=True)
    for lengths in ((2, 3, 4), (3, 4, 6)):
        a = nested(*lengths)
        b = nested(*lengths, offsets=a.offsets())
        same(compiled(a, b), branch_on_shapes(a, b))
    assert entries(compiled) == 1
    a, b = nested(2, 3, 4), nested(2, 3, 4)
    same(compiled(a, b), branch_on_shapes(a, b))
    assert entries(compiled) == 2


def made_of_both(values: Any, offsets: Any, others: Any) -> Any:
    a = torch.nested.nested_tensor_from_jagged(values, offsets)
    b = torch.nested.nested_tensor_from_jagged(values, others)
    return a.sin() if a.shape == b.shape else b.cos()


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_that_were_two_tensors_may_be_one_the_next_time(backend: str) -> None:
    compiled = framelift.compile(made_of_both, backend=backend, fullgraph=True, isolate_recompiles=True)
    values, offsets = torch.randn(9, 5), torch.tensor([0, 2, 5, 9])
    for others in (offsets.clone(), offsets):
        given = values, offsets, others
        same(compiled(*given), made_of_both(*given))
    assert entries(compiled) == 2


class OfBuffer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 4)
        self.offsets: torch.Tensor
        self.register_buffer("offsets", torch.tensor([0, 2, 5, 9]))

    def forward(self, values: Any) -> Any:
        return self.linear(torch.nested.nested_tensor_from_jagged(values, self.offsets)).values()


offsets = torch.tensor([0, 2, 5, 9])
MAKERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "list": (
        lambda *items: torch.nested.nested_tensor(list(items), layout=torch.jagged).sin(),
        (torch.randn(2, 3), torch.randn(4, 3)),
    ),
    "as_nested": (
        lambda *items: torch.nested.as_nested_tensor(list(items), layout=torch.jagged).values(),
        (torch.randn(2, 3), torch.randn(4, 3)),
    ),
    "jagged": (
        lambda values, offsets: torch.nested.nested_tensor_from_jagged(values, offsets) * 2,
        (torch.randn(9, 5), offsets),
    ),
    "with extremes": (
        lambda values, offsets: torch.nested.nested_tensor_from_jagged(
            values, offsets, min_seqlen=1, max_seqlen=6
        ).to_padded_tensor(0.0),
        (torch.randn(9, 5), offsets),
    ),
    "with lengths": (
        lambda values, offsets, lengths: torch.nested.nested_tensor_from_jagged(
            values, offsets, lengths
        ).sin(),
        (torch.randn(9, 5), offsets, torch.tensor([1, 2, 3])),
    ),
    "buffer": (OfBuffer(), (torch.randn(9, 5),)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAKERS)
def test_they_are_made_inside(name: str, backend: str) -> None:
    program, given = MAKERS[name]
    compiled = framelift.compile(program, backend=backend, fullgraph=True, isolate_recompiles=True)
    for _ in range(2):
        same(compiled(*given), program(*given))


DIFFERENTIATED: dict[str, Callable[..., Any]] = {
    "values": lambda x, weight: (x @ weight).sin().values(),
    "padded": lambda x, weight: functional.linear(x, weight.t()).relu().to_padded_tensor(0.0),
    "nested": lambda x, weight: functional.layer_norm(x @ weight, (4,)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_are_those_of_plain_python(name: str, backend: str) -> None:
    program = DIFFERENTIATED[name]
    compiled = framelift.compile(program, backend=backend, fullgraph=True, isolate_recompiles=True)
    for lengths in ((2, 3, 4), (3, 4, 6)):
        x, weight = nested(*lengths, grad=True), torch.randn(5, 4, requires_grad=True)
        gradients = []
        for fn in (compiled, program):
            out = fn(x, weight)
            out = out.values() if out.is_nested else out
            gradients.append(torch.autograd.grad(out.square().sum(), (x, weight)))
        same(gradients[0][0].values(), gradients[1][0].values())
        same(gradients[0][1], gradients[1][1])
    assert entries(compiled) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_reach_the_items_that_one_was_made_of(backend: str) -> None:
    items = [torch.randn(n, 3, requires_grad=True) for n in (2, 3)]
    program = lambda x: (x * 2).sin()
    compiled = framelift.compile(program, backend=backend, fullgraph=True)
    x = torch.nested.as_nested_tensor(items, layout=torch.jagged)
    found, expected = (torch.autograd.grad(fn(x).values().sum(), items) for fn in (compiled, program))
    same(found, expected)


def change(x: Any) -> Any:
    x.mul_(2)
    return x + 1


def change_values(x: Any) -> Any:
    x.values().mul_(3)
    return x + 1


def change_and_look_inside(x: Any) -> Any:
    x.mul_(2)
    return x._values + 1


def look_inside_and_change(x: Any) -> Any:
    before = x._values * 3
    x.mul_(2)
    return before, x._values + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [change, change_values, change_and_look_inside, look_inside_and_change])
def test_one_that_is_changed_has_changed_for_everyone(program: Any, backend: str) -> None:
    x = nested(2, 3)
    y = x.clone()
    compiled = framelift.compile(program, backend=backend, isolate_recompiles=True)
    same(compiled(x), program(y))
    same(x.values(), y.values())
    looks_inside = "inside" in program.__name__
    assert reasons(compiled) == ["memory of a tensor"] * looks_inside


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("written", ["nested", "values"])
@pytest.mark.parametrize("first", ["nested", "values"])
def test_the_values_may_come_in_as_well(first: str, written: str, backend: str) -> None:
    def program(first: Any, second: Any) -> Any:
        changed, other = (first, second) if first.is_nested is (written == "nested") else (second, first)
        changed.mul_(2)
        return other + 1

    compiled = framelift.compile(program, backend=backend, isolate_recompiles=True)
    results = []
    torch.manual_seed(0)
    values = torch.randn(5, 3)
    for fn in (compiled, program):
        x = torch.nested.nested_tensor_from_jagged(values.clone(), torch.tensor([0, 2, 5])).detach()
        results.append((fn(*((x, x._values) if first == "nested" else (x._values, x))), x))
    same(*results)


def test_the_size_of_items_that_differ_is_no_number() -> None:
    program = lambda x: x.sin() + len(range(x.size(1))) if x.size(0) == 1 else x.sin()
    compiled = framelift.compile(program, fullgraph=True, backend="eager")
    same(compiled(x := nested(2, 3)), program(x))
    with pytest.raises(Exception, match="nested"):
        compiled(nested(4))
