"""Sizes and numbers that a step gives, where a capture had to end since only the data decides them.

How many elements of a tensor are not zero is another number nearly every time. So the rest of a function
takes such sizes and numbers for symbols from its first capture on, and not when they have changed once.
"""

from __future__ import annotations

from typing import Any

import torch

from framelift.bytecode.decode import slot_names
from framelift.bytecode.resume import INNER, Point, called_by, origin_of
from framelift.core.breaks import DATA_DEPENDENT_VALUE, DYNAMIC_OUTPUT_SHAPE, Break
from framelift.guards.guard import VARIES
from framelift.guards.sources import STACK, variables

REASONS = (DATA_DEPENDENT_VALUE, DYNAMIC_OUTPUT_SHAPE)


def note_step(found: Break, point: Point) -> None:
    """`point` is where the innermost frame stands at a break."""
    if found.reason in REASONS:
        code = point.code
        found.gives_data = code.co_qualname, code.co_firstlineno, point.at


def results(code: Any, arguments: list[Any] | tuple[Any, ...], steps: set[Any]) -> dict[str, Any]:
    """What the last step has given to a resume function, if it is one of `steps`: source -> what is known of
    it, as in `Dynamism.seen`."""
    names: Any = variables(code)
    while (called := called_by(code)) is not None:
        at = slot_names(code).index(INNER)
        names, arguments, code = names[at].inner, arguments[at], called.__code__
    origin = origin_of(code)
    if origin is None or origin.waits:
        return {}
    of = origin.body.code
    on_stack = [n for n, name in enumerate(slot_names(code)) if name.startswith(STACK)]
    if not on_stack or (of.co_qualname, of.co_firstlineno, origin.at - 1) not in steps:
        return {}
    return dict(described(str(names[on_stack[-1]]), arguments[on_stack[-1]]))


def described(name: str, value: Any) -> list[tuple[str, Any]]:
    """Of tensors it is the first dimension that the data decides, with few exceptions."""
    if type(value) in (int, float, str):
        return [(name, VARIES)]
    if isinstance(value, torch.Tensor) and value.dim():
        return [(name, (None, *value.shape[1:]))]
    if type(value) in (list, tuple):
        items = [described(f"{name}[{n}]", item) for n, item in enumerate(value)]
        return [one for found in items for one in found]
    return []
