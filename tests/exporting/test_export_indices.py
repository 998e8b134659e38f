"""Items that only the data chooses, mixed with all that an index may have: artifacts read and write them as
the program does, in each of their forms."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from exporting.check_export import check_export

ITEMS: dict[str, Callable[[Any], Any]] = {
    "number": lambda data: data["i"],
    "another": lambda data: data["j"],
    "short number": lambda data: data["short"],
    "sum": lambda data: data["i"] + 1,
    "item": lambda data: data["j"].item(),
    "from": lambda data: slice(data["i"], None),
    "until": lambda data: slice(None, data["j"] + 2),
    "last": lambda data: -1,
    "all": lambda data: slice(None),
    "new": lambda data: None,
    "rest": lambda data: ...,
    "yes": lambda data: True,
    "no": lambda data: False,
    "mask": lambda data: data["mask"],
    "list": lambda data: [0, 1],
    "numbers": lambda data: data["numbers"],
}


def read(tensor: torch.Tensor, index: Any) -> Any:
    return tensor[index] + 1


def assign(tensor: torch.Tensor, index: Any) -> Any:
    tensor[index] = tensor.sum()
    return tensor + 1


def add(tensor: torch.Tensor, index: Any) -> Any:
    tensor[index] += 2
    return tensor + 1


def change_view(tensor: torch.Tensor, index: Any) -> Any:
    tensor[index].mul_(3)
    return tensor + 1


DONE = (read, assign, add, change_view)


def data(i: int, j: int) -> dict[str, torch.Tensor]:
    return {
        "i": torch.tensor(i),
        "j": torch.tensor(j),
        "short": torch.tensor(j, dtype=torch.int16),
        "mask": torch.tensor([True, False]),
        "numbers": torch.tensor([1, 0, 1]),
    }


def program(done: Callable[..., Any], items: tuple[str, ...]) -> Callable[..., Any]:
    def indexes(tensor: torch.Tensor, data: dict[str, torch.Tensor]) -> Any:
        return done(tensor, tuple([ITEMS[item](data) for item in items]))

    return indexes


def works(done: Callable[..., Any], items: tuple[str, ...]) -> bool:
    """Whether eager takes the index. Broadcasting with as many numbers as a mask has is for the data to
    allow, and beside two ellipses torch has no tensors for numbers."""
    if "mask" in items and {"list", "numbers", "yes", "no"} & set(items) or items.count("rest") > 1:
        return False
    try:
        program(done, items)(torch.rand(2, 3, 4), data(1, 0))
    except (IndexError, RuntimeError):
        return False
    return True


def sample() -> list[tuple[Callable[..., Any], tuple[str, ...]]]:
    chosen = random.Random(7)
    found: list[tuple[Callable[..., Any], tuple[str, ...]]] = [(add, (item,)) for item in ITEMS]
    combined = [each for count in (2, 3) for each in itertools.product(ITEMS, repeat=count)]
    found += [(chosen.choice(DONE), items) for items in chosen.sample(combined, 60)]
    return [each for each in found if works(*each)]


@pytest.mark.parametrize(
    ("done", "items"), sample(), ids=lambda one: getattr(one, "__name__", None) or "-".join(one)
)
def test_indices_of_data(done: Callable[..., Any], items: tuple[str, ...]) -> None:
    tensor = torch.arange(24.0).reshape(2, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_export(program(done, items), (tensor, data(1, 0)), {}, (tensor, data(0, 1)))


def test_numbers_count_from_the_end_as_well() -> None:
    def assigns(cache: torch.Tensor, row: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        cache[:, i] = row
        return cache + 1

    cache, row = torch.zeros(2, 4), torch.rand(2)
    made = check_export(
        assigns, (cache, row, torch.tensor(2)), {}, *[(cache, row, torch.tensor(i)) for i in (-1, -4, 0, 3)]
    )
    for i in (-5, 4):
        with pytest.raises((IndexError, RuntimeError)):
            made.module()(cache, row, torch.tensor(i))
