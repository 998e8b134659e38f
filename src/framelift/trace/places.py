"""Where the traced program stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.core import policy
from framelift.core.breaks import Place
from framelift.core.sentinels import MISSING
from framelift.trace.part import Part

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


class Places(Part):
    """Answers where the program stands, for guards, breaks and the graph's nodes."""

    def __init__(self, world: TraceWorld) -> None:
        super().__init__(world)
        self.users: dict[int, bool] = {}
        """id of a globals dictionary -> whether it is the user's."""

    def here(self) -> Place | None:
        """Where the program stands."""
        frame = self.world.machine.frame if self.world.machine else None
        return None if frame is None else frame.place

    def in_user_code(self) -> Place | None:
        """Where the user's code stands, while the program stands in a library's."""
        frame = self.world.machine.frame if self.world.machine else None
        if frame is None:
            return None
        place: Any = getattr(frame, "users_place", MISSING)  # not set before it is asked for
        if place is MISSING:
            above = frame
            while above is not None and not self.is_users(above.globals):
                above = above.back
            place = None if above is None or above is frame else above.place
            if frame.generator is None:  # its callers stay where they are as long as it runs
                frame.users_place = place
        return place

    def is_users(self, scope: dict[str, Any]) -> bool:
        found = self.users.get(id(scope))
        if found is None:
            found = self.users[id(scope)] = policy.is_user_code(scope.get("__name__") or "")
        return found

    def stack(self) -> list[Place]:
        """Where the program stands, with its callers, outermost first."""
        places = []
        frame = self.world.machine.frame if self.world.machine else None
        while frame is not None:
            places.append(frame.place)
            frame = frame.back
        return places[::-1]
