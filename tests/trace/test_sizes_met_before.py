"""What later captures know of the sizes in earlier calls: which were the same by chance, which the program
has refused, which only the data decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import framelift
from compilations import compiled_at, twice


def calls_compiled(fn: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> list[int]:
    return compiled_at(fn, twice(calls), **options)[0]


# ---- the same by chance


def in_a_bucket(x: torch.Tensor) -> torch.Tensor:
    for size in (4, 8, 16):
        if x.shape[1] <= size:
            return F.pad(x, (0, 0, 0, size - x.shape[1]))
    return x


def at_least_one(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    room = max(len(x) // 4, 1)
    return x.new_zeros(w.shape[1], room) + (x @ w).sum()


def made(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape) for shape in shapes)


BY_CHANCE: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[int]]] = {
    "tokens and features": (
        in_a_bucket,
        [made((2, n, 3)) for n in (6, 3, 2, 4, 12)],
        [0, 1, 4],
    ),
    "an input and a parameter": (
        at_least_one,
        [made((n, 4), (4, 3)) for n in (9, 3, 2, 20)],
        [0, 1],
    ),
}


@pytest.mark.parametrize("name", BY_CHANCE)
def test_sizes_that_were_different_stay_different_symbols(name: str) -> None:
    fn, calls, at = BY_CHANCE[name]
    assert calls_compiled(fn, calls, dynamic=True) == at


def test_sizes_that_were_always_the_same_stay_one_symbol() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] == y.shape[0]
        return x + y if x.shape[0] < 6 else x - y

    assert calls_compiled(fn, [made((n, 3), (n, 3)) for n in (4, 5, 7, 3, 9)], dynamic=True) == [0, 2]


# ---- what the program has refused


def only_even(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, x.shape[0] // 2, 4)


def not_five(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 5:
        raise ValueError(f"not {tuple(x.shape)}")
    return x * 2


def few(x: torch.Tensor, k: int) -> torch.Tensor:
    assert k < 10, f"k is {k}"
    return x * k


@pytest.mark.parametrize(
    "fn, calls",
    [
        (only_even, [made((n, 4)) for n in (5, 8, 12, 7, 20)]),
        (not_five, [made((n, 4)) for n in (5, 8, 12, 5, 20)]),
        (few, [(torch.ones(3), k) for k in (12, 3, 4, 15, 7)]),
    ],
)
def test_a_size_that_was_refused_has_been_met(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> None:
    assert calls_compiled(fn, calls) == [1]


# ---- what only the data decides


def test_sizes_of_data_vary_behind_the_next_break_too() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, columns = torch.where(mask)
        framelift.graph_break()
        return x[rows, columns].sum() + len(rows)

    calls = [(torch.ones(4, 5), torch.arange(20).view(4, 5) < n) for n in (7, 12, 3, 9)]
    assert calls_compiled(fn, calls) == [0]


def test_numbers_of_data_vary_behind_the_next_break_too() -> None:
    def fn(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        n = t.item()
        framelift.graph_break()
        return x * n

    assert calls_compiled(fn, [(torch.ones(3), torch.tensor(n)) for n in (5, 7, 2, 9)]) == [0]


def checked(condition: Any, message: Any) -> None:
    if not condition:
        raise ValueError(message)


def in_a_message(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    tokens = mask.sum()
    checked(x.shape[0] == 4, f"{tokens} tokens, {x.shape[0]} features")
    return x * tokens


def in_a_message_that_is_raised(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    tokens = mask.sum()
    checked(x.shape[0] == 5, f"{tokens} tokens, {x.shape[0]} features")
    return x * tokens


def given_back(x: torch.Tensor, mask: torch.Tensor) -> Any:
    text = f"{mask.sum()}"
    return x * 2, text + "!", f"<{text}>", f"{text!r}", [text]


def looked_at(x: torch.Tensor, mask: torch.Tensor) -> Any:
    text = f"{mask.sum()}"
    if text and text != "12":
        x = x + 1
    return x * 2, {"7": 1}.get(f"{text}"), len(f"{text}:")


def empty(x: torch.Tensor, mask: torch.Tensor) -> Any:
    text = f"{EMPTY(mask.sum())}"
    return x * (2 if f"{text}" else 3)


class EMPTY:
    def __init__(self, number: torch.Tensor) -> None:
        self.number = number

    def __format__(self, how: str) -> str:
        return "" if self.number.item() % 2 else "even"


@pytest.mark.parametrize(
    "fn, most",
    [(in_a_message, 1), (in_a_message_that_is_raised, 2), (given_back, 1), (looked_at, 4), (empty, 4)],
)
def test_texts_of_data_are_nobodys_business_until_somebody_looks(fn: Callable[..., Any], most: int) -> None:
    calls = [(torch.ones(4, 5), torch.arange(20) < n) for n in (7, 12, 3, 8)]
    assert len(calls_compiled(fn, calls)) <= most
