"""Markers that no program can produce by itself."""

from __future__ import annotations


class Sentinel:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


NULL = Sentinel("NULL")
"""CPython's NULL on the value stack (the empty half of a method pair)."""

UNSET = Sentinel("UNSET")
"""A local variable that has no value."""

MISSING = Sentinel("MISSING")
"""A lookup that found nothing."""
