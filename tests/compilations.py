"""At which of a series of calls something is compiled, where each gives what it gives eagerly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import framelift
from framelift.testing.backends import CompileCounter
from sameness import alike

Arguments = tuple[Any, ...]


def compiled_at(
    fn: Callable[..., Any], calls: Iterable[tuple[Arguments, Arguments]], **options: Any
) -> tuple[list[int], Any]:
    """The calls, by number, and the compiled function. Each call has two sets of equal arguments, or one
    twice: one is for `fn` itself. Results, errors and what becomes of the arguments are the same."""
    counter, at = CompileCounter(), []
    compiled = framelift.compile(fn, backend=counter, **options)
    for number, (plain, given) in enumerate(calls):
        before = counter.frame_count
        try:
            expected = fn(*plain)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                compiled(*given)
            assert str(raised.value) == str(error)
        else:
            alike(expected, compiled(*given))
        alike(plain, given)
        if counter.frame_count > before:
            at.append(number)
    return at, compiled


def twice(calls: Iterable[Arguments]) -> Iterable[tuple[Arguments, Arguments]]:
    """Calls of functions that leave their arguments as they are."""
    return [(arguments, arguments) for arguments in calls]
