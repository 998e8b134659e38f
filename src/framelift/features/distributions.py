"""Constraints of `torch.distributions` that ask for data on the way: whether a matrix is positive definite is
only asked of those that are symmetric. The graph asks both, and takes the answer that torch gives."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import constraints

from framelift import _frame
from framelift.interpreter.calls import call
from framelift.interpreter.pending import opened
from framelift.trace.callable_rules import serve
from framelift.trace.machine import TraceFrame, interpreted

SYMMETRIC: Any = vars(constraints)["_Symmetric"].check
POSITIVE_DEFINITE: Any = vars(constraints)["_PositiveDefinite"].check


def are_symmetric(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    """What torch asks of square matrices."""
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def are_positive_definite(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    symmetric = SYMMETRIC(constraint, value)
    definite = torch.linalg.cholesky_ex(value).info.eq(0)
    return torch.where(symmetric.all(), definite, symmetric)


def serve_in_place_of(check: Any, instead: Any) -> None:
    _frame.set_decision(instead.__code__, _frame.SKIP, _frame.INTERPRET)

    @serve(check)
    def served(f: TraceFrame, constraint: Any, /, value: Any) -> Any:
        matrices = opened(value)
        if not isinstance(matrices, torch.Tensor) or matrices.dim() < 2:
            return interpreted(f, check, [constraint, value], None)
        rows, columns = matrices.shape[-2:]
        if type(rows) is not int or type(columns) is not int or rows != columns:
            return interpreted(f, check, [constraint, value], None)
        return call(f, instead, [constraint, value], None)


serve_in_place_of(SYMMETRIC, are_symmetric)
serve_in_place_of(POSITIVE_DEFINITE, are_positive_definite)
