"""Facts about types as C and Python have made them."""

from __future__ import annotations

import re
import types

import torch

from framelift.core.weakly import HEAP_TYPE, PerCode

IMMUTABLE_TYPE = 1 << 8
NOT_INSTANTIABLE = 1 << 7

BUILTINS = (types.BuiltinFunctionType, type(re.compile("").match))
"""The types of C functions: those that are told their class have one of their own."""

METHODS_OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType)

EXTRA_STATE = (types.SimpleNamespace, torch.nn.Module, types.ModuleType)
"""Bases that are more than `object` to C but keep their state in `__dict__` all the same."""


def is_hashed_oddly(meta: type) -> bool:
    """Whether a metaclass says how its classes are hashed: they can't be told apart by looking them up."""
    return any(getattr(meta, name) is not getattr(type, name) for name in ("__hash__", "__eq__"))


def is_iterator(cls: type) -> bool:
    """Whether it is an iterator that C implements."""
    # a metaclass may have a `__getattr__`, which is the program's
    return cls.__module__ in ("builtins", "itertools", "collections") and hasattr(cls, "__next__")


def is_made_in_c(cls: type) -> bool:
    """Whether C has given it methods, or slots such as `__next__`, of its own."""
    return any(type(v) in METHODS_OF_C and v.__objclass__ is cls for v in vars(cls).values())


_ordinary: PerCode[bool] = PerCode()


def is_ordinary(cls: type) -> bool:
    """Whether everything an instance holds is in its `__dict__` and slots."""
    found = _ordinary.get(cls)
    return _ordinary.set(cls, looks_ordinary(cls)) if found is None else found


def looks_ordinary(cls: type) -> bool:
    slots = 0
    for base in cls.__mro__:
        if base is object or has_extra_state(base):
            continue
        if not base.__flags__ & HEAP_TYPE or is_made_in_c(base):
            return False
        names = base.__dict__.get("__slots__", ())
        names = (names,) if isinstance(names, str) else names
        slots += sum(name not in ("__dict__", "__weakref__") for name in names)
    if any(map(has_extra_state, cls.__mro__)):
        return True
    # a class made in C has a larger struct than its Python-visible parts account for
    hidden = cls.__basicsize__ - object.__basicsize__ - 8 * slots
    return hidden <= 16


def has_extra_state(base: type) -> bool:
    return any(base is extra for extra in EXTRA_STATE)  # a metaclass may hash or compare the base
