"""Values of the program as text. None of this runs code of the program's."""

from __future__ import annotations

import collections
import enum
import types
from collections.abc import Iterable
from typing import Any

import torch

PLAIN_TYPES = frozenset({str, int, float, complex, bool, bytes, type(None), type(...), range})
WIDE = 512
NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
CONTAINERS = (list, tuple, dict, set, frozenset)
SIZED = (*CONTAINERS, collections.deque, str, bytes)
LONGEST = 120


def written(value: Any) -> str:
    """A value as it is written in Python, or at least what it is."""
    cls = type(value)
    if cls is int and value.bit_length() > WIDE:
        return f"<int of {value.bit_length()} bits>"  # Python limits how many digits it writes
    if cls in PLAIN_TYPES or (cls.__module__ == "torch" and cls.__name__ in ("dtype", "device", "Size")):
        return repr(value)
    if cls is tuple:
        return f"({', '.join(map(written, value))}{',' * (len(value) == 1)})"
    if issubclass(cls, enum.Enum):
        return f"{cls.__qualname__}.{vars(value).get('_name_', '?')}"  # none while it is being made
    if issubclass(cls, NAMED):
        return f"<{cls.__name__} {getattr(value, '__qualname__', None) or value.__name__}>"
    return f"<{cls.__qualname__} object>"


def written_list(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(written, values))}]"


def full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def type_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else full_name(cls)


def shown(value: Any) -> str:
    """A value that was found: itself if it is short, else what it is."""
    cls = type(value)
    if cls in CONTAINERS:
        return f"a {cls.__name__} of length {len(value)}"
    if issubclass(cls, torch.Tensor):
        return "a tensor"
    text = written(value)
    return f"another {type_name(cls)}" if text == f"<{cls.__qualname__} object>" else text


def shown_length(value: Any) -> str:
    """The length that a guard counts, whatever `__len__` of a subclass says."""
    base = next((base for base in SIZED if issubclass(type(value), base)), None)
    return shown(value) if base is None else str(base.__len__(value))


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
