"""Sparse tensors of sizes that vary: their fakes have no symbols, so what takes them runs as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from compilations import compiled_at, twice
from sameness import alike

SIZES = (5, 8, 3, 12, 6, 7, 20, 9)


def adjacency(edges, nodes):
    matrix = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (nodes, nodes))
    return torch.sparse.mm(matrix, torch.ones(nodes, 2)) * 2


def coalesced(edges, nodes):
    matrix = torch.sparse_coo_tensor(
        edges, torch.ones(edges.shape[1]), size=torch.Size([nodes, nodes])
    ).coalesce()
    return matrix.to_dense().sum(0), matrix.shape


def made_sparse(edges, nodes):
    dense = torch.zeros(nodes, 3).index_fill(0, edges[0], 1.0)
    return dense.to_sparse() @ torch.ones(3, 2) + 1


def of_compressed_rows(edges, nodes):
    starts = torch.arange(nodes + 1)
    matrix = torch.sparse_csr_tensor(starts, edges[0, :nodes], torch.ones(nodes), size=(nodes, nodes))
    return matrix.to_dense().sum(0) * 2


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("program", [adjacency, coalesced, made_sparse, of_compressed_rows])
def test_sizes_of_sparse_tensors_that_vary(program: Callable[..., Any]) -> None:
    edges = [torch.randint(0, nodes, (2, 3 * nodes)) for nodes in SIZES]
    at, _ = compiled_at(program, twice(zip(edges, SIZES, strict=True)))
    assert max(at) < 5


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_that_come_in() -> None:
    compiled = framelift.compile(lambda x, y: (x @ y) * 2, backend="eager")
    for nodes in SIZES:
        x, y = torch.eye(nodes).to_sparse(), torch.randn(nodes, 2)
        alike((x @ y) * 2, compiled(x, y))
    (report,) = framelift.entries(compiled)[:1]
    assert len(report.entries) == 2


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sizes_that_stay_are_captured() -> None:
    fn = lambda edges: torch.sparse_coo_tensor(edges, torch.ones(15), (5, 5)).to_dense() * 2
    compiled = framelift.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        edges = torch.randint(0, 5, (2, 15))
        alike(fn(edges), compiled(edges))
