"""`Tensor._version` in captured code: how often a tensor was written to, by the trace and before."""

from __future__ import annotations

import pytest
import torch

import framelift
from check import check, recompiles


def of_what_is_made(x):
    y = x.clone()
    before = y._version
    y.add_(1).mul_(2)
    y.view(-1).sub_(1)
    return y, before, y._version, y.view(-1)._version, (x + 1)._version, torch.empty(2).fill_(1)._version


def of_an_input(x):
    before = x._version
    x.add_(1)
    return x * 2, before, x._version, x._version - before


def of_a_view_of_an_input(x):
    return x.view(-1)._version, x + 1


@pytest.mark.parametrize("fn", [of_what_is_made, of_an_input])
def test_versions_are_captured(fn):
    check(fn, torch.ones(2, 3))


def test_versions_of_views_of_inputs_are_as_eagerly():
    check(of_a_view_of_an_input, torch.ones(2, 3), fullgraph=False)


def test_a_version_that_grows_compiles_twice_at_most():
    buffer = torch.zeros(3)

    def fn(x):
        before = buffer._version
        buffer.add_(1)
        return x + (buffer._version - before), buffer._version

    compiled = framelift.compile(fn, backend="eager", fullgraph=True, isolate_recompiles=True)
    for version in range(1, 6):
        result, found = compiled(torch.zeros(1))
        assert (float(result), found) == (1.0, version)
    assert recompiles(compiled) <= 1
