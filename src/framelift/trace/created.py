"""What the traced program has made itself, of kinds that are mostly from outside."""

from __future__ import annotations

import collections
from types import FunctionType
from typing import TYPE_CHECKING, Any

from framelift.core import breaks
from framelift.core.breaks import refuse
from framelift.trace.input_wrapping import is_hashed_oddly
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


def is_written_for(fn: FunctionType, cls: type) -> bool:
    """Whether the library has made a method for a class: for a dataclass from source text, or for a named
    tuple in a function of its own."""
    file = fn.__code__.co_filename
    return file == "<string>" or (
        file == collections.__file__ and fn.__qualname__.startswith(f"{cls.__name__}.")
    )


class Created(Part):
    """Classes, and objects such as memoising functions, modules and weak references."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.classes: set[type] = set()
        self.objects: dict[int, Any] = {}

    def has(self, value: Any) -> bool:
        """Whether a function, class or module was made by the trace."""
        if issubclass(type(value), type):
            return value in self.classes
        return id(value) in self.world.functions.inside or id(value) in self.objects

    def keep(self, value: Any) -> Any:
        self.objects[id(value)] = value
        return value

    def add_class(self, cls: type) -> None:
        """A class that the trace has made."""
        if is_hashed_oddly(type(cls)):
            refuse(breaks.OPAQUE_OBJECT, f"a class that {type(cls).__qualname__} hashes or compares")
        self.classes.add(cls)

    def add_written_class(self, cls: Any) -> Any:
        """A class of the trace's, with all that was made for it."""
        self.add_class(cls)
        for value in vars(cls).values():
            fn = value.__func__ if type(value) in (staticmethod, classmethod) else value
            functions = [f for f in (fn, getattr(fn, "__wrapped__", None)) if type(f) is FunctionType]
            if functions and is_written_for(functions[-1], cls):
                for made in functions:
                    self.world.functions.made(made)
        return cls
