"""Tensors of numbers that vary: `torch.tensor(n)`, `x.new_tensor([n, 2 * n])`, `torch.tensor(n > 4)`.

Torch's own functions ask what each number is. A graph makes the same tensor of tensors with one element,
which take symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from framelift.graph.arithmetic import NUMBERS, has_symbols
from framelift.graph.symbols import settled

Call = Callable[[Any, Any, dict[str, Any]], Any]
FLOATS = (float, torch.SymFloat)
MOST_NUMBERS = 64
"""More of them are looked at by C, and definite from there on."""


def make_of_symbols(call: Call, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function that takes data makes of numbers; NotImplemented if it is something else, or if no
    number varies. `call` records a call."""
    *tensor, data = args if func is torch.Tensor.new_tensor else args[:1]
    numbers = list(numbers_in(data))
    if len(args) != 1 + len(tensor) or not has_symbols(numbers) or len(numbers) > MOST_NUMBERS:
        return NotImplemented
    if type(data) is torch.SymBool:
        return condition(call, data, tensor, kwargs)
    like = {"dtype": tensor[0].dtype, "device": tensor[0].device} if tensor else {}
    asked = like | {name: value for name, value in kwargs.items() if value is not None and value is not False}
    dtype = asked.setdefault("dtype", dtype_of(numbers))
    if not asked.keys() <= {"dtype", "device"} or not is_regular(data) or not fits(numbers, dtype):
        return NotImplemented
    if dtype.is_floating_point and any(type(x) in FLOATS for x in numbers):
        # too large a number is an infinity here, an error where a number fills a tensor
        doubles = stacked(call, data, asked | {"dtype": torch.float64})
        return doubles if dtype is torch.float64 else call(torch.Tensor.to, (doubles, dtype), {})
    return stacked(call, data, asked)


def condition(call: Call, data: torch.SymBool, tensor: list[Any], kwargs: dict[str, Any]) -> Any:
    """A truth value that varies: it fills a tensor."""
    asked = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    if tensor or not asked.keys() <= {"dtype", "device"}:
        return NotImplemented
    return call(torch.full, ((), data), {"dtype": torch.bool, **asked})


TAKES_CONDITIONS: frozenset[Any] = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.truediv, operator.eq, operator.ne),
        *(operator.and_, operator.or_, operator.lt, operator.le, operator.gt, operator.ge),
        *(torch.full, torch.full_like, torch.scalar_tensor, torch.Tensor.new_full, torch.Tensor.masked_fill),
    }
)
"""What computes with a truth value that varies. All else asks which it is."""


def with_conditions_settled(value: Any) -> Any:
    """Arguments of a call in which all truth values are definite."""
    if type(value) is torch.SymBool:
        return settled(value)
    if type(value) in (tuple, list):
        return type(value)([with_conditions_settled(item) for item in value])
    if type(value) is dict:
        return {key: with_conditions_settled(item) for key, item in value.items()}
    return value


def numbers_in(data: Any) -> Iterator[Any]:
    if type(data) in SEQUENCES:
        for item in data:
            yield from numbers_in(item)
    else:
        yield data


SEQUENCES = (list, tuple, torch.Size)


def is_regular(data: Any) -> bool:
    """Whether lists are as long as their neighbours, and hold nothing but numbers."""
    if type(data) not in SEQUENCES:
        return type(data) in NUMBERS and type(data) is not torch.SymBool
    return bool(data) and all(map(is_regular, data)) and len({shape_of(item) for item in data}) == 1


def shape_of(data: Any) -> tuple[int, ...]:
    return (len(data), *shape_of(data[0])) if type(data) in SEQUENCES else ()


def dtype_of(numbers: list[Any]) -> torch.dtype:
    """What torch makes of integers, one of which varies, and of floats."""
    return torch.get_default_dtype() if any(type(x) in FLOATS for x in numbers) else torch.int64


def fits(numbers: list[Any], dtype: torch.dtype) -> bool:
    """Whether numbers can be of a type; that integers are small enough is relied on."""
    if dtype.is_floating_point:
        return True
    if dtype.is_complex or dtype is torch.bool or any(type(x) in FLOATS for x in numbers):
        return False
    if dtype is torch.int64:
        return True
    limits = torch.iinfo(dtype)
    return all(settled(x >= limits.min) and settled(x <= limits.max) for x in numbers)


def stacked(call: Call, data: Any, asked: dict[str, Any]) -> Any:
    if type(data) not in SEQUENCES:
        return call(torch.scalar_tensor, (data,), asked)
    return call(torch.stack, ([stacked(call, item, asked) for item in data],), {})
