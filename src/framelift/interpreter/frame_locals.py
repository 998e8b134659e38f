"""`f_locals` of a function's frame that is interpreted, where that is a view of its variables (PEP 667)."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from framelift.bytecode.decode import version
from framelift.core.sentinels import UNSET
from framelift.interpreter.lookups import contents_of, stands_for

if TYPE_CHECKING:
    from framelift.interpreter.frame import Frame
    from framelift.interpreter.frame_objects import FrameView


def variables(f: Frame, names: Any) -> dict[str, Any]:
    """Those of the first slots that have a value."""
    found = {}
    code = f.code.code
    cells = {*code.co_cellvars, *code.co_freevars}
    for name, value in zip(names, f.fast, strict=False):
        if name in cells and value is not UNSET:
            value = contents_of(value)
        if value is not UNSET:
            found[name] = value
    return found


def function_variables(f: Frame) -> dict[Any, Any]:
    """Those of a function's frame, with what was set beside them; before 3.13 always the same dictionary."""
    found = variables(f, f.code.names)
    added = getattr(f, "added", None)  # not set by __init__, which runs for every call
    if version.LOCALS_WRITE_THROUGH:
        return {**found, **added} if added else found
    if added is None:
        f.added = found
        return found
    for name in f.code.names:
        if name in found:
            added[name] = found[name]
        else:
            added.pop(name, None)
    return added


def has_more_than_variables(f: Frame) -> bool:
    """Whether somebody has set names beside them, or is about to."""
    added: dict[Any, Any] = getattr(f, "added", {})
    return getattr(f, "executes", False) or not added.keys() <= {*f.code.names}


def set_variable(f: Frame, slot: int, value: Any) -> None:
    code = f.code.code
    is_cell = f.code.names[slot] in (*code.co_cellvars, *code.co_freevars)
    if is_cell and f.fast[slot] is not UNSET:
        f.fast[slot].cell_contents = value
    else:
        f.fast[slot] = value


class FrameLocals(Mapping[Any, Any]):
    """The variables of a frame, and names beside them that somebody has set there."""

    __slots__ = ("__weakref__", "_frame", "_view")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, view: FrameView) -> None:
        if not hasattr(view, "_frame"):
            raise TypeError(f"expect frame, not {type(view).__name__}")
        self._view = view
        self._frame = view._frame

    def copy(self) -> dict[Any, Any]:
        return function_variables(self._frame)

    def __getitem__(self, name: Any) -> Any:
        try:
            return self.copy()[name]
        except KeyError:
            pass  # so that the error has no context
        raise KeyError(f"local variable '{name!r}' is not defined")

    def __setitem__(self, name: Any, value: Any) -> None:
        names = self._frame.code.names
        if name in names:
            set_variable(self._frame, names.index(name), value)
        else:
            if not hasattr(self._frame, "added"):
                self._frame.added = {}
            self._frame.added[name] = value

    def __delitem__(self, name: Any) -> None:
        raise TypeError("cannot remove variables from FrameLocalsProxy")

    def __contains__(self, name: Any) -> bool:
        return name in self.copy()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __reversed__(self) -> list[Any]:
        return self.keys()[::-1]

    def __len__(self) -> int:
        return len(self.copy())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrameLocals):
            return self._frame is other._frame
        return self.copy() == other if isinstance(other, dict) else NotImplemented

    def __or__(self, other: Any) -> Any:
        return self.copy() | as_dictionary(other) if is_mapping(other) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return as_dictionary(other) | self.copy() if is_mapping(other) else NotImplemented

    def __ior__(self, other: Any) -> Any:
        if not is_mapping(other):
            return NotImplemented
        self.update(other)
        return self

    @reprlib.recursive_repr("{...}")
    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def keys(self) -> list[Any]:  # type: ignore[override]
        return [*self.copy()]

    def values(self) -> list[Any]:  # type: ignore[override]
        return [*self.copy().values()]

    def items(self) -> list[tuple[Any, Any]]:  # type: ignore[override]
        return [*self.copy().items()]

    def get(self, name: Any, default: Any = None, /) -> Any:
        return self.copy().get(name, default)

    def setdefault(self, name: Any, default: Any = None, /) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, other: Any, /) -> None:
        if not is_mapping(other):
            raise TypeError("update() argument must be dict or another FrameLocalsProxy")
        for name, value in as_dictionary(other).items():
            self[name] = value


def is_mapping(value: Any) -> bool:
    return isinstance(value, (dict, FrameLocals))


def as_dictionary(value: Any) -> dict[Any, Any]:
    return value.copy() if type(value) is FrameLocals else value


if version.LOCALS_WRITE_THROUGH:
    stands_for(type((lambda: sys._getframe().f_locals)()))(FrameLocals)
