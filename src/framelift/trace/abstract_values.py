"""Values that only stand for others while a trace runs, other than tensors and symbols: NumPy's arrays, say.

A feature that has such values gives their type a rule with `abstract=`, a class with this interface. A trace
has one instance of it (`world.abstract(value)`). It is asked wherever Python would look at the value itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


class AbstractValues(Protocol):
    """What Python does with the values of a type, in one trace."""

    def __init__(self, world: TraceWorld) -> None: ...
    def class_of(self, value: Any) -> type: ...
    def attribute(self, value: Any, name: str) -> Any: ...
    def method(self, value: Any, name: str) -> tuple[Any, Any]:
        """The pair (function, value), or (NULL, attribute), as `Attributes.load_method` has it."""

    def set_attribute(self, value: Any, name: str, new: Any) -> None: ...
    def delete_attribute(self, value: Any, name: str) -> None: ...
    def operate(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """An operator, of which at least one operand is such a value."""

    def get_item(self, value: Any, key: Any) -> Any: ...
    def set_item(self, value: Any, key: Any, new: Any) -> None: ...
    def items(self, value: Any) -> list[Any]:
        """What iteration gives."""

    def length(self, value: Any) -> int: ...
    def truth(self, value: Any) -> bool: ...
    def as_tensor(self, value: Any) -> Any:
        """The tensor that it is where a tensor is indexed with it."""

    def refuse_in_c(self, value: Any) -> NoReturn:
        """Ends the trace: C code can't be given it."""
