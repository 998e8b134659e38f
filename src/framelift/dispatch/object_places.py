"""Objects that have no name, known by where guards find them: a function that a decorator has wrapped, an
instance that a global holds.

That a capture relies on such an object is a guard that says which one is found at a place. In another
process the one that is found there takes its part, if it is of the same class and its code does the same.
What else the capture knows of it - defaults, cells, attributes - other guards say.
"""

from __future__ import annotations

import types
from typing import Any

import torch

from framelift import _guards
from framelift.dispatch.object_names import (
    NotPortableError,
    describe_constant,
    digest,
    is_known_by_guards,
)
from framelift.graph.fakes import is_plain
from framelift.guards.guard import Guard
from framelift.guards.kinds import Check
from framelift.guards.sources import Source


class Places:
    """Where the guards of a capture find objects."""

    def __init__(self, guards: list[tuple[Guard, Any]]) -> None:
        """`guards`: each with what it compares with."""
        self.by_id: dict[int, Source] = {}
        for guard, expected in guards:
            if guard.check is Check.IS:
                self.by_id.setdefault(id(expected), guard.source)

    def place_of(self, value: Any) -> Source:
        found = self.by_id.get(id(value))
        if found is None:
            name = getattr(value, "__qualname__", None) or f"a {type(value).__qualname__}"
            raise NotPortableError(f"{name} can't be found in another process")
        return found


def description(value: Any) -> str | None:
    """What must be the same of an object that is found at the same place, beside its class. Raises
    NotPortableError if a capture may rely on more than guards say of it."""
    cls = type(value)
    if cls is types.FunctionType:
        return digest(value.__code__)
    if cls is types.CellType:
        return None
    if cls in CONTENTS:
        return describe_contents(value)
    if is_known_by_guards(cls):
        return None
    if cls in (torch.Tensor, torch.nn.Parameter) and is_plain(value):
        return describe_tensor(value)
    raise NotPortableError(f"it is about a certain {cls.__module__}.{cls.__qualname__}")


def describe_tensor(value: torch.Tensor) -> str:
    """All but what is in it, which no capture knows."""
    facts = (value.dtype, value.device, tuple(value.shape), value.stride(), value.storage_offset())
    return f"tensor {(*facts, value.requires_grad, value.is_leaf)}"


class FoundContainer:
    """A container that is known by its place, and must hold the same: the defaults or annotations of a
    function, of which the capture knows all as long as it is that one."""

    def __init__(self, source: Source, value: Any) -> None:
        self.source, self.value = source, value


CONTENTS = (tuple, dict, list)


def describe_contents(value: Any) -> str:
    cls = type(value)
    if cls in (tuple, list):
        return f"{cls.__name__} {list(map(describe_contents, value))}"
    if cls is dict:
        return f"dict {[(describe_contents(key), describe_contents(held)) for key, held in value.items()]}"
    if issubclass(cls, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if cls in (types.UnionType, types.GenericAlias) or cls.__module__ == "typing":
        return f"{value!r}"
    return describe_constant(value)


def value_at(source: Source, fn: types.FunctionType, arguments: list[Any]) -> Any:
    """What is found at a place. Raises NotPortableError if there is nothing."""
    nodes: list[tuple[Any, ...]] = []
    path = [source]
    while not path[-1].access.is_root and path[-1].base is not None:
        path.append(path[-1].base)
    for n, at in enumerate(reversed(path)):
        slot = 0 if at is source else _guards.NO_INPUT
        nodes.append((n - 1 if n else _guards.FRAME, at.access.code, at.operand, (), slot))
    found = _guards.Program(nodes, 1, _guards.GlobalState(), [], None).collect(fn, arguments)
    if found is None:
        raise NotPortableError(f"there is no {source} here")
    return found[0]


def load_found(fn: Any, arguments: list[Any], source: Source, cls: type, known: str | None) -> Any:
    value = value_at(source, fn, arguments)
    if type(value) is not cls or description(value) != known:
        raise NotPortableError(f"{source} is something else here")
    return value
