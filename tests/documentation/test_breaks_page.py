"""The examples of docs/breaks.md: the first of a pair breaks for the reason it stands under, the second is
one graph and computes the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import framelift
from check import entries, why_not
from framelift.core.breaks import REASONS

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
try:
    import make_reasons
    from break_examples import EXAMPLES, Example
finally:
    sys.path.remove(str(DOCS))


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_first_breaks_and_the_second_does_not(example: Example) -> None:
    report = framelift.explain(example.before)(*example.arguments())
    assert example.reason.name in [found.reason.name for found in report.breaks]
    compiled = framelift.compile(example.after, backend="eager", fullgraph=True)
    result = compiled(*example.instead())
    assert why_not(compiled) is None and entries(compiled) == 1
    assert same(result, example.after(*example.instead()))
    assert example.reason.name in OTHERWISE or same(result, example.before(*example.arguments()))


OTHERWISE = {"value that can't be rebuilt", "generator as the outermost frame", "unsupported kind of tensor"}
"""Of these the second gives something that can be compared only in substance: a list for an iterator."""


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and bool(torch.allclose(one, other))
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def test_the_page_has_every_reason_and_is_up_to_date() -> None:
    text = (DOCS / "breaks.md").read_text()
    for reason in REASONS.values():
        assert make_reasons.recipe(reason) in text, "run docs/make_reasons.py"
    assert len(EXAMPLES) >= 20 and set(EXAMPLES) <= set(REASONS)
