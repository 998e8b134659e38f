"""Dimensions whose sizes are symbols: how much each may vary, and what torch's environment is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from framelift.graph.deferred import symbolic_shapes, value_ranges


def unbacked() -> symbolic_shapes.DimDynamic:
    """As this version of torch calls it."""
    kinds = symbolic_shapes.DimDynamic
    return getattr(kinds, "UNBACKED", None) or kinds["SIZE_LIKE_UNBACKED"]


class Dim(NamedTuple):
    """A dimension that is a symbol: how much it may vary, and whether that was asked for."""

    demanded: bool = False
    """Whether it is an error if the program takes one size only."""
    least: int | None = None
    most: int | None = None
    unbacked: bool = False
    hint: int | None = None
    """The size that compilers optimise for, where it is not the one that came in."""
    criteria: tuple[Callable[[Any], Any], ...] = ()
    """Conditions on the size: captures are made apart for those that it meets."""
    shape_id: str | None = None
    """Sizes with the same one are equal."""
    apart: bool = False
    """Whether it is a symbol of its own though another size happens to be the same."""
    history: tuple[Any, ...] = ()
    """The sizes that it had before. Those that are the same now, but were not then, are not one symbol."""

    @property
    def is_marked(self) -> bool:
        """Whether more is known of it than its range and its history."""
        return self[3:-1] != PLAIN_DIM[3:-1]

    def allows(self, size: int) -> bool:
        return (self.least is None or size >= self.least) and (self.most is None or size <= self.most)

    def told(self) -> str:
        most = "any size" if self.most is None else self.most
        return f"and marked as one that varies from {self.least or 0} to {most}"

    def constraint(self) -> Any:
        if self.unbacked:
            return symbolic_shapes.RelaxedUnspecConstraint(warn_only=False) if self.demanded else None
        if self.least is not None or self.most is not None:
            upper = self.most if self.most is not None else symbolic_shapes.int_oo
            allowed = value_ranges.ValueRanges(lower=self.least or 0, upper=upper)
            return symbolic_shapes.StrictMinMaxConstraint(vr=allowed, warn_only=not self.demanded)
        return symbolic_shapes.RelaxedUnspecConstraint(warn_only=False) if self.demanded else None


PLAIN_DIM = Dim()


def kind_of(dim: Dim | None) -> symbolic_shapes.DimDynamic:
    kinds = symbolic_shapes.DimDynamic
    if dim is None:
        return kinds.STATIC
    return unbacked() if dim.unbacked else kinds.DYNAMIC if dim.demanded or dim.apart else kinds.DUCK
