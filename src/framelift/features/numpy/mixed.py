"""Operators on a tensor and an array. Tensors have none for arrays: Python asks the array then, which
computes with the tensor's values as an array, and has the tensor's class wrap what comes of it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.features.numpy.dummies import refuse
from framelift.features.numpy.tables import np
from framelift.interpreter.op_operators import IN_PLACE, METHODS
from framelift.trace.runtime_calls import outside_of_modes

if TYPE_CHECKING:
    from framelift.features.numpy.arrays import Arrays


def operate(arrays: Arrays, fn: Any, operands: tuple[Any, ...]) -> Any:
    """What Python does about the operator is found out with a tensor and an array like these."""
    if fn not in METHODS or len(operands) != 2:
        refuse("an array together with a tensor")
    if type(operands[1]) is FakeTensor:
        return of_array_first(arrays, fn, *operands)
    tensor, array = operands
    shown = arrays.of_tensor(tensor)
    expected = asked(fn, arrays.dummy_of(shown), arrays.dummy_of(array))
    found = arrays.operate(IN_PLACE.get(fn, fn), (shown, array))
    made = arrays.as_tensor(found) if arrays.is_array(found) else found.tensor.detach()
    if made.dtype is torch.bool and expected[0] is torch.uint8:  # as tensors took them from arrays once
        made = arrays.world.recorder.call(torch.Tensor.to, (made, torch.uint8), {})
    if (made.dtype, made.dim()) != expected:
        refuse("an array together with a tensor")
    return made


def of_array_first(arrays: Arrays, fn: Any, array: Any, tensor: Any) -> Any:
    """The array leaves it to the tensor, of which two such methods take arrays."""
    if fn is operator.eq:
        return operate(arrays, fn, (tensor, array))
    if IN_PLACE.get(fn, fn) is not operator.truediv:
        refuse("an array together with a tensor")
    inverse = arrays.world.recorder.call(torch.Tensor.reciprocal, (tensor,), {})
    return operate(arrays, operator.mul, (inverse, array))


def asked(fn: Any, left: Any, right: Any) -> tuple[Any, int]:
    """The type and the dimensions of what the operator gives. What NumPy warns of is noticed by the trace."""
    with outside_of_modes(), np.errstate(all="ignore"):
        given = torch.from_numpy(np.array(left))
        try:
            found = fn(given, right)
        except Exception as error:
            refuse(f"an array together with a tensor: {error}")
        if type(found) is not torch.Tensor or found is given:
            refuse("an array together with a tensor")
        return found.dtype, found.dim()
