"""Tensors indexed with numbers that vary.

torch settles a symbol that it finds among the numbers of an index. It takes these numbers first, whatever
else the index has; so each symbol is selected on its own, and the rest of the index is applied to what that
gives. A list of numbers is a tensor to it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.config import config
from framelift.graph.numbers_as_data import Call

GETTING = (operator.getitem, torch.Tensor.__getitem__)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)
INDEXING = (*GETTING, operator.setitem, torch.Tensor.__setitem__)


def index_with_symbols(call: Call, func: Any, args: tuple[Any, ...]) -> Any:
    """What indexing, or assigning to items, does where numbers of the index vary; NotImplemented if none
    does, or if it can't be said which dimension one is about. `call` records a call."""
    tensor, index, *value = args
    items = list(index) if type(index) is tuple else [index]
    asks = config.capture_scalar_outputs
    if not any(
        type(item) is torch.SymInt or lists_symbols(item) or (asks and asks_tensor(item)) for item in items
    ):
        return NotImplemented
    items = [as_index(call, item, asks) for item in items]
    taken = [dimensions_taken(item) for item in items]
    if -1 in taken or sum(item is Ellipsis for item in items) > 1 or sum(taken) > tensor.dim():
        return NotImplemented
    left_out = tensor.dim() - sum(taken)
    rest: list[Any] = []
    dimension = 0
    for item, count in zip(items, taken, strict=True):
        if type(item) is torch.SymInt:
            tensor = call(torch.select, (tensor, dimension, item), {})
        elif item is None:  # its stride is that of the dimension in front of which it comes
            tensor = call(torch.unsqueeze, (tensor, dimension), {})
            rest.append(slice(None))
            dimension += 1
        elif type(item) is bool:  # looks up all or nothing of a dimension of one element, as in torch
            tensor = call(torch.unsqueeze, (tensor, dimension), {})
            rest.append(call(torch.tensor, ([0] if item else [],), {"dtype": torch.int64}))
            dimension += 1
        elif asks and slices_by_symbol(item):  # a call gives no more than one size that only the data decides
            tensor = call(operator.getitem, (tensor, (slice(None),) * dimension + (item,)), {})
            rest.append(slice(None))
            dimension += 1
        else:
            rest.append(item)
            dimension += left_out if item is Ellipsis else count
    if func in GETTING and all(map(is_everything, rest)):
        return tensor
    if asks and func not in GETTING and not any(type(item) is FakeTensor for item in rest):
        # assigning would bring sizes about that only the data decides, for which it gives nothing back
        tensor, rest = call(operator.getitem, (tensor, tuple(rest)), {}), [...]
    return call(func, (tensor, tuple(rest), *value), {})


def as_index(call: Call, item: Any, asks: bool) -> Any:
    """An item of an index with the numbers that torch would ask tensors for, if it `asks` them, and tensors
    in the place of lists."""
    if type(item) is slice:
        return slice(*[as_index(call, bound, asks) for bound in (item.start, item.stop, item.step)])
    if asks and asks_tensor(item):
        return call(torch.Tensor.item, (item,), {})
    return call(torch.tensor, (item,), {}) if lists_symbols(item) or lists_numbers(item) else item


def asks_tensor(item: Any) -> bool:
    if type(item) is slice:
        return any(map(asks_tensor, (item.start, item.stop, item.step)))
    return type(item) is FakeTensor and not item.dim() and item.dtype in INTEGERS


def lists_symbols(item: Any) -> bool:
    return (
        type(item) is list
        and torch.SymInt in (kinds := set(map(type, item)))
        and kinds <= {int, torch.SymInt}
    )


def lists_numbers(item: Any) -> bool:
    return type(item) is list and set(map(type, item)) in ({int}, {bool})


def slices_by_symbol(item: Any) -> bool:
    return type(item) is slice and torch.SymInt in map(type, (item.start, item.stop, item.step))


def dimensions_taken(item: Any) -> int:
    """How many dimensions of a tensor an item of an index is about; -1 if it may be of another kind."""
    if item is None or item is Ellipsis or type(item) is bool:
        return 0
    if type(item) in (int, slice, torch.SymInt):
        return 1
    if type(item) is FakeTensor:
        return item.dim() if item.dtype in (torch.bool, torch.uint8) else 1
    return -1


def is_everything(item: Any) -> bool:
    return item is Ellipsis or (
        type(item) is slice and item.start is None and item.stop is None and item.step is None
    )
