"""While torch's compilers work, garbage is collected less often; afterwards as the program wants it."""

import gc

import pytest
import torch

import framelift
from framelift.dispatch.backends import LEAST_GARBAGE, on_fakes, with_aot_autograd

FEW = (123, 7, 3)
MANY = (LEAST_GARBAGE * 2, 7, 3)
NEVER = (0, 7, 3)


@pytest.fixture(autouse=True)
def as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def compiled(look):
    @on_fakes
    def backend(graph, inputs):
        look()
        return with_aot_autograd(graph, inputs)

    return framelift.compile(lambda x: x.sin() + 1, backend=backend)


@pytest.mark.parametrize("wanted, expected", [(FEW, (LEAST_GARBAGE, *FEW[1:])), (MANY, MANY), (NEVER, NEVER)])
def test_collections_are_seldom_while_a_backend_works(wanted, expected):
    seen = []
    gc.set_threshold(*wanted)
    compiled(lambda: seen.append(gc.get_threshold()))(torch.ones(3))
    assert seen == [expected]
    assert gc.get_threshold() == wanted


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_backend_that_fails_leaves_nothing_behind(error):
    def fail():
        raise error

    gc.set_threshold(*FEW)
    with pytest.raises((error, framelift.exc.BackendCompilerFailed)):
        compiled(fail)(torch.ones(3))
    assert gc.get_threshold() == FEW


def test_what_the_program_says_meanwhile_stays():
    gc.set_threshold(*FEW)
    compiled(lambda: gc.set_threshold(*NEVER))(torch.ones(3))
    assert gc.get_threshold() == NEVER
