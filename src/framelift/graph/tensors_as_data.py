"""Tensors of lists that hold tensors: `torch.tensor([loss, penalty])`.

Torch takes a number of each, and makes a new tensor of these. A graph stacks them, which gives the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.numbers_as_data import SEQUENCES

Call = Callable[[Any, Any, dict[str, Any]], Any]
NUMBERS = (bool, int, float)
EXACT = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
"""Types of which a number that does not fit is an error, or another number."""


def make_of_tensors(call: Call, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function that takes data makes of a list with tensors in it; NotImplemented if there are none.
    `call` records a call."""
    *like, data = args if func is torch.Tensor.new_tensor else args[:1]
    if type(data) not in SEQUENCES or not any(type(item) is FakeTensor for item in leaves(data)):
        return NotImplemented
    asked = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    plain = len(args) == 1 + len(like) and asked.keys() <= {"dtype", "device"}
    if not plain or not all(map(is_plain, (*like, *leaves(data)))):
        raise Break(breaks.DATA_DEPENDENT_VALUE, f"torch.{func.__name__} of tensors")
    shape, dtype = made_of_dummies(func, like, data, kwargs)
    inner = shape[depth(data) :]
    parts = [part(call, item, inner, dtype) for item in leaves(data)]
    stacked = call(torch.stack, (parts,), {})
    if depth(data) > 1:
        stacked = call(torch.reshape, (stacked, shape), {})
    device = asked.get("device")
    return stacked if device is None else call(torch.Tensor.to, (stacked, device), {})


def leaves(data: Any) -> Iterator[Any]:
    if type(data) in SEQUENCES:
        for item in data:
            yield from leaves(item)
    else:
        yield data


def depth(data: Any) -> int:
    return 1 + depth(data[0]) if type(data) in SEQUENCES else 0


def is_plain(item: Any) -> bool:
    if type(item) is not FakeTensor:
        return type(item) in NUMBERS
    sizes: Any = item.shape
    is_dense = item.layout is torch.strided and item.device.type == "cpu"
    return is_dense and all(type(size) is int for size in sizes)


def made_of_dummies(
    func: Any, like: list[Any], data: Any, kwargs: dict[str, Any]
) -> tuple[tuple[int, ...], torch.dtype]:
    """Shape and type of what torch itself makes of tensors like these."""
    try:
        with torch._C.DisableTorchFunction(), _disable_current_modes(), warnings.catch_warnings():
            warnings.simplefilter("error")
            made = func(*map(dummy_of, like), dummy_of(data), **kwargs)
            return tuple(made.shape), made.dtype
    except Exception as error:  # the program's, if its own call fails
        why = f"torch.{func.__name__} of tensors: {error}"
        raise Break(breaks.DATA_DEPENDENT_VALUE, why) from error


def dummy_of(value: Any) -> Any:
    if type(value) in SEQUENCES:
        return [dummy_of(item) for item in value]
    if type(value) is not FakeTensor:
        return value
    return torch.zeros(value.shape, dtype=value.dtype, requires_grad=value.requires_grad)


def part(call: Call, item: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """A leaf, as a tensor of the shape that all of them have."""
    if type(item) is not FakeTensor:
        return call(torch.full, (shape, item), {"dtype": dtype})
    narrows = dtype in EXACT and dtype is not torch.int64 and item.dtype is not torch.bool
    if item.dtype is not dtype and narrows:
        raise Break(breaks.DATA_DEPENDENT_VALUE, f"a tensor of {dtype} of one of {item.dtype}")
    if item.requires_grad:
        item = call(torch.Tensor.detach, (item,), {})
    if tuple(item.shape) != shape:
        item = call(torch.reshape, (item, shape), {})
    return item if item.dtype is dtype else call(torch.Tensor.to, (item, dtype), {})
