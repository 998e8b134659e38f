"""`torch.cond` whose branches give other numbers, or tensors of other sizes: only the data decides which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from check import difference, entries, reasons
from framelift.core.errors import Unsupported

BACKENDS = ["eager", "aot_eager", "inductor"]
Cond = Callable[..., Any]


def by_python(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """What `torch.cond` does; torch's own, called plainly, has to compile its branches."""
    return (true_fn if pred else false_fn)(*operands)


def numbers(cond: Cond, x: Any) -> Any:
    return cond(x.sum() > 0, lambda x: (x.sin(), 1), lambda x: (x.cos(), 2), (x,))


def computed_with(cond: Cond, x: Any) -> Any:
    y, n = cond(x.sum() > 0, lambda x: (x.sin(), 3), lambda x: (x.cos(), 2), (x,))
    return y * n + n


def in_containers(cond: Cond, x: Any) -> Any:
    true, false = lambda x: {"n": 3, "x": [x + 1], "m": 7}, lambda x: {"n": 4, "x": [x - 1], "m": 7}
    return cond(x.sum() > 0, true, false, (x,))


def nothing_but_a_number(cond: Cond, x: Any) -> Any:
    return cond(x.sum() > 0, lambda x: 3, lambda x: 4, (x,)) + 1


def negative(cond: Cond, x: Any) -> Any:
    return cond(x.sum() > 0, lambda x: (-5, x + 1, 6), lambda x: (6, x + 2, -5), (x,))


def sizes(cond: Cond, x: Any) -> Any:
    return cond(x.sum() > 0, lambda x: x[:2].sin(), lambda x: x[:3].cos(), (x,))


def used_sizes(cond: Cond, x: Any) -> Any:
    y = cond(x.sum() > 0, lambda x: x[:2].sin(), lambda x: x[:3].cos(), (x,))
    return y * 2, y.shape[0], torch.zeros(y.shape[0]), y.sum()


def sizes_and_numbers(cond: Cond, x: Any) -> Any:
    true, false = lambda x: (x[:2].sin(), 1, x + 1), lambda x: (x[:4].cos(), 5, x - 1)
    return cond(x.sum() > 0, true, false, (x,))


PROGRAMS = [numbers, computed_with, in_containers, nothing_but_a_number, negative]
PROGRAMS += [sizes, used_sizes, sizes_and_numbers]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_gives_what_either_branch_gives(program: Any, backend: str) -> None:
    compiled = framelift.compile(lambda x: program(torch.cond, x), backend=backend, fullgraph=True)
    for x in (torch.ones(5), -torch.ones(5), torch.arange(5.0)):
        assert difference(program(by_python, x), compiled(x), values=False) is None
        torch.testing.assert_close(compiled(x), program(by_python, x))
    assert entries(compiled) == 1


REFUSED: dict[str, Any] = {
    "dimensions": lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x[None] + 1, (x,)),
    "dtypes": lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.long() + 1, (x,)),
    "truth": lambda x: torch.cond(x.sum() > 0, lambda x: (x + 1, True), lambda x: (x + 1, False), (x,)),
    "floats": lambda x: torch.cond(x.sum() > 0, lambda x: (x + 1, 1.0), lambda x: (x + 1, 2.0), (x,)),
    "kinds": lambda x: torch.cond(x.sum() > 0, lambda x: (x + 1, 1), lambda x: (x + 1, None), (x,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_differences_are_refused(name: str) -> None:
    compiled = framelift.compile(REFUSED[name], backend="eager", fullgraph=True)
    with pytest.raises(Unsupported, match="can't be given"):
        compiled(torch.ones(3))


def test_sizes_that_differ_are_not_differentiated() -> None:
    compiled = framelift.compile(lambda x: sizes(torch.cond, x), backend="eager", fullgraph=True)
    with pytest.raises(Unsupported, match="has shape"):
        compiled(torch.ones(4, requires_grad=True))
    assert reasons(compiled)
