"""Trees of containers, flattened by the library `optree`, which torch uses too (`torch.utils._cxx_pytree`).

It goes over containers in C, and calls functions of Python for classes that are registered with it. What it
tells of the structure never changes. Nothing is imported for its sake: its functions are known by the name of
their module.
"""

from __future__ import annotations

import sys
from typing import Any

from framelift.guards.kinds import Access, Check
from framelift.rules.constants import wrap_by_identity
from framelift.trace.callable_rules import Looks, functions_of
from framelift.trace.type_rules import Rebuilder, type_family
from framelift.trace.world import TraceWorld


def guard_registry(world: TraceWorld) -> None:
    """Which classes it knows, what takes their instances apart, whether it sorts the keys of dictionaries."""
    registry = sys.modules["optree.registry"]
    known: dict[Any, Any] = vars(registry)["_NODETYPE_REGISTRY"]
    root = world.inputs.root
    place = root.constant(known, "optree.registry._NODETYPE_REGISTRY")
    world.guards.add(place, Check.KEYS, tuple(known))
    for key, entry in known.items():
        world.guards.add(place.child(Access.KEY, key), Check.IS, entry)
    is_ordered = vars(sys.modules["optree._C"])["is_dict_insertion_ordered"]
    for namespace in sorted({"", *(key[0] for key in known if type(key) is tuple)}):
        text = f"optree is_dict_insertion_ordered({namespace!r})"
        world.guards.add(root.asked(text, is_ordered, (namespace,)), Check.EQUAL, is_ordered(namespace))


functions_of(
    *("optree", "optree._C"),
    relies_on=guard_registry,
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
