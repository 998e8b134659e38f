"""Powers of tensors with exponents that may vary: autograd looks at those, and at bases that are numbers.

What it asks of them (whether they are zero) it can't ask of a symbol. So where a power is differentiated, or
may be by a transform around a body, they are definite. What only the data decides is left to autograd.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from framelift.graph.symbols import SYMBOLIC, settled

Tensor = torch.Tensor
POWERS: frozenset[Any] = frozenset(
    {pow, operator.pow, operator.ipow, torch.pow, torch.float_power, Tensor.pow, Tensor.pow_}
    | {Tensor.float_power, Tensor.float_power_, Tensor.__pow__, Tensor.__ipow__, Tensor.__rpow__}
)


def with_definite_numbers(args: tuple[Any, ...], in_body: bool) -> tuple[Any, ...]:
    tensors = [value for value in args if isinstance(value, Tensor)]
    if not in_body and not any([tensor.requires_grad for tensor in tensors]):
        return args
    is_known = lambda value: type(value) in SYMBOLIC and value.node.hint is not None
    return tuple([settled(value) if is_known(value) else value for value in args])
