"""Branches of which one side only raises: what is read off the bytecode is what CPython does.

Random functions are made of nested statements. Every truth value that a branch asks for comes from `ask()`,
which gives all combinations of answers in turn, so it is known how the function ends from each branch on.
"""

from __future__ import annotations

import itertools
import random
import sys
from types import CodeType
from typing import Any

import pytest

from framelift.bytecode.raising import branch_at
from framelift.interpreter.machine import decoded

LEAVES = ["pass", "x = 1", "return 3", "raise ValueError(x)", "raise KeyError", "raise E from F", "note(x)"]
HEADS = ["if ask():", "if not ask():", "if ask() and ask():", "if ask() or not ask():", "for x in (1, 2):"]
HEADS += ["with passing():"]
DEPTH = 3


class Trouble(Exception):
    pass


class passing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass


def statements(chance: random.Random, depth: int = 0) -> list[str]:
    lines: list[str] = []
    for _ in range(chance.randint(1, 3)):
        roll = chance.random()
        if depth == DEPTH or roll < 0.4:
            lines.append(chance.choice(LEAVES))
        elif roll < 0.5:
            lines.append("assert ask(), note(x)")
        elif roll < 0.6:
            kind = chance.choice(["except ValueError:", "except Exception as e:", "finally:"])
            lines += ["try:", *inner(chance, depth), kind, *inner(chance, depth)]
        else:
            lines += [chance.choice(HEADS), *inner(chance, depth)]
    return lines


def inner(chance: random.Random, depth: int) -> list[str]:
    return [f"    {line}" for line in statements(chance, depth + 1)]


def function(seed: int) -> Any:
    body = "\n".join(f"    {line}" for line in statements(random.Random(seed)))
    namespace: dict[str, Any] = {"note": lambda x: None, "passing": passing, "E": Trouble, "F": KeyError}
    exec(f"def f(x=0):\n{body}\n", namespace)
    return namespace["f"]


def ends(fn: Any, answers: tuple[bool, ...]) -> list[tuple[int, bool, bool]]:
    """For each branch that was come to: its instruction, the answer, and whether the function raised."""
    given = iter(answers)
    asked: list[tuple[int, bool]] = []

    def ask() -> bool:
        answer = next(given, False)
        asked.append((sys._getframe(1).f_lasti, answer))
        return answer

    fn.__globals__["ask"] = ask
    try:
        fn()
    except (ValueError, KeyError, Trouble, AssertionError):
        return [(at, answer, True) for at, answer in asked]
    return [(at, answer, False) for at, answer in asked]


def branches(code: CodeType) -> dict[int, bool]:
    """Offset of a call -> the answer with which the program goes on, if a branch right behind it says so."""
    made = decoded(code)
    found = {}
    for n, instruction in enumerate(made.instructions[:-1]):
        branch = branch_at(made, n + 1)
        if instruction.opname == "CALL" and branch is not None:
            found[instruction.offset] = branch.expected
    return found


@pytest.mark.parametrize("seed", range(300))
def test_the_side_that_raises_raises(seed: int) -> None:
    fn = function(seed)
    expected = branches(fn.__code__)
    for answers in itertools.product((False, True), repeat=5):
        for at, answer, raised in ends(fn, answers):
            if at in expected and answer is not expected[at]:
                assert raised


def test_branches_are_found() -> None:
    assert sum(len(branches(function(seed).__code__)) for seed in range(300)) > 100


def test_a_side_that_both_branches_share_is_none() -> None:
    def fn(x: Any, ask: Any) -> Any:
        if ask():
            x = 1
        raise ValueError(x)

    assert branches(fn.__code__) == {}


def test_an_exception_that_is_handled_is_a_way_to_go_on() -> None:
    def fn(ask: Any) -> Any:
        try:
            if ask():
                raise ValueError
        except ValueError:
            return 1
        return 2

    assert branches(fn.__code__) == {}
