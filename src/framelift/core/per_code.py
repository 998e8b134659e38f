"""What is known of code objects, for as long as they live.

By identity: code objects that are equal may still be of different files, or resume different functions. The
collector does not look into code objects, so what is kept for one must not lead back to it.
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class PerCode(Generic[Kept]):
    """A value for each code object; or function, class, whatever is told apart by identity."""

    def __init__(self) -> None:
        self.by_id: dict[int, tuple[weakref.ref[object], Kept]] = {}

    def get(self, code: object) -> Kept | None:
        found = self.by_id.get(id(code))
        return None if found is None or found[0]() is not code else found[1]

    def set(self, code: object, value: Kept) -> Kept:
        place, by_id = id(code), self.by_id
        by_id[place] = weakref.ref(code, lambda _: by_id.pop(place, None)), value
        return value

    def values(self) -> list[Kept]:
        return [value for _, value in list(self.by_id.values())]  # other threads may add and drop meanwhile

    def clear(self) -> None:
        self.by_id.clear()

    def __len__(self) -> int:
        return len(self.by_id)
