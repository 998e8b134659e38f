"""What a captured program relies on of sizes and numbers, as a node of its graph.

The node is run when `torch.export` brings the graph to torch's operators, on symbols of its own: what is
not known of these by their declaration becomes a guard there, and so a check of the artifact's inputs, or
a violation of the declaration.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

from framelift.graph.symbols import Fact, Read

NAMES: dict[str, Any] = {
    **SYMPY_INTERP,
    **{"math": SimpleNamespace(**{**vars(math), "sqrt": vars(torch)["_sym_sqrt"]})},
    **{"int": torch.sym_int, "float": torch.sym_float, "abs": abs, "round": round, "round_to": round},
}
"""What facts call, as functions that take symbols."""
READERS = {
    "number": lambda value, dim: value,
    "size": lambda value, dim: value.size(dim),
    "stride": lambda value, dim: value.stride(dim),
    "offset": lambda value, dim: value.storage_offset(),
}


def check_sizes(facts: list[str], reads: list[tuple[str, int]], *inputs: Any) -> None:
    """Raises where a fact does not hold. `reads` are what the names `r0`, `r1` ... of the facts stand for,
    each of the input at the same place."""
    with disable_proxy_modes_tracing():  # which would have the artifact compute it all
        values: dict[str, Any] = {
            f"r{n}": READERS[kind](value, dim)
            for n, ((kind, dim), value) in enumerate(zip(reads, inputs, strict=True))
        }
        for fact in facts:
            torch._check(bool(eval(fact, dict(NAMES), values)), lambda: fact)  # noqa: B023


def needed(facts: list[Fact], reads: list[Read]) -> list[str]:
    """The facts as texts, without those about strides alone: torch.export makes the graph for any layout."""
    strides = {f"r{n}" for n, read in enumerate(reads) if read.kind in ("stride", "offset")}
    return [fact.text for fact in facts if not strides.intersection(names_in(fact.text))]


def names_in(text: str) -> set[str]:
    return {name for name in compile(text, "<fact>", "eval").co_names}
