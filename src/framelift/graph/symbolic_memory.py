"""What the op memory knows of calls with symbols.

Symbols belong to one trace, so what a call gives is kept as it is within that trace only. Beyond it results
are kept with expressions in the place of symbols, together with all that the trace knew of its symbols when
the call was made: their values, their ranges, and every fact. The same program captured again, and another
layer of it behind a break, comes by the same calls in the same state of knowledge. A call that brought a new
fact about is made again in each trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from framelift.graph.symbols import SYMBOLIC

LIMIT = 20_000

_kept: dict[Any, Any] = {}
"""Call and state of knowledge -> what it gives, with expressions for symbols."""
_states: dict[Any, int] = {}
"""State of knowledge -> its number in the keys above."""
_numbers = itertools.count()
"""A number is never given twice: traces may hold one of a state that was forgotten."""


class SymbolicMemory:
    """What one trace remembers of calls with symbols, and finds of other traces."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.known: dict[Any, Any] = {}
        self.numbers: dict[Any, Any] = {}
        """Expression -> the symbolic number of this trace that is it."""
        self.asked: int | None = None
        """The state of knowledge in which a call was looked for last, and not found."""
        self.stamp: Any = None
        self.state_number: int | None = None

    def lookup(self, key: Any) -> Any:
        found = self.known.get(key)
        if found is None:
            self.asked = state = self.state()
            kept = None if state is None else _kept.get((key, state))
            if kept is not None:
                found = self.known[key] = with_numbers(kept, self.number)
        return found

    def remember(self, key: Any, found: Any) -> None:
        self.known[key] = found
        state = self.state()
        if state is None or state != self.asked:
            return  # the call has brought facts about
        kept = with_numbers(found, expression_of)
        if kept is not None:
            _kept[key, state] = kept

    def number(self, expression: Any) -> Any:
        if type(expression) is int:
            return expression
        found = self.numbers.get(expression)
        if found is None:
            found = self.numbers[expression] = self.env.create_symintnode(expression, hint=None)
        return found

    def state(self) -> int | None:
        """The number of what is known of the symbols; None where the data decides some of them."""
        env = self.env
        stamp = (
            len(env.guards),
            len(env.replacements),
            len(env.var_to_range),
            env.num_deferred_runtime_asserts,
        )
        if stamp != self.stamp:
            self.stamp, self.state_number = stamp, number_of(knowledge(env))
        return self.state_number


def knowledge(env: Any) -> Any:
    values = values_of(env)
    if env.num_deferred_runtime_asserts or not env.var_to_range.keys() <= values.keys():
        return None
    return (
        env.settings,
        tuple(values.items()),
        tuple((symbol, each.lower, each.upper) for symbol, each in env.var_to_range.items()),
        tuple(env.replacements.items()),
        tuple(guard.expr for guard in env.guards),
        tuple(getattr(env, "var_to_hint_override", {}).items()),
    )


def values_of(env: Any) -> dict[Any, Any]:
    """Symbol -> the value that it has in this trace, as this version of torch calls them."""
    found: dict[Any, Any] | None = getattr(env, "backed_var_to_val", None)
    return env.var_to_val if found is None else found


def number_of(known: Any) -> int | None:
    if known is None:
        return None
    if len(_kept) >= LIMIT or len(_states) >= LIMIT:
        forget()
    found = _states.get(known)
    if found is None:
        found = _states[known] = next(_numbers)
    return found


def forget() -> None:
    _kept.clear()
    _states.clear()


def with_numbers(found: Any, change: Callable[[Any], Any]) -> Any:
    """The same results with other numbers in them; None where there is one that can't be changed."""
    try:
        return found._replace(results=tuple(result_with(result, change) for result in found.results))
    except Unwritten:
        return None


class Unwritten(Exception):
    """A number that no expression of symbols stands for."""


def result_with(result: Any, change: Callable[[Any], Any]) -> Any:
    metas = {name: getattr(result, name) for name in ("base", "meta") if name in result._fields}
    return result._replace(**{name: meta.with_numbers(change) for name, meta in metas.items()})


def expression_of(number: Any) -> Any:
    if type(number) is int:
        return number
    if type(number) not in SYMBOLIC or number.node.expr.is_number:
        raise Unwritten
    return number.node.expr
