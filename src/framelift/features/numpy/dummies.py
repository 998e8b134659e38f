"""Arrays with which NumPy is asked what a call gives: of the shape, strides and type of the program's."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.features.numpy.tables import NUMPY_DTYPES, Array, np
from framelift.graph.deferred import sympy


def refuse(what: str) -> NoReturn:
    raise Break(breaks.NUMPY, what)


def make_regular(dummies: list[tuple[Any, Any]]) -> None:
    """Matrices of ones have no inverse, so they become the identity."""
    for _, dummy in dummies:
        if isinstance(dummy, np.ndarray) and dummy.ndim > 1 and dummy.flags.writeable:
            dummy[...] = np.eye(*dummy.shape[-2:])


def as_real(value: Any, dummies: list[tuple[Any, Any]]) -> Any:
    """The dummies as arrays of torch's, which share their memory."""
    if type(value) in (tuple, list):
        return type(value)(as_real(item, dummies) for item in value)
    if type(value) is dict:
        return {name: as_real(item, dummies) for name, item in value.items()}
    if type(value) is Array:
        dummy = next(dummy for array, dummy in dummies if array is value)
        if not dummy.ndim:
            return Array(torch.tensor(dummy.item(), dtype=NUMPY_DTYPES[dummy.dtype]))
        is_taken = dummy.flags.writeable and all(stride >= 0 for stride in dummy.strides)
        return Array(torch.from_numpy(dummy if is_taken else dummy.copy()))
    return value


def end_at_error(kind: str, flags: int) -> NoReturn:
    refuse(f"a floating-point error ({kind})")


def asking(fn: Any, args: Any, kwargs: dict[str, Any], name: str) -> Any:
    """What NumPy gives for arrays like these."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            return fn(*args, **kwargs)
    except Exception as error:
        refuse(f"{name}: {error}")


def integer(number: int) -> Any:
    return sympy.Integer(number)


def describe_type(array: Any) -> tuple[Any, ...]:
    return array.tensor.dtype, tuple(array.shape)


def describe_real(array: Any) -> tuple[Any, ...]:
    return array.dtype, array.shape, layout(array.shape, array.strides)


def layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, where there is more than one element to step over."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
