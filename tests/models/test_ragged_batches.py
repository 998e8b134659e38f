"""Ragged batches over twenty random sizes: generation, detection, graph networks, time series, experts.

They are compiled no more often than by `torch.compile`. Where that is more than twice,
the program branches on sizes, or goes over what only the data counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from over_sizes import Models
from torch import nn
from torch.nn import functional as F

MODELS = Models()
model = MODELS.add
Draw = Callable[[int, int], int]


@pytest.mark.parametrize("name", MODELS)
def test_few_compilations_of_ragged_batches(name: str) -> None:
    MODELS.check(name)


# ---- generation: batch and length vary, caches grow or have room


class GrowingCache:
    def __init__(self) -> None:
        self.keys = self.values = torch.zeros(0)

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        is_empty = self.keys.dim() == 1
        self.keys = keys if is_empty else torch.cat([self.keys, keys], 1)
        self.values = values if is_empty else torch.cat([self.values, values], 1)
        return self.keys, self.values

    def length(self) -> int:
        return 0 if self.keys.dim() == 1 else self.keys.shape[1]

    def room(self, tokens: int) -> int:
        return self.length() + tokens


class RoomyCache:
    def __init__(self, batch: int, room: int = 64) -> None:
        self.keys, self.values = torch.zeros(batch, room, 8), torch.zeros(batch, room, 8)
        self.position = 0

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        end = self.position + keys.shape[1]
        self.keys[:, self.position : end] = keys
        self.values[:, self.position : end] = values
        self.position = end
        return self.keys, self.values

    def length(self) -> int:
        return self.position

    def room(self, tokens: int) -> int:
        return self.keys.shape[1]


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)
        self.layers = nn.ModuleList([nn.Linear(8, 24) for _ in range(2)])

    def forward(self, tokens: torch.Tensor, caches: list[Any]) -> torch.Tensor:
        length, past = tokens.shape[1], caches[0].length()
        positions = torch.arange(past, past + length)[:, None]
        mask = torch.arange(caches[0].room(length))[None] <= positions
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            query, key, value = layer(x).chunk(3, -1)
            keys, values = cache.update(key, value)
            x = x + F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return self.head(x[:, -1])


def prompt(draw: Draw) -> torch.Tensor:
    return torch.randint(0, 50, (draw(2, 6), draw(3, 20)))


def with_room(draw: Draw) -> tuple[Any, ...]:
    tokens = prompt(draw)
    return tokens, [RoomyCache(len(tokens)) for _ in range(2)]


def one_more(draw: Draw) -> tuple[Any, ...]:
    batch, past = draw(2, 6), draw(3, 20)
    caches = [GrowingCache(), GrowingCache()]
    for cache in caches:
        cache.keys, cache.values = torch.randn(batch, past, 8), torch.randn(batch, past, 8)
    return torch.randint(0, 50, (batch, 1)), caches


def one_more_with_room(draw: Draw) -> tuple[Any, ...]:
    batch, past = draw(2, 6), draw(3, 20)
    caches = [RoomyCache(batch) for _ in range(2)]
    for cache in caches:
        cache.position = past
    return torch.randint(0, 50, (batch, 1)), caches


@model(lambda draw: (prompt(draw), [GrowingCache(), GrowingCache()]))
class PromptWithGrowingCache(Language):
    pass


@model(with_room)
class PromptWithRoom(Language):
    pass


@model(one_more)
class TokenWithGrowingCache(Language):
    pass


@model(one_more_with_room)
class TokenWithRoom(Language):
    pass


@model(lambda draw: (prompt(draw),))
class ThreeTokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.language = Language()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        caches = [GrowingCache(), GrowingCache()]
        for n in range(3):
            scores = self.language(tokens[:, -1:] if n else tokens, caches)
            tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], 1)
        return tokens


@model(lambda draw: ([torch.randn(draw(3, 20), 4) for _ in range(3)],))
def padded() -> Any:
    """Three sequences: which one is the longest does not matter."""

    def padded(sequences):
        lengths = [sequence.shape[0] for sequence in sequences]
        out = sequences[0].new_zeros(len(sequences), max(lengths), 4)
        mask = torch.zeros(out.shape[:2], dtype=torch.bool)
        for n, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
            out[n, :length] = sequence
            mask[n, :length] = True
        return out, mask, (out * mask[..., None]).sum(1) / torch.tensor(lengths)[:, None]

    return padded


# ---- detection


@model(lambda draw: (torch.randn(1, 3, 8 * draw(4, 12), 8 * draw(4, 12)), torch.rand(draw(2, 20), 4)), 3)
class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, image, boxes):
        large = F.relu(self.first(image))
        small = F.relu(self.second(large))
        merged = large + F.interpolate(small, size=large.shape[-2:])
        height, width = image.shape[-2:]
        scale = boxes.new_tensor([width, height, width, height])
        return merged, F.interpolate(small, scale_factor=2.0), (boxes * scale).clamp(min=0)


@model(lambda draw: (torch.rand(draw(10, 40), 4),), 3)
def best_boxes() -> Any:
    def best_boxes(boxes):
        scores = boxes.sum(1)
        kept = scores > 1.5
        boxes, scores = boxes[kept], scores[kept]
        values, order = scores.topk(min(10, boxes.shape[0]))
        return boxes[order] * 2, values

    return best_boxes


@model(lambda draw: ([torch.randn(3, 8 * draw(2, 6), 8 * draw(2, 6)) for _ in range(2)],), 7)
class PaddingMasks(nn.Module):
    """Images of different sizes in one batch, and an attention that leaves out what is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.queries = nn.Conv2d(3, 4, 3, 2, 1), nn.Parameter(torch.randn(5, 4))

    def forward(self, images):
        height, width = (max(image.shape[dim] for image in images) for dim in (1, 2))
        batch = images[0].new_zeros(len(images), 3, height, width)
        padding = torch.ones(len(images), height, width, dtype=torch.bool)
        for n, image in enumerate(images):
            batch[n, :, : image.shape[1], : image.shape[2]].copy_(image)
            padding[n, : image.shape[1], : image.shape[2]] = False
        features = self.backbone(batch)
        mask = F.interpolate(padding[None].float(), size=features.shape[-2:])[0].bool()
        places = (~mask).cumsum(1, dtype=torch.float32) + (~mask).cumsum(2, dtype=torch.float32)
        flat = (features + places[:, None]).flatten(2).transpose(1, 2)
        scores = self.queries @ flat.transpose(1, 2)
        return scores.masked_fill(mask.flatten(1)[:, None], -torch.inf).softmax(-1) @ flat


# ---- graph networks


def graph(draw: Draw) -> tuple[Any, ...]:
    nodes, edges, graphs = draw(10, 60), draw(61, 200), draw(2, 9)
    batch = torch.sort(torch.randint(0, graphs, (nodes,))).values
    return torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges)), batch


class Messages(nn.Module):
    """Gathers by name, as libraries do: `x_j` is what the sources of edges have."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.own = how, nn.Linear(8, 8)

    def forward(self, x, edges):
        return self.propagate(edges, x=self.own(x))

    def propagate(self, edges, size=None, **named):
        sizes, given = [None, None] if size is None else list(size), {}
        for name in ("x_i", "x_j"):
            data, dim = named[name[:-2]], int(name.endswith("_i"))
            sizes[dim] = data.size(0) if sizes[dim] is None else sizes[dim]
            given[name] = data.index_select(0, edges[dim])
        return self.aggregate(self.message(**given), edges[1], sizes[1])

    def message(self, x_i, x_j):
        return F.relu(x_j - x_i)

    def aggregate(self, messages, index, count):
        out = messages.new_zeros(count, messages.size(1))
        where = index.view(-1, 1).expand_as(messages)
        if self.how == "max":
            return out.scatter_reduce_(0, where, messages, "amax", include_self=False)
        total = out.scatter_add_(0, where, messages)
        if self.how == "sum":
            return total
        counts = messages.new_zeros(count).scatter_add_(0, index, messages.new_ones(messages.size(0)))
        return total / counts.clamp(min=1)[:, None]


@model(graph)
class MessagePassing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Messages(how) for how in ("sum", "mean", "max")])

    def forward(self, x, edges, batch):
        for layer in self.layers:
            x = x + layer(x, edges)
        return x


class Data:
    """A batch whose attributes are kept in a dictionary."""

    def __init__(self, **store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name == "_store" or name not in self._store:
            raise AttributeError(name)
        return self._store[name]

    @property
    def num_nodes(self) -> int:
        return self._store["x"].size(0)


@model(
    lambda draw: (Data(**dict(zip(("x", "edges", "batch"), graph(draw), strict=True)), graphs=draw(10, 20)),)
)
class DataObject(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Messages("mean")

    def forward(self, data):
        x = self.layer(data.x, data.edges)
        return x.new_zeros(data.graphs, 8).index_add_(0, data.batch, x) / data.num_nodes


@model(graph)
def counted_by_data() -> Any:
    """How many graphs there are in a batch, the data says."""

    def counted_by_data(x, edges, batch):
        return x.new_zeros(int(batch.max()) + 1, 8).index_add_(0, batch, x)

    return counted_by_data


@model(graph)
def self_loops() -> Any:
    def self_loops(x, edges, batch):
        count = x.size(0)
        edges = edges[:, edges[0] != edges[1]]
        edges = torch.cat([edges, torch.arange(count).expand(2, -1)], 1)
        degrees = torch.zeros(count).index_add_(0, edges[1], torch.ones(edges.size(1)))
        weights = degrees[edges[0]].rsqrt() * degrees[edges[1]].rsqrt()
        return torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]] * weights[:, None])

    return self_loops


@model(graph)
def distinct() -> Any:
    def distinct(x, edges, batch):
        found, place, counts = torch.unique(batch, return_inverse=True, return_counts=True)
        return x.new_zeros(found.shape[0], x.shape[1]).index_add_(0, place, x) / counts[:, None], found

    return distinct


@model(graph)
def pooled_by_rank() -> Any:
    def pooled_by_rank(x, edges, batch):
        count = int(0.5 * x.size(0))
        values, kept = torch.topk(x[:, 0], count)
        renamed = torch.full((len(batch),), -1)
        renamed[kept] = torch.arange(count)
        first, second = renamed[edges[0]], renamed[edges[1]]
        there = (first >= 0) & (second >= 0)
        return x[kept] * values.tanh()[:, None], torch.stack([first[there], second[there]]), batch[kept]

    return pooled_by_rank


# ---- time series


@model(lambda draw: (torch.randn(draw(2, 6), draw(8, 40), 4),), 3)
class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(16, 4)

    def forward(self, x):
        missing = -x.shape[1] % 4
        if missing:
            x = F.pad(x, (0, 0, 0, missing))
        return self.projection(x.reshape(x.shape[0], -1, 16)), missing


@model(lambda draw: (torch.randn(draw(2, 6), draw(8, 40), 4),))
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x):
        y, (hidden, _) = self.layer(x)
        return y[:, -1], hidden


@model(lambda draw: (torch.randn(draw(2, 6), draw(8, 40), 4),))
def spectrum() -> Any:
    def spectrum(x):
        found = torch.fft.rfft(x, dim=1).abs()
        return found.sum(), found.mean((0, 2))[1:].topk(2).indices, x.shape[1] // 2

    return spectrum


# ---- experts: how many tokens go to which, only the data decides


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.count = nn.Linear(8, 4), 4
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])


def tokens(draw: Draw) -> tuple[Any, ...]:
    return (torch.randn(draw(2, 6), draw(5, 20), 8),)


@model(tokens)
class ExpertByExpert(Experts):
    def forward(self, x):
        flat = x.view(-1, 8)
        weights, chosen = self.gate(flat).softmax(-1).topk(2)
        out, mask = torch.zeros_like(flat), F.one_hot(chosen, self.count).permute(2, 1, 0)
        for n in range(self.count):
            which, rows = torch.where(mask[n])
            out.index_add_(0, rows, self.experts[n](flat[rows]) * weights[rows, which, None])
        return out.view(x.shape)


@model(tokens)
class ExpertsThatAreHit(Experts):
    def forward(self, x):
        flat = x.view(-1, 8)
        weights, chosen = self.gate(flat).softmax(-1).topk(2)
        out, mask = torch.zeros_like(flat), F.one_hot(chosen, self.count).permute(2, 1, 0)
        for n in mask.sum((-1, -2)).greater(0).nonzero():
            which, rows = torch.where(mask[n[0]])
            out.index_add_(0, rows, self.experts[n](flat[rows]) * weights[rows, which, None])
        return out.view(x.shape)


@model(tokens, 4)
class SortedByExpert(Experts):
    def forward(self, x):
        flat = x.view(-1, 8)
        chosen = self.gate(flat).argmax(-1)
        order, outs, at = chosen.argsort(), [], 0
        for n, count in enumerate(torch.bincount(chosen, minlength=self.count).tolist()):
            if count:
                outs.append(self.experts[n](flat[order][at : at + count]))
                at += count
        out = torch.empty_like(flat)
        out[order] = torch.cat(outs)
        return out.view(x.shape)
