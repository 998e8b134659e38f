"""Modules that are imported when one of their names is first used.

torch's symbolic shapes bring sympy with them, which takes longer to import than all of Framelift; most
programs never need them.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from framelift import _frame, _guards


@contextlib.contextmanager
def importing_for_torch() -> Iterator[None]:
    """What is imported within is not the program's doing: where it registers classes with abstract ones
    (as sympy does its numbers), what the program has asked of such classes is not asked anew."""
    before = _guards.registrations()
    try:
        yield
    finally:
        _guards.disregard_registrations(before)


@contextlib.contextmanager
def importing_within_trace() -> Iterator[None]:
    """The same while a trace may be at work, whose modes would see what modules do when they are imported.
    The collector would look at all of torch's and sympy's objects, and find nothing."""
    _frame.pause_collector()
    try:
        with _disable_current_modes(), torch._C.DisableTorchFunction(), importing_for_torch():
            yield
    finally:
        _frame.resume_collector()


class Deferred:
    """Stands for a module. Its names are kept here once they are known."""

    def __init__(self, module: str) -> None:
        self.__name__ = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with importing_within_trace():
            found = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    sympy: Any
    from torch.fx.experimental import recording as recording
    from torch.fx.experimental import symbolic_shapes as symbolic_shapes
    from torch.utils._sympy import printers as printers
    from torch.utils._sympy import value_ranges as value_ranges
else:
    sympy = Deferred("sympy")
    recording = Deferred("torch.fx.experimental.recording")
    symbolic_shapes = Deferred("torch.fx.experimental.symbolic_shapes")
    printers = Deferred("torch.utils._sympy.printers")
    value_ranges = Deferred("torch.utils._sympy.value_ranges")
