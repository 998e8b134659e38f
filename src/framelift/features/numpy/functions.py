"""Functions of NumPy's over tensors, where torch's implementation of NumPy has none, has one that looks at
data, or shares memory otherwise. Each takes what NumPy's takes; what it gives is checked (`arrays.py`)."""

from __future__ import annotations

import operator
from typing import Any

import torch

from framelift.features.numpy.tables import FUNCTIONS, Array, np

SCALARS = (bool, int, float)


def tensor_of(value: Any) -> Any:
    return value.tensor if type(value) is Array else value


def as_floating(array: Any) -> torch.Tensor:
    tensor: torch.Tensor = array.tensor
    return tensor if tensor.dtype.is_floating_point else tensor.to(torch.float64)


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = [
        tensor_of(first if first is not None else one) for first, one in ((a_min, min), (a_max, max))
    ]
    if low is None and high is None:
        return Array(a.tensor.clone())
    if isinstance(low, torch.Tensor) is isinstance(high, torch.Tensor) or low is None or high is None:
        return Array(torch.clamp(a.tensor, low, high))
    return Array(torch.clamp(torch.clamp(a.tensor, min=low), max=high))


def diag(v: Any, k: int = 0) -> Any:
    return Array(torch.diagonal(v.tensor, k) if v.ndim == 2 else torch.diag(v.tensor, k))


def take(a: Any, indices: Any, axis: Any = None) -> Any:
    tensor = a.tensor.flatten() if axis is None else a.tensor
    places = tensor_of(indices) if type(indices) is Array else torch.tensor(indices)
    return Array(tensor[(*[slice(None)] * ((axis or 0) % tensor.dim()), places)])


def quantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False, method: str = "linear") -> Any:
    tensor = as_floating(a)
    at = q if type(q) in SCALARS else torch.tensor(q, dtype=tensor.dtype)
    return Array(torch.quantile(tensor, at, dim=axis, keepdim=keepdims, interpolation=method))


def percentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False, method: str = "linear") -> Any:
    at = q / 100 if type(q) in SCALARS else [each / 100 for each in q]
    return quantile(a, at, axis, keepdims=keepdims, method=method)


def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return quantile(a, 0.5, axis, keepdims=keepdims)


def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    return Array(torch.searchsorted(a.tensor.contiguous(), tensor_of(v), side=side))


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    places = torch.tensor(bins, dtype=x.tensor.dtype) if type(bins) is list else bins.tensor
    return Array(torch.bucketize(x.tensor.contiguous(), places, right=not right))


def isin(element: Any, test_elements: Any) -> Any:
    tested = tensor_of(test_elements) if type(test_elements) is Array else torch.tensor(test_elements)
    return Array(torch.isin(element.tensor, tested))


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    return Array(
        torch.trapezoid(y.tensor, dx=dx, dim=axis) if x is None else torch.trapezoid(y.tensor, x.tensor)
    )


def polyval(p: Any, x: Any) -> Any:
    found = torch.zeros_like(x.tensor)
    for coefficient in p if type(p) is list else p.tensor:
        found = found * x.tensor + coefficient
    return Array(found)


def nansum(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return Array(torch.nansum(a.tensor, dim=axis, keepdim=keepdims))


def nanmean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return Array(torch.nanmean(a.tensor, dim=axis, keepdim=keepdims))


def nanmedian(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return Array(torch.nanquantile(as_floating(a), 0.5, dim=axis, keepdim=keepdims))


def cov(m: Any) -> Any:
    return Array(torch.cov(as_floating(m)))


def ascontiguousarray(a: Any) -> Any:
    return Array(a.tensor.contiguous())


def broadcast_to(array: Any, shape: Any) -> Any:
    return Array(torch.broadcast_to(array.tensor, (shape,) if type(shape) is int else shape))


def positive(x: Any) -> Any:
    return Array(x.tensor.clone())


def divide(x1: Any, x2: Any) -> Any:
    """Of integers NumPy makes float64, whatever torch makes of them by default."""
    given = [tensor_of(x) for x in (x1, x2)]
    if all(type(x) is float or is_integer(x) for x in given):
        given = [x.to(torch.float64) if isinstance(x, torch.Tensor) else x for x in given]
    return Array(torch.true_divide(*given))


def is_integer(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not (value.dtype.is_floating_point or value.dtype.is_complex)
    return type(value) in (bool, int)


def conjugate(x: Any) -> Any:
    return Array(torch.conj_physical(x.tensor) if x.tensor.is_complex() else x.tensor.clone())


def cbrt(x: Any) -> Any:
    number = as_floating(x)
    return Array(torch.copysign(torch.pow(number.abs(), 1 / 3), number))


def i0(x: Any) -> Any:
    return Array(torch.i0(as_floating(x)))


def modf(x: Any) -> Any:
    """What is behind the point, and what is before it."""
    number = as_floating(x)
    whole = torch.trunc(number)
    rest = torch.where(torch.isinf(number), torch.zeros_like(number), number - whole)
    return Array(torch.copysign(rest, number)), Array(whole)


def astype(array: Any, dtype: Any, copy: bool = True, **layout: Any) -> Any:
    made = Array.astype(array, dtype)
    return Array(made.tensor.clone()) if made.tensor is array.tensor and copy else made


def nonzero(array: Any) -> Any:
    """Where there is something: an array for each dimension."""
    return tuple(map(Array, torch.nonzero(array.tensor).contiguous().unbind(1)))


def flatten(array: Any) -> Any:
    return Array(torch.flatten(array.tensor).clone(memory_format=torch.contiguous_format))


OWN = (
    *(positive, conjugate, modf, divide, cbrt, i0),
    *(clip, diag, take, quantile, percentile, median, searchsorted, digitize, isin, trapezoid, polyval),
    *(nansum, nanmean, nanmedian, cov, ascontiguousarray, broadcast_to),
)
OPERATORS = {operator.truediv: divide, operator.pos: positive}
"""Operators that these functions do."""
if np is not None:
    FUNCTIONS |= {id(np.true_divide): divide}
    FUNCTIONS |= {id(getattr(np, fn.__name__)): fn for fn in OWN if hasattr(np, fn.__name__)}

ABOUT: dict[int, Any] = {}
"""id of a function of NumPy's that asks about an array, and not for what is in it -> what answers."""
if np is not None:
    ABOUT = {
        id(np.ndim): lambda a: a.ndim,
        id(np.shape): lambda a: tuple(a.shape),
        id(np.size): lambda a: a.size,
        id(np.iscomplexobj): lambda a: a.tensor.dtype.is_complex,
        id(np.isrealobj): lambda a: not a.tensor.dtype.is_complex,
    }

METHODS = {"clip": clip, "take": take, "searchsorted": searchsorted}
"""Methods of arrays that these functions do too."""
