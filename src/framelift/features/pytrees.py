"""Trees of containers, flattened by the library `optree`, which torch uses too (`torch.utils._cxx_pytree`).

It goes over containers in C, and calls functions of Python for classes that are registered with it. What it
tells of the structure never changes. Nothing is imported for its sake: its functions are known by the name of
their module.
"""

from __future__ import annotations

from typing import Any

from framelift.rules.constants import wrap_by_identity
from framelift.trace.callable_rules import Looks, functions_of
from framelift.trace.type_rules import Rebuilder, type_family

functions_of(
    *("optree", "optree._C"),
    looks=Looks.DEEP,
    calls_back=True,
    passes_numbers=True,
    why="goes over containers",
)


def is_structure(cls: type) -> bool:
    return cls.__module__ in ("optree", "optree._C") and cls.__name__ == "PyTreeSpec"


def rebuild_structure(r: Rebuilder, value: Any) -> str:
    """It never changes, so the region may keep it."""
    return r.own(value)


type_family(is_structure, wrap=wrap_by_identity, rebuild=rebuild_structure)
