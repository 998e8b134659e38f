"""A graph of `export_graph` does what the program does, or refuses its arguments: sizes, ranks and numbers
that it was not made for never give another result."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from exporting.check_export import same

FORMS: dict[str, dict[str, Any]] = {
    "calls": {},
    "static": {"assume_static_by_default": True},
    "operators": {"aten_graph": True},
    "early operators": {"aten_graph": True, "pre_dispatch": True},
    "operators of real tensors": {"aten_graph": True, "tracing_mode": "real"},
    "operators of fake tensors": {"aten_graph": True, "tracing_mode": "fake"},
}


def halves(x: Any, y: Any, n: Any) -> Any:
    return x.reshape(2, -1) * n if x.shape[0] % 2 == 0 else x * y.sum()


def most(x: Any, y: Any, n: Any) -> Any:
    return x * 2 if max(x.shape[0], y.shape[0]) > 4 else x * 3


def number(x: Any, y: Any, n: Any) -> Any:
    return x + (y.shape[0] if n > 2 else 0) + x.shape[-1] // 2


def joined(x: Any, y: Any, n: Any) -> Any:
    return torch.cat([x, y], 0)[: x.shape[0]] if x.shape[1:] == y.shape[1:] else x


def only_x(x: Any, y: Any, n: Any) -> Any:
    return x.flatten(1) if x.dim() == 2 else x.unsqueeze(0)


OTHERS = [
    (torch.randn(*a), torch.randn(*b), n)
    for a in [(4, 3), (5, 3), (6, 3), (1, 3), (4, 2), (4, 3, 2), (0, 3)]
    for b in [(4, 3), (7, 3), (1, 3), (4,)]
    for n in (3, 2)
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("program", [halves, most, number, joined, only_x])
def test_another_argument_gives_eagers_result_or_an_error(program: Callable[..., Any], form: str) -> None:
    module, _ = framelift.export_graph(program, **FORMS[form])(*OTHERS[0])
    same(program(*OTHERS[0]), module(*OTHERS[0]))
    refused = 0
    for given in OTHERS:
        try:
            found = module(*given)
        except AssertionError as error:
            assert str(error).startswith("Guard failed: ")
            refused += 1
        else:
            same(program(*given), found)
    assert 0 < refused < len(OTHERS)


def test_checks_stay_in_copies_of_the_graph() -> None:
    module, _ = framelift.export_graph(halves)(*OTHERS[0])
    odd = torch.ones(5, 3), torch.ones(4, 3), 3
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        copied.graph.eliminate_dead_code()
        copied.recompile()
        with pytest.raises(AssertionError, match=r"Guard failed: \(x.shape\[0\] % 2\) == 0"):
            copied(*odd)


def test_what_the_program_does_not_look_at_is_not_checked() -> None:
    module, _ = framelift.export_graph(lambda x, unused: x + 1)(torch.ones(3), torch.ones(2))
    same(torch.ones(5) + 1, module(torch.ones(5), "anything"))
