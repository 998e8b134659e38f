"""Attributes that are tuples of numbers, of which C looks at every element: one guard, and as eagerly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from check import capture


class Resizing(torch.nn.Module):
    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> Any:
        return x.reshape(self.size) * 2, self.size


class Looking(torch.nn.Module):
    def __init__(self, pair: Any) -> None:
        super().__init__()
        self.pair, self.other = pair, pair

    def forward(self, x: torch.Tensor) -> Any:
        return x.sum(self.pair), self.pair is self.other, self.pair[0]


def counted() -> tuple[list[Any], Any]:
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    return graphs, backend


def test_a_stride_has_one_guard():
    compiled = capture(torch.nn.Conv2d(1, 1, 3), torch.ones(1, 1, 4, 4))
    (record,) = compiled._framelift_context.code_states.values()
    guards = map(str, record.entries[0].capture.program.guards)
    texts = [text for text in guards if ".stride" in text or ".dilation" in text]
    assert sorted(texts) == ["fn.dilation == (1, 1)", "fn.stride == (1, 1)"]


def test_each_change_of_an_element_is_noticed_and_sizes_that_vary_become_symbols():
    graphs, backend = counted()
    model, x = Resizing((4, 2)), torch.arange(8.0)
    compiled = framelift.compile(model, backend=backend)
    for size in [(4, 2), (4, 2), (8, 1), (2, 4), (1, 8), (4, 2), [4, 2], (-1, 2), (2, 2, 2), (8,)]:
        model.size = size
        found, expected = compiled(x), model(x)
        assert torch.equal(found[0], expected[0]) and found[1] is expected[1]
    assert len(graphs) <= 8


@pytest.mark.parametrize("changed", [(True, 2), (1.0, 2), ("1", 2), (None, 2)])
def test_an_element_of_another_type_is_another_one(changed):
    model, image = torch.nn.Conv2d(1, 1, 3, stride=(1, 2)), torch.ones(1, 1, 6, 6)
    compiled = framelift.compile(model, backend="eager")
    assert torch.equal(compiled(image), model(image))
    model.stride = changed
    with pytest.raises(TypeError):
        model(image)
    with pytest.raises(TypeError):
        compiled(image)


def test_what_is_the_same_tuple_is_told_apart_from_an_equal_one():
    model, x = Looking((0, 1)), torch.ones(2, 3, 4)
    compiled = framelift.compile(model, backend="eager")
    for other in (model.pair, tuple([0, 1]), model.pair, (1, 0)):
        model.other = other
        found, expected = compiled(x), model(x)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
