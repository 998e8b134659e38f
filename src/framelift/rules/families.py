"""What holds of types without an entry of their own, by what they derive from and how they are made.

The order counts: where two families of a type both have something to say about a facet, the first is heard.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from typing import Any

import torch

import framelift.rules.sequences  # noqa: F401 (fills SUBCLASSES)
from framelift.core.weakly import HEAP_TYPE
from framelift.interpreter.lookups import is_ours
from framelift.rules.constants import rebuild_constant, wrap_by_identity, wrap_hashed_oddly
from framelift.rules.containers import SUBCLASSES, materialize_referents, with_special_methods
from framelift.rules.instances import (
    ATOMIC_BASES,
    materialize_exception,
    materialize_namespace,
    rebuild_atom,
    rebuild_exception,
    rebuild_instance,
    rebuild_reduced,
    wrap_fixed_instance,
    wrap_instance,
    wrap_module,
)
from framelift.rules.tensors import wrap_tensor
from framelift.trace.type_rules import (
    NOT_INSTANTIABLE,
    is_hashed_oddly,
    is_iterator,
    is_ordinary,
    type_family,
)

ALIASES: Any = vars(typing)["_BaseGenericAlias"]
"""Such as `Optional[int]`: `typing` makes each once, and keeps it."""

OPERATOR_CLASSES = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)
"""What a graph calls as it is."""


def derived_from(*bases: type) -> Callable[[type], bool]:
    return lambda cls: issubclass(cls, bases)


def is_told_apart_oddly(cls: type) -> bool:
    """Whether it is of a metaclass that hashes its classes, or is one."""
    return is_hashed_oddly(type(cls)) or (issubclass(cls, type) and is_hashed_oddly(cls))


def is_sealed(cls: Any) -> bool:
    """A tuple of C's that can't be made of its elements, so nothing can stand for it: `sys.version_info`."""
    if not issubclass(cls, tuple) or not hasattr(cls, "n_sequence_fields"):
        return False
    return bool(cls.__flags__ & NOT_INSTANTIABLE) or cls.n_fields != cls.n_sequence_fields


def is_reduced_iterator(cls: type) -> bool:
    """Whether it is an iterator of C's that says how to make it again."""
    return cls.__module__ in ("builtins", "itertools") and {"__next__", "__reduce__"} <= vars(cls).keys()


type_family(is_told_apart_oddly, wrap=wrap_hashed_oddly)
type_family(derived_from(type), wrap=wrap_by_identity, rebuild=None)
type_family(derived_from(ALIASES), rebuild=rebuild_constant)
type_family(derived_from(enum.Enum, *ATOMIC_BASES, *OPERATOR_CLASSES), wrap=wrap_fixed_instance)
type_family(derived_from(types.ModuleType), wrap=wrap_module, rebuild=None)
type_family(is_ours, rebuild=None)
type_family(derived_from(torch.Tensor), wrap=wrap_tensor)
materialize_derived = with_special_methods(materialize_exception)
type_family(derived_from(BaseException), materialize=materialize_derived, rebuild=rebuild_exception)
type_family(is_sealed, wrap=wrap_by_identity)
for _base, _facets in SUBCLASSES.items():
    type_family(derived_from(_base), **_facets)
type_family(derived_from(types.SimpleNamespace), materialize=with_special_methods(materialize_namespace))
type_family(is_reduced_iterator, rebuild=rebuild_reduced)
type_family(is_iterator, materialize=materialize_referents)
type_family(is_ordinary, wrap=wrap_instance, rebuild=rebuild_instance)
type_family(
    lambda cls: issubclass(cls, ATOMIC_BASES) and bool(cls.__flags__ & HEAP_TYPE), rebuild=rebuild_atom
)
type_family(derived_from(torch._C._FunctionBase), guarded_state=("needs_input_grad", "saved_tensors"))
