"""What all parts of a trace's world share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framelift.trace.world import TraceWorld


class Part:
    """One part of a trace's world. It uses the others by their interfaces: `self.world.guards.add(...)`."""

    def __init__(self, world: TraceWorld) -> None:
        self.world = world
        self.start()

    def start(self) -> None:
        """Makes what the part keeps for its trace."""
