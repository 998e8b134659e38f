"""Small models of many kinds, called with twenty random sizes each: at how many calls something is compiled.

The first call is compiled for its sizes, and the next one with others for all. Sizes of one are captured on
their own, so they are not drawn here, unless a model is about them. Results are eager's at every size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from over_sizes import Models
from torch import nn
from torch.nn import functional as F

import framelift
from check import entries
from sameness import alike

MODELS = Models()
model = MODELS.add


# ---- graph networks: batches of nodes and edges, of which no two are of one size


def ragged_graph(draw: Callable[[int, int], int]) -> tuple[Any, ...]:
    nodes, edges, graphs = draw(10, 60), draw(61, 200), draw(2, 9)
    index = torch.randint(0, nodes, (2, edges))
    batch = torch.sort(torch.randint(0, graphs, (nodes,))).values
    return torch.randn(nodes, 8), index, batch, graphs


@model(ragged_graph)
class GraphConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.neighbours = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, index, batch, graphs):
        source, target = index
        gathered = torch.zeros_like(x).index_add_(0, target, self.neighbours(x)[source])
        x = F.relu(self.own(x) + gathered)
        pooled = x.new_zeros(graphs, x.size(1)).scatter_add(0, batch[:, None].expand_as(x), x)
        counts = x.new_zeros(graphs).index_add(0, batch, torch.ones_like(batch, dtype=x.dtype))
        return pooled / counts.clamp(min=1)[:, None]


@model(ragged_graph)
class GraphAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(16, 1)

    def forward(self, x, index, batch, graphs):
        source, target = index[0], index[1]
        scores = F.leaky_relu(self.score(torch.cat([x[source], x[target]], dim=1))).squeeze(-1)
        most = x.new_full((x.size(0),), -torch.inf).scatter_reduce(0, target, scores, "amax")
        weights = (scores - most[target]).exp()
        total = x.new_zeros(x.size(0)).scatter_add(0, target, weights)
        messages = x[source] * (weights / total[target])[:, None]
        return torch.zeros_like(x).index_add(0, target, messages)


# ---- detection: as many boxes as there are


def boxes(draw: Callable[[int, int], int]) -> tuple[Any, ...]:
    first, second = draw(2, 40), draw(41, 90)
    return torch.rand(first, 4), torch.rand(second, 4)


@model(boxes)
def overlaps() -> Any:
    def areas(boxes):
        return (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)

    def overlaps(a, b):
        if a.shape[-1] != 4 or b.shape[-1] != 4:
            raise ValueError(f"expected boxes, got {tuple(a.shape)} and {tuple(b.shape)}")
        low = torch.max(a[:, None, :2], b[None, :, :2])
        high = torch.min(a[:, None, 2:], b[None, :, 2:])
        common = (high - low).clamp(min=0).prod(dim=2)
        return common / (areas(a)[:, None] + areas(b)[None] - common), (len(a), len(b))

    return overlaps


@model(lambda draw: (torch.randn(2, 3, 8 * draw(2, 12), 8 * draw(2, 12)),), calls=4)
class Anchors(nn.Module):
    """A backbone at any image size, and a grid of boxes over it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.eval()

    def forward(self, image):
        features = self.layers(image)
        height, width = features.shape[-2:]
        stride = image.shape[-2] // height, image.shape[-1] // width
        y, x = torch.meshgrid(
            torch.arange(height) * stride[0], torch.arange(width) * stride[1], indexing="ij"
        )
        larger = F.interpolate(features, size=image.shape[-2:], mode="bilinear", align_corners=False)
        return torch.stack([x, y], -1).flatten(0, 1), larger, torch.tensor([height, width])


# ---- sequences


@model(lambda draw: (torch.randn(draw(2, 6), draw(7, 60), 3),))
class TimeSeries(nn.Module):
    """Scales by the mean, takes lagged values, and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(3 * 3, 4)

    def forward(self, x):
        batch, length, _ = x.shape
        scale = x.abs().mean(1, keepdim=True).clamp(min=1e-3)
        x = x / scale
        lags = [x[:, 5 - lag : length - lag] for lag in (1, 2, 5)]
        features = self.projection(torch.cat(lags, dim=-1))
        assert features.shape[:2] == (batch, length - 5), f"{features.shape}"
        steps = torch.arange(length - 5, dtype=x.dtype) / torch.tensor(length, dtype=x.dtype)
        return features * steps[None, :, None], scale.squeeze(1), {"length": length}


@model(lambda draw: (torch.randn(draw(2, 6), draw(7, 60), 4),))
class LinearAttention(nn.Module):
    """A decay that is accumulated over the sequence, as in models with a state."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values, self.decay = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        decay = F.logsigmoid(self.decay(x)).cumsum(1)
        weights = (decay - decay.transpose(1, 2)).exp().tril()
        return (weights * (x @ self.keys(x).mT)) @ self.values(x) / torch.sqrt(torch.tensor(x.size(1)))


@model(lambda draw: (torch.randint(1, 50, (draw(2, 6), draw(3, 30))),))
class CheckedLengths(nn.Module):
    """Lengths are checked against a size before they are used."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 4)

    def forward(self, tokens):
        length = tokens.size(1)
        lengths = (tokens != 0).sum(1)
        assert lengths.max().item() <= length
        mask = torch.arange(length)[None] < lengths[:, None]
        return self.embedding(tokens) * mask[..., None], torch.clamp(lengths, 0, torch.tensor(length))


@model(lambda draw: (torch.randn(1, draw(3, 60), 6),))
def window() -> Any:
    """A table of which a part is used that has a size for a tensor."""
    table = torch.randn(128, 6)

    def window(x):
        span = torch.tensor(min(x.size(1), 64))
        part = table[64 - span : 64 + span]
        return x[:, : span // 2 + 1].sum(1), part @ x[0].T, span.item(), part.shape

    return window


# ---- numbers of the program's


@model(lambda draw: (torch.randn(draw(2, 30), 4), {"rounds": draw(2, 9), "sizes": [draw(2, 9), 3]}))
def settings() -> Any:
    def settings(x, given):
        first, second = given["sizes"]
        return x * given["rounds"] + first, x.new_ones(first, second), {"rows": x.size(0) + given["rounds"]}

    return settings


@model(lambda draw: (torch.randn(draw(2, 30), 4),))
def counter() -> Any:
    class State:
        def __init__(self) -> None:
            self.seen = 0

    calls = {True: State(), False: State()}

    def counter(x):
        state = calls[framelift.is_compiling()]
        state.seen += x.size(0)
        return x / state.seen, state.seen

    return counter


@model(lambda draw: (torch.randn(draw(2, 30), 4),), calls=2)
def size_across_a_break() -> Any:
    def size_across_a_break(x):
        shape = x.shape
        y = x.flatten() + 1
        framelift.graph_break()
        return y.view(shape), shape, [n * 2 for n in shape]

    return size_across_a_break


@model(lambda draw: (torch.randn(draw(4, 40), 4), torch.randn(3, 4, 4)), calls=4)
def experts() -> Any:
    """Tokens go to experts: how many go to which one, only the data decides."""

    def experts(x, weights):
        choice = x[:, :3].argmax(-1)
        out = torch.zeros_like(x)
        for n in range(len(weights)):
            rows, _ = torch.where((choice == n)[:, None].expand(-1, 2))
            out.index_add_(0, rows, x[rows] @ weights[n])
        return out.view(x.shape)

    return experts


@model(lambda draw: (torch.randn(draw(8, 30), 4),))
def part_and_whole() -> Any:
    """Two inputs in one memory, of which the first begins somewhere else each time."""

    def inner(a, b, out):
        out += a.sum() * b.sum()
        return a * 2, b + 1

    def part_and_whole(x):
        return inner(x[: x.size(0) // 2], x[x.size(0) // 2 :], torch.zeros(3))

    return part_and_whole


@pytest.mark.parametrize("name", MODELS)
def test_few_compilations_over_random_sizes(name: str) -> None:
    MODELS.check(name)


# ---- tensors of numbers that vary

MADE: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "tensor": lambda x, n: torch.tensor(n),
    "tensor of a size": lambda x, n: torch.tensor(x.shape),
    "tensor of a float": lambda x, n: torch.tensor(n / 3),
    "list": lambda x, n: torch.tensor([n, 2 * n, 7]),
    "nested lists": lambda x, n: torch.tensor([[n, 1], (0, n)]),
    "ints and floats": lambda x, n: torch.tensor([n, 0.5]),
    "ints and bools": lambda x, n: torch.tensor([n, True]),
    "of another type": lambda x, n: torch.tensor([n, 1], dtype=torch.float64),
    "of a small type": lambda x, n: torch.tensor([n, 1], dtype=torch.uint8),
    "as_tensor": lambda x, n: torch.as_tensor([n, 1], dtype=torch.int32),
    "asarray": lambda x, n: torch.asarray(n),
    "new_tensor": lambda x, n: x.new_tensor([n, 1]),
    "old classes": lambda x, n: (torch.LongTensor([n]), torch.FloatTensor([n, 1])),
    "computed with": lambda x, n: x * torch.tensor(n) + torch.tensor([n]),
    "number of it": lambda x, n: x[0] * (torch.tensor(n) * 2 - 1).item(),
    "its number as a size": lambda x, n: x.new_ones(int(torch.tensor(n) // 2)),
    "slices": lambda x, n: x[: torch.tensor(n) - 1],
    "slices in a tuple": lambda x, n: x[torch.tensor(1) : torch.tensor(n) - 1, : torch.tensor(3)],
    "a bound": lambda x, n: torch.clamp(x * n, 0, torch.tensor(n)),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_tensors_of_numbers_that_vary(made: Callable[[torch.Tensor, int], Any], backend: str) -> None:
    fn = lambda x: made(x, x.shape[0])
    compiled = framelift.compile(fn, backend=backend, fullgraph=True)
    for n in (5, 6, 7, 40, 200):
        x = torch.randn(n, 4)
        alike(fn(x), compiled(x))
    assert entries(compiled) == 2


def test_a_number_that_no_longer_fits_is_the_programs_error() -> None:
    fn = lambda x: torch.tensor([x.shape[0]], dtype=torch.int8)
    compiled = framelift.compile(fn, backend="eager")
    for n in (5, 6, 127):
        alike(fn(torch.ones(n)), compiled(torch.ones(n)))
    with pytest.raises(RuntimeError, match="overflow"):
        compiled(torch.ones(128))


def test_a_tensor_that_was_changed_is_asked_for_its_number() -> None:
    def fn(x):
        count = torch.tensor(x.shape[0])
        count.mul_(2)
        return x + count.item()

    compiled = framelift.compile(fn, backend="eager")
    for n in (5, 6, 7):
        alike(fn(torch.ones(n)), compiled(torch.ones(n)))


def test_a_size_that_is_passed_has_symbols_in_it() -> None:
    fn = lambda x, size: (x.view(size) * 2, size, size[0] + 1, size.numel())
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for n in (5, 6, 9, 1, 14):
        x, size = torch.randn(n * 3), torch.Size([n, 3])
        alike(fn(x, size), compiled(x, size))
    assert entries(compiled) == 3  # one row is another matter
