"""A compiled function against the function itself, in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from framelift.api.compile import compile
from framelift.debugging.comparing import Rules, difference
from framelift.debugging.inputs import clone_inputs, save_rng_state


@dataclass
class Outcome:
    """What a call did: what it gave or raised, what became of its arguments, what it has drawn."""

    result: Any
    error: BaseException | None
    arguments: Any
    drawn: torch.Tensor


def check(
    fn: Callable[..., Any],
    *args: Any,
    calls: int = 1,
    tol: float | None = None,
    exact_stride: bool = False,
    settings: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a function plainly and compiled with copies of the arguments, and fails where the two differ:
    in the result, the error, what became of the arguments, or how many random numbers were drawn.

    `settings` are those of `framelift.compile`; the backend is `eager` unless they say otherwise. Gives the
    compiled function.

    >>> import torch
    >>> _ = check(lambda x: x.relu().sum(), torch.randn(4), calls=2, settings={"fullgraph": True})
    """
    compiled = compile(fn, **{"backend": "eager", **(settings or {})})
    plain, own = clone_inputs((args, kwargs)), clone_inputs((args, kwargs))
    rules = Rules(tol=tol, exact_stride=exact_stride)
    for n in range(calls):
        restore = save_rng_state()
        expected = outcome(fn, plain)
        restore()
        found = outcome(compiled, own)
        when = f" (call {n + 1} of {calls})" if calls > 1 else ""
        compare(expected, found, rules, when)
    return compiled


def outcome(fn: Callable[..., Any], given: Any) -> Outcome:
    args, kwargs = given
    result, error = None, None
    try:
        result = fn(*args, **kwargs)
    except Exception as raised:
        error = raised
    return Outcome(result, error, given, torch.get_rng_state())


def compare(expected: Outcome, found: Outcome, rules: Rules, when: str) -> None:
    if expected.error is None and found.error is not None:
        raise found.error
    if type(expected.error) is not type(found.error) or str(expected.error) != str(found.error):
        raise AssertionError(f"compiled, it raises {found.error!r} instead of {expected.error!r}{when}")
    apart = difference(expected.result, found.result, rules=rules)
    if apart is not None:
        raise AssertionError(f"compiled, {apart}{when}")
    apart = difference(expected.arguments, found.arguments, rules=rules)
    if apart is not None:
        raise AssertionError(f"compiled, it leaves its arguments otherwise: (args, kwargs){apart}{when}")
    if not torch.equal(expected.drawn, found.drawn):
        raise AssertionError(f"compiled, it leaves torch's random numbers in another state{when}")
