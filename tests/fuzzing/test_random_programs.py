"""Random programs that break the capture and change state do compiled what they do eagerly.

`random_programs` makes them and compares; run as a program it runs as many as one likes.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import KNOWN, Writer, check_program, run_seeds

SEEDS, CHUNK = 200, 25
DIFFER: dict[int, str] = {}
"""Seeds of programs that show a known difference -> which."""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_random_programs_do_what_they_do_eagerly(first: int) -> None:
    statistics = run_seeds(range(first, first + CHUNK))
    differ = {seed for seeds in statistics.sorts.values() for seed in seeds}
    new = differ - DIFFER.keys()
    assert not new, f"python tests/fuzzing/random_programs.py --count 1 --seed {min(new)} shows it made small"
    gone = DIFFER.keys() & set(range(first, first + CHUNK)) - differ
    assert not gone, "they do not differ any more: take them out of DIFFER"
    assert statistics.share(statistics.broke) > 0.6, statistics.report()
    assert statistics.share(statistics.raised) < 0.4, statistics.report()


@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_a_random_program_does_what_it_does_eagerly(chance: random.Random) -> None:
    source = Writer(lambda n: chance.randrange(n)).write().source
    difference = check_program(source).difference
    assert difference is None, f"{difference}\n\n{source}"


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_difference_is_still_there(name: str) -> None:
    assert check_program(KNOWN[name]).difference is not None, "it is gone: take it out of KNOWN"
