"""What `disable` gives for a module: a module that shares its state, and whose calls run as plain Python."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch

from framelift import _frame
from framelift.api.compiled_modules import Quiet, slots_of, through_module
from framelift.api.entrances import copied_function, not_captured


def disabled_module(module: torch.nn.Module, recursive: bool, why: str) -> torch.nn.Module:
    kind: Any = type(module)
    made: torch.nn.Module = object.__new__(disabled_kind(kind, recursive, why))
    made.__dict__ = module.__dict__
    object.__setattr__(made, "_orig_mod", module)  # past the module's own way to set attributes
    return made


@functools.lru_cache(maxsize=256)
def disabled_kind(kind: Any, recursive: bool, why: str) -> type:
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    names |= {"__slots__": ("_orig_mod",), "__deepcopy__": deep_copy, "__copy__": shallow_copy}
    names["__reduce_ex__"] = lambda self, protocol: (disabled_module, (self._orig_mod, recursive, why))
    names |= {name: through_module(name) for name in slots_of(kind)}
    if recursive:
        names["__call__"] = not_captured(calling_untouched(), why)
    else:
        names["forward"] = copied_function(kind.forward)
    return type.__new__(type(kind), kind.__name__, (Quiet, kind), names)


def calling_untouched() -> Any:
    """One for each class: it is marked with why it is not captured."""

    def call_untouched(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _frame.untouched(self._orig_mod, *args, **kwargs)

    return call_untouched


def deep_copy(self: Any, memo: Any) -> Any:
    return like(self, copy.deepcopy(self._orig_mod, memo))


def shallow_copy(self: Any) -> Any:
    return like(self, copy.copy(self._orig_mod))


def like(disabled: Any, module: torch.nn.Module) -> Any:
    """Another module, disabled as this one is."""
    made = object.__new__(type(disabled))
    made.__dict__ = module.__dict__
    object.__setattr__(made, "_orig_mod", module)
    return made
