"""What users have said is to be done with calls of a function while a trace runs; they say so by
`api/capture_control.py`.

Torch's own marks count too, where they are attributes of the function: nobody has to be asked for them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

Control = Callable[[Any, Any, list[Any], dict[str, Any]], Any]
"""function(world, fn, args, kwargs) -> what the call gives."""

CONTROLS: dict[int, Control] = {}
"""id of a function -> what is done instead of calling it, for as long as it lives."""

MARKS: dict[str, Control] = {}
"""Attribute that torch sets on a function -> the same."""


NAMED: dict[tuple[str, str], Control] = {}
"""Module and name of what belongs to torch's own compiler, which is not imported for its sake -> the same."""


def control(fn: Any, what: Control) -> None:
    if id(fn) not in CONTROLS:
        weakref.finalize(fn, CONTROLS.pop, id(fn), None)
    CONTROLS[id(fn)] = what


def control_of(fn: Any) -> Control | None:
    found = CONTROLS.get(id(fn))
    if found is None and type(fn) is FunctionType and fn.__dict__:
        found = next((what for mark, what in MARKS.items() if mark in fn.__dict__), None)
    if found is None and type(fn) in (FunctionType, type):
        return NAMED.get((fn.__module__, fn.__name__))
    return found
