"""Generators of random numbers are put back to where they stood, whatever was drawn meanwhile."""

import random

import numpy as np
import pytest
import torch

from framelift.dispatch import random_states
from framelift.dispatch.random_states import save_rng_state

DRAWS = {
    "nothing": lambda: None,
    "numbers": lambda: (random.random(), np.random.rand(3).tolist(), torch.rand(3).tolist()),
    "one of a pair": lambda: (random.gauss(0, 1), np.random.standard_normal(), torch.randn(1).tolist()),
    "many": lambda: (random.sample(range(900), 700), np.random.rand(900).tolist(), torch.rand(900).tolist()),
    "cached": lambda: (random.getrandbits(7), np.random.binomial(90, 0.3), torch.randn(17).tolist()),
    "seeds": lambda: (random.seed(5), np.random.seed(5), torch.manual_seed(5).initial_seed()),
}


def where_they_stand():
    name, numbers, *others = np.random.get_state()
    return random.getstate(), (name, numbers.tolist(), *others), torch.get_rng_state().tolist()


@pytest.fixture(autouse=True)
def as_before():
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


@pytest.fixture(params=["copied", "asked"])
def way(request, monkeypatch):
    if request.param == "asked":
        monkeypatch.setattr(random_states, "can_copy_python", lambda: False)
        monkeypatch.setattr(random_states, "can_copy_numpy", lambda numpy: False)


@pytest.mark.parametrize("first", DRAWS)
@pytest.mark.parametrize("meanwhile", DRAWS)
def test_what_is_drawn_next_is_the_same(way, first, meanwhile):
    DRAWS[first]()
    before, restore = where_they_stand(), save_rng_state()
    expected = [draw() for name, draw in DRAWS.items() if name != "seeds"]
    restore()
    DRAWS[meanwhile]()
    restore()
    assert where_they_stand() == before
    assert [draw() for name, draw in DRAWS.items() if name != "seeds"] == expected


def test_memory_is_copied_here():
    assert random_states.can_copy_python()
    assert random_states.can_copy_numpy(np.random)


def test_a_generator_that_would_not_be_put_back_is_found_out():
    forgets = lambda generator: lambda: None
    generator = random.Random(1)
    assert not random_states.puts_back(generator, forgets, random.Random.getstate, random.Random.random)


def test_another_bit_generator_is_asked():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        state, restore = np.random.get_state(legacy=False), save_rng_state()
        np.random.rand(3)
        restore()
        assert np.random.get_state(legacy=False) == state
    finally:
        np.random.set_bit_generator(before)
