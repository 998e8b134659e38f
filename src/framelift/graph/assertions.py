"""What a graph checks when it runs: conditions on sizes and numbers that only the data decides.

The program asks for some (`torch._check`); others are what operators need of their arguments, which torch
notes in the trace's environment when they run on fakes. From there on the environment takes them for facts.
So each is written into the graph, in front of the call that relies on it, as an operator that no backend
leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.core import breaks
from framelift.core.breaks import Break
from framelift.graph.terms import UnknownTerm

if TYPE_CHECKING:
    from framelift.graph.builder import GraphBuilder
    from framelift.graph.symbols import Symbols

UNEXPLAINED = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)
"""What `torch._check` says unless it is told otherwise."""


class Assertions:
    """The conditions that one graph checks."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.counted = 0
        """How many conditions the environment had when they were last looked at."""
        self.written: set[Any] = set()

    def assume(self, condition: Any, message: str | None) -> None:
        """A condition holds from here on, since the program has it checked here."""
        expression = condition.node.expr
        self.write(expression, message or UNEXPLAINED)
        with torch._C.DisableTorchFunction():
            torch._check(condition)
        self.written |= {one.expr for one in self.deferred()}

    def catch_up(self, symbols: Symbols) -> None:
        """Writes the conditions that came up since last time, as far as their symbols are known yet."""
        if self.counted == symbols.env.num_deferred_runtime_asserts:
            return
        complete = True
        for one in self.deferred():
            if one.expr in self.written or symbols.are_read(one.expr.free_symbols):
                continue
            if all(map(self.is_known, one.expr.free_symbols)):
                self.write(one.expr, f"Runtime assertion failed for expression {one.expr}")
            else:
                complete = False
        if complete:
            self.counted = symbols.env.num_deferred_runtime_asserts

    def deferred(self) -> list[Any]:
        symbols = self.builder.symbols
        assert symbols is not None
        return [one for each in symbols.env.deferred_runtime_asserts.values() for one in each]

    def is_known(self, symbol: Any) -> bool:
        symbols = self.builder.symbols
        assert symbols is not None
        return symbol in symbols.reads or any(symbol in body.terms for body in self.builder.bodies)

    def write(self, expression: Any, message: str) -> None:
        """The graph checks a condition."""
        self.written.add(expression)
        try:
            condition = self.builder.numbers.node_of(expression)
        except UnknownTerm as error:
            raise Break(breaks.DATA_DEPENDENT_VALUE, f"a check of {expression}") from error
        node = self.builder.add_effect(torch.ops.aten._assert_scalar.default, (condition, message))
        self.builder.failing.add(node)
