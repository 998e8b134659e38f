"""torch's environment of symbols, with a note of where the program came to rely on a fact.

It is a module of its own, since the class that it extends brings sympy with it (`deferred.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from framelift.core.breaks import Place


class Environment(ShapeEnv):
    """Torch's, with a note of where the program was when it came to rely on a fact."""

    def __init__(self, where: Callable[[], Place | None], **settings: Any) -> None:
        super().__init__(**settings)
        self.where = where
        self.keeps_conditions = False
        """Whether a comparison of sizes stays a symbol until the program asks how it came out."""
        self.places: dict[Any, Place | None] = {}
        self.histories: dict[int, Any] = {}
        """Dimension of the tensor that symbols are made for -> the sizes that it had before."""
        self.with_history: dict[Any, dict[Any, Any]] = {}
        """The same for history -> size -> the symbol, as in `val_to_var`."""
        self.operands: dict[Any, tuple[Any, ...]] = {}
        """Symbol of a number that is computed from others -> those."""

    def create_symbol(self, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        """Sizes that happen to be the same are one symbol only if they were the same before. A stride that
        follows from nothing else is a symbol of its own."""
        read = getattr(getattr(source, "prop", None), "name", None)
        history = self.histories.get(source.idx) if self.histories and read == "SIZE" else None
        if history is None and read != "STRIDE":
            return super().create_symbol(val, source, *args, **kwargs)
        everywhere = self.val_to_var
        self.val_to_var = {} if history is None else self.with_history.setdefault(history, {})
        try:
            return super().create_symbol(val, source, *args, **kwargs)
        finally:
            if history is not None:
                everywhere.update({size: s for size, s in self.val_to_var.items() if size not in everywhere})
            self.val_to_var = everywhere

    def evaluate_expr(self, *args: Any, **kwargs: Any) -> Any:
        return self.noting(super().evaluate_expr, args, kwargs)

    def guard_or_defer_runtime_assert(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return self.noting(super().guard_or_defer_runtime_assert, args, kwargs)

    def noting(self, decide: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        guards, replaced = len(self.guards), len(self.replacements)
        result = decide(*args, **kwargs)
        if len(self.guards) > guards or len(self.replacements) > replaced:
            place = self.where()
            for guard in self.guards[guards:]:
                self.places.setdefault(guard.expr, place)
            for symbol in itertools.islice(self.replacements, replaced, None):
                self.places.setdefault(symbol, place)
        return result
