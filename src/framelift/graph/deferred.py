"""Modules that are imported when one of their names is first used.

torch's symbolic shapes bring sympy with them, which takes longer to import than all of Framelift; most
programs never need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes


class Deferred:
    """Stands for a module. Its names are kept here once they are known."""

    def __init__(self, module: str) -> None:
        self.__name__ = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # a trace may be at work, whose modes would see what the module does when it is imported
        with _disable_current_modes(), torch._C.DisableTorchFunction():
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
