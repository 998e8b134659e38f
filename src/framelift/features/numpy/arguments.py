"""What functions of NumPy's are given in a trace, and what torch's are given in its place."""

from __future__ import annotations

from typing import Any

import torch

from framelift.core.sentinels import MISSING
from framelift.features.numpy.tables import IDLE, NUMPY_DTYPES, NUMPY_NUMBERS, Array, np
from framelift.interpreter.pending import opened


def is_array(value: Any) -> bool:
    return Array is not None and type(value) is Array


FOR_ALL_NUMBERS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "truediv", "numpy.where"), (torch.SymInt, torch.SymFloat)),
    **dict.fromkeys([f"numpy.{name}" for name in ("zeros", "ones", "full", "arange")], (torch.SymInt,)),
}
"""Calls that are no error whatever the numbers are, and of which these do not decide the type -> which."""


def is_symbol(value: Any) -> bool:
    """Whether it is a number that varies, and not one that only the data decides."""
    return type(value) in (torch.SymInt, torch.SymFloat) and type(value.node.hint) in (int, float)


def with_hints(value: Any) -> Any:
    """The same with numbers in the place of symbols."""
    if type(value) in (tuple, list):
        return type(value)(map(with_hints, value))
    if type(value) is dict:
        return {name: with_hints(item) for name, item in value.items()}
    return value.node.hint if is_symbol(value) else value


ROOMY: dict[Any, tuple[torch.dtype, ...]] = {
    torch.SymInt: (torch.bool, torch.float32, torch.float64),
    torch.SymFloat: (torch.bool, torch.int64, torch.float64),
}


def has_room(value: Any, kind: type) -> bool:
    """Whether an array's type has room for any number of a kind, or gives way to one that has."""
    value = opened(value)
    return type(value) is not Array or value.tensor.dtype in ROOMY[kind]


class Typed:
    """A number of NumPy's among the arguments of a call."""

    def __init__(self, number: Any) -> None:
        self.number = number


def is_idle(name: str, value: Any) -> bool:
    """Whether an argument says nothing."""
    return value is np._NoValue or IDLE.get(name, MISSING) is value


def is_fresh_in_rows(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.flags.c_contiguous and array.base is None


def is_inexact(value: Any) -> bool:
    if type(value) in (tuple, list):
        return any(map(is_inexact, value))
    if type(value) is Array:
        return value.tensor.dtype.is_floating_point or value.tensor.dtype.is_complex
    number = value.number if type(value) is Typed else value
    return isinstance(number, (float, complex, np.inexact))


def has_negative_step(key: Any) -> bool:
    key = opened(key)
    if type(key) is tuple:
        return any(map(has_negative_step, key))
    return type(key) is slice and type(opened(key.step)) is int and opened(key.step) < 0


def dtype_of(value: Any) -> Any:
    """The dtype for a type, if torch has it too."""
    if value in (bool, int, float, complex) if isinstance(value, type) else False:
        return np.dtype(value)
    if isinstance(value, np.dtype):
        return value if value in NUMPY_DTYPES else None
    if isinstance(value, type) and value in NUMPY_NUMBERS:
        return np.dtype(value)
    return None


def for_torch(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(for_torch, value))
    if type(value) is dict:
        return {name: for_torch(item) for name, item in value.items()}
    if type(value) is slice:
        return slice(*map(for_torch, (value.start, value.stop, value.step)))
    if type(value) is Typed:
        number = value.number
        return Array(torch.tensor(number.item(), dtype=NUMPY_DTYPES[number.dtype]))
    if isinstance(value, np.dtype):
        return value.name.replace("bool", "bool_") if value.kind == "b" else value.name
    return value
