"""Sets like other sets: with the same table, so that they are iterated alike whatever comes next."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from check import check
from framelift.rules.set_tables import slots, steps_to


def any_set(draw: random.Random) -> set[Any]:
    """One with a history."""
    kind: Any = draw.choice([int, str, float])
    found = {kind(n) for n in draw.sample(range(1000), draw.randint(1, 12))}
    for _ in range(draw.randint(0, 5)):
        other = [kind(draw.randint(0, 100)) for _ in range(5)]
        change = draw.choice(["union", "difference", "intersection", "add", "discard", "update"])
        if change == "union":
            found = found.union(other)
        elif change == "difference":
            found = found.difference(other)
        elif change == "intersection":
            found = found & {*other, *list(found)[:3]}
        elif change == "add":
            found.add(other[0])
        elif change == "discard":
            found.discard(next(iter(found), None))
        else:
            found.update(set(other))
    return found


def test_nearly_all_tables_can_be_made_again() -> None:
    draw, missed = random.Random(5), 0
    for _ in range(500):
        wanted = any_set(draw)
        how = steps_to(wanted)
        if how is None:
            missed += 1
            continue
        steps, gaps = how
        made: set[Any] = set()
        for form, part in steps:
            made.update(form(part))
        for gap in gaps:
            made.discard(gap)
        assert made == wanted and list(made) == list(wanted) and slots(made) == slots(wanted)
    assert missed < 25


def combined(x, s):
    other = set("madagascar")
    return (
        s & other,
        s | {"q"},
        s - {"s"},
        s ^ {"s", "z"},
        s.copy(),
        set(s),
        frozenset(s),
        list(s),
        x + len(s),
    )


def with_iterables(x, s):
    return s.intersection("madagascar"), s.union("madagascar"), s.difference("ab"), s == set(s), [*s], x + 1


class Named(set):
    pass


OUTSIDE = {
    "letters": set("simsalabim"),
    "frozen": frozenset("simsalabim"),
    "numbers": set(range(0, 400, 7)),
    "several kinds": {"alpha", 3, None, (1, 2), "beta", "gamma", 5.5, "x"},
    "of a class": Named("simsalabim"),
    "a union": set("simsalabim").union("madagascar", "abracadabra"),
    "an intersection": set("simsalabim") & set("madagascar"),
}


@pytest.mark.parametrize("program", [combined, with_iterables])
@pytest.mark.parametrize("name", OUTSIDE)
def test_sets_from_outside_are_gone_over_in_their_order(program: Any, name: str) -> None:
    given = OUTSIDE[name]
    expected = program(torch.ones(1), given)
    seen: list[Any] = []

    def shown(x):
        found = program(x, given)
        seen.append([list(each) for each in found if isinstance(each, (set, frozenset, list))])
        return found

    check(shown, torch.ones(1))
    wanted = [list(each) for each in expected if isinstance(each, (set, frozenset, list))]
    assert seen and all(each == wanted for each in seen)
