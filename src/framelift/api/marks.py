"""Marks on tensors: which of their dimensions may vary in what is compiled, and which may not.

They are the attributes that torch's own `mark_dynamic` and its kin set, so marks of either kind count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framelift.core.errors import UserError
from framelift.interpreter.pending import opened
from framelift.rules.constants import MARKED_STATIC
from framelift.trace.callable_rules import serve
from framelift.trace.dynamism import DimRange
from framelift.trace.machine import TraceFrame

Criteria = Iterable[Callable[[Any], Any]]


def mark_dynamic(
    tensor: torch.Tensor,
    index: int | Iterable[int],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Criteria | None = None,
) -> None:
    """A dimension may vary, from `min` to `max` if these are given; code that works for one size only is an
    error when it is compiled. Compilers optimise for the size `hint_override`. Sizes for which conditions in
    `specialize_on` hold (`lambda size: size == 8`) have captures of their own.

    >>> import torch, framelift
    >>> x = torch.ones(4, 3)
    >>> framelift.mark_dynamic(x, 0, min=2, max=64)
    """
    if min is not None and max is not None and min > max:
        raise UserError(f"mark_dynamic: min={min} is more than max={max}")
    for dim in dimensions(tensor, index):
        size = tensor.shape[dim]
        if (min is not None and size < min) or (max is not None and size > max):
            raise UserError(f"mark_dynamic: dimension {dim} has size {size}, outside of {min} to {max}")
        note(tensor, "_dynamo_dynamic_indices", dim)
        if min is not None or max is not None:
            note(tensor, "_dynamo_dynamic_range", DimRange(dim, min, max))
        note_more(tensor, dim, hint_override, specialize_on)


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """A dimension may vary, as far as the code allows."""
    for dim in dimensions(tensor, index):
        note(tensor, "_dynamo_weak_dynamic_indices", dim)


def mark_static(tensor: Any, index: int | Iterable[int] | None = None) -> Any:
    """A dimension (all, if none is named) never varies: another size is another compilation. Of a class of
    modules, which is given back: numbers among the attributes of its instances never vary."""
    if isinstance(tensor, type) and issubclass(tensor, torch.nn.Module):
        setattr(tensor, MARKED_STATIC, True)
        return tensor
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"mark_static takes a tensor or a class of modules, not {described(tensor)}")
    for dim in dimensions(tensor, range(tensor.dim()) if index is None else index):
        note(tensor, "_dynamo_static_indices", dim)
    return None


def mark_static_address(tensor: torch.Tensor, guard: bool = False) -> None:
    """The tensor lies where it lies for as long as it is used. With `guard`, what is compiled relies on this
    very tensor: another one is another compilation. Otherwise it is a hint for backends that look for it."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"mark_static_address takes a tensor, not a {type(tensor).__name__}")
    vars(tensor)["_dynamo_static_input_type"] = "guarded" if guard else "unguarded"


def mark_unbacked(
    tensor: torch.Tensor,
    index: int | Iterable[int],
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: Criteria | None = None,
    *,
    shape_id: str | None = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """A dimension may vary, and nothing about its size may be decided while compiling, not even whether it
    is 0 or 1; code that has to decide something breaks there. With `strict` it is an error if the code fixes
    the size (`torch._check(n == 4)`). Sizes with one `shape_id` are equal."""
    for dim in dimensions(tensor, index):
        note(tensor, "_dynamo_strict_unbacked_indices" if strict else "_dynamo_unbacked_indices", dim)
        note_more(tensor, dim, hint_override, specialize_on)
        if min is not None or max is not None:
            vars(tensor).setdefault("_dynamo_unbacked_bounds", {})[dim] = (min, max)
        if shape_id is not None:
            vars(tensor).setdefault("_dynamo_shape_ids", {})[dim] = shape_id


def dimensions(tensor: torch.Tensor, index: int | Iterable[int]) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"only a tensor has dimensions to mark, not a {type(tensor).__name__}")
    wanted = [index] if isinstance(index, int) else list(index)
    for dim in wanted:
        if not isinstance(dim, int) or not -tensor.dim() <= dim < tensor.dim():
            raise UserError(f"a tensor of shape {tuple(tensor.shape)} has no dimension {dim!r}")
    return [dim % tensor.dim() for dim in wanted]


def described(value: Any) -> str:
    return f"the class {value.__qualname__}" if isinstance(value, type) else f"a {type(value).__name__}"


def note_more(tensor: torch.Tensor, dim: int, hint: int | None, criteria: Criteria | None) -> None:
    if hint is not None:
        vars(tensor).setdefault("_dynamo_hint_overrides", {})[dim] = hint
    if criteria:
        vars(tensor).setdefault("_specialize_on", {})[dim] = list(criteria)


def note(tensor: torch.Tensor, name: str, value: Any) -> None:
    if name not in tensor.__dict__:
        setattr(tensor, name, set())
    getattr(tensor, name).add(value)


@serve(mark_static)
def serve_mark_static(f: TraceFrame, tensor: Any, index: Any = None) -> Any:
    """In captured code: from here on the sizes are what they are."""
    value = opened(tensor)
    if type(value) is not FakeTensor:
        return f.world.calls.native(f, mark_static, [tensor, index], None)
    dims = range(value.dim()) if opened(index) is None else f.world.materialize.for_c(index)
    for dim in dimensions(value, dims):
        int(value.shape[dim])
    return None
