"""The marker of a value that came from outside and has not been looked at yet.

A pending value is the pair (source, value). It moves freely - through stacks, locals, cells,
containers, calls, results - and costs no guard; the first operation that needs the value opens it.
It is the only wrapper there is: whatever an operation works on is a real object.
"""

from __future__ import annotations

from typing import Any, Protocol

from framelift.core.sentinels import MISSING


class Loads(Protocol):
    """What opens values: the inputs of a trace."""

    def load(self, value: Any, source: Any) -> Any: ...


class Pending:
    __slots__ = ("inputs", "opened", "source", "value")

    def __init__(self, inputs: Loads, source: Any, value: Any) -> None:
        self.inputs = inputs
        self.source = source
        self.value = value
        self.opened: Any = MISSING

    def open(self) -> Any:
        """The real object, guarded; the same one each time."""
        opened = self.opened
        if opened is MISSING:
            opened = self.opened = self.inputs.load(self.value, self.source)
        return opened

    def __repr__(self) -> str:
        return f"<pending {self.source}>"


Pending.__name__ = "framelift.Pending"  # as errors of C say it, if one gets hold of it


def opened(value: Any) -> Any:
    return value.open() if type(value) is Pending else value


def unchanged(now: Any, before: Any) -> bool:
    """Whether a place still holds what it held; opening a pending value is no change."""
    return now is before or (type(before) is Pending and before.opened is now)
