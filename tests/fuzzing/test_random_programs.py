"""Random programs do compiled what they do eagerly, in each area of the grammar.

`random_programs` makes them and compares; run as a program it runs as many as one likes.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import pytest
from grammar import AREAS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program_batches import run_seeds, seeds_of
from program_runs import check_program
from program_writer import Writer

TESTED = {
    **{"language": 20, "classes": 60, "modules": 12, "nested": 8, "failures": 40, "numbers": 45},
    **{"identity": 60, "interrupts": 30, "interrupted modules": 10, "arrays": 60, "subclasses": 30},
    **{"switches": 30, "structures": 20, "optimizers": 8, "training": 4, "repeated": 10, "hooks": 10},
}
"""Areas that show no difference in so many programs: about a minute and a half together."""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("area", TESTED)
def test_random_programs_do_what_they_do_eagerly(area: str) -> None:
    seeds = seeds_of(area, 0)
    summary = run_seeds(next(seeds) for _ in range(TESTED[area]))
    differ = [seed for seeds in summary.sorts.values() for seed in seeds]
    # once more: whether an address is used again, and is the same key as before, is chance
    differ = [seed for seed in differ if run_seeds([seed]).sorts]
    assert not differ, (
        f"python tests/fuzzing/random_programs.py --count 1 --seed {min(differ)} shows it made small"
    )
    assert summary.share(summary.raised) <= 0.5, summary.report()


@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_a_random_program_does_what_it_does_eagerly(chance: random.Random) -> None:
    source = Writer(lambda n: chance.randrange(n), AREAS["language"]).write().source
    difference = check_program(source).difference
    assert difference is None, f"{difference}\n\n{source}"
