"""What is in the arguments and results of torch calls: tensors in containers, numbers of several kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.graph.functions import PLAIN_RESULTS
from framelift.graph.symbols import SYMBOLIC

try:
    from numpy import generic

    NUMPY: tuple[Any, ...] = (generic,)
    """The base of NumPy's numbers."""
except ImportError:  # torch works without it
    NUMPY = ()


def gather(value: Any, into: list[torch.Tensor]) -> bool:
    """Collects the tensors in nested containers; whether there are any."""
    if isinstance(value, torch.Tensor):
        into.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            gather(item, into)
    elif isinstance(value, dict):
        for item in value.values():
            gather(item, into)
    elif type(value) is slice:
        gather((value.start, value.stop, value.step), into)
    return bool(into)


def tensors_of(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    gather(value, found)
    return found


def is_lookup(index: Any) -> bool:
    """Whether each place of an index is a tensor or a number."""
    places = index if isinstance(index, tuple) else (index,)
    return all(isinstance(place, (torch.Tensor, int, torch.SymInt)) for place in places)


def has_numbers_of_numpy(values: Iterable[Any]) -> bool:
    for value in values:
        if type(value) is FakeTensor or type(value) in PLAIN_RESULTS:
            continue
        if has_numbers_of_numpy(value) if isinstance(value, (tuple, list)) else isinstance(value, NUMPY):
            return True
    return False


def as_plain_numbers(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(as_plain_numbers, value))
    if type(value) is dict:
        return {name: as_plain_numbers(item) for name, item in value.items()}
    return value.item() if isinstance(value, NUMPY) else value


def is_plain_result(value: Any) -> bool:
    if type(value) in PLAIN_RESULTS or type(value) in SYMBOLIC:
        return True
    return isinstance(value, (tuple, list)) and all(is_plain_result(item) for item in value)
