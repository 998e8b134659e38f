"""Calls of everything in `builtins`, `math`, `operator`, `itertools`, `functools` and `collections`, and of
the methods of builtin types, with a number `n` in each position: which there are is found out by trying.
"""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

SIZES = (5, 7, 11)
MODULES = (builtins, math, operator, itertools, functools, collections)
UNSUITABLE = frozenset(
    """input print exit quit open exec eval breakpoint help compile copyright credits license dir vars locals
    globals memoryview id super aiter anext classmethod staticmethod property type
    __class__ __init__ __init_subclass__ __subclasshook__ __reduce__ __reduce_ex__ __dir__ __new__ __sizeof__
    __delattr__ __setattr__ __getattribute__ __getstate__ __class_getitem__ __format__ __doc__""".split()
)
"""Names of what does something, looks at its caller, or is not about its arguments."""

Maker = Callable[[Any], Any]


class Call(NamedTuple):
    text: str
    function: Any
    arguments: list[Maker]


HOLDERS: dict[str, Maker] = {"n": lambda n: n, "[n, 3]": lambda n: [n, 3]}
OTHERS: dict[str, Maker] = {
    "2": lambda n: 2,
    "'ab'": lambda n: "ab",
    "[3, 1]": lambda n: [3, 1],
    "operator.add": lambda n: operator.add,
    "operator.neg": lambda n: operator.neg,
    "{'a': 1}": lambda n: {"a": 1},
    "{3}": lambda n: {3},
}
OWNERS: dict[tuple[str, str], tuple[Maker, Maker]] = {
    ("n", "n"): (lambda n: n, lambda n: n),
    ("(n / 2)", "(n / 2)"): (lambda n: n / 2, lambda n: n / 2),
    ("(n, 3)", "(20, 3)"): (lambda n: (n, 3), lambda n: (20, 3)),
    ("[n, 3]", "[20, n, 3]"): (lambda n: [n, 3], lambda n: [20, n, 3]),
    ("{'a': n}", "{'a': 1}"): (lambda n: {"a": n}, lambda n: {"a": 1}),
    ("{n, 3}", "{2, 3}"): (lambda n: {n, 3}, lambda n: {2, 3}),
    ("'ab{}'", "'ab{}'"): (lambda n: "ab{}", lambda n: "ab{}"),
    ("range(n)", "range(20)"): (lambda n: range(n), lambda n: range(20)),
    ("slice(n)", "slice(4)"): (lambda n: slice(n), lambda n: slice(4)),
    ("deque([n, 3])", "deque([20, n, 3])"): (
        lambda n: collections.deque([n, 3]),
        lambda n: collections.deque([20, n, 3]),
    ),
}
"""What a method is had from, with the number in it and for calls with the number in their arguments."""


def taken(value: Any) -> Any:
    """What can be compared: the first few of what an iterator gives."""
    return list(itertools.islice(value, 4)) if isinstance(value, collections.abc.Iterator) else value


def is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple, set, frozenset, dict, collections.deque)):
        return all(map(is_plain, value))
    return type(value) in (int, float, bool, str, bytes, bytearray, complex, type(None), range, slice)


def fits(function: Any, makers: list[Maker]) -> bool:
    try:
        return all(is_plain(taken(function(*[make(n) for make in makers]))) for n in SIZES)
    except Exception:
        return False


def fillings(function: Any, owner: tuple[str, Maker] | None, arity: int) -> Iterator[list[tuple[str, Maker]]]:
    """For each position of the number the first arguments with which the function can be called."""
    fixed = [] if owner is None else [owner]
    for at in range(arity):
        for holder in HOLDERS.items():
            if holder[0] != "n" and arity == 3:
                continue
            for others in itertools.product(OTHERS.items(), repeat=arity - 1):
                given = [*others[:at], holder, *others[at:]]
                if fits(function, [make for _, make in (*fixed, *given)]):
                    yield given
                    break


def functions() -> Iterator[Call]:
    for module in MODULES:
        for name, function in sorted(vars(module).items()):
            is_error = isinstance(function, type) and issubclass(function, BaseException)
            if name.startswith("_") or name in UNSUITABLE or not callable(function) or is_error:
                continue
            if type(function) is types.FunctionType:
                continue  # which is interpreted
            for arity in (1, 2, 3):
                for given in fillings(function, None, arity):
                    texts, makers = zip(*given, strict=True)
                    yield Call(f"{module.__name__}.{name}({', '.join(texts)})", function, list(makers))


def calls_of(name: str) -> list[Any]:
    """A method as a program calls it, with no argument, one, and two."""
    return [eval(f"lambda o{''.join(names)}: o.{name}({', '.join(n[2:] for n in names)})") for names in NAMES]


NAMES: list[list[str]] = [[], [", a"], [", a", ", b"]]


def methods() -> Iterator[Call]:
    for (with_number, without), (holder, plain) in OWNERS.items():
        for name in dir(plain(5)):
            if name in UNSUITABLE or name.startswith("__r") or not callable(getattr(plain(5), name)):
                continue
            of_none, *others = calls_of(name)
            if "n" not in with_number:
                pass
            elif fits(of_none, [holder]):
                yield Call(f"{with_number}.{name}()", of_none, [holder])
            elif fits(others[0], [holder, OTHERS["2"]]):
                yield Call(f"{with_number}.{name}(2)", others[0], [holder, OTHERS["2"]])
            for arity, call in enumerate(others, 1):
                for given in fillings(call, (without, plain), arity):
                    texts, makers = zip(*given, strict=True)
                    yield Call(f"{without}.{name}({', '.join(texts)})", call, [plain, *makers])


@functools.cache
def all_calls() -> dict[str, Call]:
    return {call.text: call for call in (*functions(), *methods())}
